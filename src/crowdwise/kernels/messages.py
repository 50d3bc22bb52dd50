"""Messages between workers and tasks, for belief propagation.

A worker's prior is a weighted set of nodes; a node says how probable each answer is for each kind of truth. Two sorts:

| nodes | a table's axes | kinds of truth | a message has |
|---|---|---|---|
| matrices | (K labels, K truths, nodes) | the K classes | K numbers, one for each class |
| coins | (1, 2, nodes) | the class named, another | 2 numbers: for the class named, for each other |

A message of a task to a worker is a distribution (of a coin: the class named, all others together). A message of a
worker to a task is a logarithm, scaled so that the two messages of an edge multiply to 1: then the Bethe
log-partition is the sum of the logarithms that both passes return. The NumPy versions here are the specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import map_tasks, map_workers, split_work
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.kernels.grouped_sums import TruthPrior
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FLOOR", "Messages", "NodeSets", "table_of_matrices", "task_messages", "worker_messages"]

FLOOR = 1e-100  # of an answer's probability at a node: its product with another still is a number, and its inverse
NODE_COST = 16  # nodes that cost as much as reading a label does
BLOCK = 2**18  # answers × kinds of truth × nodes that NumPy holds at one time


class NodeSets(NamedTuple):
    """Sets of nodes, laid end to end; workers who share a prior share a set.

    Attributes
    ----------
    table : (K, K, nodes) [label, truth, node], or (1, 2, nodes) for coins
        P(label | truth) at a node.
    log_weight : (nodes,)
        Logarithm of a node's prior weight.
    ptr : (sets + 1,)
        Set n holds the nodes `ptr[n]:ptr[n + 1]`.
    set_of : (M,)
        The set of each worker.
    side : (sets,)
        Where a set is a grid, in `n_dims` dimensions: nodes along each; 0 where it is none.
    stride : (sets,)
        Every so manieth node of a large grid is looked at first. What labels tell is concave in the probabilities, so
        nodes that matter lie in the box around the best of those; the others are left out. 0: no node is.
    """

    table: FloatArray
    log_weight: FloatArray
    ptr: IntArray
    set_of: IntArray
    side: IntArray
    stride: IntArray
    n_dims: int = 1

    @property
    def matrices(self) -> FloatArray:
        """Confusion matrices at the nodes, (nodes, K, K) [node, truth, label]; coins have none."""
        return np.transpose(self.table)

    @property
    def are_coins(self) -> bool:
        """Whether nodes are coins."""
        return bool(self.table.shape[0] == 1)


def table_of_matrices(matrices: FloatArray) -> FloatArray:
    """Confusion matrices (nodes, K, K) [node, truth, label] as `NodeSets` has them, (K, K, nodes)."""
    return np.ascontiguousarray(np.transpose(matrices))


class Messages(NamedTuple):
    """Messages on each edge, in the order of the labels.

    Attributes
    ----------
    incoming, outgoing : (S, kinds)
        Of the tasks to the workers, and of the workers to the tasks.
    coins
        Whether they are those of coins.
    """

    incoming: FloatArray
    outgoing: FloatArray
    coins: bool


def worker_messages(
    labels: CrowdLabels, nodes: NodeSets, messages: Messages, features: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Messages to the tasks, into `outgoing`; log Σ over nodes of what each worker was told, (M,); and means.

    Parameters
    ----------
    features : (nodes, F), optional
        What to average over each worker's posterior of the nodes: the means are (M, F).
    """
    order = labels.by_worker
    wanted = np.empty((nodes.log_weight.size, 0)) if features is None else features
    means = np.empty((labels.n_workers, wanted.shape[1]))
    log_mass = np.empty(labels.n_workers)
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        for workers in _workers_alike(labels, nodes):
            edges = order.edge[order.ptr[workers][:, None] + np.arange(labels.labels_per_worker[workers[0]])]
            own = _nodes_of_worker(nodes, workers[0])
            log_mass[workers], share = _send_to_tasks(labels.label[edges], nodes, own, messages, edges)
            means[workers] = share @ wanted[own]
        return log_mass, means
    from crowdwise.kernels.compiled.messages import send_to_tasks

    # An equal share of labels times nodes in each lane.
    work = labels.labels_per_worker * (1 + np.diff(nodes.ptr)[nodes.set_of] / NODE_COST)
    ends = split_work(np.concatenate(([0.0], np.cumsum(work))))
    map_workers(labels, ends, send_to_tasks, nodes, messages, wanted, log_mass, means)
    return log_mass, means


def task_messages(
    labels: CrowdLabels, prior: TruthPrior, messages: Messages, posterior: FloatArray, damping: float
) -> tuple[float, FloatArray]:
    """Messages to the workers, into `incoming`, and the posterior; how far messages moved, and log Σ over truths (N,).

    Parameters
    ----------
    prior
        Its `log_prior` is (N, K), or (1, K) for all tasks alike.
    damping
        Share of the old message that is kept.

    Notes
    -----
    A message moves by its distance in total variation, before damping; the distances are added over the labels.
    """
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _send_to_workers(labels, prior, messages, posterior, damping)
    from crowdwise.kernels.compiled.messages import send_to_workers

    log_mass = np.empty(labels.n_tasks)
    moved = map_tasks(labels, send_to_workers, prior, messages, posterior, damping, log_mass)
    return float(np.sum(moved)), log_mass


def _nodes_of_worker(nodes: NodeSets, worker: int) -> slice:
    which = nodes.set_of[worker]
    return slice(int(nodes.ptr[which]), int(nodes.ptr[which + 1]))


def _workers_alike(labels: CrowdLabels, nodes: NodeSets) -> Iterator[IntArray]:
    """Workers who share a set of nodes and gave equally many labels: many at once, where they fit into a block."""
    number = labels.labels_per_worker.astype(np.int64)
    order = np.lexsort((number, nodes.set_of))
    begins = np.flatnonzero(np.diff(nodes.set_of[order]) | np.diff(number[order])) + 1
    for alike in np.split(order, begins):
        own = _nodes_of_worker(nodes, alike[0])
        size = max(1, int(number[alike[0]]) * nodes.table.shape[1] * (own.stop - own.start))
        many = max(1, BLOCK // size)
        for start in range(0, alike.size, many):
            yield alike[start : start + many]


def _send_to_tasks(
    label: IntArray, nodes: NodeSets, own: slice, messages: Messages, edges: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Messages, log-mass (W,) and posterior of the nodes (W, nodes) of W workers whose edges are the rows given.

    Every node is looked at, however large the grid.
    """
    said = np.zeros((1, 1), np.int64) if nodes.are_coins else label
    rows = nodes.table[:, :, own][said]
    chance = np.maximum(np.einsum("...k,...kn->...n", messages.incoming[edges], rows), FLOOR)
    logs = nodes.log_weight[own] + np.log(chance).sum(axis=1)
    log_mass = _log_sum(logs)
    share: FloatArray = np.exp(logs - log_mass)
    found = np.einsum("...n,...kn->...k", share[:, None] / chance, rows)
    messages.outgoing[edges] = np.log(np.maximum(found, FLOOR))
    return log_mass[:, 0], share


def _log_sum(logs: FloatArray) -> FloatArray:
    """Logarithm of the sum of exp(logs) along the last axis, which is kept; a row has a finite number."""
    highest = logs.max(axis=-1, keepdims=True)
    total: FloatArray = highest + np.log(np.exp(logs - highest).sum(axis=-1, keepdims=True))
    return total


def _send_to_workers(
    labels: CrowdLabels, prior: TruthPrior, messages: Messages, posterior: FloatArray, damping: float
) -> tuple[float, FloatArray]:
    """Every task's messages and posterior; how far messages moved, and the tasks' log-masses."""
    gold, (incoming, outgoing, coins) = prior.gold, messages
    each = np.arange(labels.n_labels)
    speaks = outgoing
    if coins:
        speaks = np.repeat(outgoing[:, 1:], labels.n_classes, axis=1)
        speaks[each, labels.label] = outgoing[:, 0]
    logs = np.broadcast_to(prior.log_prior, (labels.n_tasks, labels.n_classes)).copy()
    np.add.at(logs, labels.task, speaks)
    if gold.size:
        logs[(gold >= 0)[:, None] & (np.arange(labels.n_classes) != gold[:, None])] = -np.inf
    log_mass = _log_sum(logs)
    posterior[:] = np.exp(logs - log_mass)
    rest = logs[labels.task] - speaks
    fresh = np.exp(rest - _log_sum(rest))
    if coins:
        named = fresh[each, labels.label]
        fresh[each, labels.label] = 0.0
        fresh = np.stack([named, fresh.sum(axis=1)], axis=1)
    moved = 0.5 * float(np.abs(fresh - incoming).sum())
    incoming[:] = (1 - damping) * fresh + damping * incoming
    return moved, log_mass[:, 0]
