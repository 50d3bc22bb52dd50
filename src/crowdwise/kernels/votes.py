"""Shares of votes, task by task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from crowdwise.kernels.layout import task_lanes
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["mean_opinions", "vote_shares"]


def vote_shares(labels: CrowdLabels, gold: IntArray, weights: FloatArray | None = None) -> FloatArray:
    """Each task's share of votes (N, K), weighed by worker if weights are given.

    Where no vote has weight, the shares of all labels; where the truth is known, the truth.
    """
    shares = np.empty((labels.n_tasks, labels.n_classes))
    given = np.ones(labels.n_workers) if weights is None else weights
    edges = task_lanes(labels)

    def one_lane(lane: int) -> None:
        _shares_lane(
            edges[lane], edges[lane + 1], labels.task_ptr, labels.worker, labels.label,
            given, labels.class_shares, gold, shares,
        )  # fmt: skip

    run_lanes(one_lane, edges.size - 1)
    return shares


def mean_opinions(labels: CrowdLabels, opinions: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Each task's mean (N, K) of what its labels say one by one.

    Parameters
    ----------
    opinions : (M, K, K) [worker, label, truth]
        What a label of a worker says of the truth; sums to one along the last axis.
    otherwise : (K,)
        For a task without labels.
    """
    means = np.empty((labels.n_tasks, labels.n_classes))
    edges = task_lanes(labels)

    def one_lane(lane: int) -> None:
        _means_lane(
            edges[lane], edges[lane + 1], labels.task_ptr, labels.worker, labels.label, opinions, otherwise, means
        )

    run_lanes(one_lane, edges.size - 1)
    return means


@njit(cache=True, nogil=True, error_model="numpy")
def _means_lane(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    opinions: FloatArray,
    otherwise: FloatArray,
    means: FloatArray,
) -> None:
    for task in range(first, last):
        row = means[task]
        n_labels = task_ptr[task + 1] - task_ptr[task]
        if n_labels == 0:
            row[:] = otherwise
            continue
        row[:] = 0.0
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            opinion = opinions[worker[edge], label[edge]]
            for k in range(row.size):
                row[k] += opinion[k]
        for k in range(row.size):
            row[k] /= n_labels


@njit(cache=True, nogil=True, error_model="numpy")
def _shares_lane(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    weights: FloatArray,
    otherwise: FloatArray,
    gold: IntArray,
    shares: FloatArray,
) -> None:
    for task in range(first, last):
        row = shares[task]
        row[:] = 0.0
        if gold.size > 0 and gold[task] >= 0:
            row[gold[task]] = 1.0
            continue
        total = 0.0
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            weight = weights[worker[edge]]
            row[label[edge]] += weight
            total += weight
        if total > 0.0:
            for k in range(row.size):
                row[k] /= total
        else:
            row[:] = otherwise
