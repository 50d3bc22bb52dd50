"""How triplets of workers answered the tasks that all three share, and descent on the error of explaining it.

Made from the labels of the three alone, by merging their tasks: nothing grows with all triplets of workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import transpose_truth_and_label
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Triples", "project_to_simplex", "triple_counts", "triple_error", "triple_sweep"]

TOGETHER = 2**20  # labels of first workers that are merged with the others' at a time


def triple_counts(labels: CrowdLabels, triples: IntArray) -> FloatArray:
    """Joint answers (T, K, K, K) of each triplet (T, 3) of different workers; repeated answers count each."""
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _triple_counts(labels, triples)
    from crowdwise.kernels.compiled.triples import count_triples

    order = labels.by_worker
    counts = np.zeros((len(triples), *3 * [labels.n_classes]))
    count_triples(triples, order.ptr, labels.task[order.edge], labels.label[order.edge], counts)
    return counts


class Triples(NamedTuple):
    """Triplets of workers (T, 3), the shares (T, K, K, K) of their joint answers, and their weights (T,)."""

    workers: IntArray
    share: FloatArray
    weight: FloatArray


class Places(NamedTuple):
    """Where workers stand: worker w in the triplets `triple[ptr[w]:ptr[w + 1]]`, as number `mode` of the three."""

    ptr: IntArray
    triple: IntArray
    mode: IntArray


def triple_error(triples: Triples, prior: FloatArray, table: FloatArray) -> float:
    """Σ weight × ‖share − Σ_k prior[k] a[k] ∘ b[k] ∘ c[k]‖² over triplets; table [worker, truth, label]."""
    by_label = transpose_truth_and_label(table)
    if choose_engine(triples.share.size, prior.size) == "numba":
        from crowdwise.kernels.compiled.triples import triple_squared_error

        return float(triple_squared_error(triples, prior, by_label))
    one, two, three = (by_label[triples.workers[:, place]] for place in range(3))
    left = triples.share - _predict_shares(prior * one, two, three)
    return float(triples.weight @ (left**2).sum(axis=(1, 2, 3)))


def triple_sweep(
    triples: Triples, prior: FloatArray, table: FloatArray, *, n_steps: int, fixed: bool
) -> tuple[FloatArray, FloatArray]:
    """One round of descent: every worker's matrix in turn, then the prior unless fixed; new prior and table.

    Each is a convex least-squares problem on the simplex, on which so many projected gradient steps are taken: the
    error never grows. Cost: O(triplets × K⁴). The table is [worker, truth, label].
    """
    new_prior, new_table = prior.copy(), table.transpose(0, 2, 1).copy(order="C")
    flat = triples.workers.ravel()
    order = np.argsort(flat, kind="stable")
    ptr = np.searchsorted(flat[order], np.arange(table.shape[0] + 1))
    descend_triples = _triple_sweep
    if choose_engine(triples.share.size, prior.size) == "numba":
        from crowdwise.kernels.compiled.triples import descend_triples
    descend_triples(triples, Places(ptr, order // 3, order % 3), new_prior, new_table, n_steps, fixed)
    return new_prior, new_table.transpose(0, 2, 1)


def _triple_counts(labels: CrowdLabels, triples: IntArray) -> FloatArray:
    """The first worker's labels, each with every label of the second for that task, and those of the third."""
    edge, ptr = labels.by_worker
    label = labels.label[edge].astype(np.int64)
    key = labels.worker[edge].astype(np.int64) * labels.n_tasks + labels.task[edge]  # ascends
    size = labels.n_classes
    counts = np.zeros((len(triples), size**3))
    length = np.diff(ptr)[triples[:, 0]]
    ends = np.cumsum(length)
    last = 0
    while last < len(triples):
        first, done = last, ends[last - 1] if last else 0
        last = max(first + 1, int(np.searchsorted(ends, done + TOGETHER, side="right")))
        some = triples[first:last]
        n_some = length[first:last]
        triple = np.repeat(np.arange(first, first + n_some.size), n_some)
        place = np.arange(n_some.sum()) + np.repeat(ptr[some[:, 0]] - np.cumsum(n_some) + n_some, n_some)
        task, cell = key[place] % labels.n_tasks, label[place]
        for who in (1, 2):
            wanted = triples[triple, who] * np.int64(labels.n_tasks) + task
            start, end = np.searchsorted(key, wanted, side="left"), np.searchsorted(key, wanted, side="right")
            hits = end - start
            place = np.arange(hits.sum()) + np.repeat(start - np.cumsum(hits) + hits, hits)
            triple, task, cell = (np.repeat(each, hits) for each in (triple, task, cell))
            cell = cell * size + label[place]
        np.add.at(counts, (triple, cell), 1.0)
    return counts.reshape(-1, size, size, size)


def _predict_shares(one: FloatArray, two: FloatArray, three: FloatArray) -> FloatArray:
    """Σ_k one[:, k] ∘ two[:, k] ∘ three[:, k] of each triplet: (T, K, K, K)."""
    size = one.shape[2]
    pair = (one[:, :, None, :] * two[:, None, :, :]).reshape(-1, size * size, size)
    law: FloatArray = (pair @ three.transpose(0, 2, 1)).reshape(-1, size, size, size)
    return law


def _triple_sweep(
    triples: Triples, places: Places, prior: FloatArray, table: FloatArray, n_steps: int, fixed: bool
) -> None:
    """As the compiled loop, with all triplets of a worker at once; table [worker, label, truth]."""
    workers, share, weight = triples
    size = prior.size
    grams = np.einsum("mak,mal->mkl", table, table)
    for worker in range(table.shape[0]):
        gram, right = np.zeros((size, size)), np.zeros((size, size))
        for mine in range(3):
            own = slice(places.ptr[worker], places.ptr[worker + 1])
            t = places.triple[own][places.mode[own] == mine]
            two, three = workers[t, (mine + 1) % 3], workers[t, (mine + 2) % 3]
            gram += np.tensordot(weight[t], grams[two] * grams[three], axes=1)
            # Her label, the next one's, the one's after that, round the triplet.
            seen = weight[t, None, None, None] * share[t].transpose(0, *(1 + (mine + i) % 3 for i in range(3)))
            met = (seen @ table[three][:, None]) * table[two][:, None]
            right += met.sum(axis=(0, 2))
        gram *= np.outer(prior, prior)
        columns = _projected_gradient(gram, right * prior, table[worker], n_steps)
        table[worker] = columns
        grams[worker] = columns.T @ columns
    if not fixed:
        one, two, three = (table[workers[:, place]] for place in range(3))
        gram = np.tensordot(weight, np.prod(grams[workers], axis=1), axes=1)
        met = ((share @ three[:, None]) * two[:, None]).sum(axis=2) * one
        prior[:] = _projected_gradient(gram, np.tensordot(weight, met, axes=1).sum(axis=0)[None], prior[None], n_steps)[
            0
        ]


def _projected_gradient(gram: FloatArray, right: FloatArray, values: FloatArray, n_steps: int) -> FloatArray:
    """Projected gradient on ½ tr(X G Xᵀ) - tr(X Rᵀ); every column of X on the simplex, or X, where it is one row."""
    curvature = np.abs(gram).sum(axis=1).max()
    for _ in range(n_steps if curvature > 0 else 0):
        moved = values - (values @ gram - right) / curvature
        following = project_to_simplex(moved) if len(values) == 1 else project_to_simplex(moved.T).T
        if np.array_equal(following, values):  # at rest: no further step would move it
            break
        values = following
    return values


def project_to_simplex(points: FloatArray) -> FloatArray:
    """The nearest points of the probability simplex, of each row (R, K).

    All are lowered alike, those that would fall below 0 are set to it, and again for the rest: at most K rounds.
    """
    shift = (points.sum(axis=1, keepdims=True) - 1) / points.shape[1]
    for _ in range(points.shape[1]):
        left = points > shift
        following = (np.where(left, points, 0).sum(axis=1, keepdims=True) - 1) / left.sum(axis=1, keepdims=True)
        if np.array_equal(following, shift):
            break
        shift = following
    return np.asarray(np.maximum(points - shift, 0))
