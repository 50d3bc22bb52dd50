"""Forward and backward along sequences of tasks, scaled so that no product under- or overflows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from crowdwise.kernels.layout import cut
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ChainStatistics", "chain_pass"]


@dataclass(frozen=True)
class ChainStatistics:
    """What one pass found.

    Attributes
    ----------
    log_likelihood
        Σ over sequences of log Σ over paths of Π start · transitions · evidence.
    steps : (K + 1, K) [before, after]
        Expected transitions; the last row counts the classes that sequences begin with.
    """

    log_likelihood: float
    steps: FloatArray


def chain_pass(sequences: Sequences, steps: FloatArray, evidence: FloatArray) -> ChainStatistics:
    """Posterior of every task given all evidence of its sequence, written over the evidence.

    Parameters
    ----------
    steps : (K + 1, K) [before, after]
        Weights of transitions, and in the last row of the classes that a sequence begins with. They need not sum
        to one.
    evidence : (N, K)
        Weight of each class at each task from its labels alone; rows sum to one. Becomes the posterior.

    Notes
    -----
    Where no path has weight, the log-likelihood is -inf and the chain begins anew at the task that no path reaches.
    """
    edges = cut(sequences.ptr)
    values = np.zeros(edges.size - 1)
    counts = np.zeros((edges.size - 1, *steps.shape))

    def one_lane(lane: int) -> None:
        values[lane] = _chain_lane(
            edges[lane], edges[lane + 1], sequences.order, sequences.ptr, steps, evidence, counts[lane]
        )

    run_lanes(one_lane, values.size)
    return ChainStatistics(float(values.sum()), counts.sum(axis=0))


@njit(cache=True, nogil=True, error_model="numpy")
def _chain_lane(
    first: int,
    last: int,
    order: IntArray,
    ptr: IntArray,
    steps: FloatArray,
    evidence: FloatArray,
    counts: FloatArray,
) -> float:
    n_classes = steps.shape[1]
    longest = 0
    for s in range(first, last):
        longest = max(longest, ptr[s + 1] - ptr[s])
    forward = np.empty((longest, n_classes))
    scale = np.empty(longest)
    backward, earlier = np.empty(n_classes), np.empty(n_classes)
    total = 0.0
    for s in range(first, last):
        begin, length = ptr[s], ptr[s + 1] - ptr[s]
        for p in range(length):
            row = evidence[order[begin + p]]
            mass = 0.0
            for k in range(n_classes):
                reached = steps[n_classes, k]
                if p > 0:
                    reached = 0.0
                    for j in range(n_classes):
                        reached += forward[p - 1, j] * steps[j, k]
                forward[p, k] = reached * row[k]
                mass += forward[p, k]
            scale[p] = mass
            total += math.log(mass)
            for k in range(n_classes):
                forward[p, k] = forward[p, k] / mass if mass > 0.0 else row[k]
        backward[:] = 1.0
        for p in range(length - 1, -1, -1):
            row = evidence[order[begin + p]]
            if p == 0:
                for k in range(n_classes):
                    counts[n_classes, k] += forward[0, k] * backward[k]
            else:
                for j in range(n_classes):
                    earlier[j] = 0.0 if scale[p] > 0.0 else 1.0
                    if scale[p] > 0.0:
                        for k in range(n_classes):
                            through = steps[j, k] * row[k] * backward[k] / scale[p]
                            earlier[j] += through
                            counts[j, k] += forward[p - 1, j] * through
            mass = 0.0
            for k in range(n_classes):
                row[k] = forward[p, k] * backward[k]
                mass += row[k]
            for k in range(n_classes):
                row[k] /= mass
            backward, earlier = earlier, backward
    return total
