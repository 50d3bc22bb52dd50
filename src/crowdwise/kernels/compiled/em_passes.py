"""The compiled loops behind the passes, one lane of blocks at a time; the caller allocates what they fill."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "confusion_lane",
    "log_rows_lane",
    "scatter_block",
    "scatter_lane",
    "share_lane",
    "soften",
    "spread_lane",
    "vote_lane",
]


@njit(cache=True, nogil=True, error_model="numpy")
def soften(
    work: FloatArray,
    n: int,
    first_task: int,
    log_prior: FloatArray,
    kinds: int,
    gold: IntArray,
    class_counts: FloatArray,
    posterior: FloatArray,
) -> float:
    """Soft-max each task's row in place; returns the block's log-likelihood.

    Each class has `kinds` states, which lie together; gold names the class.
    """
    n_classes = log_prior.size
    total = 0.0
    for t in range(n):
        if gold.size > 0 and gold[first_task + t] >= 0:
            for k in range(n_classes):
                if k // kinds != gold[first_task + t]:
                    work[t, k] = -np.inf
        highest = work[t, 0]
        for k in range(1, n_classes):
            highest = max(highest, work[t, k])
        total += highest
        if highest == -np.inf:  # labels that no class allows: they teach nothing, the truth or the prior stands
            if gold.size > 0 and gold[first_task + t] >= 0:
                work[t, kinds * gold[first_task + t] : kinds * (gold[first_task + t] + 1)] = 0.0
            else:
                work[t] = log_prior
        else:
            for k in range(n_classes):
                work[t, k] -= highest
    # One long loop over all cells, which the compiler vectorises; a short one per task it would not.
    cells = work.reshape(-1)
    for cell in range(n * n_classes):
        cells[cell] = exp_of_nonpositive(cells[cell])
    product = 1.0  # of up to 16 sums between 1 and K: one logarithm for all
    for t in range(n):
        mass = 0.0
        for k in range(n_classes):
            mass += work[t, k]
        product *= mass
        if t & 15 == 15:
            total += math.log(product)
            product = 1.0
        scale = 1.0 / mass
        for k in range(n_classes):
            work[t, k] *= scale
            class_counts[k] += work[t, k]
    if posterior.shape[0] > 0:
        posterior[first_task : first_task + n] = work[:n]
    return total + math.log(product)


@njit(cache=True, nogil=True, error_model="numpy")
def confusion_lane(
    first_block: int,
    last_block: int,
    size: int,
    n_tasks: int,
    row: IntArray,
    slot: IntArray,
    ptr: IntArray,
    table: FloatArray,
    log_prior: FloatArray,
    kinds: int,
    gold: IntArray,
    counts: FloatArray,
    class_counts: FloatArray,
    log_likelihood: FloatArray,
    posterior: FloatArray,
) -> None:
    """E-step and counts of one lane of a confusion model."""
    n_classes = log_prior.size
    work = np.empty((size, n_classes))
    counts[:] = 0.0
    for block in range(first_block, last_block):
        n = min(size, n_tasks - block * size)
        for t in range(n):
            for k in range(n_classes):
                work[t, k] = log_prior[k]
        end = ptr[block + 1]
        for edge in range(ptr[block], end):
            ahead = min(edge + AHEAD, end - 1)
            prefetch_row(table, row[ahead])
            prefetch_row(work, slot[ahead])
            r, t = row[edge], slot[edge]
            for k in range(n_classes):
                work[t, k] += table[r, k]
        log_likelihood[block] = soften(work, n, block * size, log_prior, kinds, gold, class_counts, posterior)
        scatter_block(ptr[block], end, row, slot, work, counts)


@njit(cache=True, nogil=True, error_model="numpy")
def vote_lane(
    first_block: int,
    last_block: int,
    size: int,
    n_tasks: int,
    row: IntArray,
    label: IntArray,
    slot: IntArray,
    ptr: IntArray,
    bonus: FloatArray,
    log_prior: FloatArray,
    gold: IntArray,
    counts: FloatArray,
    class_counts: FloatArray,
    log_likelihood: FloatArray,
    posterior: FloatArray,
) -> None:
    """E-step and counts of one lane of a vote model."""
    n_classes = log_prior.size
    work = np.empty((size, n_classes))
    counts[:] = 0.0
    for block in range(first_block, last_block):
        n = min(size, n_tasks - block * size)
        for t in range(n):
            for k in range(n_classes):
                work[t, k] = log_prior[k]
        for edge in range(ptr[block], ptr[block + 1]):
            work[slot[edge], label[edge]] += bonus[row[edge]]
        log_likelihood[block] = soften(work, n, block * size, log_prior, 1, gold, class_counts, posterior)
        for edge in range(ptr[block], ptr[block + 1]):
            counts[row[edge]] += work[slot[edge], label[edge]]


@njit(cache=True, nogil=True, error_model="numpy")
def scatter_block(start: int, end: int, row: IntArray, slot: IntArray, values: FloatArray, counts: FloatArray) -> None:
    """Add each task's values to the rows of the labels it got."""
    n_classes = values.shape[1]
    for edge in range(start, end):
        ahead = min(edge + AHEAD, end - 1)
        prefetch_row(counts, row[ahead])
        prefetch_row(values, slot[ahead])
        r, t = row[edge], slot[edge]
        for k in range(n_classes):
            counts[r, k] += values[t, k]


@njit(cache=True, nogil=True, error_model="numpy")
def scatter_lane(
    first_block: int,
    last_block: int,
    size: int,
    row: IntArray,
    slot: IntArray,
    ptr: IntArray,
    values: FloatArray,
    counts: FloatArray,
) -> None:
    """Scatter the given values of one lane."""
    counts[:] = 0.0
    for block in range(first_block, last_block):
        scatter_block(ptr[block], ptr[block + 1], row, slot, values[block * size : (block + 1) * size], counts)


@njit(cache=True, nogil=True, error_model="numpy")
def share_lane(
    first_block: int,
    last_block: int,
    size: int,
    n_tasks: int,
    row: IntArray,
    label: IntArray,
    slot: IntArray,
    ptr: IntArray,
    otherwise: FloatArray,
    gold: IntArray,
    counts: FloatArray,
    class_counts: FloatArray,
) -> None:
    """Shares of votes of one lane, and their counts."""
    n_classes = otherwise.size
    counts[:] = 0.0
    work = np.empty((size, n_classes))
    for block in range(first_block, last_block):
        n = min(size, n_tasks - block * size)
        work[:n] = 0.0
        for edge in range(ptr[block], ptr[block + 1]):
            work[slot[edge], label[edge]] += 1.0
        for t in range(n):
            votes = work[t].sum()
            if gold.size > 0 and gold[block * size + t] >= 0:
                work[t] = 0.0
                work[t, gold[block * size + t]] = 1.0
            elif votes == 0.0:
                work[t] = otherwise
            else:
                work[t] /= votes
            for k in range(n_classes):
                class_counts[k] += work[t, k]
        scatter_block(ptr[block], ptr[block + 1], row, slot, work, counts)


@njit(cache=True, nogil=True, error_model="numpy")
def spread_lane(
    first_block: int,
    last_block: int,
    size: int,
    row: IntArray,
    label: IntArray,
    slot: IntArray,
    ptr: IntArray,
    posterior: FloatArray,
    every: FloatArray,
    named: FloatArray,
) -> None:
    """Undecidedness of one lane."""
    n_classes = posterior.shape[1]
    for block in range(first_block, last_block):
        end = ptr[block + 1]
        for edge in range(ptr[block], end):
            prefetch_row(posterior, block * size + slot[min(edge + AHEAD, end - 1)])
            task = block * size + slot[edge]
            start = row[edge] - label[edge]
            for k in range(n_classes):
                every[start + k] += posterior[task, k] * (1.0 - posterior[task, k])
            chance = posterior[task, label[edge]]
            named[row[edge]] += chance * (1.0 - chance)


@njit(cache=True, nogil=True, error_model="numpy")
def log_rows_lane(counts: FloatArray, pseudo: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """Log of the rows of some workers' confusion matrices."""
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
                if totals[truth] > 0.0:
                    value = (counts[worker, label, truth] + prior[label, truth]) / totals[truth]
                    out[worker, label, truth] = math.log(value) if value > 0.0 else -np.inf
                else:
                    out[worker, label, truth] = -math.log(n_classes)
