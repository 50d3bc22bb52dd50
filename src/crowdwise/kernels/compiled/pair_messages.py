"""Loops over items that are joined in pairs; see `kernels.pair_messages`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row
from crowdwise.kernels.pair_messages import join_cluster
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["move_items", "pass_mean_field", "pass_messages"]

TIE = 1e-9  # as `kernels.pair_messages` has it


@njit(cache=True, nogil=True, error_model="numpy")
def pass_messages(
    ptr: IntArray,
    pair: IntArray,
    reverse: IntArray,
    factor: FloatArray,
    prior: FloatArray,
    message: FloatArray,
    belief: FloatArray,
    damping: float,
    meeting: FloatArray,
) -> tuple[float, float]:
    """One pass of belief propagation, by products that are brought back to sum 1 at every edge."""
    n_items, n_classes = prior.shape
    change, total = 0.0, 0.0
    own, rest = np.empty(n_classes), np.empty(n_classes)
    for item in range(n_items):
        for k in range(n_classes):
            own[k] = prior[item, k]
        scale = 1.0  # of sums: one logarithm for many
        for edge in range(ptr[item], ptr[item + 1]):
            size, ratio = 0.0, factor[pair[edge]]
            for k in range(n_classes):
                own[k] *= 1.0 + ratio * message[edge, k]
                size += own[k]
            scale *= size
            if scale < 1e-150 or scale > 1e150:
                total += math.log(scale)
                scale = 1.0
            size = 1.0 / size
            for k in range(n_classes):
                own[k] *= size
        size = 0.0
        for k in range(n_classes):
            size += own[k]
        total += math.log(scale * size)
        for k in range(n_classes):
            belief[item, k] = own[k] / size
        for edge in range(ptr[item], ptr[item + 1]):
            prefetch_row(message, reverse[min(edge + AHEAD, reverse.size - 1)])
            size, ratio = 0.0, factor[pair[edge]]
            for k in range(n_classes):
                rest[k] = own[k] / (1.0 + ratio * message[edge, k])
                size += rest[k]
            size = 1.0 / size
            back, both = reverse[edge], 0.0
            for k in range(n_classes):
                value = rest[k] * size
                change += abs(message[back, k] - value)
                value = damping * message[back, k] + (1.0 - damping) * value
                message[back, k] = value
                both += value * message[edge, k]
            meeting[pair[edge]] = both
    return change / max(message.size, 1), total


@njit(cache=True, nogil=True, error_model="numpy")
def pass_mean_field(
    ptr: IntArray, neighbour: IntArray, weight: FloatArray, log_prior: FloatArray, belief: FloatArray
) -> None:
    """One pass of coordinate ascent."""
    n_items, n_classes = log_prior.shape
    own = np.empty(n_classes)
    for item in range(n_items):
        for k in range(n_classes):
            own[k] = log_prior[item, k]
        for edge in range(ptr[item], ptr[item + 1]):
            row = belief[neighbour[edge]]
            for k in range(n_classes):
                own[k] += weight[edge] * row[k]
        top, size = own.max(), 0.0
        for k in range(n_classes):
            own[k] = math.exp(own[k] - top)
            size += own[k]
        for k in range(n_classes):
            belief[item, k] = own[k] / size


join = njit(nogil=True, error_model="numpy")(join_cluster)


@njit(cache=True, nogil=True, error_model="numpy")
def move_items(
    ptr: IntArray, neighbour: IntArray, weight: FloatArray, cluster: IntArray, group: IntArray, most: IntArray
) -> int:
    """Move each item to its best cluster; how many moved."""
    n_items = ptr.size - 1
    size, count = np.zeros(n_items, np.int64), np.zeros(n_items, np.int64)
    for item in range(n_items):
        if size[cluster[item]] == 0:
            count[group[item]] += 1
        size[cluster[item]] += 1
    free, n_free = np.empty(n_items, np.int64), 0
    for number in range(n_items - 1, -1, -1):
        if size[number] == 0:
            free[n_free] = number
            n_free += 1
    value, seen, near = np.zeros(n_items), np.zeros(n_items, np.bool_), np.empty(n_items, np.int64)
    moved = 0
    for item in range(n_items):
        old, n_near = cluster[item], 0
        for edge in range(ptr[item], ptr[item + 1]):
            number = cluster[neighbour[edge]]
            if not seen[number]:
                seen[number] = True
                near[n_near] = number
                n_near += 1
            value[number] += weight[edge]
        best, highest = old, value[old] + TIE
        for at in range(n_near):
            number = near[at]
            # Of equals the first, and the own cluster before all.
            if value[number] > highest or (value[number] == highest and best != old and number < best):
                best, highest = number, value[number]
        for at in range(n_near):
            value[near[at]] = 0.0
            seen[near[at]] = False
        if highest < -TIE and size[old] > 1 and n_free > 0 and count[group[item]] < most[group[item]]:
            n_free -= 1
            best = free[n_free]
        if best == old:
            continue
        size[old] -= 1
        if size[old] == 0:
            free[n_free] = old
            n_free += 1
            count[group[item]] -= 1
        join(item, best, cluster, size, count, group)
        moved += 1
    return moved
