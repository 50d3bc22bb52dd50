"""How far single answers agree with a consensus that others made, in a form that all kinds share.

An answer's gain is how much nearer it is to the consensus of what was asked than to that of something else that the
worker was asked: 0 on average for a worker who answers without looking, below 0 for one who says the opposite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Agreement", "centre_by_worker", "number_agreement", "signed_agreement"]


@dataclass(frozen=True)
class Agreement:
    """The agreement of answers with a model that has not seen them.

    Attributes
    ----------
    worker, question : (n,)
        Who answered, and what: answers to the same question have the same number.
    gain : (n,)
        How much nearer the answer is to the consensus than by chance; not a number where nobody else answered.
    lean : (n,)
        How far the answer lies to one side of the consensus; empty where the kind has no sides.
    sides
        What workers do who lean below and above 0, as "answers too low".
    least_lean
        A mean lean that matters.
    """

    worker: IntArray
    question: IntArray
    gain: FloatArray
    lean: FloatArray
    sides: tuple[str, str] = ("", "")
    least_lean: float = 0.0


def centre_by_worker(worker: IntArray, values: FloatArray, n_workers: int) -> FloatArray:
    """Values (n,) less the mean of the worker's; NaN is left out of means and stays."""
    known = np.isfinite(values)
    counts = np.bincount(worker[known], minlength=n_workers)
    means = np.bincount(worker[known], values[known], n_workers) / np.maximum(counts, 1)
    centred: FloatArray = values - means[worker]
    return centred


def number_agreement(
    worker: IntArray, question: IntArray, said: FloatArray, consensus: FloatArray, n_workers: int, least_lean: float
) -> Agreement:
    """Of numbers (n,) with a consensus (n,), NaN where there is none: a correlation within each worker.

    The mean gain of a worker is the correlation of their answers with the consensus, times how much the consensus of
    their questions varies, in units of how much it does over all; a worker's own scale and bias do not lower it. The
    lean is told in standard deviations of the consensus.
    """
    known = np.isfinite(consensus)
    spread = float(consensus[known].std()) if known.any() else 0.0
    own = centre_by_worker(worker, np.where(known, said, np.nan), n_workers)
    squares = np.bincount(worker[known], own[known] ** 2, n_workers)
    width = np.sqrt(squares / np.maximum(np.bincount(worker[known], minlength=n_workers), 1))[worker]
    centred = centre_by_worker(worker, consensus, n_workers)
    with np.errstate(invalid="ignore", divide="ignore"):
        gain = np.where((width > 0) & (spread > 0), own / width * centred / spread, np.where(known, 0.0, np.nan))
        lean = np.where(spread > 0, (said - consensus) / spread, np.where(known, 0.0, np.nan))
    return Agreement(worker, question, gain, lean, ("answers too low", "answers too high"), least_lean)


def signed_agreement(
    worker: IntArray, question: IntArray, said: FloatArray, expected: FloatArray, n_workers: int
) -> tuple[Agreement, FloatArray]:
    """Of answers of two signs (n,) with how much the consensus expects each, from -1 to 1; and the leans (n,).

    A lean is what remains of an answer when its worker's own line through the expectations is taken away: where the
    consensus is even, which side the worker takes.
    """
    centred = centre_by_worker(worker, expected, n_workers)
    own = centre_by_worker(worker, np.where(np.isfinite(expected), said, np.nan), n_workers)
    gain = own * centred
    known = np.isfinite(gain)
    squares = np.bincount(worker[known], centred[known] ** 2, n_workers)
    slope = np.bincount(worker[known], gain[known], n_workers) / np.maximum(squares, 1e-12)
    lean: FloatArray = said - np.where(squares[worker] > 1e-9, slope[worker], 0.0) * expected
    return Agreement(worker, question, gain, np.empty(0)), lean
