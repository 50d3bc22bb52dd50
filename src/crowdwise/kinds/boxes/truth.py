"""Known marks of tasks, lined up with those of a model, and marks laid out for a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.boxes.object_likelihood import Drawn
from crowdwise.kinds.marks import open_true_marks
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.geometry import Geometry
    from crowdwise.kinds.marks import Marks
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["TrueMarks", "align_true_marks", "lay_out"]

PRECISION = 1e6  # parts of a unit that places are told apart by, where they decide an order


@dataclass(frozen=True)
class TrueMarks:
    """Known marks: of the tasks where `known` (N,) is true these, and no others.

    Attributes
    ----------
    task, label : (T,)
        Positions; labels of -1 where the truth has none.
    place : (T, D)
    """

    known: BoolArray
    task: IntArray
    place: FloatArray
    label: IntArray


def align_true_marks(source: Any, tasks: pa.Array, classes: pa.Array, marks: type[Marks]) -> TrueMarks:
    """Known marks; those of other tasks are left aside.

    Parameters
    ----------
    source
        A mapping from task to its marks (rows of coordinates), or a path or table with a column for the task, the
        coordinates, and perhaps label. A task without marks has an empty list, or a row without coordinates.
    """
    if isinstance(source, Mapping) and not {"task", *marks.coordinates} <= set(source):
        source = _columns_of_lists(source, marks)
    names, codes, place, labels = open_true_marks(source, marks)
    there = positions(names, tasks)[codes]
    if (there < 0).all():
        raise InputError(
            f"The truth is about other tasks ({listing(names.to_pylist()[:5])}, …) than the answers "
            f"({listing(tasks.slice(0, 5).to_pylist())}, …): no name matches. Use the same task names in both."
        )
    known = np.zeros(len(tasks), np.bool_)
    known[there[there >= 0]] = True
    rows = (there >= 0) & np.isfinite(place).all(axis=1)
    found = np.full(codes.size, -1, np.int64) if labels is None else positions(labels[0], classes)[labels[1]]
    strange = rows & (found < 0)
    if labels is not None and strange.any() and len(classes) > 1:
        shown = listing(dict.fromkeys(labels[0].to_pylist()[code] for code in labels[1][strange]))
        raise InputError(f"The truth has labels that no worker gave: {shown}. Use the same names in both.")
    return TrueMarks(known, there[rows], place[rows], found[rows])


def _columns_of_lists(source: Mapping[Any, Any], marks: type[Marks]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"task": [], **{name: [] for name in marks.coordinates}}
    for task, rows in source.items():
        given = list(rows) if np.iterable(rows) and not isinstance(rows, str | bytes | Mapping) else [rows]
        for row in given or [[None] * len(marks.coordinates)]:
            number = np.size(row) if np.ndim(row) == 1 else 0
            if number != len(marks.coordinates):
                raise InputError(
                    f"A true {marks.noun} of task {quote(task)} has {number} numbers; it needs "
                    f"{len(marks.coordinates)}: {', '.join(marks.coordinates)}. Give a list of {marks.kind}."
                )
            columns["task"].append(task)
            for name, value in zip(marks.coordinates, row, strict=True):
                columns[name].append(value)
    return columns


def lay_out(
    answers: Marks, worker: IntArray, n_workers: int, geometry: Geometry, gold: TrueMarks | None = None
) -> Drawn:
    """Marks and answers in an order that depends on what they say alone; `worker` are those of the answers (A,).

    Known truth is an answer of worker `n_workers`, before the others of its task.
    """
    task, who = answers.task.astype(np.int64), worker.astype(np.int64)
    place, label = geometry.to_units(answers.place), answers.label.astype(np.int64)
    answer = answers.answer
    if gold is not None:
        known = np.flatnonzero(gold.known)
        number = np.cumsum(gold.known) - 1 + task.size
        task, who = np.append(task, known), np.append(who, np.full(known.size, n_workers))
        place = np.concatenate([place, geometry.to_units(gold.place)])
        label, answer = np.append(label, gold.label), np.append(answer, number[gold.task])
    by_content = np.lexsort((*place.T[::-1], answer))
    place, label, answer = place[by_content], label[by_content], answer[by_content]
    ends = np.searchsorted(answer, np.arange(task.size + 1))
    names = [*(str(each) for each in answers.workers.take(pa.array(answers.worker)).to_pylist()), *[""] * task.size]
    # The last digits of places are rounding, which depends on where the frame lies.
    rounded = np.rint(place * PRECISION).astype(np.int64)
    keys = [
        (int(task[each]), bool(who[each] != n_workers), -int(ends[each + 1] - ends[each]),
         rounded[ends[each] : ends[each + 1]].tolist(), label[ends[each] : ends[each + 1]].tolist(), names[each])
        for each in range(task.size)
    ]  # fmt: skip
    order = np.array(sorted(range(task.size), key=keys.__getitem__), np.int64)
    rank = np.empty(task.size, np.int64)
    rank[order] = np.arange(task.size)
    rows = np.lexsort((np.arange(answer.size), rank[answer]))
    own = rank[answer[rows]]
    return Drawn(
        task=task[order][own],
        worker=who[order][own],
        answer=own,
        label=label[rows],
        place=place[rows],
        log_size=geometry.log_size(place[rows]),
        answer_task=task[order],
        answer_worker=who[order],
        sizes=(answers.n_tasks, n_workers, len(answers.classes)),
        geometry=geometry,
    )
