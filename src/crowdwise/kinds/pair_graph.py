"""The pairs of items that were asked about, and the groups of items that they join."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["PairGraph", "find_repeated"]


@dataclass(frozen=True)
class PairGraph:
    """Pairs of items, each once.

    Attributes
    ----------
    first, second : (P,)
        Positions of a pair's items, the smaller one first.
    pair : (n_answers,)
        Position of each answer's pair.
    turned : (n_answers,)
        Whether the answer's left item is the pair's second.
    """

    first: IntArray
    second: IntArray
    pair: IntArray
    turned: BoolArray
    n_items: int

    @classmethod
    def of(cls, left: IntArray, right: IntArray, n_items: int) -> PairGraph:
        """The graph of some answers."""
        turned = left > right
        low, high = np.where(turned, right, left).astype(np.int64), np.where(turned, left, right)
        keys, pair = np.unique(low * n_items + high, return_inverse=True)
        first, second = np.divmod(keys, n_items)
        return cls(first.astype(np.int32), second.astype(np.int32), pair.astype(np.int32), turned, n_items)

    @property
    def n_pairs(self) -> int:
        """Number of pairs that were asked about."""
        return int(self.first.size)

    @cached_property
    def group(self) -> IntArray:
        """Group of each item (N,): items of one group are joined by pairs; numbered by first item."""
        from scipy.sparse import coo_array  # readers of other kinds need no SciPy
        from scipy.sparse.csgraph import connected_components

        joined = coo_array((np.ones(self.n_pairs), (self.first, self.second)), shape=(self.n_items, self.n_items))
        codes = connected_components(joined, directed=False)[1]
        _, at, inverse = np.unique(codes, return_index=True, return_inverse=True)
        place: IntArray = np.argsort(np.argsort(at))
        return place[inverse].astype(np.int32)

    @cached_property
    def group_sizes(self) -> IntArray:
        """Number of items in each group."""
        return np.bincount(self.group)


def find_repeated(worker: IntArray, left: IntArray, right: IntArray, *, ordered: bool) -> tuple[IntArray, IntArray]:
    """Rows that repeat an earlier one of the same worker about the same pair, and rows that a later one repeats."""
    low, high = (left, right) if ordered else (np.minimum(left, right), np.maximum(left, right))
    order = np.lexsort((high, low, worker))  # stable: rows of one key stay in their order
    same = np.ones(max(order.size - 1, 0), np.bool_)
    for column in (worker, low, high):
        same &= column[order][1:] == column[order][:-1]
    return np.sort(order[1:][same]), np.sort(order[:-1][same])
