"""The compiled loops behind the passes, one lane of blocks at a time; they add to what the caller gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row
from crowdwise.kernels.compiled.row_softmax import softmax_block
from crowdwise.kernels.compiled.row_sums import add_from_slots, add_to_slots
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import Blocks
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "Sums",
    "accumulate",
    "count_against_vote_shares",
    "e_step",
    "e_step_votes",
    "share_rows",
    "sum_variances",
]


class Sums(NamedTuple):
    """Each lane's own counts (lanes, …) and class counts (lanes, S), and the log-likelihood of each block.

    `posterior` (N, S) is where to store the posterior; without rows it is not stored.
    """

    counts: FloatArray
    class_counts: FloatArray
    log_likelihood: FloatArray
    posterior: FloatArray


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_block(blocks: Blocks, block: int, start: FloatArray, space: FloatArray) -> FloatArray:
    """The rows of a block's tasks, of as much space as the largest block needs, filled with what they start from."""
    work = space[: min(blocks.size, blocks.n_tasks - block * blocks.size)]
    for t in range(work.shape[0]):
        for k in range(start.size):
            work[t, k] = start[k]
    return work


@njit(inline="always")  # where it is called, and not compiled by itself as well: a second for each combination of types
def _normalise_block(
    blocks: Blocks, lane: int, block: int, work: FloatArray, log_prior: FloatArray, gold: IntArray, out: Sums
) -> None:
    """From log-weights to the posterior of a block's tasks, with its log-likelihood and class counts."""
    first, kinds = block * blocks.size, log_prior.size // blocks.n_classes
    out.log_likelihood[block] = softmax_block(work, first, log_prior, kinds, gold, out.class_counts[lane])
    if out.posterior.shape[0] > 0:  # in loops: an assignment of arrays takes seconds to compile
        for t in range(work.shape[0]):
            for k in range(work.shape[1]):
                out.posterior[first + t, k] = work[t, k]


@njit(cache=True, nogil=True, error_model="numpy")
def e_step(blocks: Blocks, lane: int, log_prior: FloatArray, table: FloatArray, gold: IntArray, out: Sums) -> None:
    """E-step and counts of one lane of a confusion model."""
    space = np.empty((blocks.size, log_prior.size))
    for block in range(blocks.lanes[lane], blocks.lanes[lane + 1]):
        edges = blocks.ptr[block], blocks.ptr[block + 1]
        work = _begin_block(blocks, block, log_prior, space)
        add_to_slots(edges, table, blocks.row, work, blocks.slot)
        _normalise_block(blocks, lane, block, work, log_prior, gold, out)
        add_from_slots(edges, work, blocks.slot, out.counts[lane], blocks.row)


@njit(cache=True, nogil=True, error_model="numpy")
def e_step_votes(
    blocks: Blocks, lane: int, log_prior: FloatArray, bonus: FloatArray, gold: IntArray, out: Sums
) -> None:
    """E-step and counts of one lane of a vote model."""
    row, slot, label = blocks.row, blocks.slot, blocks.label
    counts = out.counts[lane]
    space = np.empty((blocks.size, log_prior.size))
    for block in range(blocks.lanes[lane], blocks.lanes[lane + 1]):
        work = _begin_block(blocks, block, log_prior, space)
        for edge in range(blocks.ptr[block], blocks.ptr[block + 1]):
            work[slot[edge], label[edge]] += bonus[row[edge]]
        _normalise_block(blocks, lane, block, work, log_prior, gold, out)
        for edge in range(blocks.ptr[block], blocks.ptr[block + 1]):
            counts[row[edge]] += work[slot[edge], label[edge]]


@njit(cache=True, nogil=True, error_model="numpy")
def accumulate(blocks: Blocks, lane: int, values: FloatArray, counts: FloatArray) -> None:
    """Counts of one lane from the given values."""
    for block in range(blocks.lanes[lane], blocks.lanes[lane + 1]):
        edges = blocks.ptr[block], blocks.ptr[block + 1]
        add_from_slots(edges, values[block * blocks.size : (block + 1) * blocks.size], blocks.slot, counts, blocks.row)


@njit(cache=True, nogil=True, error_model="numpy")
def count_against_vote_shares(blocks: Blocks, lane: int, otherwise: FloatArray, gold: IntArray, out: Sums) -> None:
    """Shares of votes of one lane, and their counts."""
    class_counts = out.class_counts[lane]
    space, zeros = np.empty((blocks.size, otherwise.size)), np.zeros(otherwise.size)
    for block in range(blocks.lanes[lane], blocks.lanes[lane + 1]):
        work = _begin_block(blocks, block, zeros, space)
        edges = blocks.ptr[block], blocks.ptr[block + 1]
        for edge in range(*edges):
            work[blocks.slot[edge], blocks.label[edge]] += 1.0
        for t in range(work.shape[0]):
            votes = 0.0
            for k in range(otherwise.size):
                votes += work[t, k]
            known = gold[block * blocks.size + t] if gold.size > 0 else -1
            for k in range(otherwise.size):
                if known >= 0:
                    work[t, k] = 1.0 if k == known else 0.0
                elif votes == 0.0:
                    work[t, k] = otherwise[k]
                else:
                    work[t, k] /= votes
                class_counts[k] += work[t, k]
        add_from_slots(edges, work, blocks.slot, out.counts[lane], blocks.row)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_variances(blocks: Blocks, lane: int, posterior: FloatArray, every: FloatArray, named: FloatArray) -> None:
    """Add q(1-q) of one lane, by class over all labels, and of the class named over the labels that name it."""
    row, slot, label = blocks.row, blocks.slot, blocks.label
    for block in range(blocks.lanes[lane], blocks.lanes[lane + 1]):
        begin, end = block * blocks.size, blocks.ptr[block + 1]
        for edge in range(blocks.ptr[block], end):
            prefetch_row(posterior, begin + slot[min(edge + AHEAD, end - 1)])
            task = begin + slot[edge]
            start = row[edge] - label[edge]
            for k in range(posterior.shape[1]):
                every[start + k] += posterior[task, k] * (1.0 - posterior[task, k])
            chance = posterior[task, label[edge]]
            named[row[edge]] += chance * (1.0 - chance)


@njit(cache=True, nogil=True, error_model="numpy")
def share_rows(first: int, last: int, counts: FloatArray, pseudo: FloatArray, out: FloatArray) -> None:
    """The rows of some workers' confusion matrices; a row that nothing is known of is even."""
    n_classes = counts.shape[1]
    totals = np.empty(n_classes)
    for worker in range(first, last):
        prior = pseudo[worker if pseudo.shape[0] > 1 else 0]
        totals[:] = 0.0
        for label in range(n_classes):
            for truth in range(n_classes):
                totals[truth] += counts[worker, label, truth] + prior[label, truth]
        for label in range(n_classes):
            for truth in range(n_classes):
                mass = counts[worker, label, truth] + prior[label, truth]
                out[worker, label, truth] = mass / totals[truth] if totals[truth] > 0.0 else 1.0 / n_classes
