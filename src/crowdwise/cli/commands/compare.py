"""`crowdwise compare`: methods ranked by how well they predict labels hidden from them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.answer_files import KindAnswers, read_labels_or_answers
from crowdwise.cli.fitted_model_output import note_missing_structure, print_notes_section, print_notes_to_stderr
from crowdwise.cli.kind_comparison import print_comparison_of_answers
from crowdwise.cli.label_files import LabelFiles, announce_compilation, read_files
from crowdwise.cli.options import ColumnOptions, Engine, Json, Labels
from crowdwise.cli.standard_input import refuse_two_inputs
from crowdwise.cli.terminal_names import escape_unprintable, quote_command

if TYPE_CHECKING:
    from rich.console import Console

    from crowdwise.evaluate.compare_methods import Comparison, MethodStanding

__all__ = ["compare"]

EPILOG = "Example:\n\n  crowdwise compare labels.csv --methods majority-vote,dawid-skene,auto"
WIDE = 92  # terminals at least this wide show every column of a league table


def compare(
    labels: Labels,
    *,
    truth: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="True labels (task, label) to score the methods with as well."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="The methods; all that apply, if left out.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the labels, each hidden in turn.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="For cutting the labels into parts.")] = 0,
    engine: Engine = None,
    json: Json = False,
    columns: ColumnOptions,
) -> None:
    """Compare methods by how well they predict labels hidden from them, and say how far that ranks them."""
    from crowdwise.evaluate.compare_methods import compare as compare_methods
    from crowdwise.labels.engine_choice import use_engine

    refuse_two_inputs([*labels, truth], "LABELS and --truth")
    files = LabelFiles(labels, columns)
    named = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    with use_engine(engine):
        read = read_labels_or_answers(files, read_files)
        if isinstance(read, KindAnswers):
            print_comparison_of_answers(read, files, named, folds=folds, truth=truth, seed=seed, json=json)
            return
        announce_compilation(read)
        print_notes_to_stderr(note_missing_structure(named or [], "crowdwise aggregate --{}"))
        comparison = compare_methods(read, named, folds=folds, truth=files.open_side_table(truth), random_state=seed)
    if json:
        output_files.print_json(_to_json_dict(comparison))
    else:
        _print_page(comparison, files)


def _to_json_dict(comparison: Comparison) -> dict[str, Any]:
    """Give what `--json` prints; what could not be measured is null."""
    independence = comparison.independence
    return {
        "best": comparison.best,
        "tied": list(comparison.tied_with_best),
        "recommended": comparison.recommendation,
        "n_truth": comparison.n_truth,
        "best_by_truth": comparison.best_by_truth,
        "tied_by_truth": list(comparison.tied_by_truth),
        "misled": comparison.contradicted_by_truth,
        "independence": None if independence is None else asdict(independence),
        "cautions": list(comparison.cautions),
        "conclusions": list(comparison.conclusions()),
        "methods": [output_files.json_values(asdict(row)) for row in comparison.standings],
    }


# ---- page -------------------------------------------------------------------------------------------------


def _print_page(comparison: Comparison, files: LabelFiles) -> None:
    """Show the league table, and say what may be concluded from it."""
    console = console_tables.open_console()
    with_truth = comparison.n_truth > 0
    wide = console.width >= WIDE or not with_truth
    console_tables.print_heading(console, "Methods, by how well they predict labels hidden from them")
    _print_league(console, comparison, wide=wide)
    failed = [f"{row.method} has no result: {row.note}" for row in comparison.standings if row.note]
    print_notes_section(console, [*comparison.cautions, *failed])
    console_tables.print_heading(console, "What it says")
    console_tables.print_paragraph(console, " ".join(comparison.conclusions()))
    console_tables.print_heading(console, "How to read it")
    console_tables.print_paragraph(
        console,
        "score: mean log-probability of a hidden label; higher is better. behind: how far the best is ahead. rank: its "
        "90% interval, if other tasks were labelled; methods in bold may be the best."
        + ("" if with_truth else " calibr.: how far such predictions are from how often they come true.")
        + (" agrees: share of tasks decided as the best does." if wide else "")
        + (f" right (accuracy, with its 90% interval) and ECE (calibration error): against the truth of "
           f"{comparison.n_truth:,} tasks." if with_truth else ""),
    )  # fmt: skip
    console_tables.print_next_steps(console, _next_steps(comparison, files))


def _print_league(console: Console, comparison: Comparison, *, wide: bool) -> None:
    with_truth = comparison.n_truth > 0
    rows: list[list[str | Text]] = [
        [
            Text(row.method, style="bold" if row.rank_low == 1 else ""),
            f"{row.held_out:.4f}",
            f"{row.behind:.4f}" if place else "",
            console_tables.format_range(row.rank_low, row.rank_high),
            *([] if with_truth else [f"{row.calibration:.3f}"]),
            *([f"{row.agreement:.1%}"] if wide else []),
            *([_format_accuracy(row), f"{row.calibration_error:.3f}"] if with_truth else []),
            *([f"{row.seconds:.2g}"] if wide else []),
        ]
        for place, row in enumerate(comparison.standings)
        if not row.note
    ]
    columns = [
        ("method", "left"),
        ("score", "right"),
        ("behind", "right"),
        ("rank", "right"),
        *([] if with_truth else [("calibr.", "right")]),
        *([("agrees", "right")] if wide else []),
        *([("right", "right"), ("ECE", "right")] if with_truth else []),
        *([("s", "right")] if wide else []),
    ]
    console.print(console_tables.make_table(*columns, rows=rows, indent=0))


def _format_accuracy(row: MethodStanding) -> str:
    return f"{row.accuracy:.1%} ({100 * row.accuracy_low:.0f}–{100 * row.accuracy_high:.0f})"


def _next_steps(comparison: Comparison, files: LabelFiles) -> list[tuple[str, str]]:
    """The method to use, as far as the comparison tells, and how to learn more."""
    method = comparison.recommendation
    words = quote_command(
        "crowdwise", "aggregate", *files.build_command_arguments("--method", method, "--out", "results")
    )
    use = escape_unprintable(words)
    if method == comparison.best_by_truth:
        return [("Use the method that is right most often:", use)]
    if comparison.best_by_truth is not None:
        return [("Use the default, as the truth singles out no method:", use)]
    scored = quote_command("crowdwise", "compare", *files.build_command_arguments("--truth", "truth.csv"))
    again = ("Score the methods with true answers to some tasks, a hundred or more:", escape_unprintable(scored))
    if method == comparison.best and method != "auto":
        return [("Use the method that predicts labels best:", use), again]
    return [("Use the default, as this ranking does not say which method is right:", use), again]
