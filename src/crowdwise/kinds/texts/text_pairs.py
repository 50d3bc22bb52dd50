"""Pairs of answers to the same task, and how alike they are.

Two answers of one worker are no pair: that a worker agrees with themselves says nothing about the task. A similarity is
1 at distance 0, and 0 at the mean distance of answers to different tasks, which chance alone would give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kinds.texts.distances import measure_pairs
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.texts.answers import Texts
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TextPairs", "chance_distance", "content_ranks", "pair_answers"]

MOST_PAIRS = 20_000_000
CHANCE_PAIRS = 500
SMALL = 1e-9


class TextPairs(NamedTuple):
    """Answers to tasks, and pairs of them by different workers.

    `task` and `worker` (n,) are positions, of a stranger or of gold M and M + 1; `texts` what was written, `rank` a
    number for each answer by its content, which breaks ties whatever the order of rows. `one` and `other` (P,) are
    positions of answers, `distance` how far apart they are.
    """

    task: IntArray
    worker: IntArray
    texts: list[str]
    rank: IntArray
    one: IntArray
    other: IntArray
    distance: FloatArray
    n_tasks: int

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return self.task.size

    def sum_over_pairs(self, values: FloatArray, otherwise: FloatArray | None = None) -> FloatArray:
        """Sum over the pairs of each answer (n,); `otherwise` are the values for the other answer of each pair."""
        second = values if otherwise is None else otherwise
        total: FloatArray = np.zeros(self.n_answers)
        total += np.bincount(self.one, values, self.n_answers)
        total += np.bincount(self.other, second, self.n_answers)
        return total

    def highest(self, score: FloatArray) -> IntArray:
        """Answer of each task (N,) with the highest score, -1 without answers; of equal ones the first by content."""
        order = np.lexsort((self.rank, -np.round(score, 6), self.task))
        found: IntArray = np.full(self.n_tasks, -1, np.int64)
        tasks, first = np.unique(self.task[order], return_index=True)
        found[tasks] = order[first]
        return found


def content_ranks(texts: list[str], names: list[str]) -> IntArray:
    """A number for each answer by its text and its worker's name, whatever the order of rows."""
    keys = np.array([f"{text}\0{name}" for text, name in zip(texts, names, strict=True)])
    ranks: IntArray = np.unique(keys, return_inverse=True)[1]
    return ranks


def pair_answers(
    task: IntArray,
    worker: IntArray,
    texts: list[str],
    names: list[str],
    n_tasks: int,
    distance: str | Callable[[str, str], float],
) -> TextPairs:
    """All pairs of answers by different workers to the same task, with their distances; `task` ascends.

    `names` are those of the workers, which tell answers apart where positions depend on the order of rows.
    """
    counts = np.bincount(task, minlength=n_tasks)
    total = float((counts.astype(np.float64) * (counts - 1) / 2).sum())
    if total > MOST_PAIRS:
        raise InputError(
            f"There are {total:,.0f} pairs of answers to the same task, more than {MOST_PAIRS:,}. Keep fewer answers "
            f"to the tasks that have most (one has {int(counts.max()):,})."
        )
    starts = np.concatenate([[0], np.cumsum(counts)])
    later = np.repeat(starts[1:], counts) - np.arange(task.size) - 1  # answers to the same task after this one
    one = np.repeat(np.arange(task.size), later)
    other = np.arange(one.size) - np.repeat(np.cumsum(later) - later, later) + one + 1
    apart = worker[one] != worker[other]
    one, other = one[apart], other[apart]
    found = measure_pairs(texts, task, one, other, distance)
    return TextPairs(task, worker, texts, content_ranks(texts, names), one, other, found, n_tasks)


def chance_distance(answers: Texts, distance: str | Callable[[str, str], float]) -> float:
    """Mean distance of answers to different tasks, of a few drawn at random; NaN where there is one task."""
    texts: list[str] = answers.text.to_pylist()
    if np.unique(answers.task).size < 2:
        return float("nan")
    names = answers.tasks.cast("string").to_numpy(zero_copy_only=False)[answers.task]
    order = np.lexsort((np.array(texts, object).astype(str), names.astype(str)))
    one, other = order[np.random.default_rng(0).integers(order.size, size=(2, CHANCE_PAIRS))]
    apart = answers.task[one] != answers.task[other]
    drawn = [texts[row] for row in np.concatenate([one[apart], other[apart]])]
    pair = np.arange(len(drawn) // 2)  # each pair as if it were a task
    found = measure_pairs(drawn, np.concatenate([pair, pair]), pair, pair + pair.size, distance)
    return float(found.mean()) if found.size and found.mean() > SMALL else float("nan")
