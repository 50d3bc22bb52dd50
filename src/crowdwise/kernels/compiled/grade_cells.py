"""Loops over workers who cut a line of scores into grades; see `kinds.ordinal.cell_steps`, whose NumPy they follow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.cholesky import solve_positive_definite
from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.grade_cells import Cells, Steps
    from crowdwise.labels.types import FloatArray

__all__ = ["improve_lane", "log_cells_of_lane", "sum_gradients_of_lane", "sum_values_of_lane"]

NOTHING = 1e-10  # answers expected at a point that count for nothing: of 31, about half


@njit(nogil=True, error_model="numpy")
def _sigmoid(x: float) -> float:
    small = exp_of_nonpositive(-abs(x))
    return 1.0 / (1.0 + small) if x > 0.0 else small / (1.0 + small)


@njit(nogil=True, error_model="numpy")
def _cut(row: FloatArray, cuts: FloatArray) -> None:
    """Intercepts (K-1) of the parameters of a worker (K,)."""
    middle = cuts.size // 2
    cuts[middle] = row[1]
    for k in range(middle + 1, cuts.size):
        cuts[k] = cuts[k - 1] + math.exp(row[k + 1])
    for k in range(middle - 1, -1, -1):
        cuts[k] = cuts[k + 1] - math.exp(row[k + 2])


@njit(nogil=True, error_model="numpy")
def _chance(slope: float, cuts: FloatArray, grade: int, point: float, least: float) -> float:
    """Probability of a grade at a point."""
    above = 1.0 if grade == 0 else _sigmoid(slope * point - cuts[grade - 1])
    beyond = 0.0 if grade == cuts.size else _sigmoid(slope * point - cuts[grade])
    return max(above - beyond, least)


@njit(nogil=True, error_model="numpy")
def _value(
    who: int, row: FloatArray, cuts: FloatArray, cells: Cells, counts: FloatArray, points: FloatArray, least: float
) -> float:
    """Expected log-probability of a worker's answers."""
    _cut(row, cuts)
    total = 0.0
    for cell in range(cells.ptr[who], cells.ptr[who + 1]):
        for g in range(points.size):
            if counts[cell, g] > NOTHING:
                total += counts[cell, g] * math.log(_chance(row[0], cuts, cells.grade[cell], points[g], least))
    return total


@njit(nogil=True, error_model="numpy")
def _differentiate(
    who: int,
    row: FloatArray,
    cuts: FloatArray,
    cells: Cells,
    counts: FloatArray,
    points: FloatArray,
    least: float,
    work: FloatArray,
    gradient: FloatArray,
    information: FloatArray,
) -> None:
    """Gradient (K,) of a worker's value by the parameters, and the expected information (K, K), without the prior.

    `work` (5, K + 1) and the last two are written.
    """
    n_cuts = cuts.size
    _cut(row, cuts)
    for i in range(n_cuts + 1):
        gradient[i] = 0.0
        for j in range(n_cuts + 1):
            information[i, j] = 0.0
    above, density, inverse, share, gaps = work[0], work[1], work[2], work[3], work[4]
    for g in range(points.size):
        number, point = 0.0, points[g]
        for k in range(n_cuts + 1):
            share[k] = 0.0
        for cell in range(cells.ptr[who], cells.ptr[who + 1]):
            number += counts[cell, g]
            share[cells.grade[cell]] = counts[cell, g]
        if number <= NOTHING:
            continue
        above[0], above[n_cuts + 1] = 1.0, 0.0
        for k in range(n_cuts):
            above[k + 1] = _sigmoid(row[0] * point - cuts[k])
            density[k] = above[k + 1] * (1.0 - above[k + 1])
        for k in range(n_cuts + 1):
            inverse[k] = 1.0 / max(above[k] - above[k + 1], least)
        beside = 0.0
        for k in range(n_cuts):
            by_step = density[k] * (share[k + 1] * inverse[k + 1] - share[k] * inverse[k])
            gradient[0] += by_step * point
            gradient[k + 1] -= by_step
            own = number * density[k] * density[k] * (inverse[k + 1] + inverse[k])
            before, beside = beside, 0.0
            if k + 1 < n_cuts:
                beside = -number * density[k] * density[k + 1] * inverse[k + 1]
                information[k + 1, k + 2] += beside
            both = own + before + beside
            information[0, 0] += both * point * point
            information[0, k + 1] -= both * point
            information[k + 1, k + 1] += own
    # From slope and intercepts to the parameters: d[k] = middle + Σ ± exp(gap). Rows, then those of the transpose.
    for gap in range(n_cuts - 1):
        gaps[gap] = math.exp(row[gap + 2])
    for i in range(n_cuts + 1):
        for j in range(i):
            information[i, j] = information[j, i]
    for i in range(n_cuts + 1):
        _take_back(information[i], gaps, above)
    for i in range(n_cuts + 1):
        for j in range(i):
            information[i, j], information[j, i] = information[j, i], information[i, j]
    for i in range(n_cuts + 1):
        _take_back(information[i], gaps, above)
    _take_back(gradient, gaps, above)


@njit(nogil=True, error_model="numpy")
def _take_back(by: FloatArray, gaps: FloatArray, work: FloatArray) -> None:
    """Derivatives by slope and intercepts (K,) as derivatives by the parameters, in place."""
    n_cuts = by.size - 1
    middle = n_cuts // 2
    total = 0.0
    for k in range(n_cuts):
        total += by[k + 1]
    run = 0.0
    for gap in range(middle):
        run += by[gap + 1]
        work[gap] = -run * gaps[gap]
    run = 0.0
    for gap in range(n_cuts - 2, middle - 1, -1):
        run += by[gap + 2]
        work[gap] = run * gaps[gap]
    by[1] = total
    for gap in range(n_cuts - 1):
        by[gap + 2] = work[gap]


@njit(cache=True, nogil=True, error_model="numpy")
def log_cells_of_lane(
    first: int, last: int, parameters: FloatArray, cells: Cells, points: FloatArray, least: float, found: FloatArray
) -> None:
    """Log-probability of the grades that some workers gave, at each point, into `found` (C, G)."""
    cuts = np.empty(parameters.shape[1] - 1)
    for who in range(first, last):
        _cut(parameters[who], cuts)
        for cell in range(cells.ptr[who], cells.ptr[who + 1]):
            for g in range(points.size):
                found[cell, g] = math.log(_chance(parameters[who, 0], cuts, cells.grade[cell], points[g], least))


@njit(cache=True, nogil=True, error_model="numpy")
def sum_values_of_lane(
    first: int, last: int, parameters: FloatArray, cells: Cells, counts: FloatArray, points: FloatArray, least: float
) -> float:
    """Expected log-probability of the answers of some workers."""
    cuts, total = np.empty(parameters.shape[1] - 1), 0.0
    for who in range(first, last):
        total += _value(who, parameters[who], cuts, cells, counts, points, least)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_gradients_of_lane(
    first: int, last: int, parameters: FloatArray, cells: Cells, counts: FloatArray, points: FloatArray, least: float
) -> tuple[FloatArray, FloatArray]:
    """Sums over some workers of gradients (K,) and information (K, K), without the prior."""
    n = parameters.shape[1]
    cuts, work, by, twice = np.empty(n - 1), np.empty((5, n + 1)), np.empty(n), np.empty((n, n))
    gradient, information = np.zeros(n), np.zeros((n, n))
    for who in range(first, last):
        _differentiate(who, parameters[who], cuts, cells, counts, points, least, work, by, twice)
        for i in range(n):
            gradient[i] += by[i]
            for j in range(n):
                information[i, j] += twice[i, j]
    return gradient, information


@njit(cache=True, nogil=True, error_model="numpy")
def improve_lane(
    first: int,
    last: int,
    parameters: FloatArray,
    crowd: FloatArray,
    precision: FloatArray,
    cells: Cells,
    counts: FloatArray,
    points: FloatArray,
    least: float,
    steps: Steps,
) -> None:
    """Better parameters of some workers, in place."""
    n = parameters.shape[1]
    cuts, work, step, twice = np.empty(n - 1), np.empty((5, n + 1)), np.empty(n), np.empty((n, n))
    there = np.empty(n)
    for who in range(first, last):
        now = parameters[who]
        for _ in range(steps.number):
            _differentiate(who, now, cuts, cells, counts, points, least, work, step, twice)
            before = _value(who, now, cuts, cells, counts, points, least)
            for k in range(n):
                off = now[k] - crowd[k]
                step[k] -= off * precision[k]
                twice[k, k] += precision[k]
                before -= 0.5 * off * off * precision[k]
            for k in range(n):
                there[k] = step[k]
            solve_positive_definite(twice, step, n)
            promised, highest = 0.0, steps.longest
            for k in range(n):
                promised += 0.5 * there[k] * step[k]
                highest = max(highest, abs(step[k]))
            share = steps.longest / highest
            for _ in range(steps.halvings):
                value = 0.0
                for k in range(n):
                    there[k] = now[k] + share * step[k]
                    value -= 0.5 * (there[k] - crowd[k]) ** 2 * precision[k]
                value += _value(who, there, cuts, cells, counts, points, least)
                if value >= before:
                    for k in range(n):
                        now[k] = there[k]
                    break
                share /= 2
            if promised <= steps.enough:
                break
