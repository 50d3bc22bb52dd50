"""Loops over triplets of workers; see `kernels.triples`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.triples import Places, Triples
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["count_triples", "descend_triples", "project_to_simplex", "triple_squared_error"]


@njit(cache=True, nogil=True, error_model="numpy")
def count_triples(triples: IntArray, ptr: IntArray, task: IntArray, label: IntArray, counts: FloatArray) -> None:
    """Add joint answers, by merging the tasks of the three."""
    for triple in range(triples.shape[0]):
        i, j, k = ptr[triples[triple, 0]], ptr[triples[triple, 1]], ptr[triples[triple, 2]]
        end_i, end_j, end_k = ptr[triples[triple, 0] + 1], ptr[triples[triple, 1] + 1], ptr[triples[triple, 2] + 1]
        while i < end_i and j < end_j and k < end_k:
            here = max(task[i], task[j], task[k])
            if task[i] < here:
                i += 1
            elif task[j] < here:
                j += 1
            elif task[k] < here:
                k += 1
            else:
                next_i, next_j, next_k = i, j, k
                while next_i < end_i and task[next_i] == here:
                    next_i += 1
                while next_j < end_j and task[next_j] == here:
                    next_j += 1
                while next_k < end_k and task[next_k] == here:
                    next_k += 1
                for a in range(i, next_i):
                    for b in range(j, next_j):
                        for c in range(k, next_k):
                            counts[triple, label[a], label[b], label[c]] += 1.0
                i, j, k = next_i, next_j, next_k


@njit(cache=True, nogil=True, error_model="numpy")
def triple_squared_error(triples: Triples, prior: FloatArray, table: FloatArray) -> float:
    """Weighted squares of what the model leaves."""
    workers, share, weight = triples
    size = prior.size
    total = 0.0
    for triple in range(workers.shape[0]):
        one, two, three = workers[triple, 0], workers[triple, 1], workers[triple, 2]
        squares = 0.0
        for a in range(size):
            for b in range(size):
                for c in range(size):
                    left = share[triple, a, b, c]
                    for k in range(size):
                        left -= prior[k] * table[one, a, k] * table[two, b, k] * table[three, c, k]
                    squares += left * left
        total += weight[triple] * squares
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def descend_triples(
    triples: Triples, places: Places, prior: FloatArray, table: FloatArray, n_steps: int, fixed: bool
) -> None:
    """One round of descent, in place."""
    size = prior.size
    for worker in range(table.shape[0]):
        gram, right = np.zeros((size, size)), np.zeros((size, size))
        for place in range(places.ptr[worker], places.ptr[worker + 1]):
            _add_worker_terms(gram, right, triples, places.triple[place], places.mode[place], prior, table)
        _descend_columns(gram, right, table, worker, n_steps)
    if not fixed:
        gram, met = np.zeros((size, size)), np.zeros(size)
        for triple in range(triples.workers.shape[0]):
            _add_prior_terms(gram, met, triples, triple, table)
        _descend_prior(gram, met, prior, n_steps)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_worker_terms(
    gram: FloatArray, right: FloatArray, triples: Triples, triple: int, mine: int, prior: FloatArray, table: FloatArray
) -> None:
    """What one triplet adds to the problem of the worker who stands at `mine` in it."""
    workers, share, weight = triples
    size = prior.size
    two, three = workers[triple, (mine + 1) % 3], workers[triple, (mine + 2) % 3]
    for k in range(size):
        for m in range(size):
            product = _dot(table, two, k, m) * _dot(table, three, k, m)
            gram[k, m] += weight[triple] * prior[k] * prior[m] * product
    for a in range(size):
        for b in range(size):
            for c in range(size):
                # Her label a, the next one's b, the one's after that c, round the triplet.
                if mine == 0:
                    seen = share[triple, a, b, c]
                elif mine == 1:
                    seen = share[triple, c, a, b]
                else:
                    seen = share[triple, b, c, a]
                if seen != 0.0:
                    for k in range(size):
                        right[a, k] += weight[triple] * seen * prior[k] * table[two, b, k] * table[three, c, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_prior_terms(gram: FloatArray, met: FloatArray, triples: Triples, triple: int, table: FloatArray) -> None:
    """What one triplet adds to the problem of the prior."""
    workers, share, weight = triples
    size = met.size
    one, two, three = workers[triple, 0], workers[triple, 1], workers[triple, 2]
    for k in range(size):
        for m in range(size):
            product = _dot(table, one, k, m) * _dot(table, two, k, m) * _dot(table, three, k, m)
            gram[k, m] += weight[triple] * product
    for a in range(size):
        for b in range(size):
            for c in range(size):
                seen = weight[triple] * share[triple, a, b, c]
                for k in range(size):
                    met[k] += seen * table[one, a, k] * table[two, b, k] * table[three, c, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _dot(table: FloatArray, worker: int, k: int, m: int) -> float:
    """Inner product of two columns of a worker's matrix."""
    total = 0.0
    for a in range(table.shape[1]):
        total += table[worker, a, k] * table[worker, a, m]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _eigenvalue_bound(gram: FloatArray) -> float:
    """At least the largest eigenvalue of a symmetric matrix: its largest row of absolute values."""
    most = 0.0
    for k in range(gram.shape[0]):
        row = 0.0
        for m in range(gram.shape[0]):
            row += abs(gram[k, m])
        most = max(most, row)
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def _descend_columns(gram: FloatArray, right: FloatArray, table: FloatArray, worker: int, n_steps: int) -> None:
    """Projected gradient on ½ tr(X G Xᵀ) - tr(X Rᵀ), X the worker's matrix, every column on the simplex."""
    size = gram.shape[0]
    curvature = _eigenvalue_bound(gram)
    moved = np.empty((size, size))
    for _ in range(n_steps if curvature > 0.0 else 0):
        for a in range(size):
            for k in range(size):
                slope = -right[a, k]
                for m in range(size):
                    slope += table[worker, a, m] * gram[m, k]
                moved[k, a] = table[worker, a, k] - slope / curvature
        for k in range(size):
            project_to_simplex(moved[k])
            for a in range(size):
                table[worker, a, k] = moved[k, a]


@njit(cache=True, nogil=True, error_model="numpy")
def _descend_prior(gram: FloatArray, right: FloatArray, prior: FloatArray, n_steps: int) -> None:
    """Projected gradient on ½ d G d - r d, d on the simplex."""
    size = prior.size
    curvature = _eigenvalue_bound(gram)
    moved = np.empty(size)
    for _ in range(n_steps if curvature > 0.0 else 0):
        for k in range(size):
            slope = -right[k]
            for m in range(size):
                slope += gram[k, m] * prior[m]
            moved[k] = prior[k] - slope / curvature
        project_to_simplex(moved)
        for k in range(size):
            prior[k] = moved[k]


@njit(cache=True, nogil=True, error_model="numpy")
def project_to_simplex(values: FloatArray) -> None:
    """Move a point (K,) to the nearest of the probability simplex, in place.

    All are lowered alike, those that would fall below 0 are set to it, and again for the rest: at most K rounds.
    """
    shift = (values.sum() - 1.0) / values.size
    for _ in range(values.size):
        total, left = 0.0, 0
        for k in range(values.size):
            if values[k] > shift:
                total += values[k]
                left += 1
        following = (total - 1.0) / left
        if following == shift:
            break
        shift = following
    for k in range(values.size):
        values[k] = max(values[k] - shift, 0.0)
