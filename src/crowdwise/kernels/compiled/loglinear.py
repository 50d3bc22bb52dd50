"""Loops over tasks and workers of minimax entropy; see `kernels.loglinear`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.cholesky import solve_positive_definite
from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.kernels.compiled.softmax import softmax_task
from crowdwise.kernels.loglinear import ENOUGH, HALVINGS, NEGLIGIBLE, STEPS
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import TaskLane
    from crowdwise.kernels.grouped_sums import TruthPrior
    from crowdwise.kernels.loglinear import Side
    from crowdwise.labels.types import FloatArray

__all__ = ["block_log_likelihood_gradient", "climb", "e_step"]


@njit(cache=True, nogil=True, error_model="numpy")
def e_step(
    lane: TaskLane, task_table: FloatArray, worker_table: FloatArray, prior: TruthPrior, posterior: FloatArray
) -> float:
    """Posterior of some tasks; their log-likelihood."""
    n_classes = prior.log_prior.size
    total = 0.0
    for task in range(lane.first, lane.last):
        row = posterior[task]
        for k in range(n_classes):
            row[k] = prior.log_prior[k]
        for edge in range(lane.ptr[task], lane.ptr[task + 1]):
            mine, theirs, given = task_table[task], worker_table[lane.worker[edge]], lane.label[edge]
            for k in range(n_classes):
                highest = -np.inf
                for c in range(n_classes):
                    highest = max(highest, mine[k, c] + theirs[k, c])
                mass = 0.0
                for c in range(n_classes):
                    mass += exp_of_nonpositive(mine[k, c] + theirs[k, c] - highest)
                row[k] += mine[k, given] + theirs[k, given] - highest - math.log(mass)
        total += softmax_task(row, prior.gold, task)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def climb(
    first: int,
    last: int,
    side: Side,
    posterior: FloatArray,
    table: FloatArray,
    others: FloatArray,
    weight: float,
    ordinal: bool,
) -> None:
    """Improve the tables of some tasks or workers, in place."""
    n_classes = posterior.shape[1]
    slope, mass = np.empty((n_classes, n_classes)), np.empty((n_classes, n_classes))
    direction, trial = np.empty((n_classes, n_classes)), np.empty((n_classes, n_classes))
    size = 2 * (n_classes - 1)
    matrix = np.empty((size, size))
    for block in range(first, last):
        n_labels = side.ptr[block + 1] - side.ptr[block]
        own = table[block]
        if n_labels == 0:
            own[:] = 0.0
            continue
        value = block_log_likelihood_gradient(own, block, side, posterior, others, slope, mass)
        value -= _penalty(own, weight, ordinal)
        for _ in range(STEPS):
            if ordinal:
                promise = _ordinal_newton_step(own, slope, mass, weight, matrix, direction)
            else:
                promise = _newton_step(own, slope, mass, weight, direction)
            if promise <= ENOUGH * n_labels:
                break
            scale = 1.0
            for _ in range(HALVINGS):
                for k in range(n_classes):
                    for c in range(n_classes):
                        trial[k, c] = own[k, c] + scale * direction[k, c]
                reached = block_log_likelihood_gradient(trial, block, side, posterior, others, slope, mass)
                reached -= _penalty(trial, weight, ordinal)
                if reached >= value:
                    break
                scale *= 0.5
            if reached < value:
                break
            for k in range(n_classes):
                for c in range(n_classes):
                    own[k, c] = trial[k, c]
            value = reached


@njit(cache=True, nogil=True, error_model="numpy")
def block_log_likelihood_gradient(
    own: FloatArray,
    block: int,
    side: Side,
    posterior: FloatArray,
    others: FloatArray,
    slope: FloatArray,
    mass: FloatArray,
) -> float:
    """Σ q log P(label | truth) over one block's edges; its gradient by the table; m = Σ q p."""
    n_classes = own.shape[0]
    shares = np.empty(n_classes)
    slope[:] = 0.0
    mass[:] = 0.0
    value = 0.0
    for place in range(side.ptr[block], side.ptr[block + 1]):
        edge = side.order[place]
        weights, theirs, given = posterior[side.task[edge]], others[side.other[edge]], side.label[edge]
        for k in range(n_classes):
            q = weights[k]
            if q < NEGLIGIBLE:
                continue
            highest = -np.inf
            for c in range(n_classes):
                shares[c] = own[k, c] + theirs[k, c]
                highest = max(highest, shares[c])
            value += q * (shares[given] - highest)
            total = 0.0
            for c in range(n_classes):
                shares[c] = exp_of_nonpositive(shares[c] - highest)
                total += shares[c]
            value -= q * math.log(total)
            slope[k, given] += q
            for c in range(n_classes):
                mass[k, c] += q * shares[c] / total
    for k in range(n_classes):
        for c in range(n_classes):
            slope[k, c] -= mass[k, c]
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _penalty(own: FloatArray, weight: float, ordinal: bool) -> float:
    n_classes = own.shape[0]
    total = 0.0
    if not ordinal:
        for k in range(n_classes):
            for c in range(n_classes):
                total += own[k, c] ** 2
        return 0.5 * weight * total
    for s in range(1, n_classes):
        total += _threshold_parameter(own, 0, s) ** 2 + _threshold_parameter(own, 1, s) ** 2
    return weight * total


@njit(cache=True, nogil=True, error_model="numpy")
def _threshold_parameter(own: FloatArray, above: int, s: int) -> float:
    """The parameter of (truth ≥ s is `above`, label ≥ s); that of (label < s) is its negative."""
    k = (own.shape[0] - 1) * above
    half: float = 0.5 * (own[k, s] - own[k, s - 1])
    return half


@njit(cache=True, nogil=True, error_model="numpy")
def _newton_step(own: FloatArray, slope: FloatArray, mass: FloatArray, weight: float, direction: FloatArray) -> float:
    """Newton direction, row by row (Sherman and Morrison), and the gain that it promises."""
    n_classes = own.shape[0]
    promise = 0.0
    for k in range(n_classes):
        along, left = 0.0, 0.0
        for c in range(n_classes):
            damp = mass[k, c] / (mass[k, c] + weight)
            along += damp * (slope[k, c] - weight * own[k, c])
            left += damp * weight
        for c in range(n_classes):
            pull = slope[k, c] - weight * own[k, c]
            step = pull if left == 0.0 else pull + mass[k, c] * along / left
            direction[k, c] = step / (mass[k, c] + weight)
            promise += pull * direction[k, c]
    return promise


@njit(cache=True, nogil=True, error_model="numpy")
def _ordinal_newton_step(
    own: FloatArray, slope: FloatArray, mass: FloatArray, weight: float, matrix: FloatArray, direction: FloatArray
) -> float:
    """Newton direction in the threshold parameters, as a table, and the gain that it promises."""
    n_classes = own.shape[0]
    n_steps = n_classes - 1
    size = 2 * n_steps
    matrix[:] = 0.0
    tilt, gradient = np.empty(n_steps), np.empty(size)
    for s in range(1, n_classes):
        for above in range(2):
            gradient[above * n_steps + s - 1] = -2 * weight * _threshold_parameter(own, above, s)
            matrix[above * n_steps + s - 1, above * n_steps + s - 1] = 2 * weight
    for k in range(n_classes):
        total = 0.0
        tilt[:] = 0.0
        for c in range(n_classes):
            total += mass[k, c]
            for s in range(1, n_classes):
                sign = 1.0 if c >= s else -1.0
                tilt[s - 1] += sign * mass[k, c]
                gradient[(n_steps if k >= s else 0) + s - 1] += sign * slope[k, c]
        if total == 0.0:
            continue
        for s in range(1, n_classes):
            row = (n_steps if k >= s else 0) + s - 1
            for r in range(1, n_classes):
                between = 0.0  # mass of labels that the two thresholds tell apart
                for c in range(min(r, s), max(r, s)):
                    between += mass[k, c]
                column = (n_steps if k >= r else 0) + r - 1
                matrix[row, column] += total - 2 * between - tilt[s - 1] * tilt[r - 1] / total
    step = solve_positive_definite(matrix, gradient.copy(), size)
    promise = 0.0
    for i in range(size):
        promise += step[i] * gradient[i]
    for k in range(n_classes):
        for c in range(n_classes):
            direction[k, c] = 0.0
            for s in range(1, n_classes):
                sign = 1.0 if c >= s else -1.0
                direction[k, c] += sign * step[(n_steps if k >= s else 0) + s - 1]
    return promise
