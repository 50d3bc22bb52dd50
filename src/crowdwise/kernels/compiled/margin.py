"""Loops of weighted votes with a margin; see `kernels.margin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["renew", "sums_lane"]


@njit(cache=True, nogil=True, error_model="numpy")
def sums_lane(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    weights: FloatArray,
    log_table: FloatArray,
    votes: FloatArray,
    logs: FloatArray,
) -> None:
    """Add the weighted votes and log-likelihoods of some tasks."""
    for task in range(first, last):
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            who, given = worker[edge], label[edge]
            votes[task, given] += weights[who]
            for k in range(logs.shape[1]):
                logs[task, k] += log_table[who, given, k]


@njit(cache=True, nogil=True, error_model="numpy")
def renew(
    edges: IntArray,
    ptr: IntArray,
    task: IntArray,
    label: IntArray,
    weights: FloatArray,
    noise: FloatArray,
    truths: IntArray,
    rivals: IntArray,
    lack: FloatArray,
    bend: FloatArray,
    cost: float,
    variance: float,
) -> None:
    """Renew the weights one after the other, in place, and the lack of margin."""
    for who in range(weights.size):
        precision, pull = 1.0 / variance, 0.0
        place = ptr[who]
        while place < ptr[who + 1]:
            t = task[edges[place]]
            gain = 0.0
            while place < ptr[who + 1] and task[edges[place]] == t:  # a worker may answer a task more than once
                given = label[edges[place]]
                gain += (1.0 if given == truths[t] else 0.0) - (1.0 if given == rivals[t] else 0.0)
                place += 1
            precision += bend[t] * gain * gain
            pull += gain * (cost + bend[t] * (lack[t] + weights[who] * gain))
        fresh = pull / precision + noise[who] / np.sqrt(precision)
        change = fresh - weights[who]
        weights[who] = fresh
        for place in range(ptr[who], ptr[who + 1]):
            edge = edges[place]
            t, given = task[edge], label[edge]
            lack[t] -= change * ((1.0 if given == truths[t] else 0.0) - (1.0 if given == rivals[t] else 0.0))
