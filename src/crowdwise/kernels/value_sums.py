"""One pass over values: the posterior of each task's value, and what its workers learn from it.

A worker's row of the table is E[a²]/σ², E[a]/σ² and E[ab]/σ² of the line a y + b by which they answer. A task's
value has the precision 1/τ² + Σ E[a²]/σ² and the mean (μ/τ² + Σ (E[a] x - E[ab])/σ²) / precision. The sums that come
back, of E[y], E[y²] and x E[y] over each worker's answers, are all that a regression of the answers on the values needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import split_work
from crowdwise.kernels.threads import map_lanes
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ValueEdges", "ValuePass", "value_pass"]

CELLS = 4  # numbers that a pass reads and writes of each answer, for the choice of the engine


class ValueEdges(NamedTuple):
    """Who answered what, sorted by task: answers of task t are `ptr[t]:ptr[t + 1]`; `known` (N,) is NaN or the value.

    `known` may be empty, for no task.
    """

    ptr: IntArray
    task: IntArray
    worker: IntArray
    value: FloatArray
    known: FloatArray


class ValuePass(NamedTuple):
    """Posterior mean and variance of each value (N,), and Σ E[y], Σ E[y²], Σ x E[y] of each worker (M, 3)."""

    mean: FloatArray
    variance: FloatArray
    sums: FloatArray


def value_pass(edges: ValueEdges, table: FloatArray, mean: float, spread: float, weight: FloatArray | None) -> ValuePass:
    """Posterior of the values, where they are normal with this mean and variance, and the sums of each worker.

    Parameters
    ----------
    table : (M, 3)
        E[a²], E[a] and E[ab] of each worker over their variance.
    weight : (n_answers,)
        What each answer counts; None for 1.
    """
    if weight is not None or choose_engine(edges.value.size, CELLS) == "numpy":
        return _value_pass(edges, table, mean, spread, weight)
    from crowdwise.kernels.compiled.value_sums import pass_over_tasks

    n_tasks = edges.ptr.size - 1
    found = np.empty(n_tasks), np.empty(n_tasks)
    table = np.ascontiguousarray(table)
    sums = map_lanes(
        lambda first, last: pass_over_tasks(first, last, edges, table, mean, spread, *found), split_work(edges.ptr)
    )
    return ValuePass(*found, np.sum(sums, axis=0))


def _value_pass(
    edges: ValueEdges, table: FloatArray, mean: float, spread: float, weight: FloatArray | None
) -> ValuePass:
    n_tasks, n_workers, task, worker = edges.ptr.size - 1, len(table), edges.task, edges.worker
    square, slope, both = table.T
    one = 1.0 if weight is None else weight
    variance = 1 / (1 / spread + np.bincount(task, one * square[worker], n_tasks))
    pulls = one * (slope[worker] * edges.value - both[worker])
    found = (mean / spread + np.bincount(task, pulls, n_tasks)) * variance
    if edges.known.size:
        known = np.isfinite(edges.known)
        found, variance = np.where(known, edges.known, found), np.where(known, 0.0, variance)
    first = one * found[task]
    second = one * (found**2 + variance)[task]
    sums = [np.bincount(worker, rows, n_workers) for rows in (first, second, edges.value * first)]
    return ValuePass(found, variance, np.column_stack(sums))
