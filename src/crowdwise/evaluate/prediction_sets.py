"""Prediction sets with a stated coverage, by split conformal prediction on gold tasks.

The score of a gold task is 1 - p(true class), with p cross-fitted: made without that task's truth. A class belongs to
the set of a new task where its own score is at most the ⌈(n + 1) coverage⌉-th smallest score of the n gold tasks. The
set then holds the truth with at least that probability, on average over tasks that are like the gold ones (drawn from
the same tasks, at random). This score gives the smallest sets on average (Sadinle, Lei and Wasserman 2019, "Least
ambiguous set-valued classifiers with bounded error levels", JASA 114). Nothing is randomised.

The gold serves twice, to calibrate and to set the threshold, so the guarantee of the split holds only as far as the
cross-fitted scores are like those of new tasks (Barber et al. 2021, "Predictive inference with the jackknife+",
Annals of Statistics 49); `benchmarks/gold_calibration.py` measures the coverage.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["conformal_threshold", "min_gold_answers", "sets_from_posterior"]

ROUNDING = 1e-12  # scores that differ by less are equal


def min_gold_answers(coverage: float) -> int:
    """The least number of gold answers with which sets other than "all classes" can have this coverage.

    >>> min_gold_answers(0.9), min_gold_answers(0.95)
    (9, 19)
    """
    return math.ceil(coverage / (1 - coverage) - ROUNDING)


def conformal_threshold(cross_fitted: FloatArray, truth: IntArray, coverage: float) -> float:
    """The least probability that puts a class into the set.

    Parameters
    ----------
    cross_fitted : (n, K)
        Probabilities of the gold tasks' classes, made without the task's own truth.
    truth : (n,)
    coverage
        Above 0 and below 1.

    Examples
    --------
    >>> chances = np.array([0.9, 0.8, 0.7, 0.6])
    >>> round(conformal_threshold(np.stack([chances, 1 - chances], axis=1), np.zeros(4, int), 0.75), 2)
    0.6
    """
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage}; it must lie between 0 and 1, both excluded.")
    n = truth.size
    rank = math.ceil((n + 1) * coverage - ROUNDING)
    if rank > n:
        raise InputError(
            f"Sets with coverage {coverage:g} need at least {min_gold_answers(coverage)} gold answers; there are {n}. "
            "Give more gold, or ask for less coverage."
        )
    chances = np.sort(cross_fitted[np.arange(n), truth])[::-1]
    return float(chances[rank - 1])


def sets_from_posterior(posterior: FloatArray, threshold: float) -> BoolArray:
    """Which classes are in the set of each task (N, K): those at least as probable as the threshold."""
    chosen: BoolArray = posterior >= threshold - ROUNDING
    return chosen
