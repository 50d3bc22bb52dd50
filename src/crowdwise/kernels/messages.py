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

from crowdwise.kernels.layout import cut, task_lanes
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FLOOR", "NodeSets", "task_messages", "worker_messages"]

FLOOR = 1e-100  # of an answer's probability at a node: its product with another still is a number, and its inverse
FOLD = 1e-200  # a product below this is folded into a logarithm, before the next factor makes it vanish
TAIL = 40.0  # nodes whose logarithm is further below the highest add less than rounding does
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
            nodes.side, nodes.stride, nodes.n_dims, nodes.table, nodes.log_weight,
            incoming, outgoing, wanted, log_mass, means,
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
    return cut(np.concatenate(([0.0], np.cumsum(work))))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _log_products(
    edges: IntArray,
    label: IntArray,
    incoming: FloatArray,
    table: FloatArray,
    start: int,
    logs: FloatArray,
    product: FloatArray,
    chance: FloatArray,
) -> None:
    """Add to `logs` the log-probability of a worker's answers at each node."""
    product[:] = 1.0
    for edge in edges:
        _at_nodes(incoming[edge], table[label[edge] if table.shape[0] > 1 else 0], start, chance)
        lowest = 1.0
        for node in range(logs.size):
            product[node] *= chance[node]
            lowest = min(lowest, product[node])
        if lowest < FOLD:
            for node in range(logs.size):
                logs[node] += math.log(product[node])
                product[node] = 1.0
    for node in range(logs.size):
        logs[node] += math.log(product[node])


@njit(cache=True, nogil=True, error_model="numpy")
def _thinned(start: int, side: int, stride: int, n_dims: int, low: IntArray, high: IntArray) -> IntArray:
    """Nodes of a grid inside the box from `low` to `high`, every so manieth along each dimension."""
    counts = np.empty(n_dims, np.int64)
    for dim in range(n_dims):
        counts[dim] = (high[dim] - low[dim]) // stride + 1
    size = 1
    for dim in range(n_dims):
        size *= counts[dim]
    found = np.empty(size, np.int64)
    for place in range(found.size):
        rest, node, scale = place, 0, 1
        for dim in range(n_dims - 1, -1, -1):
            node += (low[dim] + stride * (rest % counts[dim])) * scale
            rest //= counts[dim]
            scale *= side
        found[place] = start + node
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _bracket(
    found: IntArray, logs: FloatArray, start: int, side: int, stride: int, low: IntArray, high: IntArray
) -> None:
    """The box around the nodes that matter, out to the next ones looked at, into `low` and `high`."""
    bound = logs[0]
    for place in range(1, found.size):
        bound = max(bound, logs[place])
    bound -= TAIL
    low[:] = side
    high[:] = 0
    for place in range(found.size):
        if logs[place] >= bound:
            rest = found[place] - start
            for dim in range(low.size - 1, -1, -1):
                low[dim] = min(low[dim], rest % side)
                high[dim] = max(high[dim], rest % side)
                rest //= side
    for dim in range(low.size):
        low[dim] = max(low[dim] - stride, 0)
        high[dim] = min(high[dim] + stride, side - 1)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _worker_lane(
    first: int,
    last: int,
    ptr: IntArray,
    order: IntArray,
    label: IntArray,
    set_of: IntArray,
    set_ptr: IntArray,
    sides: IntArray,
    strides: IntArray,
    n_dims: int,
    table: FloatArray,
    log_weight: FloatArray,
    incoming: FloatArray,
    outgoing: FloatArray,
    features: FloatArray,
    log_mass: FloatArray,
    means: FloatArray,
) -> None:
    n_kinds = table.shape[1]
    most = 0
    for number in range(set_ptr.size - 1):
        most = max(most, set_ptr[number + 1] - set_ptr[number])
    log_space, product_space, chance_space = np.empty(most), np.empty(most), np.empty(most)
    low, high = np.empty(n_dims, np.int64), np.empty(n_dims, np.int64)
    for worker in range(first, last):
        own = set_of[worker]
        start, size = set_ptr[own], set_ptr[own + 1] - set_ptr[own]
        side, stride = sides[own], strides[own]
        edges = order[ptr[worker] : ptr[worker + 1]]
        answers, chosen, begin = table, np.empty(0, np.int64), start
        # Every so manieth node of a large grid first, then all that lie where those matter; of another set all at once.
        rounds = 2 if stride > 0 and edges.size > 0 else 1
        for number in range(rounds):
            if rounds == 2:
                if number == 0:
                    low[:] = 0
                    high[:] = side - 1
                else:
                    _bracket(chosen, log_space, start, side, stride, low, high)
                chosen = _thinned(start, side, stride if number == 0 else min(stride, 1), n_dims, low, high)
                answers, begin, size = _columns(table, chosen), 0, chosen.size
            logs, product, chance = log_space[:size], product_space[:size], chance_space[:size]
            for node in range(size):
                logs[node] = log_weight[chosen[node] if rounds == 2 else start + node]
            _log_products(edges, label, incoming, answers, begin, logs, product, chance)
        logs, product, chance = log_space[:size], product_space[:size], chance_space[:size]
        highest = logs[0]
        for node in range(1, size):
            highest = max(highest, logs[node])
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
                mean += share[node] * features[chosen[node] if rounds == 2 else start + node, column]
            means[worker, column] = mean
        for edge in edges:
            rows = answers[label[edge] if table.shape[0] > 1 else 0]
            _at_nodes(incoming[edge], rows, begin, chance)
            for node in range(size):
                chance[node] = share[node] / chance[node]
            for kind in range(n_kinds):
                total = 0.0
                for node in range(size):
                    total += chance[node] * rows[kind, begin + node]
                outgoing[edge, kind] = math.log(max(total, FLOOR))


@njit(cache=True, nogil=True, error_model="numpy")
def _columns(table: FloatArray, chosen: IntArray) -> FloatArray:
    """The table at the chosen nodes alone."""
    part = np.empty((table.shape[0], table.shape[1], chosen.size))
    for label in range(table.shape[0]):
        for kind in range(table.shape[1]):
            for place in range(chosen.size):
                part[label, kind, place] = table[label, kind, chosen[place]]
    return part


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
        own = task if log_prior.shape[0] > 1 else 0
        for k in range(n_classes):
            logs[k] = log_prior[own, k]
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
        highest = logs[0]
        for k in range(1, n_classes):
            highest = max(highest, logs[k])
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
            mass = 0.0
            for kind in range(message.size):
                mass += message[kind]
            for kind in range(message.size):
                fresh = message[kind] / mass
                old = incoming[edge, kind]
                moved += 0.5 * abs(fresh - old)
                incoming[edge, kind] = (1 - damping) * fresh + damping * old
    return moved
