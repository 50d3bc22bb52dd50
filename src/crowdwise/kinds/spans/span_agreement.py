"""How far spans agree with a consensus that others made, for the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kinds.agreement import another_question, nearness_agreement
from crowdwise.labels.sorting import group_offsets

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.spans.answers import Spans
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["span_agreement"]


def span_agreement(
    answers: Spans, tasks: IntArray, known: FloatArray, consensus: tuple[IntArray, FloatArray, IntArray]
) -> Agreement:
    """By the share of text that an answer and the consensus mark alike, and the same for another task of the worker's.

    Parameters
    ----------
    answers
        With labels as the consensus has them.
    tasks : (answers.n_tasks,)
        Position of each task in the consensus, -1 for others.
    known : (N,)
        Answers that the consensus of each task rests on.
    consensus
        Task, start and end, and label of each span, sorted by task.
    """
    task, place, label = consensus
    offsets = group_offsets(task.astype(np.int64), known.size)
    other = another_question(answers.worker, answers.task)
    near, chance = np.full(answers.n_answers, np.nan), np.full(answers.n_answers, np.nan)

    def overlap(answer: int, at: int) -> float:
        own = slice(int(answers.mark_ptr[answer]), int(answers.mark_ptr[answer + 1]))
        found = slice(int(offsets[at]), int(offsets[at + 1]))
        first, second = answers.place[own], place[found]
        total = float(np.ptp(first, axis=1).sum() + np.ptp(second, axis=1).sum())
        shared = np.minimum(first[:, None, 1], second[None, :, 1]) - np.maximum(first[:, None, 0], second[None, :, 0])
        alike = answers.label[own][:, None] == label[found][None]
        return 2 * float(np.maximum(shared, 0)[alike].sum()) / total if total else 1.0

    for answer in range(answers.n_answers):
        at = int(tasks[answers.task[answer]])
        if at < 0 or not known[at]:
            continue
        near[answer] = overlap(answer, at)
        beside = int(tasks[other[answer]]) if other[answer] >= 0 else -1
        chance[answer] = overlap(answer, beside) if beside >= 0 else 0.0
    return nearness_agreement(answers.worker, answers.task, near, chance)
