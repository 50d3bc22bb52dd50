"""One pass over the tasks of a crowd whose workers belong to families: expected counts, or one draw of what is hidden.

The model is that of `crowdwise.dependence.family_model`. Edges are sorted by task and, within a task, by family, with
the workers who are in none first. A block is the edges of one family on one task.

The NumPy passes know an edge only by its cell, the pair of worker and label: what a cell says of every truth and
latent class is computed once, and summed over the edges by sparse matrices that are made once for many passes
(`_SparseLayout`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "NEGLIGIBLE",
    "FamilyCounts",
    "FamilyEdges",
    "FamilyParameters",
    "expected_family_counts",
    "sample_hidden",
]

NEGLIGIBLE = 1e-12  # probability of a class below which it is left out of expected counts


class _FamilyEdgeArrays(NamedTuple):
    """Labels of a crowd, sorted by task and family.

    Attributes
    ----------
    task_ptr : (N + 1,)
    worker, label : (S,)
    family : (M,)
        Of each worker, -1 for none; counted from 0.
    gold : (N,)
        Known classes, -1 elsewhere.
    """

    task_ptr: IntArray
    worker: IntArray
    label: IntArray
    family: IntArray
    gold: IntArray


class FamilyEdges(_FamilyEdgeArrays):
    """The same, with what NumPy passes over these edges need more than once."""

    @cached_property
    def sparse_layout(self) -> _SparseLayout:
        """Sparse matrices of the edges."""
        return _SparseLayout.build_sparse(self)


class FamilyParameters(NamedTuple):
    """Parameters of the model.

    Attributes
    ----------
    prior : (K,)
    own : (M, K, K) [worker, truth, label]
        Chances of a label that workers give on their own.
    follow : (M,)
        Chance to follow the family, 0 for workers in none.
    latent : (J, K, K + 1) [family, truth, latent class]
        Chances of the family's latent class; the last is none.
    """

    prior: FloatArray
    own: FloatArray
    follow: FloatArray
    latent: FloatArray


class FamilyCounts(NamedTuple):
    """Counts of what is hidden.

    Attributes
    ----------
    classes : (K,)
    own : (M, K, K) [worker, truth, label]
        Labels that workers gave on their own.
    followed : (M, 2)
        Labels given on their own, and after the family.
    latent : (J, K, K + 1) [family, truth, latent class]
    """

    classes: FloatArray
    own: FloatArray
    followed: FloatArray
    latent: FloatArray


def expected_family_counts(edges: FamilyEdges, parameters: FamilyParameters) -> tuple[float, FamilyCounts]:
    """Log-likelihood of the labels, and expected counts."""
    if choose_engine(edges.worker.size, parameters.prior.size) == "numba":
        from crowdwise.kernels.compiled import family_model

        counts = _empty_counts(parameters)
        return family_model.expected_counts(edges, parameters, counts), counts
    return _expected_counts(edges, parameters)


def sample_hidden(
    edges: FamilyEdges, parameters: FamilyParameters, rng: np.random.Generator
) -> tuple[IntArray, FamilyCounts]:
    """One draw of the classes (N,) of all tasks from their posterior, and the counts that go with it."""
    n_tasks = edges.gold.size
    uniform = rng.random(2 * edges.worker.size + n_tasks)  # a latent class and a cause for each label at the most
    if choose_engine(edges.worker.size, parameters.prior.size) == "numba":
        from crowdwise.kernels.compiled import family_model

        counts, truth = _empty_counts(parameters), np.empty(n_tasks, np.int64)
        family_model.sample_classes(edges, parameters, uniform, truth, counts)
        return truth, counts
    return _sample(edges, parameters, uniform)


def _empty_counts(parameters: FamilyParameters) -> FamilyCounts:
    prior, own, _, latent = parameters
    return FamilyCounts(np.zeros_like(prior), np.zeros_like(own), np.zeros((own.shape[0], 2)), np.zeros_like(latent))


# ---- NumPy ------------------------------------------------------------------------------------------------


class _WorkerLabelCells(NamedTuple):
    """Pairs of worker and label (C,), and how often each occurs in each row of edges (rows, C), and its transpose."""

    worker: IntArray
    label: IntArray
    times: Any
    transposed: Any

    @classmethod
    def build_sparse(cls, row: IntArray, worker: IntArray, label: IntArray, n_rows: int) -> _WorkerLabelCells:
        n_labels = int(label.max(initial=0)) + 1
        found, cell = np.unique(worker * n_labels + label, return_inverse=True)
        times = sparse.csr_array((np.ones(row.size), (row, cell)), (n_rows, found.size))
        return cls(found // n_labels, found % n_labels, times, sparse.csr_array(times.T))


class _SparseLayout(NamedTuple):
    """Cells of the edges of workers in no family by task, and of the others by block.

    Attributes
    ----------
    edge : (E,)
        Edges in blocks.
    block : (E,)
        Block of each of them.
    block_task, block_family : (B,)
    by_task, by_family
        Sparse (N, B) and (J, B): the blocks of each task and of each family.
    task_draw, block_draw, edge_draw
        Places of the random numbers of tasks, blocks and edges in blocks, in the order of the compiled loop.
    """

    alone: _WorkerLabelCells
    joint: _WorkerLabelCells
    edge: IntArray
    block: IntArray
    block_task: IntArray
    block_family: IntArray
    by_task: Any
    by_family: Any
    task_draw: IntArray
    block_draw: IntArray
    edge_draw: IntArray

    @classmethod
    def build_sparse(cls, edges: _FamilyEdgeArrays) -> _SparseLayout:
        n_tasks = edges.gold.size
        task, family = np.repeat(np.arange(n_tasks), np.diff(edges.task_ptr)), edges.family[edges.worker]
        lone, edge = np.flatnonzero(family < 0), np.flatnonzero(family >= 0)
        begins = np.ones(edge.size, np.bool_)
        begins[1:] = (task[edge[1:]] != task[edge[:-1]]) | (family[edge[1:]] != family[edge[:-1]])
        block, first = np.cumsum(begins) - 1, edge[begins]
        n_blocks = first.size
        n_families = int(edges.family.max(initial=-1)) + 1
        by_task, by_family = (
            sparse.csr_array((np.ones(n_blocks), (row, np.arange(n_blocks))), (n_rows, n_blocks))
            for row, n_rows in ((task[first], n_tasks), (family[first], n_families))
        )
        # A task draws one number, then each of its blocks one, followed by one for each of its edges.
        before = np.searchsorted(task[edge], np.arange(n_tasks)) + np.searchsorted(task[first], np.arange(n_tasks))
        edge_draw = np.arange(edge.size) + block + task[edge] + 2
        return cls(
            _WorkerLabelCells.build_sparse(task[lone], edges.worker[lone], edges.label[lone], n_tasks),
            _WorkerLabelCells.build_sparse(block, edges.worker[edge], edges.label[edge], n_blocks),
            edge,
            block,
            task[first],
            family[first],
            by_task,
            by_family,
            np.arange(n_tasks) + before,
            edge_draw[begins] - 1,
            edge_draw,
        )


class _Weights(NamedTuple):
    """Chances of what is hidden.

    Attributes
    ----------
    alone_says : (C, K)
        Of the label of each cell in blocks, given on one's own.
    follow : (C, K + 1)
        Of the same label, after the family's latent class.
    joint : (B, K, K + 1)
        Of each latent class, given the truth.
    truth : (N, K)
        Of each class.
    log_total : (N,)
        Log-probability of a task's labels.
    """

    alone_says: FloatArray
    follow: FloatArray
    joint: FloatArray
    truth: FloatArray
    log_total: FloatArray


def _hidden_state_probabilities(layout: _SparseLayout, parameters: FamilyParameters) -> _Weights:
    prior, own, follow, latent = parameters
    size = prior.size
    alone, joint = layout.alone, layout.joint
    value = np.log(prior) + alone.times @ np.log(own[alone.worker, :, alone.label])
    alone_says = (1 - follow[joint.worker])[:, None] * own[joint.worker, :, joint.label]
    after = np.zeros((joint.worker.size, size + 1))
    after[np.arange(joint.worker.size), joint.label] = follow[joint.worker]
    after[:, size] = follow[joint.worker] / size
    logs = np.log(alone_says[:, :, None] + after[:, None, :])
    chance = _sparse_times_dense(joint.times, logs) + np.log(latent)[layout.block_family]
    given_truth, log_sums = _normalise_last(chance)
    truth, log_total = _normalise_last(value + layout.by_task @ log_sums)
    return _Weights(alone_says, after, given_truth, truth, log_total)


def _normalise_last(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares along the last axis, which is short, and the log of their sum."""
    most = logs[..., 0]
    for place in range(1, logs.shape[-1]):
        most = np.maximum(most, logs[..., place])
    chance = np.exp(logs - most[..., None])
    total = _sum_last(chance)
    chance /= total[..., None]
    return chance, most + np.log(total)


def _sum_last(values: FloatArray) -> FloatArray:
    """Sum along the last axis, which is short: a product is quicker there than a reduction."""
    summed: FloatArray = values @ np.ones(values.shape[-1])
    return summed


def _expected_counts(edges: FamilyEdges, parameters: FamilyParameters) -> tuple[float, FamilyCounts]:
    layout, gold = edges.sparse_layout, edges.gold
    weights = _hidden_state_probabilities(layout, parameters)
    known = np.flatnonzero(gold >= 0)
    value = float(weights.log_total.sum() + np.log(weights.truth[known, gold[known]]).sum())
    truth = np.where(weights.truth < NEGLIGIBLE, 0.0, weights.truth)
    truth[known] = np.eye(truth.shape[1])[gold[known]]
    joint = truth[layout.block_task, :, None] * weights.joint
    by_cell = _sparse_times_dense(layout.joint.transposed, joint) / (
        weights.alone_says[:, :, None] + weights.follow[:, None, :]
    )
    on_own = weights.alone_says * _sum_last(by_cell)
    after = np.einsum("ckz,cz->c", by_cell, weights.follow)
    counts = _empty_counts(parameters)
    counts.classes[:] = truth.sum(axis=0)
    _add_own_counts(counts, layout.alone, layout.alone.transposed @ truth)
    _add_own_counts(counts, layout.joint, on_own)
    counts.followed[:, 1] = np.bincount(layout.joint.worker, after, counts.followed.shape[0])
    counts.latent[:] = _sparse_times_dense(layout.by_family, joint)
    return value, counts


def _sparse_times_dense(matrix: Any, values: FloatArray) -> FloatArray:
    """A sparse matrix (R, n) times values (n, K, K + 1)."""
    _, *cells = values.shape
    summed: FloatArray = (matrix @ values.reshape(values.shape[0], np.prod(cells))).reshape(-1, *cells)
    return summed


def _add_own_counts(counts: FamilyCounts, cells: _WorkerLabelCells, own: FloatArray) -> None:
    """Add what the workers of some cells said on their own, by truth (C, K); a cell occurs once."""
    counts.own[cells.worker, :, cells.label] += own
    counts.followed[:, 0] += np.bincount(cells.worker, _sum_last(own), counts.followed.shape[0])


def _sample(edges: FamilyEdges, parameters: FamilyParameters, uniform: FloatArray) -> tuple[IntArray, FamilyCounts]:
    layout = edges.sparse_layout
    weights = _hidden_state_probabilities(layout, parameters)
    truth = np.where(edges.gold >= 0, edges.gold, _draw_by_inverse_cdf(weights.truth, uniform[layout.task_draw]))
    counts = _empty_counts(parameters)
    size = parameters.prior.size
    counts.classes[:] = np.bincount(truth, minlength=size)
    _add_own_counts(counts, layout.alone, layout.alone.transposed @ np.eye(size)[truth])
    block_truth = truth[layout.block_task]
    latent = _draw_by_inverse_cdf(weights.joint[np.arange(block_truth.size), block_truth], uniform[layout.block_draw])
    np.add.at(counts.latent, (layout.block_family, block_truth, latent), 1.0)
    worker, label = edges.worker[layout.edge], edges.label[layout.edge]
    true, common = block_truth[layout.block], latent[layout.block]
    follow = parameters.follow[worker]
    alone_says = (1 - follow) * parameters.own[worker, true, label]
    after = np.where(common == label, follow, np.where(common == size, follow / size, 0.0))
    follows = uniform[layout.edge_draw] * (alone_says + after) < after
    n_workers = counts.followed.shape[0]
    counts.followed[:, 1] += np.bincount(worker[follows], minlength=n_workers)
    counts.followed[:, 0] += np.bincount(worker[~follows], minlength=n_workers)
    np.add.at(counts.own, (worker[~follows], true[~follows], label[~follows]), 1.0)
    return truth, counts


def _draw_by_inverse_cdf(chance: FloatArray, uniform: FloatArray) -> IntArray:
    """The place (n,) in each row at which the sum of chances, which add up to one, passes a number."""
    place: IntArray = (uniform[:, None] >= chance[:, :-1].cumsum(axis=1)).sum(axis=1)
    return place
