"""Sums of products over edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["add_outer"]


@njit(cache=True, nogil=True)
def add_outer(left: FloatArray, right: FloatArray, unit: IntArray, found: FloatArray) -> None:
    """Add each edge's product to the table of its unit."""
    for edge in range(unit.size):
        table, one, other = found[unit[edge]], left[edge], right[edge]
        for i in range(one.size):
            if one[i] != 0.0:  # as most of a label's entries are
                row = table[i]
                for j in range(other.size):
                    row[j] += one[i] * other[j]
