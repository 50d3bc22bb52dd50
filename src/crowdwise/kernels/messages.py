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
from scipy.special import logsumexp

from crowdwise.kernels.block_layout import map_tasks, map_workers, split_work
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.kernels.grouped_sums import TruthPrior
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FLOOR", "Messages", "NodeSets", "task_messages", "worker_messages"]

FLOOR = 1e-100  # of an answer's probability at a node: its product with another still is a number, and its inverse
NODE_COST = 16  # nodes that cost as much as reading a label does


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
    def are_coins(self) -> bool:
        """Whether nodes are coins."""
        return bool(self.table.shape[0] == 1)


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
        for worker in range(labels.n_workers):
            mine = order.edge[order.ptr[worker] : order.ptr[worker + 1]]
            log_mass[worker], share = _send_to_tasks(labels.label[mine], nodes, worker, messages, mine)
            means[worker] = share @ wanted[nodes.ptr[nodes.set_of[worker]] : nodes.ptr[nodes.set_of[worker] + 1]]
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


def _send_to_tasks(
    label: IntArray, nodes: NodeSets, worker: int, messages: Messages, edges: IntArray
) -> tuple[float, FloatArray]:
    """One worker's messages, log-mass, and posterior of their nodes: all of them, however large the grid."""
    own = slice(nodes.ptr[nodes.set_of[worker]], nodes.ptr[nodes.set_of[worker] + 1])
    rows = nodes.table[np.zeros(label.size, np.int64) if nodes.are_coins else label][:, :, own]
    chance = np.maximum(np.einsum("ek,eks->es", messages.incoming[edges], rows), FLOOR)
    logs = nodes.log_weight[own] + np.log(chance).sum(axis=0)
    log_mass = float(logsumexp(logs))
    share: FloatArray = np.exp(logs - log_mass)
    messages.outgoing[edges] = np.log(np.maximum(np.einsum("es,eks->ek", share / chance, rows), FLOOR))
    return log_mass, share


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
    log_mass: FloatArray = logsumexp(logs, axis=1)
    posterior[:] = np.exp(logs - log_mass[:, None])
    rest = logs[labels.task] - speaks
    fresh = np.exp(rest - logsumexp(rest, axis=1, keepdims=True))
    if coins:
        named = fresh[each, labels.label]
        fresh[each, labels.label] = 0.0
        fresh = np.stack([named, fresh.sum(axis=1)], axis=1)
    moved = 0.5 * float(np.abs(fresh - incoming).sum())
    incoming[:] = (1 - damping) * fresh + damping * incoming
    return moved, log_mass
