"""Loops over pairs of workers and of labels; see `kernels.pairs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.pairs import MOST_LABELS
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import TaskLane
    from crowdwise.kernels.pairs import PairCounts
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["add_expected_pair_counts", "pair_keys"]


@njit(cache=True, nogil=True, error_model="numpy")
def add_expected_pair_counts(
    pairs: PairCounts, prior: FloatArray, table: FloatArray, class_counts: FloatArray, counts: FloatArray
) -> float:
    """Add what each pair's joint answers say; their log-likelihood."""
    n_classes = prior.size
    log_likelihood = 0.0
    share = np.empty(n_classes)
    for pair in range(pairs.first.size):
        one, two = pairs.first[pair], pairs.second[pair]
        for a in range(n_classes):
            for b in range(n_classes):
                seen = pairs.counts[pair, a, b]
                if seen == 0.0:
                    continue
                total = 0.0
                for k in range(n_classes):
                    share[k] = prior[k] * table[one, a, k] * table[two, b, k]
                    total += share[k]
                log_likelihood += seen * np.log(total)
                for k in range(n_classes):
                    weight = seen * share[k] / total
                    class_counts[k] += weight
                    counts[one, a, k] += weight
                    counts[two, b, k] += weight
    return log_likelihood


@njit(cache=True, nogil=True, error_model="numpy")
def pair_keys(lane: TaskLane, n_workers: int, n_classes: int, joint: bool, keys: IntArray) -> int:
    """(pair * K + her label) * K + the other's label, for every pair of labels of each task; pair = worker * M + other.

    Not joint: pair * 2, and 1 where the labels are the same.
    """
    task_ptr, worker, label = lane.ptr, lane.worker, lane.label
    n_found = 0
    for task in range(lane.first, lane.last):
        if task_ptr[task + 1] - task_ptr[task] > MOST_LABELS:
            continue
        for one in range(task_ptr[task], task_ptr[task + 1]):
            for two in range(one + 1, task_ptr[task + 1]):
                a, b = (one, two) if worker[one] < worker[two] else (two, one)
                if worker[a] == worker[b]:
                    continue
                pair = np.int64(worker[a]) * n_workers + worker[b]
                if joint:
                    keys[n_found] = (pair * n_classes + label[a]) * n_classes + label[b]
                else:
                    keys[n_found] = pair * 2 + (label[a] == label[b])
                n_found += 1
    return n_found
