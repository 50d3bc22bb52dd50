"""Passes for weighted votes with a margin (max-margin majority vote, CrowdSVM).

The weights of workers are renewed one after the other, each given the others: no matrix of workers × workers is needed,
and a round over all workers costs no more than reading the labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from crowdwise.kernels.layout import task_lanes
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["renew_weights", "task_sums"]


def task_sums(labels: CrowdLabels, weights: FloatArray, log_table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted votes, and Σ log P(label | truth) by truth, both (N, K). The table is [worker, label, truth]."""
    shape = labels.n_tasks, labels.n_classes
    votes, logs = np.zeros(shape), np.zeros(shape)
    edges = task_lanes(labels)

    def one_lane(lane: int) -> None:
        _sums_lane(
            edges[lane], edges[lane + 1], labels.task_ptr, labels.worker, labels.label, weights, log_table, votes, logs
        )

    run_lanes(one_lane, edges.size - 1)
    return votes, logs


def renew_weights(
    labels: CrowdLabels,
    weights: FloatArray,
    noise: FloatArray,
    truths: IntArray,
    rivals: IntArray,
    lack: FloatArray,
    bend: FloatArray,
    cost: float,
    variance: float,
) -> FloatArray:
    """Weights (M,), each from its Gaussian given those before it and, of those after it, the old ones.

    The density is exp(-½ ‖weights‖² / variance - Σ_t (cost × lack[t] + ½ bend[t] lack[t]²)), where a task's lack of
    margin falls by a worker's weight for every label of hers that is the truth and rises for every one that is the
    rival.

    Parameters
    ----------
    noise : (M,)
        Standard normal draws; zeros for the mean.
    lack : (N,)
        At the weights given; it is brought up to date.
    bend : (N,)
        Cost² / λ, for the λ of the paper's augmentation.
    """
    found = weights.copy()
    _renew(
        labels.by_worker.edge, labels.by_worker.ptr, labels.task, labels.label,
        found, noise, truths, rivals, lack, bend, cost, variance,
    )  # fmt: skip
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _sums_lane(
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
    for task in range(first, last):
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            who, given = worker[edge], label[edge]
            votes[task, given] += weights[who]
            for k in range(logs.shape[1]):
                logs[task, k] += log_table[who, given, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _renew(
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
