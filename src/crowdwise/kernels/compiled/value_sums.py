"""The loop over the answers of tasks; see `kernels.value_sums`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.value_sums import ValueEdges
    from crowdwise.labels.types import FloatArray

__all__ = ["pass_over_tasks"]


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
) -> FloatArray:
    """Posterior of some tasks into `found` and `variance`; the sums of the workers over their answers."""
    sums = np.zeros((table.shape[0], 3))
    end = edges.ptr[last]
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
        for edge in range(edges.ptr[task], edges.ptr[task + 1]):
            own = sums[edges.worker[edge]]
            own[0] += about
            own[1] += second
            own[2] += edges.value[edge] * about
    return sums
