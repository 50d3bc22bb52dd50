"""A small positive definite system, solved in place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["solve_positive_definite"]


@njit(cache=True, nogil=True, error_model="numpy")
def solve_positive_definite(matrix: FloatArray, right: FloatArray, size: int) -> FloatArray:
    """Solve a system of so many equations by Cholesky's factors; both are overwritten, `right` by the solution."""
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= matrix[i, m] * matrix[j, m]
            matrix[i, j] = math.sqrt(total) if i == j else total / matrix[j, j]
    for i in range(size):
        for m in range(i):
            right[i] -= matrix[i, m] * right[m]
        right[i] /= matrix[i, i]
    for i in range(size - 1, -1, -1):
        for m in range(i + 1, size):
            right[i] -= matrix[m, i] * right[m]
        right[i] /= matrix[i, i]
    return right
