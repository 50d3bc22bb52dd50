"""How far single answers agree with a consensus that others made, in a form that all kinds share.

An answer is put into one number, `said`, and what the consensus makes of it into another, `expected`. A worker's
agreement is the slope of the line through 0 by which the second predicts the first: 0 for a worker who answers without
looking, below 0 for one who says the opposite. Where the kind has only how much nearer an answer is to the consensus
than chance makes it (texts, boxes, masks), that is `said`, `expected` is 1, and the slope is a mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Agreement", "another_question", "nearness_agreement", "number_agreement", "signed_agreement"]


@dataclass(frozen=True)
class Agreement:
    """The agreement of answers with a model that has not seen them.

    Attributes
    ----------
    worker, question : (n,)
        Who answered, and what: answers to the same question have the same number.
    said, expected : (n,)
        As above; not a number where nobody else answered.
    lean : (n,)
        How far the answer lies to one side of the consensus; empty where the kind has no sides.
    sides
        What workers do who lean below and above 0, as "answers too low".
    least_lean
        A mean lean that matters.
    """

    worker: IntArray
    question: IntArray
    said: FloatArray
    expected: FloatArray
    lean: FloatArray = field(default_factory=lambda: np.empty(0))
    sides: tuple[str, str] = ("", "")
    least_lean: float = 0.0


def number_agreement(
    worker: IntArray, question: IntArray, said: FloatArray, consensus: FloatArray, n_workers: int, least_lean: float
) -> Agreement:
    """Of numbers (n,) with a consensus (n,), NaN where there is none.

    Both are put in standard units, what a worker said in the worker's own, so that scale and bias lower no
    agreement. The lean is told in standard deviations of the consensus.
    """
    known = np.isfinite(consensus)
    spread = float(consensus[known].std()) if known.any() else 0.0
    own = _centre_by_worker(worker, np.where(known, said, np.nan), n_workers)
    squares = np.bincount(worker[known], own[known] ** 2, n_workers)
    width = np.sqrt(squares / np.maximum(np.bincount(worker[known], minlength=n_workers), 1))[worker]
    centred = _centre_by_worker(worker, consensus, n_workers)
    unit, one = np.where(width > 0, width, 1.0), spread if spread > 0 else 1.0
    return Agreement(
        worker, question, own / unit, centred / one, (said - consensus) / one, ("answers too low", "answers too high"),
        least_lean,
    )  # fmt: skip


def signed_agreement(
    worker: IntArray, question: IntArray, said: FloatArray, expected: FloatArray, n_workers: int
) -> Agreement:
    """Of answers of two signs (n,) with how much the consensus expects each, from -1 to 1, NaN where there is none.

    Both are centred by worker, so that always taking one side is no agreement. The lean is what remains of an answer
    when its worker's own line is taken away: where the consensus is even, which side the worker takes.
    """
    centred = _centre_by_worker(worker, expected, n_workers)
    own = _centre_by_worker(worker, np.where(np.isfinite(expected), said, np.nan), n_workers)
    known = np.isfinite(expected)
    squares = np.bincount(worker[known], centred[known] ** 2, n_workers)
    slope = np.bincount(worker[known], own[known] * centred[known], n_workers) / np.maximum(squares, 1e-12)
    lean: FloatArray = said - np.where(squares > 1e-9, slope, 0.0)[worker] * expected
    return Agreement(worker, question, own, centred, lean)


def nearness_agreement(worker: IntArray, question: IntArray, near: FloatArray, by_chance: FloatArray) -> Agreement:
    """Of how near answers are to the consensus of their question (n,), and to that of another of the worker's."""
    gain = near - by_chance
    return Agreement(worker, question, gain, np.where(np.isfinite(gain), 1.0, np.nan))


def another_question(worker: IntArray, question: IntArray, alike: IntArray | None = None) -> IntArray:
    """For each answer another question that its worker answered (n,), the next one by number; -1 where there is none.

    Parameters
    ----------
    alike : (n,)
        Only questions with the same number here stand in for each other, as images of one size.
    """
    same = np.zeros(worker.size, np.int64) if alike is None else alike
    order = np.lexsort((question, same, worker))
    fresh = np.r_[True, (worker[order][1:] != worker[order][:-1]) | (same[order][1:] != same[order][:-1])]
    starts = np.flatnonzero(fresh[: order.size])
    group = np.cumsum(fresh[: order.size]) - 1
    ends = np.r_[starts[1:], order.size]
    # Questions are sorted within a worker: the next different one lies after all rows of this one, or at the start.
    changes = np.r_[np.diff(question[order]) != 0, True] | np.r_[fresh[1:], True][: order.size]
    after = np.flatnonzero(changes)
    following = after[np.searchsorted(after, np.arange(order.size))] + 1
    following = np.where(following >= ends[group], starts[group], following)
    found: IntArray = np.full(worker.size, -1, np.int64)
    found[order] = question[order[following]]
    found[found == question] = -1
    return found


def _centre_by_worker(worker: IntArray, values: FloatArray, n_workers: int) -> FloatArray:
    """Values (n,) less the mean of the worker's; NaN is left out of means and stays."""
    known = np.isfinite(values)
    counts = np.bincount(worker[known], minlength=n_workers)
    means = np.bincount(worker[known], values[known], n_workers) / np.maximum(counts, 1)
    centred: FloatArray = values - means[worker]
    return centred
