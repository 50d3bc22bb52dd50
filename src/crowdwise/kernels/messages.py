"""Messages between workers and tasks, for belief propagation.

A worker's prior is a weighted set of nodes; a node says how probable each answer is for each kind of truth. Two sorts:

| nodes | a table's axes | kinds of truth | a message has |
|---|---|---|---|
| matrices | (K labels, K truths, nodes) | the K classes | K numbers, one for each class |
| coins | (1, 2, nodes) | the class named, another | 2 numbers: for the class named, for each other |

A message of a task to a worker is a distribution (of a coin: the class named, all others together). A message of a
worker to a task is a logarithm, scaled so that the two messages of an edge multiply to 1: then the Bethe
log-partition is the sum of the logarithms that both passes return. `reference.py` is the specification.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from crowdwise.kernels.layout import LANE_LABELS, MOST_LANES, task_lanes
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FLOOR", "NodeSets", "task_messages", "worker_messages"]

FLOOR = 1e-100  # of an answer's probability at a node: its product with another still is a number, and its inverse
FOLD = 1e-200  # a product below this is folded into a logarithm, before the next factor makes it vanish
NODE_COST = 16  # nodes that cost as much as reading a label does


@dataclass(frozen=True)
class NodeSets:
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
    """

    table: FloatArray
    log_weight: FloatArray
    ptr: IntArray
    set_of: IntArray

    @property
    def coins(self) -> bool:
        """Whether nodes are coins."""
        return bool(self.table.shape[0] == 1)


def worker_messages(
    labels: CrowdLabels,
    nodes: NodeSets,
    incoming: FloatArray,
    outgoing: FloatArray,
    features: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Messages to the tasks, into `outgoing`; log Σ over nodes of what each worker was told, (M,); and means.

    Parameters
    ----------
    incoming, outgoing : (S, kinds)
        Messages on each edge, in the order of the labels.
    features : (nodes, F), optional
        What to average over each worker's posterior of the nodes: the means are (M, F).
    """
    order = labels.by_worker
    wanted = np.empty((nodes.log_weight.size, 0)) if features is None else features
    means = np.empty((labels.n_workers, wanted.shape[1]))
    log_mass = np.empty(labels.n_workers)
    edges = _worker_lanes(labels, nodes)

    def one_lane(lane: int) -> None:
        _worker_lane(
            edges[lane], edges[lane + 1], order.ptr, order.edge, labels.label, nodes.set_of, nodes.ptr,
            nodes.table, nodes.log_weight, incoming, outgoing, wanted, log_mass, means,
        )  # fmt: skip

    run_lanes(one_lane, edges.size - 1)
    return log_mass, means


def task_messages(
    labels: CrowdLabels,
    log_prior: FloatArray,
    gold: IntArray,
    outgoing: FloatArray,
    incoming: FloatArray,
    posterior: FloatArray,
    *,
    coins: bool,
    damping: float,
) -> tuple[float, FloatArray]:
    """Messages to the workers, into `incoming`, and the posterior; how far messages moved, and log Σ over truths (N,).

    Parameters
    ----------
    log_prior : (N, K) or (1, K)
        Of each task, or one for all.
    coins
        Whether messages are those of coins.
    damping
        Share of the old message that is kept.

    Notes
    -----
    A message moves by its distance in total variation, before damping; the distances are added over the labels.
    """
    log_mass = np.empty(labels.n_tasks)
    edges = task_lanes(labels)
    moved = np.zeros(edges.size - 1)

    def one_lane(lane: int) -> None:
        moved[lane] = _task_lane(
            edges[lane], edges[lane + 1], labels.task_ptr, labels.label, log_prior, gold,
            outgoing, incoming, posterior, coins, damping, log_mass,
        )  # fmt: skip

    run_lanes(one_lane, moved.size)
    return float(moved.sum()), log_mass


def _worker_lanes(labels: CrowdLabels, nodes: NodeSets) -> IntArray:
    """Workers at which lanes begin and end: an equal share of labels times nodes in each."""
    work = labels.labels_per_worker * (1 + np.diff(nodes.ptr)[nodes.set_of] / NODE_COST)
    done = np.concatenate(([0.0], np.cumsum(work)))
    n_lanes = int(max(1, min(MOST_LANES, done[-1] // LANE_LABELS)))
    shares = np.arange(1, n_lanes) * (done[-1] / n_lanes)
    return np.concatenate(([0], np.searchsorted(done, shares), [labels.n_workers])).astype(np.int64)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _at_nodes(message: FloatArray, table: FloatArray, first: int, chance: FloatArray) -> None:
    """Probability of one answer at each node, given what is known of the truth."""
    if message.size == 2:
        right, other = message[0], message[1]
        for node in range(chance.size):
            chance[node] = max(right * table[0, first + node] + other * table[1, first + node], FLOOR)
        return
    chance[:] = 0.0
    for kind in range(message.size):
        for node in range(chance.size):
            chance[node] += message[kind] * table[kind, first + node]
    for node in range(chance.size):
        chance[node] = max(chance[node], FLOOR)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _worker_lane(
    first: int,
    last: int,
    ptr: IntArray,
    order: IntArray,
    label: IntArray,
    set_of: IntArray,
    set_ptr: IntArray,
    table: FloatArray,
    log_weight: FloatArray,
    incoming: FloatArray,
    outgoing: FloatArray,
    features: FloatArray,
    log_mass: FloatArray,
    means: FloatArray,
) -> None:
    n_kinds = table.shape[1]
    most = np.diff(set_ptr).max()
    log_space, product_space, chance_space = np.empty(most), np.empty(most), np.empty(most)
    for worker in range(first, last):
        start = set_ptr[set_of[worker]]
        size = set_ptr[set_of[worker] + 1] - start
        logs, product, chance = log_space[:size], product_space[:size], chance_space[:size]
        logs[:] = log_weight[start : start + size]
        product[:] = 1.0
        for place in range(ptr[worker], ptr[worker + 1]):
            edge = order[place]
            _at_nodes(incoming[edge], table[label[edge] if table.shape[0] > 1 else 0], start, chance)
            lowest = 1.0
            for node in range(size):
                product[node] *= chance[node]
                lowest = min(lowest, product[node])
            if lowest < FOLD:
                for node in range(size):
                    logs[node] += math.log(product[node])
                    product[node] = 1.0
        for node in range(size):
            logs[node] += math.log(product[node])
        highest = logs.max()
        mass = 0.0
        share = product
        for node in range(size):
            share[node] = math.exp(logs[node] - highest)
            mass += share[node]
        for node in range(size):
            share[node] /= mass
        log_mass[worker] = highest + math.log(mass)
        for column in range(features.shape[1]):
            mean = 0.0
            for node in range(size):
                mean += share[node] * features[start + node, column]
            means[worker, column] = mean
        for place in range(ptr[worker], ptr[worker + 1]):
            edge = order[place]
            rows = table[label[edge] if table.shape[0] > 1 else 0]
            _at_nodes(incoming[edge], rows, start, chance)
            for node in range(size):
                chance[node] = share[node] / chance[node]
            for kind in range(n_kinds):
                total = 0.0
                for node in range(size):
                    total += chance[node] * rows[kind, start + node]
                outgoing[edge, kind] = math.log(max(total, FLOOR))


@njit(cache=True, nogil=True, error_model="numpy")
def _task_lane(
    first: int,
    last: int,
    ptr: IntArray,
    label: IntArray,
    log_prior: FloatArray,
    gold: IntArray,
    outgoing: FloatArray,
    incoming: FloatArray,
    posterior: FloatArray,
    coins: bool,
    damping: float,
    log_mass: FloatArray,
) -> float:
    n_classes = posterior.shape[1]
    logs, rest = np.empty(n_classes), np.empty(n_classes)
    message = np.empty(incoming.shape[1])
    moved = 0.0
    for task in range(first, last):
        row = posterior[task]
        logs[:] = log_prior[task if log_prior.shape[0] > 1 else 0]
        always = 0.0
        for edge in range(ptr[task], ptr[task + 1]):
            if coins:
                always += outgoing[edge, 1]
                logs[label[edge]] += outgoing[edge, 0] - outgoing[edge, 1]
            else:
                for k in range(n_classes):
                    logs[k] += outgoing[edge, k]
        if gold.size > 0 and gold[task] >= 0:
            for k in range(n_classes):
                if k != gold[task]:
                    logs[k] = -np.inf
        highest = logs.max()
        mass = 0.0
        for k in range(n_classes):
            rest[k] = math.exp(logs[k] - highest)
            mass += rest[k]
        for k in range(n_classes):
            row[k] = rest[k] / mass
        log_mass[task] = always + highest + math.log(mass)
        for edge in range(ptr[task], ptr[task + 1]):
            if coins:
                named = label[edge]
                bonus = outgoing[edge, 0] - outgoing[edge, 1]
                message[0] = math.exp(logs[named] - bonus - highest)
                message[1] = 0.0
                for k in range(n_classes):
                    if k != named:
                        message[1] += rest[k]
            else:
                top = -np.inf
                for k in range(n_classes):
                    message[k] = logs[k] - outgoing[edge, k]
                    top = max(top, message[k])
                for k in range(n_classes):
                    message[k] = math.exp(message[k] - top)
            mass = message.sum()
            for kind in range(message.size):
                fresh = message[kind] / mass
                old = incoming[edge, kind]
                moved += 0.5 * abs(fresh - old)
                incoming[edge, kind] = (1 - damping) * fresh + damping * old
    return moved
