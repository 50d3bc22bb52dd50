"""`crowdwise aggregate`: the consensus of labels, and portraits of the workers."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from crowdwise.cli import console_tables, fitted_model_output, kind_output, output_files
from crowdwise.cli.answer_files import KindAnswers, read_labels_or_answers
from crowdwise.cli.label_files import LabelFiles, announce_compilation, read_files, read_task_items, split_names
from crowdwise.cli.options import ColumnOptions, ConsensusOptions, Json, Labels, build_option_arguments, make_option
from crowdwise.cli.standard_input import refuse_two_inputs
from crowdwise.cli.stored_labels import STORING_ENGINES, StoreOptions, aggregate_stored
from crowdwise.cli.terminal_names import escape_unprintable, quote_command
from crowdwise.cli.write_back import find_written_format, write_consensus_back
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.truth import Truth
    from crowdwise.labels.types import IntArray
    from crowdwise.report.task_items import TaskItems

__all__ = ["AggregateOptions", "Result", "aggregate", "fit_and_score", "print_disputed", "print_opening"]

EPILOG = "Example:\n\n  crowdwise aggregate labels.csv --method one-coin --out results"
DISPUTED = 8  # tasks that are shown
# Options that are parameters of the method.
FIT_PARAMETERS = {"seed": "random_state", "max_iter": "max_iter", "sequences": "sequences", "graph": "graph"}


@dataclass(frozen=True, kw_only=True)
class AggregateOptions(ConsensusOptions):
    """The method and what it is given besides the labels."""

    truth: Annotated[str | None, make_option("True labels (task, label) to score the consensus with.", "FILE")] = None
    class_prior: Annotated[
        str | None, make_option("Known shares of the classes, which are then not learnt.", "A=.7,B=.3")
    ] = None
    known_workers: Annotated[
        str | None, make_option("A saved model that knows some of the workers already.", "DIR")
    ] = None
    seed: Annotated[int | None, make_option("For methods that draw at random.", least=0)] = None
    max_iter: Annotated[int | None, make_option("Most iterations of the fit.", least=1)] = None
    sequences: Annotated[
        str | None,
        make_option(
            "Which tasks follow one another (task, sequence, position); or names: 12_3 is place 3 of 12.", "FILE"
        ),
    ] = None
    graph: Annotated[str | None, make_option("Pairs of tasks that are joined, in two columns.", "FILE")] = None
    write_dpo: Annotated[
        str | None, make_option("Of comparisons: write chosen, rejected, weight and flip_rate as JSON lines.", "FILE")
    ] = None

    write_back: Annotated[
        str | None,
        make_option("Of an export: write the consensus for the tool that it is of (see `crowdwise formats`).", "FILE"),
    ] = None

    def build_command_arguments(self) -> list[str]:
        """Give the options that change the fit, or what is shown of it, on a command line."""
        return build_option_arguments(asdict(self) | {"truth": None, "write_back": None})


@dataclass(frozen=True, kw_only=True)
class Result(fitted_model_output.FittedResult):
    """What `aggregate` found; `n_gold` tasks had a gold answer to learn from."""

    files: LabelFiles
    options: AggregateOptions
    n_gold: int = 0

    def to_json_dict(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        return {
            "method": self.model.slug,
            **self.size_facts(),
            "n_iter": int(self.model.n_iter_),
            "converged": bool(self.model.converged_),
            "seconds": round(self.seconds, 6),
            **({"league": self.league} if self.league else {}),
            **fitted_model_output.expected_wrong_facts(self.model),
            **self.scores,
        }

    @property
    def league(self) -> list[dict[str, Any]]:
        """The table by which auto chose its methods; empty for other methods, and where nothing could be hidden."""
        return self.model.league().to_pylist() if hasattr(self.model, "league") else []


def aggregate(
    labels: Labels,
    *,
    options: AggregateOptions,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write consensus.csv, workers.csv and model/; - prints consensus.csv."),
    ] = None,
    json: Json = False,
    columns: ColumnOptions,
    store: StoreOptions,
) -> None:
    """Find the consensus and portray the workers."""
    from crowdwise.labels.engine_choice import use_engine

    if out == "-" and json:
        raise typer.BadParameter("--out - and --json both want standard output; choose one")
    given = [*labels, options.truth, options.gold, options.sequences, options.graph, options.items]
    refuse_two_inputs(given, "LABELS and the files of options")
    results = (
        {"stream": "consensus.parquet", "dask": "consensus/"}.get(options.engine or "", "consensus.csv"),
        "workers.csv",
    )
    place = None if out is None or out == "-" else output_files.check_results(out, results, given)
    for option, file in (("--write-dpo", options.write_dpo), ("--write-back", options.write_back)):
        if file == "-":
            raise typer.BadParameter(f"{option} needs the name of a file")
        if file is not None:
            output_files.check_file(file, option, given)
            if place is not None:
                output_files.refuse_name_of_result(file, option, place, (*results, "model"))
    files = LabelFiles(labels, columns)
    if options.engine in STORING_ENGINES:
        if out == "-":
            raise InputError("--out - takes labels in memory. Give the name of a folder.")
        aggregate_stored(files, options, store, place=place, json=json)
        return

    def print_for_programs(result: Any) -> bool:
        if json:
            output_files.print_json(result.to_json_dict())
        if out == "-":
            output_files.print_csv(result.consensus)
        return json or out == "-"

    with use_engine(options.engine):
        read = read_labels_or_answers(files, read_files)
        if isinstance(read, KindAnswers):
            kind_output.aggregate_answers(read, files, options, place=place, print_result=print_for_programs)
            return
        if options.write_dpo is not None:
            raise InputError("--write-dpo takes comparisons, and these are labels. Leave it out.")
        if options.write_back is not None:
            find_written_format(files)
        announce_compilation(read)
        items = read_task_items(options.items, read, files)
        result = fit_and_score(files, options, read)
    if options.write_back is not None:
        write_consensus_back(files, result.model, result.consensus, options.write_back)
    if place is not None:
        output_files.write_results(result, place)
    if print_for_programs(result):
        fitted_model_output.print_notes_to_stderr(result.notes)
    else:
        _print_page(result, place, items)


# ---- fit --------------------------------------------------------------------------------------------------


def fit_and_score(
    files: LabelFiles, options: AggregateOptions, labels: CrowdLabels, *, from_files: bool = True
) -> Result:
    """Fit the method, and score it where the truth is given.

    Gold of the options goes before that of an export. `from_files` says that the labels were read from the files.
    """
    from crowdwise.audit.consensus_scores import score_posterior
    from crowdwise.fitting.em import StillImproving
    from crowdwise.labels.truth import read_truth
    from crowdwise.labels.vocabulary import positions

    model = _make_model(options)
    known_answers = files.open_side_table(options.gold)
    if known_answers is None and from_files:
        known_answers = files.find_gold(model)
    gold = None if known_answers is None else read_truth(known_answers)
    labels, added = _add_gold_classes(gold, labels, model)
    codes, notes = (
        (None, []) if options.truth is None else fitted_model_output.read_scoring_truth(options.truth, labels, files)
    )
    known = _prior_knowledge(options, labels) | ({} if gold is None else {"gold": gold})
    notes += added
    if codes is not None and gold is not None:
        codes, more = _leave_out_gold(codes, gold, labels)
        notes += more
    given = [name for name in ("sequences", "graph") if getattr(options, name) is not None]
    notes += fitted_model_output.note_missing_structure([options.method], "--{}", given)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)  # said as a note
        model.fit(labels, **known)
    seconds = time.perf_counter() - started
    consensus, workers = model.consensus(), model.workers()
    notes += fitted_model_output.note_unfinished_fit(model)
    notes += fitted_model_output.note_names_escaped_in_csv(consensus, workers)
    return Result(
        files=files,
        options=options,
        n_gold=0 if gold is None else int((positions(gold.tasks, labels.tasks) >= 0).sum()),
        labels=labels,
        model=model,
        consensus=consensus,
        workers=workers,
        seconds=seconds,
        scores={} if codes is None else score_posterior(consensus, model.posterior_, labels.classes, codes),
        notes=notes,
    )


def _make_model(options: AggregateOptions) -> Any:
    from crowdwise.registry import method, methods

    model = method(options.method).load()()
    for option, name in FIT_PARAMETERS.items():
        value = getattr(options, option)
        if value is None:
            continue
        if name not in model.get_params():
            suited = [other.slug for other in methods() if other.needs == name]
            hint = f", or take a method that does: {', '.join(suited)}" if suited else ""
            raise InputError(f"{options.method} takes no --{option.replace('_', '-')}. Leave it out{hint}.")
        model.set_params(**{name: value})
    return model


def _prior_knowledge(options: AggregateOptions, labels: CrowdLabels) -> dict[str, Any]:
    """What the user knows besides the labels, as `fit` takes it."""
    from crowdwise.saved import load

    known: dict[str, Any] = {}
    if options.class_prior is not None:
        known["class_prior"] = _parse_shares(options.class_prior, [str(name) for name in labels.classes.to_pylist()])
    if options.known_workers is not None:
        known["known_workers"] = load(options.known_workers)
    return known


def _parse_shares(given: str, classes: list[str]) -> list[float]:
    """Shares in the order of the classes, from NAME=SHARE with commas between."""
    shares = dict.fromkeys(classes, math.nan)
    for part in split_names(given, "--class-prior"):
        name, _, share = part.rpartition("=")
        if name not in shares:
            raise InputError(f"--class-prior: {quote(part)} names no class; give NAME=SHARE for {listing(classes)}.")
        if not math.isnan(shares[name]):
            raise InputError(f"--class-prior names {quote(name)} twice. Give each class one share.")
        try:
            shares[name] = float(share)
        except ValueError as error:
            raise InputError(f"--class-prior: {quote(share)} is no number, in {quote(part)}.") from error
        if not 0 <= shares[name] <= 1:
            raise InputError(f"--class-prior: {quote(part)} is no share; it must be a number from 0 to 1.")
    missing = [name for name, share in shares.items() if math.isnan(share)]
    if missing:
        raise InputError(f"--class-prior gives no share to {listing(missing)}. Name every class, 0 for one never true.")
    return list(shares.values())


def _add_gold_classes(gold: Truth | None, labels: CrowdLabels, model: Any) -> tuple[CrowdLabels, list[str]]:
    """The labels with the classes that only --gold names, and a note that says so."""
    from crowdwise.labels.truth import add_classes_of_truth

    if gold is None or "gold" not in model.uses:
        return labels, []
    extended = add_classes_of_truth(gold, labels)
    added = extended.classes.to_pylist()[labels.n_classes :]
    return extended, [f"No worker said {listing(added)}, which --gold names: counted as a class."] if added else []


def _leave_out_gold(codes: IntArray, gold: Truth, labels: CrowdLabels) -> tuple[IntArray, list[str]]:
    """The truths that the fit was not given, which alone can score it, and a note about the others."""
    import numpy as np

    from crowdwise.labels.truth import truth_codes

    given = (truth_codes(gold, labels) >= 0) & (codes >= 0)
    if not given.any():
        return codes, []
    if (given == (codes >= 0)).all():
        raise InputError("Every task of --truth is also in --gold: none is left to score with. Give other truths.")
    note = f"{format_count(int(given.sum()), 'truth')} left out of the scores: told by --gold."
    return np.where(given, -1, codes), [note]


# ---- page -------------------------------------------------------------------------------------------------


def _print_page(result: Result, place: Path | None, items: TaskItems | None) -> None:
    """Show the consensus, the workers, what is in doubt, and what to do next."""
    console = console_tables.open_console()
    print_opening(console, result)
    fitted_model_output.print_scores(console, result.scores)
    fitted_model_output.print_classes(console, result)
    fitted_model_output.print_workers(console, result)
    print_disputed(console, result, DISPUTED, items)
    _print_league(console, result)
    fitted_model_output.print_notes_section(console, result.notes)
    if place is not None:
        fitted_model_output.print_written_files(console, place)
    console_tables.print_next_steps(console, _next_steps(result, place))


def print_opening(console: Console, result: Result) -> None:
    """What was done, and what the consensus says of itself."""
    from crowdwise.audit.consensus_sentences import confidence_claims

    labels, model = result.labels, result.model
    rounds = f" and {model.n_iter_:,} iterations" if model.n_iter_ > 1 else ""
    console.print(
        Text(
            f"Consensus on {labels.n_tasks:,} tasks from {labels.n_labels:,} labels by {labels.n_workers:,} "
            f"workers, {labels.n_classes:,} classes."
        )
    )
    console.print(Text(f"By {model.slug}, in {result.seconds:.2g} s{rounds}."))
    console_tables.print_claims(console, confidence_claims(model, result.n_gold, measured=bool(result.scores)))


def print_disputed(console: Console, result: Result, most: int, items: TaskItems | None = None) -> None:
    """The tasks that the consensus is least sure of."""
    console_tables.print_heading(console, "The most disputed tasks, least sure first")
    disputed = console_tables.disputed_table(console, result, most, items)
    console.print(Text("  None: every task is as good as certain.") if disputed is None else disputed)


def _print_league(console: Console, result: Result) -> None:
    """How auto came to its methods."""
    members = sorted((row for row in result.league if row["weight"] > 0.005), key=lambda row: -row["weight"])
    if members:
        named = ", ".join(f"{row['method']} ({row['weight']:.0%})" for row in members)
        console_tables.print_heading(console, "Combined from, by how well they predict hidden labels")
        console.print(Padding(Text(named), (0, 0, 0, 2)))


def _next_steps(result: Result, place: Path | None) -> list[tuple[str, str]]:
    options, files = result.options, result.files

    def write_command(chosen: AggregateOptions, *more: str) -> str:
        words = files.build_command_arguments(*chosen.build_command_arguments(), *more)
        return quote_command("crowdwise", "aggregate", *words)

    steps = []
    if not result.model.converged_:
        longer = replace(options, max_iter=10 * int(result.model.n_iter_))
        steps.append(("Let it converge:", write_command(longer)))
    if place is None:
        steps.append(("Keep the result:", write_command(options, "--out", "results")))
    else:
        steps.append(("Use the model in Python:", f"import crowdwise; crowdwise.load({str(place / 'model')!r})"))
    if not result.scores:
        steps.append(("Score it, if you know the truth of some tasks:", write_command(options, "--truth", "truth.csv")))
    known = build_option_arguments({"truth": options.truth})
    steps.append(
        ("Compare the methods:", quote_command("crowdwise", "compare", *files.build_command_arguments(*known)))
    )
    return [(reason, escape_unprintable(command)) for reason, command in steps]
