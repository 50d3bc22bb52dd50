"""Passes for weighted votes with a margin (max-margin majority vote, CrowdSVM).

The weights of workers are renewed one after the other, each given the others: no matrix of workers × workers is needed,
and a round over all workers costs no more than reading the labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.choice import choose_engine
from crowdwise.kernels.groups import sum_cells, sum_groups
from crowdwise.kernels.layout import task_lanes
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["renew_weights", "task_sums"]


def task_sums(labels: CrowdLabels, weights: FloatArray, log_table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted votes, and Σ log P(label | truth) by truth, both (N, K). The table is [worker, label, truth]."""
    shape = labels.n_tasks, labels.n_classes
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
        votes = sum_cells(cell, weights[labels.worker], labels.n_tasks * labels.n_classes)
        return votes.reshape(shape), sum_groups(log_table[labels.worker, labels.label], labels.task_ptr)
    from crowdwise.kernels.compiled.margin import sums_lane

    votes, logs = np.zeros(shape), np.zeros(shape)
    edges = task_lanes(labels)

    def one_lane(lane: int) -> None:
        sums_lane(
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
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _renew_weights(labels, weights, noise, truths, rivals, lack, bend, cost, variance)
    from crowdwise.kernels.compiled.margin import renew

    found = weights.copy()
    renew(
        labels.by_worker.edge, labels.by_worker.ptr, labels.task, labels.label,
        found, noise, truths, rivals, lack, bend, cost, variance,
    )  # fmt: skip
    return found


def _renew_weights(
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
    found = weights.copy()
    edge, ptr = labels.by_worker
    task = labels.task[edge]
    given = labels.label[edge]
    gains = (given == truths[task]).astype(np.float64) - (given == rivals[task])
    # A worker may answer a task more than once: gains of each worker and task, once.
    worker = labels.worker[edge]
    fresh = np.append(True, (np.diff(worker) != 0) | (np.diff(task) != 0))[: edge.size]
    starts = np.flatnonzero(fresh)
    gains, task = sum_groups(gains, np.append(starts, edge.size)), task[starts]
    bounds = np.searchsorted(starts, ptr)
    for who in range(found.size):
        mine = slice(bounds[who], bounds[who + 1])
        gain, t = gains[mine], task[mine]
        precision = 1 / variance + bend[t] @ gain**2
        pull = gain @ (cost + bend[t] * (lack[t] + found[who] * gain))
        change = pull / precision + noise[who] / np.sqrt(precision) - found[who]
        found[who] += change
        lack[t] -= change * gain
    return found
