"""How far masks agree with a consensus that others drew, for the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kinds.agreement import another_question, nearness_agreement
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.masks.answers import Masks
    from crowdwise.kinds.masks.model import MaskModel

__all__ = ["mask_agreement"]

LEAST_LEAN = 0.15  # of the logarithm of the area, by which a worker draws too small or too large, for it to matter


def mask_agreement(model: MaskModel, answers: Masks) -> Agreement:
    """By Dice coefficients with the consensus of the task, and with that of another task of the worker's.

    The other task has an image of the same size; where the worker has none, chance is what areas alone would give.
    """
    there = positions(answers.tasks, model._names["tasks"])
    known = (there >= 0) & (model.answers_per_task_[there] > 0)
    frame = answers.height[answers.task] * (1 << 32) + answers.width[answers.task]
    other = another_question(answers.worker, answers.task, frame)
    near, chance, lean = (np.full(answers.n_answers, np.nan) for _ in range(3))
    for row in np.flatnonzero(known[answers.task]).tolist():
        mask, soft = answers.mask(row), model._soft(int(there[answers.task[row]]))
        size, area = float(mask.sum()), float(soft.sum())
        total = max(size + area, 0.5)
        near[row] = 2 * float(soft[mask].sum()) / total
        beside = None if other[row] < 0 or not known[other[row]] else model._soft(int(there[other[row]]))
        if beside is None:
            chance[row] = 2 * size * area / mask.size / total
        else:
            chance[row] = 2 * float(beside[mask].sum()) / max(size + float(beside.sum()), 0.5)
        lean[row] = np.log((size + 1) / (area + 1))
    found = nearness_agreement(answers.worker, answers.task, near, chance)
    return replace(found, lean=lean, sides=("draws too small", "draws too large"), least_lean=LEAST_LEAN)
