"""How far boxes and points agree with a consensus that others made, for the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kinds.agreement import another_question, nearness_agreement
from crowdwise.kinds.boxes.metrics import match_marks, precision_recall
from crowdwise.labels.sorting import group_by, group_offsets
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.boxes.model import ObjectModel
    from crowdwise.kinds.marks import Marks
    from crowdwise.labels.types import FloatArray

__all__ = ["mark_agreement"]

LEAST_LEAN = 0.5  # marks too many or too few in an answer, on average, for it to matter


def mark_agreement(model: ObjectModel, answers: Marks) -> Agreement:
    """By F1 of an answer's marks with the objects of its task, and with those of another task of the worker's."""
    geometry = model.geometry(model.frame_)
    there = positions(answers.tasks, model._names["tasks"])
    kept = np.flatnonzero(model._kept(model.confidence_))
    offsets = group_offsets(model.object_task_[kept], len(model._names["tasks"]))
    objects = geometry.to_units(model.place_[kept[group_by(model.object_task_[kept], offsets)]])
    marks = geometry.to_units(answers.place)
    other = another_question(answers.worker, answers.task)
    near, chance, lean = (np.full(answers.n_answers, np.nan) for _ in range(3))

    def overlap(answer: int, task: int) -> float:
        own = marks[answers.mark_ptr[answer] : answers.mark_ptr[answer + 1]]
        found: FloatArray = objects[offsets[task] : offsets[task + 1]]
        matched, _ = match_marks(geometry.nearness(own, found), geometry.together)
        return precision_recall(matched.size, len(own), len(found))[2]

    for answer in range(answers.n_answers):
        task = int(there[answers.task[answer]])
        if task < 0 or not model.answers_per_task_[task]:
            continue
        near[answer] = overlap(answer, task)
        beside = int(there[other[answer]]) if other[answer] >= 0 else -1
        chance[answer] = overlap(answer, beside) if beside >= 0 else 0.0
        size = answers.mark_ptr[answer + 1] - answers.mark_ptr[answer]
        lean[answer] = size - (offsets[task + 1] - offsets[task])
    found = nearness_agreement(answers.worker, answers.task, near, chance)
    return replace(found, lean=lean, sides=("marks too little", "marks too much"), least_lean=LEAST_LEAN)
