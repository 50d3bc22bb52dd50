"""Pixels of a task told apart only by who put them inside: a method without regard to places needs no more.

Five workers make at most 32 patterns of an image, however large it is. Edges join patterns and workers, as labels join
tasks and workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.kinds.masks.answers import Masks
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["PixelPatterns", "find_patterns", "number_pixels"]

AT_ONCE = 16  # masks that are put together before patterns that do not occur are left out


@dataclass(frozen=True)
class PixelPatterns:
    """The patterns of all tasks, sorted by task.

    Attributes
    ----------
    task, count : (P,)
        The task of each pattern, and its number of pixels.
    pattern, worker, inside : (E,)
        For each pattern and each of its task's answers: whether the worker put the pixels inside.
    answer : (E,)
        The row of that answer.
    known : (P,)
        1 or 0 where the truth of the task is known, NaN elsewhere; patterns have one truth.
    """

    task: IntArray
    count: FloatArray
    pattern: IntArray
    worker: IntArray
    inside: BoolArray
    answer: IntArray
    known: FloatArray

    def sum_answers(self, values: FloatArray) -> FloatArray:
        """Sum over its answers for each pattern (P,), from a number for each edge."""
        return np.bincount(self.pattern, values, self.task.size).astype(np.float64)


def number_pixels(masks: list[BoolArray], n_pixels: int) -> tuple[IntArray, BoolArray]:
    """The pattern of each pixel (pixels,), and what each answer says of each pattern (patterns, answers)."""
    number = np.zeros(n_pixels, np.int64)
    bits = np.zeros((1, 0), np.bool_)
    for first in range(0, len(masks), AT_ONCE):
        part = masks[first : first + AT_ONCE]
        for mask in part:
            number *= 2
            number += mask.ravel()
        used = np.flatnonzero(np.bincount(number))
        place = np.zeros(int(used[-1]) + 1, np.int64)
        place[used] = np.arange(used.size)
        number = place[number]
        low = (used[:, None] >> np.arange(len(part))[::-1]) & 1
        bits = np.concatenate([bits[used >> len(part)], low == 1], axis=1)
    return number, bits


def find_patterns(answers: Masks, worker: IntArray, gold: dict[int, BoolArray] | None = None) -> PixelPatterns:
    """The patterns of answers; `worker` (n,) are the positions that edges shall have, `gold` known masks by task."""
    parts = []
    at = 0
    for task in range(answers.n_tasks):
        true = [] if gold is None or task not in gold else [gold[task]]
        rows = np.arange(answers.task_ptr[task], answers.task_ptr[task + 1])
        pixels = int(answers.height[task] * answers.width[task])
        number, bits = number_pixels([*answers.masks_of_task(task), *true], pixels)
        size = len(bits)
        parts.append(
            (np.full(size, task), np.bincount(number, minlength=size), np.repeat(at + np.arange(size), rows.size),
             np.tile(rows, size), bits[:, : rows.size].ravel(), bits[:, -1] if true else np.full(size, np.nan))
        )  # fmt: skip
        at += size
    tasks, counts, patterns, row, inside, known = map(np.concatenate, zip(*parts, strict=True))
    return PixelPatterns(
        tasks, counts.astype(np.float64), patterns, np.asarray(worker, np.int64)[row], inside, row,
        known.astype(np.float64),
    )  # fmt: skip
