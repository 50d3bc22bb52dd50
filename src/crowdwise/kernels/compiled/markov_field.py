"""Sweeps of mean field over a graph of tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crowdwise.kernels.compiled.softmax import softmax_row
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.task_graph import TaskGraph
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["mean_field_sweeps"]


@njit(cache=True, nogil=True, error_model="numpy")
def mean_field_sweeps(
    graph: TaskGraph, order: IntArray, log_evidence: FloatArray, coupling: float, posterior: FloatArray, sweeps: int
) -> float:
    """Sweep over the tasks in place, and return the bound."""
    ptr, neighbour = graph
    n_classes = posterior.shape[1]
    for _ in range(sweeps):
        for t in order:
            row = posterior[t]
            row[:] = 0.0
            for edge in range(ptr[t], ptr[t + 1]):
                for k in range(n_classes):
                    row[k] += posterior[neighbour[edge], k]
            for k in range(n_classes):
                row[k] = coupling * row[k] + log_evidence[t, k]
            softmax_row(row)
    total = 0.0
    for t in range(posterior.shape[0]):
        near = 0.0
        for edge in range(ptr[t], ptr[t + 1]):
            for k in range(n_classes):
                near += posterior[t, k] * posterior[neighbour[edge], k]
        total += 0.5 * coupling * near
        for k in range(n_classes):
            q = posterior[t, k]
            if q > 0.0:
                total += q * (log_evidence[t, k] - math.log(q))
    return total
