"""What is known of some items beforehand: their clusters, or whether two of them are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_table
from crowdwise.kinds.pair_graph import PairGraph
from crowdwise.kinds.similarity.answers import read_same
from crowdwise.kinds.similarity.metrics import align_clusters
from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.read import open_source

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["GoldLinks", "align_gold"]

NEEDS = "Gold needs the columns task and cluster, or left, right and same."


@dataclass(frozen=True)
class GoldLinks:
    """Known clusters and known pairs.

    Attributes
    ----------
    cluster : (N,)
        Known cluster of each item from 0, -1 where unknown.
    left, right, same : (n,)
        Pairs of items, and whether they are known to be the same or to be different.
    """

    cluster: IntArray
    left: IntArray
    right: IntArray
    same: BoolArray


def align_gold(source: Any, items: pa.Array) -> GoldLinks:
    """Known clusters or known pairs, by the columns that there are; those of other items are left aside.

    Parameters
    ----------
    source
        A mapping from item to cluster, or a path or table with the columns task and cluster, or left, right and same.
    """
    none, nothing = np.full(len(items), -1, np.int64), np.empty(0, np.int64)
    table = isinstance(source, Mapping) and not ({"left", "cluster"} & set(source))
    opened = source if table else open_source(source, NEEDS)
    if not isinstance(opened, Columns) or not all(candidates(role, opened.names) for role in ("left", "right", "same")):
        found = align_clusters(opened, items)
        known = found >= 0
        found[known] = np.unique(found[known], return_inverse=True)[1]
        return GoldLinks(found, nothing, nothing, nothing.astype(np.bool_))
    pairs = open_table(opened, NEEDS, {"left": None, "right": None, "same": None})
    same = read_same(pairs)
    left, right = (pairs.find_names(role, items, "item")[1] for role in ("left", "right"))
    there = (left >= 0) & (right >= 0)
    left, right, same = left[there], right[there], same[there]
    joined = PairGraph.of(left[same], right[same], len(items)).group
    wrong = ~same & (joined[left] == joined[right])
    if wrong.any():
        shown = listing(items.take(_indices(np.unique([left[wrong], right[wrong]])[:5])).to_pylist())
        raise InputError(
            f"Gold contradicts itself: items that are the same, directly or through others, are also said to be "
            f"different ({shown}). Mend those pairs."
        )
    return GoldLinks(none, left, right, same)


def _indices(codes: IntArray) -> Any:
    import pyarrow as pa

    return pa.array(codes)
