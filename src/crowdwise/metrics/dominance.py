"""Whether a crowd's mean confusion matrix is diagonally dominant, which the trace's theorem needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["not_dominant"]


def not_dominant(mean: FloatArray) -> list[int]:
    """Classes whose diagonal element is not the largest of its column of `mean` [truth, label]: 000, theorem 1.

    000 writes a[label, truth] and needs a[i, i] > a[i, j] for all j ≠ i: of all truths, label i must be said most often
    when i is true.
    """
    others = mean - np.diag(np.diag(mean))
    return [int(k) for k in np.flatnonzero(np.diag(mean) <= others.max(axis=0))]
