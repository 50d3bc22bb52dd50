"""One round of messages between the items of pairs; see `kernels.gaussian_beliefs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["run_round"]


@njit(cache=True, nogil=True, error_model="numpy")
def run_round(
    first: IntArray, second: IntArray, weights: FloatArray, own: FloatArray, precision: FloatArray, messages: FloatArray
) -> tuple[FloatArray, float]:
    """All messages anew, in place; the precisions that follow, and the largest change."""
    after, change = own.copy(), 0.0
    for pair in range(weights.size):
        i, j, weight = first[pair], second[pair], weights[pair]
        there, back = messages[0, pair], messages[1, pair]
        a, b = precision[i] - back, precision[j] - there
        new_there, new_back = weight * a / (a + weight), weight * b / (b + weight)
        change = max(change, max(abs(new_there - there), abs(new_back - back)) / max(weight, 1e-300))
        messages[0, pair], messages[1, pair] = new_there, new_back
        after[j] += new_there
        after[i] += new_back
    return after, change
