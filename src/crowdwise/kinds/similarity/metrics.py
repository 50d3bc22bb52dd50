"""Known clusters of items, lined up with those of a model, and how well a model's clusters agree with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_table

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["adjusted_rand", "align_clusters", "count_joined_pairs", "score_clusters"]


def align_clusters(source: Any, items: pa.Array) -> IntArray:
    """Known clusters of items (N,) as numbers, -1 where unknown; those of other items are left aside.

    Parameters
    ----------
    source
        A mapping from item to cluster, or a path or table with a column task (or item) and a column cluster.
    """
    if isinstance(source, Mapping) and "cluster" not in source:
        source = {"task": list(source), "cluster": list(source.values())}
    table = open_table(
        source, "Known clusters need a column task (or item) and a column cluster.", {"task": None, "cluster": None}
    )
    found: IntArray = table.align_known("task", items, table.encode("cluster").codes, -1, "cluster")
    return found


def count_joined_pairs(first: IntArray, second: IntArray) -> tuple[float, float, float]:
    """Pairs of items that are together in both partitions (N,), in the first, and in the second."""
    one, other = (np.unique(each, return_inverse=True)[1] for each in (first, second))
    both = one.astype(np.int64) * (other.max(initial=0) + 1) + other

    def pairs(codes: IntArray) -> float:
        sizes: FloatArray = np.unique(codes, return_counts=True)[1].astype(np.float64)
        return float((sizes * (sizes - 1) / 2).sum())

    return pairs(both), pairs(one), pairs(other)


def adjusted_rand(first: IntArray, second: IntArray) -> float:
    """Adjusted Rand index of two partitions (Hubert and Arabie 1985): 1 for the same, 0 as at random.

    >>> adjusted_rand(np.array([0, 0, 1, 1]), np.array([5, 5, 2, 2]))
    1.0
    """
    both, one, other = count_joined_pairs(first, second)
    every = first.size * (first.size - 1) / 2
    if not every:
        return 1.0
    expected, most = one * other / every, (one + other) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


def score_clusters(model: Any, truth: Any) -> dict[str, float]:
    """How the clusters of a fitted model agree with known ones: adjusted Rand index, precision and recall of pairs."""
    true = align_clusters(truth, model._names["items"])
    known = true >= 0
    both, found, joined = count_joined_pairs(model.cluster_[known], true[known])
    return {
        "n_truths": int(known.sum()),
        "adjusted_rand": adjusted_rand(model.cluster_[known], true[known]),
        "pair_precision": both / found if found else 1.0,
        "pair_recall": both / joined if joined else 1.0,
    }
