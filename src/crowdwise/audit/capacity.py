"""How much a worker's labels can tell: the capacity of her channel.

A worker is a channel from the truth y to her label l, A[k, l] = P(l | y = k). The most that a label of hers can tell is

    C = max_π I(y; l) = max_π Σ_k π_k Σ_l A[k, l] log2 (A[k, l] / Σ_j π_j A[j, l])      bits,

0 where all rows are alike and log2 K where she never errs or always errs in the same, invertible way.

| equation | here |
|---|---|
| 002, "Information-theoretic characterization of spammers": C = max_π I(y; l) | `capacity` |
| R. E. Blahut (1972) and S. Arimoto (1972): π_k ← π_k 2^D_k / Σ, D_k = KL(A[k] ‖ Σ_j π_j A[j]) | `capacity` |
| Blahut's bounds: log2 Σ π_k 2^D_k ≤ C ≤ max_k D_k | the stop rule of `capacity` |

Raykar and Yu's (2012) spammer score, the mean squared distance of the rows, is `aggregate.spammer_em.score`.

Assumes that the matrices are known. Estimated from few labels, capacity is too large: noise looks like information.

Cost: O(workers × K²) an iteration; the bounds close like 1/iterations at worst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["capacity"]

MOST_STEPS = 20_000


def capacity(confusion: FloatArray, *, tol: float = 1e-6) -> FloatArray:
    """Capacity in bits of each worker's channel (M,), between Blahut's bounds, no further than `tol` from either.

    Parameters
    ----------
    confusion : (M, K, K)
        P(label | truth) at [worker, truth, label].
    tol
        Distance of the bounds in bits at which to stop.

    Examples
    --------
    >>> capacity(np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.7, 0.3], [0.7, 0.3]]])).round(3).tolist()
    [0.531, 0.0]
    """
    n_workers, n_classes = confusion.shape[:2]
    own = xlogy(confusion, confusion).sum(axis=2)
    log_prior = np.full((n_workers, n_classes), -np.log(n_classes))
    found = np.zeros(n_workers)
    left = np.arange(n_workers)
    for _ in range(MOST_STEPS):
        said = np.einsum("mk,mkl->ml", np.exp(log_prior), confusion[left])
        with np.errstate(divide="ignore"):
            log_said = np.where(said > 0, np.log(said), 0.0)
        told = own[left] - np.einsum("mkl,ml->mk", confusion[left], log_said)
        raised = log_prior + told
        top = raised.max(axis=1, keepdims=True)
        low = top[:, 0] + np.log(np.exp(raised - top).sum(axis=1))
        found[left] = low
        going = told.max(axis=1) - low > tol * np.log(2)
        log_prior = (raised - low[:, None])[going]
        left = left[going]
        if not left.size:
            break
    bits: FloatArray = np.maximum(found, 0.0) / np.log(2)
    return bits
