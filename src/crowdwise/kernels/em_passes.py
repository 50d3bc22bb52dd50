"""One fused pass over the labels: E-step, the counts that the M-step needs, and the log-likelihood.

For each task, gather a log-probability per class and label, add, soft-max, scatter the posterior into the
workers' counts. `reference.py` says the same in a few lines of NumPy and is the specification.

| pass | adds to class k of a task | counts |
|---|---|---|
| `confusion_pass` | log A[w, k, l] | Σ q[t, k] per worker, label and class |
| `vote_pass` | bonus[w, l] where k = l | Σ q[t, l] per worker and label |
| `scatter` | nothing: values are given | Σ values[t, k] per worker, label and class |
| `share_pass` | nothing: q is the share of votes | Σ q[t, k] per worker, label and class |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled_loops import (
    confusion_lane,
    log_rows_lane,
    scatter_lane,
    share_lane,
    spread_lane,
    vote_lane,
)
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.kernels.layout import Blocks
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "NO_GOLD",
    "Statistics",
    "confusion_pass",
    "log_rows",
    "scatter",
    "share_pass",
    "shares_of",
    "spread",
    "vote_pass",
]

NO_GOLD = np.empty(0, np.int32)
"""What to pass for `gold` when no truth is known."""


@dataclass(frozen=True)
class Statistics:
    """What one pass found.

    Attributes
    ----------
    log_likelihood
        Log-probability of the labels (and of the gold truths) under the parameters of the pass.
    class_counts : (K,)
        Σ_t q[t, k].
    counts : (M, K, K) [worker, label, truth] from `confusion_pass`; (M, K) [worker, label] from `vote_pass`
        Expected answers.
    """

    log_likelihood: float
    class_counts: FloatArray
    counts: FloatArray


def confusion_pass(
    blocks: Blocks,
    log_prior: FloatArray,
    log_table: FloatArray,
    gold: IntArray = NO_GOLD,
    posterior: FloatArray | None = None,
) -> Statistics:
    """E-step and counts of a model with a confusion matrix per worker.

    Parameters
    ----------
    log_prior : (S,)
        Log-probability of each state of the truth: the K classes, or where classes have kinds those of the first
        class, then those of the second, as many for each.
    log_table : (M, K, S) [worker, label, truth]
        log A, truth last so that one label's S values lie together.
    gold
        Known class of each task, -1 where unknown; `NO_GOLD` for none.
    posterior : (N, S), optional
        Where to store the posterior; it is not stored otherwise.
    """
    n_states = log_prior.size
    table = log_table.reshape(-1, n_states)
    out = _Accumulators(blocks, n_states, table.shape[0], n_states)
    stored = _stored(posterior, n_states)

    def one_lane(lane: int) -> None:
        confusion_lane(
            blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size, blocks.n_tasks,
            blocks.row, blocks.slot, blocks.ptr, table, log_prior, n_states // blocks.n_classes, gold,
            out.counts[lane], out.class_counts[lane], out.log_likelihood, stored,
        )  # fmt: skip

    run_lanes(one_lane, blocks.n_lanes)
    return out.statistics(blocks.n_workers, blocks.n_classes, n_states)


def vote_pass(
    blocks: Blocks,
    log_prior: FloatArray,
    bonus: FloatArray,
    gold: IntArray = NO_GOLD,
    posterior: FloatArray | None = None,
) -> Statistics:
    """E-step and counts of a model whose label l speaks for class l alone.

    Parameters
    ----------
    bonus : (M, K) [worker, label]
        log P(l | truth l) - log P(l | another truth). What a label says whatever the truth is left out of the
        log-likelihood: it is a sum over `(worker, label)` that the caller adds.
    """
    out = _Accumulators(blocks, blocks.n_classes, bonus.size)
    stored = _stored(posterior, blocks.n_classes)
    flat = np.ascontiguousarray(bonus).reshape(-1)

    def one_lane(lane: int) -> None:
        vote_lane(
            blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size, blocks.n_tasks,
            blocks.row, blocks.label, blocks.slot, blocks.ptr, flat, log_prior, gold,
            out.counts[lane], out.class_counts[lane], out.log_likelihood, stored,
        )  # fmt: skip

    run_lanes(one_lane, blocks.n_lanes)
    return out.statistics(blocks.n_workers, blocks.n_classes)


def scatter(blocks: Blocks, values: FloatArray) -> FloatArray:
    """Σ of `values[t, :]` (N, S) over each worker's tasks, by the label given: (M, K, S) [worker, label, truth]."""
    n_states = values.shape[1]
    counts = blocks.lane_tables(blocks.n_workers * blocks.n_classes, n_states)

    def one_lane(lane: int) -> None:
        scatter_lane(
            blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size,
            blocks.row, blocks.slot, blocks.ptr, values, counts[lane],
        )  # fmt: skip

    run_lanes(one_lane, blocks.n_lanes)
    return _added(counts).reshape(blocks.n_workers, blocks.n_classes, n_states)


def share_pass(blocks: Blocks, otherwise: FloatArray, gold: IntArray = NO_GOLD) -> Statistics:
    """The counts of `scatter` where the posterior is the share of votes, which is not kept.

    Parameters
    ----------
    otherwise : (K,)
        The posterior of a task without labels.
    """
    n_classes = blocks.n_classes
    out = _Accumulators(blocks, n_classes, blocks.n_workers * n_classes, n_classes)

    def one_lane(lane: int) -> None:
        share_lane(
            blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size, blocks.n_tasks,
            blocks.row, blocks.label, blocks.slot, blocks.ptr, otherwise, gold,
            out.counts[lane], out.class_counts[lane],
        )  # fmt: skip

    run_lanes(one_lane, blocks.n_lanes)
    return out.statistics(blocks.n_workers, n_classes, n_classes)


def spread(blocks: Blocks, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How undecided the posterior is about each worker's labels: Σ q(1-q), (M, K) twice.

    By class k over all of the worker's labels, and of the class named over the labels that name it.
    """
    sums = np.zeros((blocks.n_lanes, 2, blocks.n_workers * blocks.n_classes))

    def one_lane(lane: int) -> None:
        spread_lane(
            blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size,
            blocks.row, blocks.label, blocks.slot, blocks.ptr, posterior, sums[lane, 0], sums[lane, 1],
        )  # fmt: skip

    run_lanes(one_lane, blocks.n_lanes)
    every, named = _added(sums).reshape(2, blocks.n_workers, blocks.n_classes)
    return every, named


def log_rows(counts: FloatArray, pseudo: FloatArray) -> FloatArray:
    """Log of the rows of confusion matrices from counts and pseudo-counts, both [worker, label, truth].

    A row with neither (a class that a worker never met) becomes uniform: the labels say nothing of it.
    `pseudo` may have one worker for all.
    """
    out = np.empty_like(counts)
    edges = shares_of(counts.shape[0], counts.size)
    run_lanes(lambda share: log_rows_lane(counts, pseudo, edges[share], edges[share + 1], out), edges.size - 1)
    return out


class _Accumulators:
    """Each lane's own sums, and the log-likelihood of each block so that its sum is accurate."""

    def __init__(self, blocks: Blocks, n_states: int, *shape: int) -> None:
        self.counts = blocks.lane_tables(*shape)
        self.class_counts = np.zeros((blocks.n_lanes, n_states))
        self.log_likelihood = np.zeros(blocks.n_blocks)

    def statistics(self, *shape: int) -> Statistics:
        return Statistics(
            float(self.log_likelihood.sum()), self.class_counts.sum(axis=0), _added(self.counts).reshape(shape)
        )


def _added(lanes: FloatArray) -> FloatArray:
    """The sum of the lanes' tables, in lane order; a single lane's table is the caller's to keep."""
    total: FloatArray = lanes[0] if lanes.shape[0] == 1 else np.empty(lanes.shape[1:])
    if lanes.shape[0] == 1:
        return total
    edges = shares_of(total.shape[0], total.size)

    def add(share: int) -> None:
        rows = slice(edges[share], edges[share + 1])
        total[rows] = lanes[0, rows]
        for lane in lanes[1:]:
            total[rows] += lane[rows]

    run_lanes(add, edges.size - 1)
    return total


def shares_of(n_rows: int, n_cells: int) -> IntArray:
    """Cut rows into shares for threads, where there is enough to share; the sizes alone decide."""
    n_shares = max(1, min(16, n_rows, n_cells // 50_000))
    return np.linspace(0, n_rows, n_shares + 1).astype(np.int64)


def _stored(posterior: FloatArray | None, n_classes: int) -> FloatArray:
    return np.empty((0, n_classes)) if posterior is None else posterior
