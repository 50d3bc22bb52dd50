"""Plackett and Luce's likelihood of rankings, its gradient and information, as sums over the stages of each ranking.

A ranking is made stage by stage: the next item is drawn from those that are left with probability proportional to e^x,
x = slope of the worker × score of the item. With e = e^x, S[j] the sum of e over the items that are left at stage j,

| equation | here |
|---|---|
| log P = Σ_j (x[j] - log S[j]) | `Stages.value` |
| ∂/∂x[k] = 1 - e[k] Σ_{j ≤ k} 1 / S[j] | `Stages.gradient` |
| information × v: e[k] (v[k] Σ_{j ≤ k} 1 / S[j] - Σ_{j ≤ k} (Σ_{l ≥ j} e[l] v[l]) / S[j]²) | `Stages.multiply` |

Tied items are drawn from the same set, that in which all of them are left (Breslow 1974); then j ≤ k runs to the last
item of k's tie. Sums from the end and from the start make a pass O(answers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.kinds.rankings.answers import Block, Rankings
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Stages"]

TINY = 1e-300


class Stages:
    """The stages of all rankings at given x (n_answers,)."""

    def __init__(self, answers: Rankings, x: FloatArray) -> None:
        self.answers = answers
        self.log_probability = np.empty(answers.n_answers)  # of the choice at each stage
        self.gradient = np.empty(answers.n_answers)
        self.diagonal = np.empty(answers.n_answers)
        self._sums: list[tuple[Block, FloatArray, FloatArray, FloatArray]] = []
        for block in answers.blocks:
            here = x[block.row]
            highest = here.max(axis=1, keepdims=True)
            e = np.exp(here - highest)
            left = np.maximum(_take(_from_the_end(e), block.first), TINY)
            reached = _take(np.cumsum(1 / left, axis=1), block.last)
            self.log_probability[block.row] = here - highest - np.log(left)
            self.gradient[block.row] = 1 - e * reached
            self.diagonal[block.row] = e * reached - e**2 * _take(np.cumsum(1 / left**2, axis=1), block.last)
            self._sums.append((block, e, left, reached))

    @property
    def value(self) -> float:
        """Log-likelihood."""
        return float(self.log_probability.sum())

    def multiply(self, vector: FloatArray) -> FloatArray:
        """The information on x times a vector (n_answers,)."""
        product = np.empty(vector.size)
        for block, e, left, reached in self._sums:
            v = vector[block.row]
            means = _take(_from_the_end(e * v), block.first) / left
            product[block.row] = e * (v * reached - _take(np.cumsum(means / left, axis=1), block.last))
        return product

    def pair_weights(self, longest: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Rows of two items of a ranking, and minus the information between them: Σ_j e[k] e[l] / S[j]².

        Rankings of more than `longest` items are left out.
        """
        first, second, weights = [], [], []
        for block, e, left, _ in self._sums:
            length = e.shape[1]
            if not 1 < length <= longest:
                continue
            one, two = np.triu_indices(length, 1)
            reached = _take(np.cumsum(1 / left**2, axis=1), block.last)
            first.append(block.row[:, one].ravel())
            second.append(block.row[:, two].ravel())
            weights.append((e[:, one] * e[:, two] * reached[:, one]).ravel())
        if not first:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        return np.concatenate(first), np.concatenate(second), np.concatenate(weights)


def _from_the_end(values: FloatArray) -> FloatArray:
    """Sums of each row's values from a place to the end."""
    return np.cumsum(values[:, ::-1], axis=1)[:, ::-1]


def _take(values: FloatArray, places: IntArray) -> FloatArray:
    return np.take_along_axis(values, places, axis=1)
