"""How pairs of workers answered the tasks they share: the statistics that moment methods start from.

Made from the labels, task by task: time and memory grow with the pairs of labels that share a task, never with
workers × workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import TaskLane, transpose_truth_and_label
from crowdwise.kernels.grouped_sums import sum_cells
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["PairCounts", "label_pairs", "pair_agreements", "pair_counts", "pair_e_step"]

CHUNK = 1 << 22  # pairs of labels held at a time
MOST_LABELS = 2000  # of a task: one that all the crowd answered would make workers × workers pairs of one task each


class PairCounts(NamedTuple):
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
    def n_shared_tasks(self) -> FloatArray:
        """Number of shared tasks of each pair (P,)."""
        total: FloatArray = self.counts.sum(axis=(1, 2))
        return total


def pair_counts(labels: CrowdLabels) -> PairCounts:
    """Count the joint answers of all pairs of workers over the tasks they share.

    A worker's repeated answers to one task count each, but never as a pair with herself. Tasks of more than
    `MOST_LABELS` labels are left out, so that there are at most a thousand pairs for each label.
    """
    size = labels.n_classes
    keys, counts = _count_keys(labels, joint=True)
    pairs, pair_of = np.unique(keys // (size * size), return_inverse=True)
    table = np.zeros((pairs.size, size * size))
    table[pair_of, keys % (size * size)] = counts
    return PairCounts(pairs // labels.n_workers, pairs % labels.n_workers, table.reshape(-1, size, size))


def pair_agreements(labels: CrowdLabels) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """First and second worker of each pair, shared tasks on which they agree, and all: `pair_counts` without K².

    The same order of pairs, and the same tasks.
    """
    keys, counts = _count_keys(labels, joint=False)
    pairs, pair_of = np.unique(keys // 2, return_inverse=True)
    same = np.bincount(pair_of, weights=counts * (keys % 2), minlength=pairs.size).astype(np.float64)
    shared = np.bincount(pair_of, weights=counts, minlength=pairs.size).astype(np.float64)
    return pairs // labels.n_workers, pairs % labels.n_workers, same, shared


def _count_keys(labels: CrowdLabels, *, joint: bool) -> tuple[IntArray, IntArray]:
    """Distinct keys of pairs of labels (`_pair_keys`), sorted, and their counts; a chunk of tasks at a time."""
    per_task = labels.labels_per_task.astype(np.int64)
    per_task[per_task > MOST_LABELS] = 0
    ends = np.cumsum(per_task * (per_task - 1) // 2)
    keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    task = 0
    while task < labels.n_tasks:
        done = ends[task - 1] if task else 0
        last = max(task + 1, int(np.searchsorted(ends, done + CHUNK, side="right")))
        found = _pair_keys(labels, task, last, int(ends[last - 1] - done), joint=joint)
        new_keys, new_counts = np.unique(found, return_counts=True)
        keys, inverse = np.unique(np.concatenate([keys, new_keys]), return_inverse=True)
        counts = np.bincount(inverse, weights=np.concatenate([counts, new_counts]), minlength=keys.size).astype(
            np.int64
        )
        task = last
    return keys, counts


def _pair_keys(labels: CrowdLabels, first: int, last: int, n_pairs: int, *, joint: bool) -> IntArray:
    """(pair * K + her label) * K + the other's label, for every pair of labels of each task; pair = worker * M + other.

    Not joint: pair * 2, and 1 where the labels are the same.
    """
    if choose_engine(labels.n_labels, labels.n_classes) == "numba":
        from crowdwise.kernels.compiled.pairs import pair_keys

        found: IntArray = np.empty(n_pairs, np.int64)
        lane = TaskLane(first, last, labels.task_ptr, labels.worker, labels.label)
        n_found = pair_keys(lane, labels.n_workers, labels.n_classes, joint, found)
        return found[:n_found]
    one, two = label_pairs(labels.task_ptr[first : last + 1], MOST_LABELS)
    later = labels.worker[one] > labels.worker[two]
    a, b = np.where(later, two, one), np.where(later, one, two)
    different = labels.worker[a] != labels.worker[b]
    a, b = a[different], b[different]
    pair = labels.worker[a].astype(np.int64) * labels.n_workers + labels.worker[b]
    if joint:
        return np.asarray((pair * labels.n_classes + labels.label[a]) * labels.n_classes + labels.label[b])
    return np.asarray(pair * 2 + (labels.label[a] == labels.label[b]))


def label_pairs(task_ptr: IntArray, most_labels: int | None = None) -> tuple[IntArray, IntArray]:
    """First and second label of every two of one task, in order; tasks of more than `most_labels` have none.

    >>> [places.tolist() for places in label_pairs(np.array([0, 3, 5]))]
    [[0, 0, 1, 3], [1, 2, 2, 4]]
    """
    per_task = np.diff(task_ptr)
    kept = per_task <= (per_task.max(initial=0) if most_labels is None else most_labels)
    after = np.repeat(task_ptr[1:], per_task) - np.arange(task_ptr[0], task_ptr[-1]) - 1
    after[~np.repeat(kept, per_task)] = 0
    one = np.repeat(np.arange(task_ptr[0], task_ptr[-1]), after)
    return one, one + 1 + np.arange(one.size) - np.repeat(np.cumsum(after) - after, after)


def pair_e_step(pairs: PairCounts, prior: FloatArray, table: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """E-step of the model R = A D Bᵀ of joint answers, and the counts that its M-step needs.

    Parameters
    ----------
    prior : (K,)
        D.
    table : (M, K, K) [worker, truth, label]
        The workers' matrices.

    Returns
    -------
    log-likelihood
        Σ counts log R over pairs and cells.
    class counts : (K,)
        Expected joint answers to tasks of each class.
    counts : (M, K, K) [worker, truth, label]
        Expected answers in pairs.
    """
    by_label = transpose_truth_and_label(table)
    if choose_engine(pairs.counts.size, prior.size) == "numba":
        from crowdwise.kernels.compiled.pairs import add_expected_pair_counts

        counts, class_counts = np.zeros_like(by_label), np.zeros_like(prior)
        log_likelihood = add_expected_pair_counts(pairs, prior, by_label, class_counts, counts)
        return log_likelihood, class_counts, counts.transpose(0, 2, 1)
    pair, a, b = np.nonzero(pairs.counts)
    seen, one, two = pairs.counts[pair, a, b], pairs.first[pair], pairs.second[pair]
    share = prior * by_label[one, a] * by_label[two, b]
    total = share.sum(axis=1)
    weight = share * (seen / total)[:, None]
    cells = np.concatenate([one * prior.size + a, two * prior.size + b])
    by_class = [sum_cells(cells, np.tile(column, 2), table.shape[0] * prior.size) for column in weight.T]
    counts = np.stack(by_class, axis=1).reshape(by_label.shape).transpose(0, 2, 1)
    return float(seen @ np.log(total)), weight.sum(axis=0), counts
