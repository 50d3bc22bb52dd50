"""What labels look like before any model: sizes, agreement, and what seems wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.engine_choice import choose_engine
from crowdwise.labels.errors import listing, quote
from crowdwise.labels.numeric_values import explain_numeric_values
from crowdwise.labels.similar_names import twin_notes
from crowdwise.labels.sorting import find_repeated_edges
from crowdwise.labels.source_location import format_count
from crowdwise.labels.table_output import FORMULA
from crowdwise.labels.unseen_characters import UNSEEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import IntArray

__all__ = ["Description", "Spread", "describe", "find_connected_parts"]

ENOUGH = 20  # labels before "always the same answer" says something about a worker
RARE = 0.005  # share below which a class is hard to learn
CONTROL = UNSEEN.removesuffix("]") + r"\t\n\r]"
MISSING_WORDS = ("nan", "na", "n/a", "null", "none", "<na>", "nil")


@dataclass(frozen=True)
class Spread:
    """Smallest, middle, mean and largest of some counts."""

    min: int
    median: float
    mean: float
    max: int

    @classmethod
    def summarise_counts(cls, counts: IntArray) -> Spread:
        """Summarise counts; nothing gives zeros."""
        if counts.size == 0:
            return cls(0, 0.0, 0.0, 0)
        return cls(int(counts.min()), float(np.median(counts)), float(counts.mean()), int(counts.max()))

    def __str__(self) -> str:
        return f"{self.mean:.1f} on average, median {self.median:g}, from {self.min:,} to {self.max:,}"


# Of labels on the disk, which are read part by part.
NOT_LOOKED_FOR = (
    "Not looked for in labels on the disk: groups with no worker in common, tasks with a single label, names that are "
    "probably one."
)


@dataclass(frozen=True)
class Description:
    """Sizes, agreement, class shares and warnings of a set of labels; `print` it, or take `to_dict()`.

    Attributes
    ----------
    labels_per_task, labels_per_worker
        Spread of the counts.
    tasks_without_label, tasks_with_one_label
        Tasks about which the crowd cannot disagree.
    repeated_answers
        Answers beyond the first of one worker to one task.
    agreement
        Share of pairs of answers to the same task that agree; None if no task has two.
    class_shares
        Share of all answers for each class, by name.
    warnings
        What looks wrong, in plain sentences.
    """

    n_labels: int
    n_tasks: int
    n_workers: int
    n_classes: int
    labels_per_task: Spread
    labels_per_worker: Spread
    tasks_without_label: int
    tasks_with_one_label: int
    repeated_answers: int
    agreement: float | None
    class_shares: dict[Any, float]
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Give plain types, ready for JSON."""
        shares = {str(name): share for name, share in self.class_shares.items()}
        return asdict(self) | {"class_shares": shares}

    def __str__(self) -> str:
        shares = sorted(self.class_shares.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{quote(name)} {share:.1%}" for name, share in shares[:10])
        more = f" and {len(shares) - 10} more" if len(shares) > 10 else ""
        agreement = "no task has two answers" if self.agreement is None else f"{self.agreement:.1%} of pairs agree"
        sizes = (
            f"{format_count(self.n_labels, 'label')} by {format_count(self.n_workers, 'worker')} on "
            f"{format_count(self.n_tasks, 'task')}, {format_count(self.n_classes, 'class', 'classes')}"
        )
        lines = [
            sizes,
            f"  labels a task    {self.labels_per_task}",
            f"  labels a worker  {self.labels_per_worker}",
            f"  agreement        {agreement}",
            f"  class shares     {shown}{more}",
        ]
        if self.warnings:
            lines += ["What looks wrong", *(f"  - {warning}" for warning in self.warnings)]
        return "\n".join(lines)


def describe(labels: CrowdLabels) -> Description:
    """Describe labels in time linear in their number, and say what looks wrong."""
    per_task, per_worker = labels.labels_per_task, labels.labels_per_worker
    pairs = agreeing = repeated = 0
    for _, part in labels.iterate_parts():
        compared, alike = _count_agreeing_pairs(part)
        pairs, agreeing = pairs + compared, agreeing + alike
        repeated += find_repeated_edges(part.task_ptr, part.worker, part.n_workers)[0].size
    shares = dict(zip(labels.classes.to_pylist(), labels.class_shares.tolist(), strict=True))
    return Description(
        n_labels=labels.n_labels,
        n_tasks=labels.n_tasks,
        n_workers=labels.n_workers,
        n_classes=labels.n_classes,
        labels_per_task=Spread.summarise_counts(per_task),
        labels_per_worker=Spread.summarise_counts(per_worker),
        tasks_without_label=int((per_task == 0).sum()),
        tasks_with_one_label=int((per_task == 1).sum()),
        repeated_answers=repeated,
        agreement=agreeing / pairs if pairs else None,
        class_shares=shares,
        warnings=[
            *_task_warnings(labels, repeated),
            *_worker_warnings(labels),
            *_class_warnings(labels),
            *_name_warnings(labels),
        ]
        if labels.in_memory
        else [*_worker_warnings(labels), NOT_LOOKED_FOR],
    )


def _count_agreeing_pairs(labels: CrowdLabels) -> tuple[int, int]:
    """Count pairs of answers within tasks, and those that agree."""
    if choose_engine(labels.n_labels, labels.n_classes) == "numba":
        from crowdwise.labels.compiled_loops import count_agreeing_pairs

        found: tuple[int, int] = count_agreeing_pairs(labels.task_ptr, labels.label, labels.n_classes)
        return found
    per_task = labels.labels_per_task.astype(np.int64)
    votes = np.unique(labels.task.astype(np.int64) * labels.n_classes + labels.label, return_counts=True)[1]
    return int((per_task * (per_task - 1) // 2).sum()), int((votes * (votes - 1) // 2).sum())


def _task_warnings(labels: CrowdLabels, repeated: int) -> Iterator[str]:
    per_task = labels.labels_per_task
    none, one = int((per_task == 0).sum()), int((per_task == 1).sum())
    if none:
        yield f"{format_count(none, 'task')} without any label: {_list_names(labels.tasks, per_task == 0)}."
    if one:
        yield (
            f"{format_count(one, 'task')} with a single label ({one / labels.n_tasks:.0%}): nothing checks "
            "that answer but the worker's record elsewhere."
        )
    if repeated:
        yield f"{format_count(repeated, 'answer')} given again by the same worker to the same task; each counts."
    parts = _components(labels)
    if len(parts) > 1:
        sizes = ", ".join(f"{size:,}" for size in parts[:5])
        yield (
            f"The labels fall into {len(parts):,} groups with no worker in common (tasks: {sizes}"
            f"{', …' if len(parts) > 5 else ''}): workers of different groups cannot be compared."
        )


def _components(labels: CrowdLabels) -> list[int]:
    """Sizes, in tasks, of the parts of the graph of workers and tasks, largest first."""
    part = find_connected_parts(labels.task_ptr, labels.worker, labels.n_workers)
    first = labels.task_ptr[:-1][labels.labels_per_task > 0]
    sizes = np.bincount(part[labels.worker[first]], minlength=1)
    return sorted(sizes[sizes > 0].tolist(), reverse=True)


def find_connected_parts(task_ptr: IntArray, worker: IntArray, n_workers: int) -> IntArray:
    """Find for each worker the part of the crowd it belongs to, named by its first worker.

    Workers of one task are linked.
    """
    if choose_engine(worker.size, 1) == "numba":
        from crowdwise.labels.compiled_loops import find_connected_workers

        found: IntArray = find_connected_workers(task_ptr, worker, n_workers)
        return found
    per_task = np.diff(task_ptr)
    asked, n_asked = task_ptr[:-1][per_task > 0], per_task[per_task > 0]
    part, before = np.arange(n_workers), np.empty(0, np.int64)
    while worker.size and not np.array_equal(part, before):  # as many rounds as the logarithm of the longest chain
        before = part.copy()
        lowest = np.repeat(np.minimum.reduceat(before[worker], asked), n_asked)
        np.minimum.at(part, before[worker], lowest)
        part = part[part]
    return part


def _worker_warnings(labels: CrowdLabels) -> Iterator[str]:
    per_worker = labels.labels_per_worker
    top = int(per_worker.argmax()) if per_worker.size else 0
    if labels.n_workers > 2 and per_worker[top] > labels.n_labels / 2:
        share = per_worker[top] / labels.n_labels
        yield f"Worker {quote(labels.workers[top].as_py())} gave {share:.0%} of all labels."
    if labels.n_workers == 1:
        yield "There is a single worker: nobody to compare with."
    constant = ((labels.count_answers() > 0).sum(axis=1) == 1) & (per_worker >= ENOUGH)
    if constant.any():
        yield (
            f"{format_count(int(constant.sum()), 'worker')} always gave the same answer in {ENOUGH} or more: "
            f"{_list_names(labels.workers, constant)}."
        )
    silent = per_worker == 0
    if silent.any():
        yield f"{format_count(int(silent.sum()), 'worker')} without any label: {_list_names(labels.workers, silent)}."


def _class_warnings(labels: CrowdLabels) -> Iterator[str]:
    shares = labels.class_shares
    unused = shares == 0
    if unused.any():
        number = format_count(int(unused.sum()), "class", "classes")
        yield f"{number} never used: {_list_names(labels.classes, unused)}."
    rare = (shares > 0) & (shares < min(RARE, 0.1 / labels.n_classes))
    if rare.any():
        number = format_count(int(rare.sum()), "class", "classes")
        yield f"{number} hardly ever used: {_list_names(labels.classes, rare)}."
    values = explain_numeric_values(labels)
    if values:
        yield values
    elif labels.n_classes > 50 and labels.n_classes > labels.n_tasks / 10:
        yield f"{labels.n_classes:,} classes for {labels.n_tasks:,} tasks: are these free text?"
    words = [name for name in labels.classes.to_pylist() if str(name).strip().casefold() in MISSING_WORDS]
    if words:
        yield f"Class {listing(words)} looks like a missing value, but is counted as a class."


def _name_warnings(labels: CrowdLabels) -> Iterator[str]:
    yield from twin_notes(labels)
    for what, names in (("task", labels.tasks), ("worker", labels.workers), ("class", labels.classes)):
        if not pa.types.is_string(names.type):
            continue
        plural = "classes" if what == "class" else None
        for fault, pattern in (
            ("with control characters, line breaks or unseen characters", CONTROL),
            ("that begin like a spreadsheet formula", FORMULA),
            ("with blanks at the beginning or end", r"^\s|\s$"),
        ):
            hit = pc.match_substring_regex(names, pattern).to_numpy(zero_copy_only=False)
            if hit.any():
                yield f"{format_count(int(hit.sum()), what, plural)} with names {fault}: {_list_names(names, hit)}."


def _list_names(names: pa.Array, mask: Any) -> str:
    return listing(names.filter(pa.array(mask)).to_pylist())
