"""Loops over comparisons without ties; see `kinds.comparisons.answer_sums`, whose NumPy they follow line by line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["multiply_sides", "sum_sides"]

TINY = 1e-300  # a probability that rounding made 0


@njit(nogil=True, error_model="numpy")
def _differentiate(
    chosen: float, side: float, w: float, observed: bool
) -> tuple[float, float, float, float, float, float, float, float, float]:
    """Log-probability of an answer, as a number and a factor of the probability; its derivatives; the information.

    These are by x and q; Fisher's xx and qq; and xx, xq and qq as asked for.
    """
    small = exp_of_nonpositive(-abs(chosen))
    whole = 1.0 / (1.0 + small)
    same = whole if chosen > 0.0 else small * whole
    other = small * whole if chosen > 0.0 else whole
    product = small * whole * whole
    if w == 1.0:
        return min(chosen, 0.0), whole, side * other, 0.0, product, 0.0, product, 0.0, 0.0
    turn, vary = 2.0 * w - 1.0, w * (1.0 - w)
    p = (1.0 - w) + turn * same
    kept = max(p, TINY)
    move_x, move_q = side * turn * product, vary * (same - other)
    inverse, scale = 1.0 / kept, 1.0 / max(p * (1.0 - p), TINY)
    by_x, by_q = move_x * inverse, move_q * inverse
    xx, qq = move_x * move_x * scale, move_q * move_q * scale
    if observed:
        seen_xx = by_x * by_x - turn * product * (other - same) * inverse
        seen_xq = by_x * by_q - side * 2.0 * vary * product * inverse
        seen_qq = by_q * by_q + turn * move_q * inverse
    else:
        seen_xx, seen_xq, seen_qq = xx, move_x * move_q * scale, qq
    linear, factor = (math.log(kept), 1.0) if kept < 1e-100 else (0.0, kept)
    return linear, factor, by_x, by_q, xx, qq, seen_xx, seen_xq, seen_qq


@njit(cache=True, nogil=True, error_model="numpy")
def sum_sides(
    left: IntArray,
    right: IntArray,
    worker: IntArray,
    outcome: IntArray,
    items: FloatArray,
    table: FloatArray,
    observed: bool,
    rows: FloatArray,
    by_worker: FloatArray,
) -> float:
    """Log-likelihood; its derivatives and information are added to items and workers.

    Parameters
    ----------
    items : (N, 4)
        Score of each item; added to are its derivative, Fisher's information and `rows`. Together, for the cache.
    table : (M, 3)
        Slope, bias and ω of each worker.
    rows : (n, 3)
        Information of each answer on x and logit ω is written here: xx, xq, qq; `observed`, or else Fisher's.
    by_worker : (M, 9)
        As of the items, of slope, bias and quality.
    """
    total, part = 0.0, 1.0  # the logarithm of a product of many: one logarithm for all
    last = left.size - 1
    for edge in range(left.size):
        prefetch_row(items, left[min(edge + AHEAD, last)])
        prefetch_row(items, right[min(edge + AHEAD, last)])
        first, second, who, side = left[edge], right[edge], worker[edge], float(outcome[edge])
        slope, w = table[who, 0], table[who, 2]
        difference = items[first, 0] - items[second, 0]
        chosen = side * (slope * difference + table[who, 1])
        linear, factor, by_x, by_q, xx, qq, seen_xx, seen_xq, seen_qq = _differentiate(chosen, side, w, observed)
        total += linear
        part *= factor
        if part < 1e-150:
            total += math.log(part)
            part = 1.0
        rows[edge, 0], rows[edge, 1], rows[edge, 2] = seen_xx, seen_xq, seen_qq
        square = slope * slope
        items[first, 1] += by_x * slope
        items[second, 1] -= by_x * slope
        items[first, 2] += xx * square
        items[second, 2] += xx * square
        items[first, 3] += seen_xx * square
        items[second, 3] += seen_xx * square
        own, square = by_worker[who], difference * difference
        own[0] += by_x * difference
        own[1] += xx * square
        own[2] += seen_xx * square
        own[3] += by_x
        own[4] += xx
        own[5] += seen_xx
        own[6] += by_q
        own[7] += qq
        own[8] += seen_qq
    return total + math.log(part)


@njit(cache=True, nogil=True, error_model="numpy")
def multiply_sides(
    left: IntArray,
    right: IntArray,
    worker: IntArray,
    score: FloatArray,
    slope: FloatArray,
    rows: FloatArray,
    moved: FloatArray,
    turned: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Information times a direction, which moves scores (N,) and slopes, biases and qualities (M, 3); the same."""
    by_item, by_worker = np.zeros(moved.size), np.zeros(turned.shape)
    for edge in range(left.size):
        first, second, who = left[edge], right[edge], worker[edge]
        difference = score[first] - score[second]
        x = slope[who] * (moved[first] - moved[second]) + difference * turned[who, 0] + turned[who, 1]
        q = turned[who, 2]
        by_x = rows[edge, 0] * x + rows[edge, 1] * q
        own = by_worker[who]
        own[0] += by_x * difference
        own[1] += by_x
        own[2] += rows[edge, 1] * x + rows[edge, 2] * q
        by_x *= slope[who]
        by_item[first] += by_x
        by_item[second] -= by_x
    return by_item, by_worker
