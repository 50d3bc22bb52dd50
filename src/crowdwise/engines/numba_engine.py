"""The passes in loops that numba compiles: E-step, counts and log-likelihood in one fused pass over blocks of tasks.

Inside, tables are [worker, label, truth], so that the values of one label lie together; outside they are
[worker, truth, label]. Both are the same memory: what this engine hands out it takes back without a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines.protocol import Statistics
from crowdwise.kernels.block_layout import lay_out_blocks, split_rows, transpose_truth_and_label
from crowdwise.kernels.compiled import em_passes
from crowdwise.kernels.compiled.em_passes import Sums
from crowdwise.kernels.confusion_rows import NO_GOLD, compiled_log_rows
from crowdwise.kernels.threads import map_lanes, run_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kernels.block_layout import Blocks
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ENGINE"]


class CompiledStatistics(Statistics):
    """Counts that lie as the compiled loops read them, and the next tables do so too, however small they are."""

    def log_rows(self, pseudo: FloatArray) -> FloatArray:
        """Log of the rows of confusion matrices."""
        return compiled_log_rows(self.counts, pseudo)


class BlockPasses:
    """Passes over labels in blocks, and the memory that they share.

    Parameters
    ----------
    blocks
        The labels.
    counts
        Counts that a pass adds to, as another has returned them, where the blocks are one lane.
    """

    def __init__(self, blocks: Blocks, counts: FloatArray | None = None) -> None:
        self.blocks, self._counts = blocks, counts
        self.n_tasks, self.n_workers, self.n_classes = blocks.n_tasks, blocks.n_workers, blocks.n_classes
        self._scratch: dict[tuple[int, ...], FloatArray] = {}

    def e_step(
        self, log_prior: FloatArray, log_table: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model with a confusion matrix per worker."""
        n_states = log_prior.size
        table = transpose_truth_and_label(log_table).reshape(-1, n_states)
        sums = self._allocate_sums(n_states, table.shape, out)
        self._run(sums.counts, lambda lane: em_passes.e_step(self.blocks, lane, log_prior, table, gold, sums))
        return self._statistics(sums)

    def e_step_votes(
        self, log_prior: FloatArray, bonus: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model whose label l speaks for class l alone."""
        flat = np.ascontiguousarray(bonus).reshape(-1)
        sums, blocks = self._allocate_sums(self.n_classes, flat.shape, out), self.blocks
        self._run(sums.counts, lambda lane: em_passes.e_step_votes(blocks, lane, log_prior, flat, gold, sums))
        counts = sum_lanes(sums.counts).reshape(self.n_workers, self.n_classes)
        return CompiledStatistics(float(sums.log_likelihood.sum()), sums.class_counts.sum(axis=0), counts)

    def accumulate(self, values: FloatArray) -> Statistics:
        """Σ of the values over each worker's tasks, by the label given."""
        blocks, n_states = self.blocks, values.shape[1]
        counts = self._lane_tables(self.n_workers * self.n_classes, n_states)
        given = np.ascontiguousarray(values)
        self._run(counts, lambda lane: em_passes.accumulate(blocks, lane, given, counts[lane]))
        return CompiledStatistics(0.0, values.sum(axis=0), self._transpose_to_truth_label(sum_lanes(counts)))

    def count_against_vote_shares(self, otherwise: FloatArray, gold: IntArray = NO_GOLD) -> Statistics:
        """The same where the posterior is the share of votes."""
        n_classes, blocks = self.n_classes, self.blocks
        sums = self._allocate_sums(n_classes, (self.n_workers * n_classes, n_classes), None)
        self._run(sums.counts, lambda lane: em_passes.count_against_vote_shares(blocks, lane, otherwise, gold, sums))
        return self._statistics(sums)

    def posterior_variance(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ q(1-q), by class over all labels, and of the class named over the labels that name it."""
        blocks = self.blocks
        sums = np.zeros((blocks.n_lanes, 2, self.n_workers * self.n_classes))
        run_lanes(lambda lane: em_passes.sum_variances(blocks, lane, posterior, *sums[lane]), blocks.n_lanes)
        every, named = sum_lanes(sums).reshape(2, self.n_workers, self.n_classes)
        return every, named

    def _run(self, counts: FloatArray, work: Callable[[int], None]) -> None:
        """Clear the tables of counts, unless they are to be added to, and run every lane."""

        def clear_and_work(lane: int) -> None:
            if self._counts is None:
                counts[lane] = 0.0
            work(lane)

        run_lanes(clear_and_work, self.blocks.n_lanes)

    def _allocate_sums(self, n_states: int, shape: tuple[int, ...], out: FloatArray | None) -> Sums:
        """What the lanes fill; an empty table of posteriors says that these need not be stored."""
        return Sums(
            counts=self._lane_tables(*shape),
            class_counts=np.zeros((self.blocks.n_lanes, n_states)),
            log_likelihood=np.zeros(self.blocks.n_blocks),
            posterior=np.empty((0, n_states)) if out is None else out,
        )

    def _lane_tables(self, *shape: int) -> FloatArray:
        """A table of counts for each lane, the same memory at every pass: fresh pages cost more than the sums.

        A single lane's table is the pass's result, and new each time.
        """
        if self._counts is not None:
            counts = self._counts
            return (transpose_truth_and_label(counts) if counts.ndim == 3 else counts).reshape(1, *shape)
        if self.blocks.n_lanes == 1:
            return np.empty((1, *shape))
        if shape not in self._scratch:
            self._scratch[shape] = np.empty((self.blocks.n_lanes, *shape))
        return self._scratch[shape]

    def _statistics(self, sums: Sums) -> Statistics:
        counts = self._transpose_to_truth_label(sum_lanes(sums.counts))
        return CompiledStatistics(float(sums.log_likelihood.sum()), sums.class_counts.sum(axis=0), counts)

    def _transpose_to_truth_label(self, rows: FloatArray) -> FloatArray:
        """Rows of each worker and label as seen from outside, [worker, truth, label]."""
        return rows.reshape(self.n_workers, self.n_classes, rows.shape[1]).transpose(0, 2, 1)


class NumbaEngine:
    """Compiled loops over blocks of tasks, in threads."""

    def lay_out(self, labels: CrowdLabels, n_states: int | None) -> Blocks:
        """The labels in blocks of tasks."""
        return lay_out_blocks(labels, n_states)

    def make_passes(self, layout: Blocks) -> BlockPasses:
        """Passes over the blocks."""
        return BlockPasses(layout)


ENGINE = NumbaEngine()


def sum_lanes(lanes: FloatArray) -> FloatArray:
    """The sum of the lanes' tables, in lane order; a single lane's table is the caller's to keep."""
    total: FloatArray = lanes[0] if lanes.shape[0] == 1 else np.empty(lanes.shape[1:])
    if lanes.shape[0] == 1:
        return total

    def add_lanes_of_rows(first: int, last: int) -> None:
        total[first:last] = lanes[0, first:last]
        for lane in lanes[1:]:
            total[first:last] += lane[first:last]

    map_lanes(add_lanes_of_rows, split_rows(total.shape[0], total.size))
    return total
