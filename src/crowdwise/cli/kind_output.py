"""`crowdwise aggregate` for answers that are no classes: read, fit, write, and a page that any kind can have."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables, fitted_model_output, output_files
from crowdwise.cli.answer_files import read_answers
from crowdwise.cli.terminal_names import display_name, quote_command
from crowdwise.cli.write_back import find_written_format, write_consensus_back
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    import pyarrow as pa
    from rich.console import Console

    from crowdwise.cli.answer_files import KindAnswers
    from crowdwise.cli.commands.aggregate import AggregateOptions
    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.kinds.answers import Answers
    from crowdwise.kinds.kind_registry import Kind

__all__ = ["KindResult", "aggregate_answers", "describe_answers", "print_fit"]

ROWS = 10  # of the consensus and of the workers that are shown
LABELS_ONLY = ("class_prior", "known_workers", "sequences", "graph", "items")


@dataclass(frozen=True, kw_only=True)
class KindResult(fitted_model_output.ModelResult):
    """A fitted model of some kind of answers, its two tables, and what to say about them."""

    kind: Kind
    answers: Answers

    @classmethod
    def of(
        cls,
        kind: Kind,
        answers: Answers,
        model: Any,
        seconds: float,
        truth: Any,
        before: Iterable[str],
        after: Iterable[str],
    ) -> Self:
        """What a fitted model found, scored where there is a truth; with notes before and after those on the model."""
        consensus, workers = model.consensus(), model.workers()
        escaped = fitted_model_output.note_names_escaped_in_csv(consensus, workers)
        return cls(
            kind=kind,
            answers=answers,
            model=model,
            consensus=consensus,
            workers=workers,
            seconds=seconds,
            scores={} if truth is None else kind.score(model, truth),
            notes=[*before, *([model.caveat()] if model.caveat() else []), *after, *escaped],
        )

    def to_json_dict(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        sizes = ("n_tasks", "n_items", "n_workers", "n_answers")
        return {
            "kind": self.kind.name,
            "method": self.model.slug,
            **{name: getattr(self.answers, name) for name in sizes if hasattr(self.answers, name)},
            "n_iter": self.model.n_iter_,
            "converged": self.model.converged_,
            "seconds": round(self.seconds, 6),
            **self.scores,
        }


def describe_answers(kind: Kind, files: LabelFiles) -> tuple[str, dict[str, Any], list[str]]:
    """Sizes of answers of a kind, as a sentence and as facts, and what the reader warns of."""
    from crowdwise.labels.describe import Spread

    answers, notes = read_answers(kind, files.opened, files)
    facts: dict[str, Any] = {"kind": kind.name, "n_answers": answers.n_answers, "n_workers": answers.n_workers}
    for things in ("task", "item"):
        if hasattr(answers, f"answers_per_{things}"):
            facts[f"n_{things}s"] = getattr(answers, f"n_{things}s")
            facts[f"answers_per_{things}"] = Spread.summarise_counts(getattr(answers, f"answers_per_{things}"))
    facts["answers_per_worker"] = Spread.summarise_counts(answers.answers_per_worker)
    return str(answers).partition(": ")[2], facts, notes


def aggregate_answers(
    read: KindAnswers,
    files: LabelFiles,
    options: AggregateOptions,
    *,
    place: Path | None,
    print_result: Callable[[KindResult], bool],
) -> None:
    """Fit and score, write where asked for, and show a page unless `print_result` printed for programs."""
    kind = read.kind
    refused = [each for each in LABELS_ONLY if getattr(options, each) is not None]
    if refused:
        raise InputError(f"{kind.name} take no --{refused[0].replace('_', '-')}. Leave it out.")
    if options.write_dpo is not None and kind.name != "comparisons":
        raise InputError(f"--write-dpo takes comparisons, and these are {kind.name}. Leave it out.")
    if options.write_back is not None:
        find_written_format(files)
    result = _fit(kind, read.answers, files, options, read.notes)
    if options.write_back is not None:
        write_consensus_back(files, result.model, result.consensus, options.write_back)
    if place is not None:
        output_files.write_results(result, place)
    if options.write_dpo is not None:
        from crowdwise.kinds.comparisons.preference_output import preference_lines

        output_files.write_text("".join(preference_lines(result.model)), Path(options.write_dpo))
    if print_result(result):
        fitted_model_output.print_notes_to_stderr(result.notes)
    else:
        _print_page(result, files, place)


def _fit(kind: Kind, answers: Answers, files: LabelFiles, options: AggregateOptions, notes: list[str]) -> KindResult:
    from crowdwise.fitting.em import StillImproving

    model: Any = kind.method(None if options.method == "auto" else options.method).load()()
    for option, name in {"seed": "random_state", "max_iter": "max_iter"}.items():
        value = getattr(options, option)
        if value is not None:
            if name not in model.get_params():
                raise InputError(f"{model.slug} takes no --{option.replace('_', '-')}. Leave it out.")
            model.set_params(**{name: value})
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)  # said as a note
        model.fit(answers, files.find_gold(model) if options.gold is None else files.open_side_table(options.gold))
    seconds = time.perf_counter() - started
    truth = None if options.truth is None else files.open_side_table(options.truth)
    return KindResult.of(kind, answers, model, seconds, truth, notes, fitted_model_output.note_unfinished_fit(model))


# ---- page -------------------------------------------------------------------------------------------------


def _print_page(result: KindResult, files: LabelFiles, place: Path | None) -> None:
    console, kind = console_tables.open_console(), result.kind
    console.print(Text(f"Consensus of {str(result.answers).partition(': ')[2]}."))
    rounds = f" and {result.model.n_iter_:,} iterations" if result.model.n_iter_ > 1 else ""
    chosen = getattr(result.model, "chosen_method", None)
    by = result.model.slug if chosen is None else f"{result.model.slug}, which took {chosen}"
    console.print(Text(f"By {by}, in {result.seconds:.2g} s{rounds}."))
    print_fit(console, result)
    if place is not None:
        fitted_model_output.print_written_files(console, place)
    command = ["crowdwise", "aggregate", *files.build_command_arguments()]
    steps = [] if place is not None else [("Keep the result:", quote_command(*command, "--out", "results"))]
    others = [method.slug for method in kind.methods() if method.slug != result.model.slug]
    if others:
        steps.append((f"Other methods: {', '.join(others)}.", quote_command(*command, "--method", others[0])))
    console_tables.print_next_steps(console, steps)


def print_fit(console: Console, result: KindResult) -> None:
    """Scores, the first rows of the two tables, and what to note."""
    if result.scores:
        console_tables.print_heading(console, "Against the truth")
        rows = [[name.replace("_", " "), f"{value:.4g}"] for name, value in result.scores.items()]
        console.print(console_tables.make_table(("", "left"), ("", "right"), rows=rows))
    _print_table(console, "Consensus", result.consensus, result.kind.shown[0])
    _print_table(console, "Workers", result.workers, result.kind.shown[1])
    fitted_model_output.print_notes_section(console, result.notes)


def _print_table(console: Console, title: str, table: pa.Table, columns: tuple[str, ...]) -> None:
    """The first rows of a table, in the columns that a terminal has room for."""
    shown = [name for name in columns if name in table.column_names]
    more = table.num_rows - ROWS
    console_tables.print_heading(console, title if more <= 0 else f"{title}: the first {ROWS} of {table.num_rows:,}")
    rows = [[_cell(value) for value in row.values()] for row in table.select(shown).slice(0, ROWS).to_pylist()]
    sides = ["right" if table[name].type in _numbers() else "left" for name in shown]
    header = [(name.replace("_", " "), side) for name, side in zip(shown, sides, strict=True)]
    console.print(console_tables.make_table(*header, rows=rows))


def _numbers() -> tuple[Any, ...]:
    import pyarrow as pa

    return pa.float64(), pa.int64(), pa.int32()


def _cell(value: Any) -> Text | str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else display_name(value, 40)
