"""One pass over values: the posterior of each task's value, and what its workers learn from it.

A worker's row of the table is E[a²]/σ², E[a]/σ² and E[ab]/σ² of the line a y + b by which they answer. A task's
value has the precision 1/τ² + Σ E[a²]/σ² and the mean (μ/τ² + Σ (E[a] x - E[ab])/σ²) / precision. The sums that come
back, of E[y], E[y²] and x E[y] over each worker's answers, are all that a regression on the values needs.
Lines and noise are not known exactly: `value_uncertainty` is what the variance of a value lacks for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import split_work
from crowdwise.kernels.threads import map_lanes
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["UncertainLines", "ValueEdges", "ValuePass", "value_pass", "value_uncertainty"]

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
    """Posterior mean and variance of each value (N,), and sums of them.

    Attributes
    ----------
    sums : (M, 3)
        Σ E[y], Σ E[y²] and Σ x E[y] over the answers of each worker.
    totals : (5,)
        Over the tasks with answers or a known value: Σ E[y], Σ E[y²], the sum of the logarithms of variances above 0,
        and how many tasks there are, with variances above 0 and in all.
    """

    mean: FloatArray
    variance: FloatArray
    sums: FloatArray
    totals: FloatArray


class UncertainLines(NamedTuple):
    """Of each worker (M,): line and precision, the variances and covariance of the line, and that of log-precision."""

    scale: FloatArray
    bias: FloatArray
    precision: FloatArray
    scale_variance: FloatArray
    bias_variance: FloatArray
    covariance: FloatArray
    log_precision_variance: FloatArray


def value_pass(
    edges: ValueEdges, table: FloatArray, mean: float, spread: float, weight: FloatArray | None
) -> ValuePass:
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
    sums, totals = zip(
        *map_lanes(
            lambda first, last: pass_over_tasks(first, last, edges, table, mean, spread, *found), split_work(edges.ptr)
        ),
        strict=True,
    )
    return ValuePass(*found, np.sum(sums, axis=0), np.sum(totals, axis=0))


def value_uncertainty(
    edges: ValueEdges, lines: UncertainLines, mean: FloatArray, variance: FloatArray, weight: FloatArray | None
) -> FloatArray:
    """What the variances (N,) of values lack, which take their workers' lines and precisions to be known.

    The mean of a value moves by these for each unit of a worker's scale, bias and log-precision: v p (x - b - 2 a y),
    -v p a and v p a (x - a y - b), where v is its variance and p the precision of the answer.
    """
    if weight is not None or choose_engine(edges.value.size, CELLS) == "numpy":
        return _value_uncertainty(edges, lines, mean, variance, weight)
    from crowdwise.kernels.compiled.value_sums import uncertainty_of_tasks

    table, found = np.column_stack(lines), np.empty(mean.size)
    map_lanes(
        lambda first, last: uncertainty_of_tasks(first, last, edges, table, mean, variance, found),
        split_work(edges.ptr),
    )
    return found


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
    answered = np.diff(edges.ptr) > 0
    if edges.known.size:
        answered |= np.isfinite(edges.known)
    own, rest = found[answered], variance[answered]
    logs = np.log(rest[rest > 0])
    totals = np.array([own.sum(), (own**2 + rest).sum(), logs.sum(), logs.size, own.size])
    return ValuePass(found, variance, np.column_stack(sums), totals)


def _value_uncertainty(
    edges: ValueEdges, lines: UncertainLines, mean: FloatArray, variance: FloatArray, weight: FloatArray | None
) -> FloatArray:
    scale, bias, precision, *variances = (each[edges.worker] for each in lines)
    there = mean[edges.task]
    pull = variance[edges.task] * precision * (1.0 if weight is None else weight)
    rest = edges.value - bias - scale * there
    by_scale, by_bias, by_noise = pull * (rest - scale * there), -pull * scale, pull * scale * rest
    more = by_scale**2 * variances[0] + by_bias**2 * variances[1] + 2 * by_scale * by_bias * variances[2]
    more += by_noise**2 * variances[3]
    return np.maximum(np.bincount(edges.task, more, mean.size), 0.0)
