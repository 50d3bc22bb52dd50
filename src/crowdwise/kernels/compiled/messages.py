"""Messages of some workers to their tasks, and of some tasks to their workers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from crowdwise.kernels.messages import FLOOR
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import TaskLane, WorkerLane
    from crowdwise.kernels.grouped_sums import TruthPrior
    from crowdwise.kernels.messages import Messages, NodeSets
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["send_to_tasks", "send_to_workers"]

Work: TypeAlias = "tuple[FloatArray, FloatArray, FloatArray]"  # of each node: logarithms, products, chances

FOLD = 1e-200  # a product below this is folded into a logarithm, before the next factor makes it vanish
TAIL = 40.0  # nodes whose logarithm is further below the highest add less than rounding does


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _answer_probability_at_nodes(message: FloatArray, table: FloatArray, first: int, chance: FloatArray) -> None:
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
    edges: IntArray, label: IntArray, incoming: FloatArray, table: FloatArray, start: int, work: Work
) -> None:
    """Add to the logarithms the log-probability of a worker's answers at each node."""
    logs, product, chance = work
    product[:] = 1.0
    for edge in edges:
        _answer_probability_at_nodes(incoming[edge], table[label[edge] if table.shape[0] > 1 else 0], start, chance)
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
def _thin_grid(start: int, side: int, stride: int, n_dims: int, low: IntArray, high: IntArray) -> IntArray:
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
def _bracket_nodes(
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
def send_to_tasks(
    lane: WorkerLane, nodes: NodeSets, messages: Messages, features: FloatArray, log_mass: FloatArray, means: FloatArray
) -> None:
    """Messages of some workers to their tasks."""
    label, table, log_weight, n_dims = lane.label, nodes.table, nodes.log_weight, nodes.n_dims
    incoming, outgoing, _ = messages
    n_kinds = table.shape[1]
    most = 0
    for own in range(nodes.ptr.size - 1):
        most = max(most, nodes.ptr[own + 1] - nodes.ptr[own])
    log_space, product_space, chance_space = np.empty(most), np.empty(most), np.empty(most)
    low, high = np.empty(n_dims, np.int64), np.empty(n_dims, np.int64)
    for worker in range(lane.first, lane.last):
        own = nodes.set_of[worker]
        start, size = nodes.ptr[own], nodes.ptr[own + 1] - nodes.ptr[own]
        side, stride = nodes.side[own], nodes.stride[own]
        edges = lane.edge[lane.ptr[worker] : lane.ptr[worker + 1]]
        answers, chosen, begin = table, np.empty(0, np.int64), start
        # Every so manieth node of a large grid first, then all that lie where those matter; of another set all at once.
        rounds = 2 if stride > 0 and edges.size > 0 else 1
        for number in range(rounds):
            if rounds == 2:
                if number == 0:
                    low[:] = 0
                    high[:] = side - 1
                else:
                    _bracket_nodes(chosen, log_space, start, side, stride, low, high)
                chosen = _thin_grid(start, side, stride if number == 0 else min(stride, 1), n_dims, low, high)
                answers, begin, size = _select_nodes(table, chosen), 0, chosen.size
            logs, product, chance = log_space[:size], product_space[:size], chance_space[:size]
            for node in range(size):
                logs[node] = log_weight[chosen[node] if rounds == 2 else start + node]
            _log_products(edges, label, incoming, answers, begin, (logs, product, chance))
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
            _answer_probability_at_nodes(incoming[edge], rows, begin, chance)
            for node in range(size):
                chance[node] = share[node] / chance[node]
            for kind in range(n_kinds):
                total = 0.0
                for node in range(size):
                    total += chance[node] * rows[kind, begin + node]
                outgoing[edge, kind] = math.log(max(total, FLOOR))


@njit(cache=True, nogil=True, error_model="numpy")
def _select_nodes(table: FloatArray, chosen: IntArray) -> FloatArray:
    """The table at the chosen nodes alone."""
    part = np.empty((table.shape[0], table.shape[1], chosen.size))
    for label in range(table.shape[0]):
        for kind in range(table.shape[1]):
            for place in range(chosen.size):
                part[label, kind, place] = table[label, kind, chosen[place]]
    return part


@njit(cache=True, nogil=True, error_model="numpy")
def send_to_workers(
    lane: TaskLane, prior: TruthPrior, messages: Messages, posterior: FloatArray, damping: float, log_mass: FloatArray
) -> float:
    """Messages of some tasks to their workers; returns how far they moved."""
    ptr, label, (log_prior, gold), (incoming, outgoing, coins) = lane.ptr, lane.label, prior, messages
    n_classes = posterior.shape[1]
    logs, rest = np.empty(n_classes), np.empty(n_classes)
    message = np.empty(incoming.shape[1])
    moved = 0.0
    for task in range(lane.first, lane.last):
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
