"""How pairs of workers answered the tasks they share: the statistics that moment methods start from.

Made from the labels, task by task: time and memory grow with the pairs of labels that share a task, never with
workers × workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["PairCounts", "pair_agreements", "pair_counts", "pair_pass"]

CHUNK = 1 << 22  # pairs of labels held at a time
MOST_LABELS = 2000  # of a task: one that all the crowd answered would make workers × workers pairs of one task each


@dataclass(frozen=True)
class PairCounts:
    """Joint answers of every two workers who share a task.

    Attributes
    ----------
    first, second : (P,)
        Positions of the two workers, first < second, sorted by first and then second.
    counts : (P, K, K)
        Shared tasks in which `first` said the row's class and `second` the column's.
    """

    first: IntArray
    second: IntArray
    counts: FloatArray

    @property
    def shared(self) -> FloatArray:
        """Number of shared tasks of each pair (P,)."""
        total: FloatArray = self.counts.sum(axis=(1, 2))
        return total


def pair_counts(labels: CrowdLabels) -> PairCounts:
    """Count the joint answers of all pairs of workers over the tasks they share.

    A worker's repeated answers to one task count each, but never as a pair with herself. Tasks of more than
    `MOST_LABELS` labels are left out, so that there are at most a thousand pairs for each label.
    """
    size = labels.n_classes
    keys, counts = _counted(labels, joint=True)
    pairs, pair_of = np.unique(keys // (size * size), return_inverse=True)
    table = np.zeros((pairs.size, size * size))
    table[pair_of, keys % (size * size)] = counts
    return PairCounts(pairs // labels.n_workers, pairs % labels.n_workers, table.reshape(-1, size, size))


def pair_agreements(labels: CrowdLabels) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """First and second worker of each pair, shared tasks on which they agree, and all: `pair_counts` without K².

    The same order of pairs, and the same tasks.
    """
    keys, counts = _counted(labels, joint=False)
    pairs, pair_of = np.unique(keys // 2, return_inverse=True)
    same = np.bincount(pair_of, weights=counts * (keys % 2), minlength=pairs.size).astype(np.float64)
    shared = np.bincount(pair_of, weights=counts, minlength=pairs.size).astype(np.float64)
    return pairs // labels.n_workers, pairs % labels.n_workers, same, shared


def _counted(labels: CrowdLabels, *, joint: bool) -> tuple[IntArray, IntArray]:
    """Distinct keys of pairs of labels (`_keys`), sorted, and how often each occurs; a chunk of tasks at a time."""
    per_task = labels.labels_per_task.astype(np.int64)
    per_task[per_task > MOST_LABELS] = 0
    ends = np.cumsum(per_task * (per_task - 1) // 2)
    keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    task = 0
    while task < labels.n_tasks:
        done = ends[task - 1] if task else 0
        last = max(task + 1, int(np.searchsorted(ends, done + CHUNK, side="right")))
        found = np.empty(int(ends[last - 1] - done), np.int64)
        n_found = _keys(
            task, last, labels.task_ptr, labels.worker, labels.label, labels.n_workers, labels.n_classes, joint, found
        )
        new_keys, new_counts = np.unique(found[:n_found], return_counts=True)
        keys, inverse = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(inverse, weights=np.concatenate([counts, new_counts]), minlength=keys.size).astype(
            np.int64
        )
        task = last
    return keys, counts


def pair_pass(pairs: PairCounts, prior: FloatArray, table: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """E-step of the model R = A D Bᵀ of joint answers, and the counts that its M-step needs.

    Parameters
    ----------
    prior : (K,)
        D.
    table : (M, K, K) [worker, label, truth]
        The workers' matrices.

    Returns
    -------
    log-likelihood
        Σ counts log R over pairs and cells.
    class counts : (K,)
        Expected joint answers to tasks of each class.
    counts : (M, K, K) [worker, label, truth]
        Expected answers in pairs.
    """
    counts, class_counts = np.zeros_like(table), np.zeros_like(prior)
    log_likelihood = _pair_pass(
        pairs.first, pairs.second, pairs.counts, prior, np.ascontiguousarray(table), class_counts, counts
    )
    return log_likelihood, class_counts, counts


@njit(cache=True, nogil=True, error_model="numpy")
def _pair_pass(
    first: IntArray,
    second: IntArray,
    joint: FloatArray,
    prior: FloatArray,
    table: FloatArray,
    class_counts: FloatArray,
    counts: FloatArray,
) -> float:
    n_classes = prior.size
    log_likelihood = 0.0
    share = np.empty(n_classes)
    for pair in range(first.size):
        one, two = first[pair], second[pair]
        for a in range(n_classes):
            for b in range(n_classes):
                seen = joint[pair, a, b]
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
def _keys(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    n_workers: int,
    n_classes: int,
    joint: bool,
    keys: IntArray,
) -> int:
    """(pair * K + her label) * K + the other's label, for every pair of labels of each task; pair = worker * M + other.

    Not joint: pair * 2, and 1 where the labels are the same.
    """
    n_found = 0
    for task in range(first, last):
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
