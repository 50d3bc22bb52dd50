"""Loops of weighted votes with a margin; see `kernels.max_margin_votes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import TaskLane, WorkerLane
    from crowdwise.kernels.max_margin_votes import Margins
    from crowdwise.labels.types import FloatArray

__all__ = ["add_votes_and_logs", "update_weights"]


@njit(cache=True, nogil=True, error_model="numpy")
def add_votes_and_logs(
    lane: TaskLane, weights: FloatArray, log_table: FloatArray, votes: FloatArray, logs: FloatArray
) -> None:
    """Add the weighted votes and log-likelihoods of some tasks."""
    for task in range(lane.first, lane.last):
        for edge in range(lane.ptr[task], lane.ptr[task + 1]):
            who, given = lane.worker[edge], lane.label[edge]
            votes[task, given] += weights[who]
            for k in range(logs.shape[1]):
                logs[task, k] += log_table[who, given, k]


@njit(cache=True, nogil=True, error_model="numpy")
def update_weights(lane: WorkerLane, weights: FloatArray, noise: FloatArray, margins: Margins) -> None:
    """Renew the weights one after the other, in place, and the lack of margin."""
    edges, ptr, task, label = lane.edge, lane.ptr, lane.task, lane.label
    truths, rivals, lack, bend, cost, variance = margins
    for who in range(lane.first, lane.last):
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
