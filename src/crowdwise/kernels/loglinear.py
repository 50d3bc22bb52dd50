"""Passes for models where P(label l | truth k) ∝ exp(task table[k, l] + worker table[k, l]) (minimax entropy).

Every task and every worker has a table (K, K) [truth, label]. `table_posterior` is the E-step. `improve_tables`
improves the tables of all tasks, or of all workers, while the others stand: a concave problem for each, climbed by
Newton steps with a curvature that is never too small and costs no more than the gradient.

In one row k, with weights q and shares p of the labels at each edge, the curvature is Σ q (diag p - p pᵀ). By Jensen it
is at most diag m - m mᵀ / Σm with m = Σ q p, which is exact where the other side's tables are alike. That has an
inverse in closed form, or, where rows are tied by an order of the classes, becomes a small matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import map_tasks, split_work
from crowdwise.kernels.grouped_sums import TruthPrior, softmax_tasks, sum_cells, sum_groups
from crowdwise.kernels.threads import map_lanes
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Side", "improve_tables", "table_posterior"]

NEGLIGIBLE = 1e-11  # posterior of a class below which an edge says nothing of that row
STEPS = 4  # Newton steps in one climb: the tables start where the last climb ended
ENOUGH = 1e-5  # gain per label that a further step must promise
HALVINGS = 20  # of a step that overshoots


def table_posterior(
    labels: CrowdLabels, task_table: FloatArray, worker_table: FloatArray, log_prior: FloatArray, gold: IntArray
) -> tuple[float, FloatArray]:
    """Log-likelihood of the labels (and gold truths), and posterior (N, K). Tables are [·, truth, label]."""
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        logits = _tables_of_edges(task_table, labels.task) + _tables_of_edges(worker_table, labels.worker)
        own = logits[:, labels.label, np.arange(labels.n_labels)]
        highest = logits.max(axis=1)
        log_mass = np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        return softmax_tasks(log_prior + sum_groups((own - highest - log_mass).T, labels.task_ptr), gold)
    from crowdwise.kernels.compiled.loglinear import e_step

    posterior = np.empty((labels.n_tasks, labels.n_classes))
    values = map_tasks(labels, e_step, task_table, worker_table, TruthPrior(log_prior, gold), posterior)
    return float(np.sum(values)), posterior


class Side(NamedTuple):
    """Labels by blocks, which are the tasks or the workers: those of block b are `order[ptr[b]:ptr[b + 1]]`.

    Of each label its task, the `other` side's block and the class.
    """

    ptr: IntArray
    order: IntArray
    task: IntArray
    other: IntArray
    label: IntArray


def improve_tables(
    labels: CrowdLabels,
    posterior: FloatArray,
    table: FloatArray,
    others: FloatArray,
    weight: float,
    *,
    of_workers: bool,
    ordinal: bool,
) -> FloatArray:
    """Tables (N or M, K, K) that are better by Σ q log P(label | truth) - penalty, than those given.

    Parameters
    ----------
    table, others
        The tables to improve, and those of the other side, which stand.
    weight : above 0
        The penalty is half of this times the squared parameters of each table.
    ordinal
        Whether tables are sums over thresholds s of parameters for (truth ≥ s, label ≥ s), instead of free.
    """
    order, ptr, other = labels.by_worker.edge, labels.by_worker.ptr, labels.task
    if not of_workers:
        ptr, other = labels.task_ptr, labels.worker
        order = np.arange(labels.n_labels, dtype=order.dtype)
        order.flags.writeable = False  # as the other side's: for each kind of array, kernels are compiled anew
    side = Side(ptr, order, labels.task, other, labels.label)
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _improve_tables(side, posterior, table, others, weight, ordinal=ordinal)
    from crowdwise.kernels.compiled.loglinear import climb

    better = table.copy()
    map_lanes(lambda first, last: climb(first, last, side, posterior, better, others, weight, ordinal), split_work(ptr))
    return better


def _tables_of_edges(table: FloatArray, place: IntArray) -> FloatArray:
    """The tables (·, K, K) of each label, (K, K, S). Taken, not indexed: labels then lie side by side in memory."""
    taken: FloatArray = np.take(np.ascontiguousarray(np.moveaxis(table, 0, 2)), place, axis=2)
    return taken


class _Edges(NamedTuple):
    """Labels in the order of their blocks (tasks, or workers) and what is the same in every step of a climb.

    Labels stand along the last axis: sums over a few classes are then sums of long rows.
    """

    block: IntArray
    label: IntArray
    posterior: FloatArray  # (K, S)
    others: FloatArray  # (K, K, S)

    def select(self, blocks: IntArray, n_blocks: int) -> tuple[_Edges, IntArray]:
        """The labels of these blocks (which ascend), numbered anew, and where each block begins and ends."""
        place = np.full(n_blocks, -1)
        place[blocks] = np.arange(blocks.size)
        block = place[self.block]
        here = np.flatnonzero(block >= 0)
        edges = _Edges(block, self.label, self.posterior, self.others)
        if here.size < block.size:
            posterior, others = (np.take(values, here, axis=-1) for values in (self.posterior, self.others))
            edges = _Edges(block[here], self.label[here], posterior, others)
        return edges, np.append(0, np.cumsum(np.bincount(edges.block, minlength=blocks.size)))


def _improve_tables(
    side: Side, posterior: FloatArray, table: FloatArray, others: FloatArray, weight: float, *, ordinal: bool
) -> FloatArray:
    """All blocks at once, each until it ends as it would alone."""
    number = np.diff(side.ptr)
    q = posterior[side.task[side.order]]
    q = np.where(q < NEGLIGIBLE, 0, q)
    beside = _tables_of_edges(others, side.other[side.order])
    block = np.repeat(np.arange(number.size), number)
    every = _Edges(block, side.label[side.order], np.ascontiguousarray(q.T), beside)
    better = np.where(number[:, None, None] > 0, table, 0)
    step = _ordinal_newton_step if ordinal else _newton_step
    climbing = np.flatnonzero(number)
    value, slope, mass = _gradient_sums(better[climbing], *every.select(climbing, len(table)))
    value -= _penalty(better[climbing], weight, ordinal=ordinal)
    for _ in range(STEPS):
        direction, promise = step(better[climbing], slope, mass, weight)
        on = promise > ENOUGH * number[climbing]
        climbing, value, slope, mass, direction = climbing[on], value[on], slope[on], mass[on], direction[on]
        scale, trying = np.ones(climbing.size), np.arange(climbing.size)
        for _ in range(HALVINGS):
            if not trying.size:
                break
            blocks = climbing[trying]
            trial = better[blocks] + scale[trying, None, None] * direction[trying]
            reached, new_slope, new_mass = _gradient_sums(trial, *every.select(blocks, len(table)))
            reached -= _penalty(trial, weight, ordinal=ordinal)
            good = reached >= value[trying]
            done = trying[good]
            better[climbing[done]], value[done] = trial[good], reached[good]
            slope[done], mass[done] = new_slope[good], new_mass[good]
            trying = trying[~good]
            scale[trying] *= 0.5
        # Those whom no step served stay where they are.
        climbing, value = np.delete(climbing, trying), np.delete(value, trying)
        slope, mass = np.delete(slope, trying, axis=0), np.delete(mass, trying, axis=0)
        if not climbing.size:
            break
    return better


def _gradient_sums(own: FloatArray, edges: _Edges, ptr: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ q log P(label | truth) over each block's edges; its gradient by the table; m = Σ q p."""
    size = own.shape[1]
    logits = _tables_of_edges(own, edges.block) + edges.others
    highest = logits.max(axis=1)
    given = logits[:, edges.label, np.arange(edges.label.size)] - highest
    shares = np.exp(logits - highest[:, None])
    total = shares.sum(axis=1)
    value = (edges.posterior * (given - np.log(total))).sum(axis=0)
    shares *= (edges.posterior / total)[:, None]
    mass = np.moveaxis(np.add.reduceat(shares, ptr[:-1], axis=2), 2, 0)
    cell = (edges.block * size + np.arange(size)[:, None]) * size + edges.label
    said = sum_cells(cell.ravel(), edges.posterior.ravel(), own.size).reshape(own.shape)
    return sum_groups(value, ptr), said - mass, np.ascontiguousarray(mass)


def _penalty(own: FloatArray, weight: float, *, ordinal: bool) -> FloatArray:
    if not ordinal:
        return np.asarray(0.5 * weight * (own**2).sum(axis=(1, 2)))
    return np.asarray(weight * (_threshold_parameters(own) ** 2).sum(axis=(1, 2)))


def _threshold_parameters(own: FloatArray) -> FloatArray:
    """The parameters (B, 2, K - 1) of (truth ≥ s or not, label ≥ s); that of (label < s) is its negative."""
    return np.asarray(0.5 * np.diff(own[:, [0, -1]], axis=2))


def _newton_step(own: FloatArray, slope: FloatArray, mass: FloatArray, weight: float) -> tuple[FloatArray, FloatArray]:
    """Newton directions, row by row (Sherman and Morrison), and the gain that each promises."""
    pull = slope - weight * own
    damp = mass / (mass + weight)
    along, left = (damp * pull).sum(axis=2, keepdims=True), (damp * weight).sum(axis=2, keepdims=True)
    direction = (pull + np.where(left == 0, 0, mass * along / np.where(left == 0, 1, left))) / (mass + weight)
    return direction, (pull * direction).sum(axis=(1, 2))


def _ordinal_newton_step(
    own: FloatArray, slope: FloatArray, mass: FloatArray, weight: float
) -> tuple[FloatArray, FloatArray]:
    """Newton directions in the threshold parameters, as tables, and the gain that each promises."""
    size = own.shape[1]
    n_steps = size - 1
    s = np.arange(1, size)
    sign = np.where(np.arange(size)[:, None] >= s, 1.0, -1.0)  # [label, threshold]
    place = np.where(np.arange(size)[:, None] >= s, n_steps, 0) + s - 1  # of the parameter [truth, threshold]
    gradient = -2 * weight * _threshold_parameters(own).reshape(-1, 2 * n_steps)
    matrix = np.tile(2 * weight * np.eye(2 * n_steps), (len(own), 1, 1))
    total = mass.sum(axis=2)
    for k in range(size):
        gradient[:, place[k]] += slope[:, k] @ sign
        tilt = mass[:, k] @ sign
        met = np.einsum("bc,cs,cr->bsr", mass[:, k], sign, sign)
        met -= tilt[:, :, None] * tilt[:, None, :] / np.where(total[:, k] == 0, 1, total[:, k])[:, None, None]
        matrix[:, place[k][:, None], place[k]] += met
    step = np.linalg.solve(matrix, gradient[:, :, None])[:, :, 0]
    direction = np.einsum("bks,cs->bkc", step[:, place], sign)
    return direction, (step * gradient).sum(axis=1)
