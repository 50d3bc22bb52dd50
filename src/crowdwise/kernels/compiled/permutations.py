"""Deals at random, as `audit.resampling` and `audit.drift` make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["count_permutations", "shuffle_within_bounds"]


@njit(cache=True, nogil=True)
def shuffle_within_bounds(rows: IntArray, bounds: IntArray, rng: np.random.Generator) -> None:
    """Shuffle each row within the bounds (Fisher and Yates)."""
    for row in rows:
        for part in range(bounds.size - 1):
            start = bounds[part]
            for last in range(bounds[part + 1] - 1, start, -1):
                other = start + int(rng.random() * (last - start + 1))
                row[last], row[other] = row[other], row[last]


@njit(cache=True, nogil=True)
def count_permutations(
    z: FloatArray, moves: BoolArray, observed: float, rng: np.random.Generator, most: int, enough: int
) -> tuple[int, int]:
    """Shuffle z again and again: how many shuffles reach the observed statistic, of how many.

    A shuffle starts from z and takes a random number for each label but the last, so that many can be made at once.
    """
    reached = 0
    dealt = np.empty(z.size)
    for deal in range(most):
        for i in range(z.size):
            dealt[i] = z[i]
        total = 0.0
        hit = False
        for i in range(z.size - 1):
            other = i + int(rng.random() * (z.size - i))
            dealt[i], dealt[other] = dealt[other], dealt[i]
            total += dealt[i]
            hit |= moves[i] and abs(total) >= observed
        if hit:
            reached += 1
            if reached == enough:
                return reached, deal + 1
    return reached, most
