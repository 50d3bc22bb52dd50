"""What the commands that fit a model share: its tables, a truth to score it with, notes, and parts of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables
from crowdwise.cli.terminal_names import escape_unprintable
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from rich.console import Console

    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.types import IntArray

__all__ = [
    "FittedResult",
    "ModelResult",
    "expected_wrong_facts",
    "note_missing_structure",
    "note_names_escaped_in_csv",
    "note_unfinished_fit",
    "print_classes",
    "print_notes_section",
    "print_notes_to_stderr",
    "print_scores",
    "print_workers",
    "print_written_files",
    "read_scoring_truth",
]

TOP = 10  # workers that are shown at either end, where there are many


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """A fitted model, its two tables, and what to say about them.

    Attributes
    ----------
    seconds
        Time of the fit alone.
    scores
        Against the truth, if one was given.
    notes
        Sentences that the user should read.
    """

    model: Any
    consensus: pa.Table
    workers: pa.Table
    seconds: float
    scores: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class FittedResult(ModelResult):
    """The same, of a model of labels."""

    labels: CrowdLabels

    def size_facts(self) -> dict[str, int]:
        """How many tasks, workers, classes and labels there are, for JSON."""
        return {name: getattr(self.labels, name) for name in ("n_tasks", "n_workers", "n_classes", "n_labels")}


# ---- truth and notes --------------------------------------------------------------------------------------


def read_scoring_truth(file: str, labels: CrowdLabels, files: LabelFiles | None = None) -> tuple[IntArray, list[str]]:
    """Read the true classes of the tasks, with notes about truths that cannot be used.

    The options of `files` name the columns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from crowdwise.labels.truth import Truth, read_truth, truth_codes
    from crowdwise.labels.vocabulary import positions

    truth = read_truth(file if files is None else files.open_side_table(file))
    labelled = positions(truth.tasks, labels.tasks) >= 0
    known = positions(truth.labels, labels.classes) >= 0
    if labelled.any() and not (labelled & known).any():
        raise InputError(
            f"No class of the truth {quote(file)} is a class of the labels: their tasks have "
            f"{listing(pc.unique(truth.labels.filter(pa.array(labelled))).to_pylist())}, the labels have "
            f"{listing(labels.classes.to_pylist())}. "
            "Use the same names in both."
        )
    notes = []
    if not labelled.all():
        notes.append(f"{format_count(int((~labelled).sum()), 'truth')} left out of the scores: no label for the task.")
    unknown = labelled & ~known
    if unknown.any():
        names = pc.unique(truth.labels.filter(pa.array(unknown))).to_pylist()
        notes.append(
            f"{format_count(int(unknown.sum()), 'truth')} left out of the scores: of a class that nobody said, "
            f"{listing(names)}. Name all classes with --classes to count them."
        )
    usable = pa.array(known | ~labelled)
    return truth_codes(Truth(truth.tasks.filter(usable), truth.labels.filter(usable)), labels), notes


def note_missing_structure(slugs: Iterable[str], tell: str, given: Sequence[str] = ()) -> list[str]:
    """Notes about methods made for sequences or a graph that are not among what is given, and how to `tell` them."""
    from crowdwise.registry import method

    alone = "is made for tasks that belong together, and was not told which do: every task stands alone."
    needs = {slug: method(slug).needs for slug in slugs}
    return [
        f"{slug} {alone} Tell it with {tell.format(need)}."
        for slug, need in needs.items()
        if need and need not in given
    ]


def note_names_escaped_in_csv(*tables: pa.Table) -> list[str]:
    """Say how many names look different in CSV."""
    from crowdwise.labels.table_output import defuse_text

    changed = 0
    for table in tables:
        first = table.column(0)
        safe = defuse_text(first)
        if safe is not first:
            changed += sum(new != old for new, old in zip(safe.to_pylist(), first.to_pylist(), strict=True))
    if not changed:
        return []
    names = f"{format_count(changed, 'name')} that a spreadsheet may take for a formula, or with unseen characters"
    return [f"Defused in CSV: {names}. The saved model keeps {'it' if changed == 1 else 'them'} as given."]


def note_unfinished_fit(model: Any) -> list[str]:
    """Say that a fit might have gone on."""
    if model.converged_:
        return []
    return [f"The fit stopped after {model.n_iter_:,} iterations while still improving. Give it more with --max-iter."]


def expected_wrong_facts(model: Any) -> dict[str, Any]:
    """How many answers are expected to be wrong, for JSON; nothing where the model has no such estimate."""
    from crowdwise.audit.consensus_scores import LEVEL
    from crowdwise.audit.consensus_sentences import expected_wrong_answers

    wrong = expected_wrong_answers(model)
    if wrong is None:
        return {}
    numbers = {name: float(getattr(wrong, name)) for name in ("count", "low", "high")}
    return {"expected_wrong": numbers | {"level": LEVEL, "basis": wrong.basis}}


def print_notes_to_stderr(notes: Sequence[str]) -> None:
    """Write notes to standard error, beside output that is meant for programs."""
    console = console_tables.open_console(stderr=True)
    for note in notes:
        console.print(Text(f"crowdwise: note: {escape_unprintable(note)}"), soft_wrap=True)


# ---- parts of the page ------------------------------------------------------------------------------------


def print_scores(console: Console, scores: dict[str, Any], what: str = "Against") -> None:
    """How good the result is, where the truth was given."""
    if scores:
        console_tables.print_heading(console, f"{what} the truth of {scores['n_truth']:,} tasks")
        console.print(console_tables.score_table(scores))


def print_classes(console: Console, result: FittedResult) -> None:
    """Shares of the classes, as found and as labelled."""
    console_tables.print_heading(console, "Classes")
    shares = {
        "of the tasks": result.model.posterior_.mean(axis=0),
        "of the labels": result.labels.class_shares,
    }
    console.print(console_tables.class_shares_table(console, result.labels.classes.to_pylist(), shares))


def print_workers(console: Console, result: FittedResult) -> None:
    """All workers if they are few; else those who are surely good, and those who are surely poor."""
    _print_worker_tables(console, result.workers)
    caveat = result.model.skill_caveat()
    if caveat:
        console_tables.print_paragraph(console, caveat)


def _print_worker_tables(console: Console, workers: pa.Table) -> None:
    import numpy as np

    if workers.num_rows <= 2 * TOP:
        console_tables.print_heading(console, "Workers, best first; skill is the chance that an answer is right")
        order = np.argsort(-workers["skill"].to_numpy(), kind="stable").tolist()
        console.print(console_tables.worker_table(console, workers, order))
        return
    best = np.argsort(-workers["skill_low"].to_numpy(), kind="stable")[:TOP].tolist()
    worst = [at for at in np.argsort(workers["skill_high"].to_numpy(), kind="stable").tolist() if at not in best][:TOP]
    console_tables.print_heading(
        console, f"The {TOP} best of {workers.num_rows:,} workers, by the lower end of their interval"
    )
    console.print(console_tables.worker_table(console, workers, best))
    console_tables.print_heading(console, f"The {TOP} worst, by the upper end")
    console.print(console_tables.worker_table(console, workers, worst))


def print_notes_section(console: Console, notes: Sequence[str]) -> None:
    """What the user should read before using the result."""
    if notes:
        console_tables.print_heading(console, "Please note")
        console_tables.print_notes(console, notes)


def print_written_files(console: Console, place: Path, **more: str) -> None:
    """Every file that was written, and what is in it."""
    console_tables.print_heading(console, "Written")
    for name, what in {
        "consensus.csv": "label, confidence and more of every task",
        "workers.csv": "skill and more of every worker",
        **{f"{table}.csv": what for table, what in more.items()},
        "model": "the fitted model",
    }.items():
        console.print(Text(f"  {escape_unprintable(place / name)}  {what}"), soft_wrap=True)
