"""Loops over the answers of tasks; see `kernels.value_sums`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.value_sums import ValueEdges
    from crowdwise.labels.types import FloatArray

__all__ = ["pass_over_tasks", "uncertainty_of_tasks"]


@njit(cache=True, nogil=True, error_model="numpy")
def pass_over_tasks(
    first: int,
    last: int,
    edges: ValueEdges,
    table: FloatArray,
    mean: float,
    spread: float,
    found: FloatArray,
    variance: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Posterior of some tasks into `found` and `variance`; the sums of the workers over their answers, and totals."""
    sums, totals = np.zeros((table.shape[0], 3)), np.zeros(5)
    end = edges.ptr[last]
    product = 1.0  # of variances: one logarithm for many
    for task in range(first, last):
        precision, pull = 1.0 / spread, mean / spread
        for edge in range(edges.ptr[task], edges.ptr[task + 1]):
            ahead = edges.worker[min(edge + AHEAD, end - 1)]
            prefetch_row(table, ahead)
            prefetch_row(sums, ahead)
            row = table[edges.worker[edge]]
            precision += row[0]
            pull += row[1] * edges.value[edge] - row[2]
        about, rest = pull / precision, 1.0 / precision
        if edges.known.size > 0 and np.isfinite(edges.known[task]):
            about, rest = edges.known[task], 0.0
        found[task], variance[task] = about, rest
        second = about * about + rest
        if edges.ptr[task] < edges.ptr[task + 1] or rest == 0.0:
            totals[0] += about
            totals[1] += second
            totals[4] += 1.0
            if rest > 0.0:
                totals[3] += 1.0
                product *= rest
                if product < 1e-150 or product > 1e150:
                    totals[2] += math.log(product)
                    product = 1.0
        for edge in range(edges.ptr[task], edges.ptr[task + 1]):
            own = sums[edges.worker[edge]]
            own[0] += about
            own[1] += second
            own[2] += edges.value[edge] * about
    totals[2] += math.log(product)
    return sums, totals


@njit(cache=True, nogil=True, error_model="numpy")
def uncertainty_of_tasks(
    first: int,
    last: int,
    edges: ValueEdges,
    table: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    found: FloatArray,
) -> None:
    """What the variances of some tasks lack, into `found`."""
    end = edges.ptr[last]
    for task in range(first, last):
        about, total = mean[task], 0.0
        for edge in range(edges.ptr[task], edges.ptr[task + 1]):
            prefetch_row(table, edges.worker[min(edge + AHEAD, end - 1)])
            row = table[edges.worker[edge]]
            pull = variance[task] * row[2]
            rest = edges.value[edge] - row[1] - row[0] * about
            by_scale, by_bias, by_noise = pull * (rest - row[0] * about), -pull * row[0], pull * row[0] * rest
            total += by_scale * by_scale * row[3] + by_bias * by_bias * row[4] + 2.0 * by_scale * by_bias * row[5]
            total += by_noise * by_noise * row[6]
        found[task] = max(total, 0.0)
