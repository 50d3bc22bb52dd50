"""Gaussian belief propagation where the information is a graph's Laplacian and a diagonal: variances without a matrix.

A message i → j is what the pair's other item adds to the precision of j: weight × a / (a + weight), where a is the
precision of i without this pair. It lies between 0 and the weight, from which it starts, and falls. Exact on a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["propagate_precisions"]

MOST_ROUNDS = 500
ENOUGH = 1e-5  # change of a message as a share of its weight
CELLS = 4  # numbers that are read and written of each pair, for the choice of the engine


def propagate_precisions(
    first: IntArray, second: IntArray, weights: FloatArray, own: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Precision of each item (N,), and messages first → second and second → first (2, P).

    Parameters
    ----------
    first, second : (P,)
        Items of each pair.
    weights : (P,)
        Information on the difference of each pair; minus this is the entry of the pair.
    own : (N,)
        Information on each item besides, above 0.
    """
    messages = np.stack([weights, weights])
    run = _run_round
    if choose_engine(weights.size, CELLS) == "numba":
        from crowdwise.kernels.compiled.gaussian_beliefs import run_round

        run = run_round
    precision = own + np.bincount(second, weights, own.size) + np.bincount(first, weights, own.size)
    for _ in range(MOST_ROUNDS):
        precision, change = run(first, second, weights, own, precision, messages)
        if change < ENOUGH:
            break
    return precision, messages


def _run_round(
    first: IntArray, second: IntArray, weights: FloatArray, own: FloatArray, precision: FloatArray, messages: FloatArray
) -> tuple[FloatArray, float]:
    """All messages anew, in place; the precisions that follow, and the largest change."""
    without = np.stack([precision[first] - messages[1], precision[second] - messages[0]])
    after = weights * without / (without + weights)
    change = float(np.max(np.abs(after - messages) / np.maximum(weights, 1e-300), initial=0.0))
    messages[:] = after
    n = own.size
    return own + np.bincount(second, messages[0], n) + np.bincount(first, messages[1], n), change
