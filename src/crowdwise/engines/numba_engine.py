"""The passes in loops that numba compiles: E-step, counts and log-likelihood in one fused pass over blocks of tasks.

Inside, tables are [worker, label, truth], so that the values of one label lie together; outside they are
[worker, truth, label]. Both are the same memory: what this engine hands out it takes back without a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines.protocol import Statistics
from crowdwise.kernels.compiled.em_passes import (
    confusion_lane,
    scatter_lane,
    share_lane,
    spread_lane,
    vote_lane,
)
from crowdwise.kernels.layout import blocks_of, row_lanes
from crowdwise.kernels.rows import NO_GOLD
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.kernels.layout import Blocks
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ENGINE"]


class BlockPasses:
    """Passes over labels in blocks, and the memory that they share."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.n_tasks, self.n_workers, self.n_classes = blocks.n_tasks, blocks.n_workers, blocks.n_classes
        self._scratch: dict[tuple[int, ...], FloatArray] = {}

    def e_step(
        self,
        log_prior: FloatArray,
        log_table: FloatArray,
        gold: IntArray = NO_GOLD,
        posterior: FloatArray | None = None,
    ) -> Statistics:
        """E-step and counts of a model with a confusion matrix per worker."""
        blocks, n_states = self.blocks, log_prior.size
        table = np.ascontiguousarray(log_table.transpose(0, 2, 1)).reshape(-1, n_states)
        out = Sums(blocks, n_states, self._lane_tables(table.shape[0], n_states))
        stored = storage(posterior, n_states)

        def one_lane(lane: int) -> None:
            confusion_lane(
                blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size, blocks.n_tasks,
                blocks.row, blocks.slot, blocks.ptr, table, log_prior, n_states // blocks.n_classes, gold,
                out.counts[lane], out.class_counts[lane], out.log_likelihood, stored,
            )  # fmt: skip

        run_lanes(one_lane, blocks.n_lanes)
        return self._statistics(out, n_states)

    def e_step_votes(
        self,
        log_prior: FloatArray,
        bonus: FloatArray,
        gold: IntArray = NO_GOLD,
        posterior: FloatArray | None = None,
    ) -> Statistics:
        """E-step and counts of a model whose label l speaks for class l alone."""
        blocks = self.blocks
        out = Sums(blocks, blocks.n_classes, self._lane_tables(bonus.size))
        stored = storage(posterior, blocks.n_classes)
        flat = np.ascontiguousarray(bonus).reshape(-1)

        def one_lane(lane: int) -> None:
            vote_lane(
                blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size, blocks.n_tasks,
                blocks.row, blocks.label, blocks.slot, blocks.ptr, flat, log_prior, gold,
                out.counts[lane], out.class_counts[lane], out.log_likelihood, stored,
            )  # fmt: skip

        run_lanes(one_lane, blocks.n_lanes)
        counts = add_lanes(out.counts).reshape(blocks.n_workers, blocks.n_classes)
        return Statistics(float(out.log_likelihood.sum()), out.class_counts.sum(axis=0), counts)

    def accumulate(self, values: FloatArray) -> Statistics:
        """Σ of the values over each worker's tasks, by the label given."""
        blocks, n_states = self.blocks, values.shape[1]
        counts = self._lane_tables(blocks.n_workers * blocks.n_classes, n_states)
        given = np.ascontiguousarray(values)

        def one_lane(lane: int) -> None:
            scatter_lane(
                blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size,
                blocks.row, blocks.slot, blocks.ptr, given, counts[lane],
            )  # fmt: skip

        run_lanes(one_lane, blocks.n_lanes)
        return Statistics(0.0, values.sum(axis=0), self._by_truth(add_lanes(counts), n_states))

    def accumulate_votes(self, otherwise: FloatArray, gold: IntArray = NO_GOLD) -> Statistics:
        """The same where the posterior is the share of votes."""
        blocks, n_classes = self.blocks, self.n_classes
        out = Sums(blocks, n_classes, self._lane_tables(blocks.n_workers * n_classes, n_classes))

        def one_lane(lane: int) -> None:
            share_lane(
                blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size, blocks.n_tasks,
                blocks.row, blocks.label, blocks.slot, blocks.ptr, otherwise, gold,
                out.counts[lane], out.class_counts[lane],
            )  # fmt: skip

        run_lanes(one_lane, blocks.n_lanes)
        return self._statistics(out, n_classes)

    def posterior_variance(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ q(1-q), by class over all labels, and of the class named over the labels that name it."""
        blocks = self.blocks
        sums = np.zeros((blocks.n_lanes, 2, blocks.n_workers * blocks.n_classes))

        def one_lane(lane: int) -> None:
            spread_lane(
                blocks.lanes[lane], blocks.lanes[lane + 1], blocks.size,
                blocks.row, blocks.label, blocks.slot, blocks.ptr, posterior, sums[lane, 0], sums[lane, 1],
            )  # fmt: skip

        run_lanes(one_lane, blocks.n_lanes)
        every, named = add_lanes(sums).reshape(2, blocks.n_workers, blocks.n_classes)
        return every, named

    def _lane_tables(self, *shape: int) -> FloatArray:
        """A table of counts for each lane, the same memory at every pass: fresh pages cost more than the sums.

        A single lane's table is the pass's result, and new each time.
        """
        if self.blocks.n_lanes == 1:
            return np.empty((1, *shape))
        if shape not in self._scratch:
            self._scratch[shape] = np.empty((self.blocks.n_lanes, *shape))
        return self._scratch[shape]

    def _statistics(self, out: Sums, n_states: int) -> Statistics:
        counts = self._by_truth(add_lanes(out.counts), n_states)
        return Statistics(float(out.log_likelihood.sum()), out.class_counts.sum(axis=0), counts)

    def _by_truth(self, rows: FloatArray, n_states: int) -> FloatArray:
        """Rows of each worker and label as seen from outside, [worker, truth, label]."""
        return rows.reshape(self.n_workers, self.n_classes, n_states).transpose(0, 2, 1)


class Sums:
    """Each lane's own sums, and the log-likelihood of each block so that its sum is accurate."""

    def __init__(self, blocks: Blocks, n_states: int, counts: FloatArray) -> None:
        self.counts = counts
        self.class_counts = np.zeros((blocks.n_lanes, n_states))
        self.log_likelihood = np.zeros(blocks.n_blocks)


class NumbaEngine:
    """Compiled loops over blocks of tasks, in threads."""

    def lay_out(self, labels: CrowdLabels, n_states: int | None) -> Blocks:
        """The labels in blocks of tasks."""
        return blocks_of(labels, n_states)

    def prepare(self, layout: Blocks) -> BlockPasses:
        """Passes over the blocks."""
        return BlockPasses(layout)


ENGINE = NumbaEngine()


def add_lanes(lanes: FloatArray) -> FloatArray:
    """The sum of the lanes' tables, in lane order; a single lane's table is the caller's to keep."""
    total: FloatArray = lanes[0] if lanes.shape[0] == 1 else np.empty(lanes.shape[1:])
    if lanes.shape[0] == 1:
        return total
    edges = row_lanes(total.shape[0], total.size)

    def add(share: int) -> None:
        rows = slice(edges[share], edges[share + 1])
        total[rows] = lanes[0, rows]
        for lane in lanes[1:]:
            total[rows] += lane[rows]

    run_lanes(add, edges.size - 1)
    return total


def storage(posterior: FloatArray | None, n_states: int) -> FloatArray:
    """Where a pass stores the posterior: an empty table says that it need not."""
    return np.empty((0, n_states)) if posterior is None else posterior
