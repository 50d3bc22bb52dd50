"""Passes for weighted votes with a margin (max-margin majority vote, CrowdSVM).

The weights of workers are renewed one after the other, each given the others: no matrix of workers × workers is needed,
and a round over all workers costs no more than reading the labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import map_tasks, map_workers, transpose_truth_and_label
from crowdwise.kernels.grouped_sums import sum_cells, sum_groups
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Margins", "gibbs_update_weights", "sum_votes_and_logs"]


class Margins(NamedTuple):
    """What the density of the weights needs of the tasks.

    Attributes
    ----------
    truths, rivals : (N,)
        The class that is taken for the truth, and the other one with most votes.
    lack : (N,)
        By how much the truth's lead falls short of the margin, at the weights given; it is brought up to date.
    bend : (N,)
        Cost² / λ, for the λ of the paper's augmentation.
    """

    truths: IntArray
    rivals: IntArray
    lack: FloatArray
    bend: FloatArray
    cost: float
    variance: float


def sum_votes_and_logs(
    labels: CrowdLabels, weights: FloatArray, log_table: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Weighted votes, and Σ log P(label | truth) by truth, both (N, K). The table is [worker, truth, label]."""
    shape = labels.n_tasks, labels.n_classes
    table = transpose_truth_and_label(log_table)
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
        votes = sum_cells(cell, weights[labels.worker], labels.n_tasks * labels.n_classes)
        said = table[labels.worker, labels.label]
        logs = np.stack([sum_cells(labels.task, column, labels.n_tasks) for column in said.T], axis=1)
        return votes.reshape(shape), logs
    from crowdwise.kernels.compiled.max_margin_votes import add_votes_and_logs

    votes, logs = np.zeros(shape), np.zeros(shape)
    map_tasks(labels, add_votes_and_logs, weights, table, votes, logs)
    return votes, logs


def gibbs_update_weights(labels: CrowdLabels, weights: FloatArray, noise: FloatArray, margins: Margins) -> FloatArray:
    """Weights (M,), each from its Gaussian given those before it and, of those after it, the old ones.

    The density is exp(-½ ‖weights‖² / variance - Σ_t (cost × lack[t] + ½ bend[t] lack[t]²)), where a task's lack of
    margin falls by a worker's weight for every label of theirs that is the truth and rises for every one that is the
    rival.

    Parameters
    ----------
    noise : (M,)
        Standard normal draws; zeros for the mean.
    """
    found = weights.copy()
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        _gibbs_update_weights(labels, found, noise, margins)
    else:
        from crowdwise.kernels.compiled.max_margin_votes import update_weights

        everyone = np.array([0, labels.n_workers])  # one lane: each weight depends on those before it
        map_workers(labels, everyone, update_weights, found, noise, margins)
    return found


def _gibbs_update_weights(labels: CrowdLabels, found: FloatArray, noise: FloatArray, margins: Margins) -> None:
    truths, rivals, lack, bend, cost, variance = margins
    edge, ptr = labels.by_worker
    task = labels.task[edge]
    given = labels.label[edge]
    gains = (given == truths[task]).astype(np.float64) - (given == rivals[task])
    # A worker may answer a task more than once: gains of each worker and task, once.
    worker = labels.worker[edge]
    new = np.append(True, (np.diff(worker) != 0) | (np.diff(task) != 0))[: edge.size]
    starts = np.flatnonzero(new)
    gains, task = sum_groups(gains, np.append(starts, edge.size)), task[starts]
    bounds = np.searchsorted(starts, ptr)
    for who in range(found.size):
        mine = slice(bounds[who], bounds[who + 1])
        gain, t = gains[mine], task[mine]
        # Summed in order, as the compiled loop does: a sampler that rounds otherwise soon draws other weights.
        precision = np.cumsum(np.append(1 / variance, bend[t] * gain * gain))[-1]
        pull = np.cumsum(np.append(0.0, gain * (cost + bend[t] * (lack[t] + found[who] * gain))))[-1]
        fresh = pull / precision + noise[who] / np.sqrt(precision)
        lack[t] -= (fresh - found[who]) * gain
        found[who] = fresh
