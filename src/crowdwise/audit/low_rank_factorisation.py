"""A symmetric matrix as low rank + diagonal, from its observed off-diagonal entries alone.

    C[m, m'] ≈ v_m · v_m'   for m ≠ m', the diagonal unexplained.

Each entry counts as often as it was observed (W: the tasks that two workers share), and rows have a Gaussian prior, so
that a worker who shares few tasks stays near 0 instead of going anywhere: min_V ½ Σ_{m<m'} W (C - v_m · v_m')² +
½ ridge Σ ‖v_m‖², by ridge regression of each row on the others, all rows at once and half the way, until they stand.

Cost of a sweep: O(M² r² + M r³).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["factorise_low_rank"]

MOST_SWEEPS = 1000


def factorise_low_rank(
    values: FloatArray, weights: FloatArray, rank: int, ridge: float, *, tol: float = 1e-6
) -> FloatArray:
    """V (M, rank); its sign and rotation are arbitrary.

    Parameters
    ----------
    values : (M, M)
        Symmetric; the diagonal and entries of weight 0 are not read.
    weights : (M, M)
        How much each entry counts; 0 where it was not observed.
    rank, ridge
        Columns of V; weight of the prior of each row, positive.
    tol
        Stop when no entry of V moves by more than this share of the largest.
    """
    n_workers = values.shape[0]
    rank = min(rank, n_workers)
    weights = weights * (1 - np.eye(n_workers))
    weighted = np.where(weights > 0, values, 0.0) * weights
    # The start: the leading eigenvectors of the matrix as observed, 0 where it was not.
    size, vectors = np.linalg.eigh(weighted / max(float(weights.max(initial=0.0)), 1e-300))
    rows: FloatArray = vectors[:, -rank:] * np.sqrt(np.maximum(size[-rank:], 1e-6 * max(float(size[-1]), 1e-300)))
    for _ in range(MOST_SWEEPS):
        products = (rows[:, :, None] * rows[:, None, :]).reshape(n_workers, rank * rank)
        inner = (weights @ products).reshape(n_workers, rank, rank) + ridge * np.eye(rank)
        step = np.linalg.solve(inner, (weighted @ rows)[:, :, None])[:, :, 0] - rows
        rows = rows + step / 2
        if np.abs(step).max(initial=0.0) <= tol * max(float(np.abs(rows).max(initial=0.0)), 1e-300):
            break
    return rows
