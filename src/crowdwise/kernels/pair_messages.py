"""Passes over items that are joined in pairs: beliefs about the cluster of each, and moves between clusters.

Each pair stands twice, once with each of its items: an edge. The two items of a pair are in one cluster or not; being
in one multiplies the probability of the answers about them by `factor` + 1, whose logarithm is `weight`. Items are
visited in their order, each with what those before have just become.

| function | what an item's visit does |
|---|---|
| `pass_messages` | belief[i, k] ∝ prior[i, k] Π (1 + factor m[k]), and the message to each neighbour, without its own |
| `pass_mean_field` | belief[i, k] ∝ prior[i, k] exp(Σ weight belief[j, k]) |
| `move_items` | i goes to the cluster of the highest Σ weight over the neighbours there, or to a new one |

Messages are those of sum-product belief propagation (Decelle et al. 2011, without their field of pairs not asked).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MessagePass", "PairEdges", "lay_out_pairs", "move_items", "pass_mean_field", "pass_messages"]

VISIT = 128  # NumPy visits one item at a time, which is slower by so much than a pass over whole arrays
TIE = 1e-9  # a move that gains no more is none: rounding would send items back and forth


class PairEdges(NamedTuple):
    """Edges sorted by item: those of item i are `ptr[i]:ptr[i + 1]`.

    Attributes
    ----------
    neighbour, pair, reverse : (2 P,)
        The other item, the pair, and the edge of the same pair with the other item.
    """

    ptr: IntArray
    neighbour: IntArray
    pair: IntArray
    reverse: IntArray

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.ptr.size) - 1


class MessagePass(NamedTuple):
    """What a pass of belief propagation gives besides messages and beliefs."""

    change: float  # mean distance of a message from the one before
    total: float  # Σ over items of the logarithm of the sum to which their belief is brought to 1
    meeting: FloatArray  # (P,): Σ over clusters of the product of a pair's two messages


def lay_out_pairs(first: IntArray, second: IntArray, n_items: int) -> PairEdges:
    """Edges of pairs of different items."""
    n_pairs = first.size
    own, other = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.lexsort((other, own))
    place = np.empty(2 * n_pairs, np.int64)
    place[order] = np.arange(2 * n_pairs)
    reverse = np.empty(2 * n_pairs, np.int64)
    reverse[place[:n_pairs]], reverse[place[n_pairs:]] = place[n_pairs:], place[:n_pairs]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=n_items))])
    return PairEdges(ptr, other[order].astype(np.int64), order % max(n_pairs, 1), reverse)


def pass_messages(
    edges: PairEdges,
    factor: FloatArray,
    prior: FloatArray,
    message: FloatArray,
    belief: FloatArray,
    damping: float = 0.0,
) -> MessagePass:
    """One pass of belief propagation.

    Parameters
    ----------
    factor : (P,), above -1
        exp(weight) - 1 of each pair.
    prior, belief : (N, K)
        Probabilities of each item's cluster; `belief` is written. A prior of one cluster alone holds an item there.
    message : (2 P, K)
        To the item of each edge, from its neighbour: what the others tell of the neighbour's cluster. Written.
    damping
        Share of the old message that stays.
    """
    if choose_engine(edges.pair.size, VISIT * prior.shape[1]) == "numpy":
        return _pass_messages(edges, factor, prior, message, belief, damping)
    from crowdwise.kernels.compiled.pair_messages import pass_messages as compiled

    meeting = np.empty(factor.size)
    change, total = compiled(edges.ptr, edges.pair, edges.reverse, factor, prior, message, belief, damping, meeting)
    return MessagePass(float(change), float(total), meeting)


def pass_mean_field(edges: PairEdges, weight: FloatArray, log_prior: FloatArray, belief: FloatArray) -> None:
    """One pass of coordinate ascent over the beliefs (N, K), which are written."""
    if choose_engine(edges.pair.size, VISIT * log_prior.shape[1]) == "numpy":
        _pass_mean_field(edges, weight, log_prior, belief)
        return
    from crowdwise.kernels.compiled.pair_messages import pass_mean_field as compiled

    compiled(edges.ptr, edges.neighbour, weight, log_prior, belief)


def move_items(edges: PairEdges, weight: FloatArray, cluster: IntArray, group: IntArray, most: IntArray) -> int:
    """Move each item to its best cluster; how many moved.

    Parameters
    ----------
    weight : (2 P,)
        What it is worth that the two items of an edge are together.
    cluster : (N,)
        Cluster of each item, below N; written.
    group : (N,)
        Of each item; a cluster has items of one group.
    most : (G,)
        Clusters that each group may have; a move to a new cluster is made only below that.
    """
    if choose_engine(edges.pair.size, VISIT) == "numpy":
        return _move_items(edges, weight, cluster, group, most)
    from crowdwise.kernels.compiled.pair_messages import move_items as compiled

    return int(compiled(edges.ptr, edges.neighbour, weight, cluster, group, most))


def _pass_messages(
    edges: PairEdges, factor: FloatArray, prior: FloatArray, message: FloatArray, belief: FloatArray, damping: float
) -> MessagePass:
    change = total = 0.0
    meeting = np.empty(factor.size)
    for item in range(edges.n_items):
        own = slice(edges.ptr[item], edges.ptr[item + 1])
        logs = np.log1p(factor[edges.pair[own], None] * message[own])
        with np.errstate(divide="ignore"):  # a prior of 0
            sums = np.log(prior[item]) + logs.sum(axis=0)
        top = sums.max()
        weights = np.exp(sums - top)
        total += top + np.log(weights.sum())
        belief[item] = weights / weights.sum()
        if not logs.size:
            continue
        rest = np.exp(sums - logs - (sums - logs).max(axis=1, keepdims=True))
        rest /= rest.sum(axis=1, keepdims=True)
        old = message[edges.reverse[own]]
        change += float(np.abs(old - rest).sum())
        message[edges.reverse[own]] = damping * old + (1 - damping) * rest
        meeting[edges.pair[own]] = (message[own] * message[edges.reverse[own]]).sum(axis=1)
    return MessagePass(change / max(message.size, 1), float(total), meeting)


def _pass_mean_field(edges: PairEdges, weight: FloatArray, log_prior: FloatArray, belief: FloatArray) -> None:
    for item in range(edges.n_items):
        own = slice(edges.ptr[item], edges.ptr[item + 1])
        sums = log_prior[item] + weight[own] @ belief[edges.neighbour[own]]
        weights = np.exp(sums - sums.max())
        belief[item] = weights / weights.sum()


def join_cluster(item: int, number: int, cluster: IntArray, size: IntArray, count: IntArray, group: IntArray) -> None:
    """Put an item into a cluster; one that was empty is one more of the item's group. Compiled as it is."""
    if size[number] == 0:
        count[group[item]] += 1
    size[number] += 1
    cluster[item] = number


def _move_items(edges: PairEdges, weight: FloatArray, cluster: IntArray, group: IntArray, most: IntArray) -> int:
    size = np.bincount(cluster, minlength=edges.n_items)
    there = np.flatnonzero(size)
    first = np.zeros(edges.n_items, np.int64)
    first[cluster] = group  # a cluster's group
    count = np.bincount(first[there], minlength=edges.n_items)
    free = np.flatnonzero(size == 0)[::-1].tolist()
    moved = 0
    for item in range(edges.n_items):
        old = cluster[item]
        edge = slice(edges.ptr[item], edges.ptr[item + 1])
        near = cluster[edges.neighbour[edge]]
        found, at = np.unique(near, return_inverse=True)
        value = np.bincount(at, weight[edge], found.size)
        stay = float(value[found == old].sum())
        best, most_value = old, stay + TIE
        if found.size and value.max() > most_value:
            best, most_value = found[int(value.argmax())], float(value.max())
        if best == old and size[old] == 1:
            continue
        if most_value < -TIE and size[old] > 1 and free and count[group[item]] < most[group[item]]:
            best = free.pop()
        if best == old:
            continue
        size[old] -= 1
        if size[old] == 0:
            free.append(int(old))
            count[group[item]] -= 1
        join_cluster(item, best, cluster, size, count, group)
        moved += 1
    return moved
