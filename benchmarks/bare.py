"""A bare loop for Dawid–Skene, written for comparison only: what the machine can do with nothing around it."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row

BLOCK = 52_428  # at most; a quarter of a thread's tasks where there are fewer
LANES = 2


@njit(cache=True, parallel=True, error_model="numpy")
def _pass(block_size, n_tasks, row, slot, ptr, table, log_prior, counts, classes, work, posterior, store):
    n_blocks, n_classes = ptr.size - 1, log_prior.size
    for lane in prange(LANES):
        own = counts[lane]
        own[:] = 0.0
        classes[lane] = 0.0
        q = work[lane]
        for block in range(n_blocks * lane // LANES, n_blocks * (lane + 1) // LANES):
            n = min(block_size, n_tasks - block * block_size)
            for t in range(n):
                for k in range(n_classes):
                    q[t, k] = log_prior[k]
            end = ptr[block + 1]
            for edge in range(ptr[block], end):
                ahead = min(edge + AHEAD, end - 1)
                prefetch_row(table, row[ahead])
                prefetch_row(q, slot[ahead])
                r, t = row[edge], slot[edge]
                for k in range(n_classes):
                    q[t, k] += table[r, k]
            for t in range(n):
                highest = q[t, 0]
                for k in range(1, n_classes):
                    highest = max(highest, q[t, k])
                for k in range(n_classes):
                    q[t, k] -= highest
            flat = q.reshape(-1)
            for cell in range(n * n_classes):
                flat[cell] = exp_of_nonpositive(flat[cell])
            for t in range(n):
                mass = 0.0
                for k in range(n_classes):
                    mass += q[t, k]
                for k in range(n_classes):
                    q[t, k] /= mass
                    classes[lane, k] += q[t, k]
            for edge in range(ptr[block], end):
                ahead = min(edge + AHEAD, end - 1)
                prefetch_row(own, row[ahead])
                prefetch_row(q, slot[ahead])
                r, t = row[edge], slot[edge]
                for k in range(n_classes):
                    own[r, k] += q[t, k]
            if store:
                posterior[block * block_size : block * block_size + n] = q[:n]


@njit(cache=True, parallel=True, error_model="numpy")
def _tables(counts, n_workers, n_classes, table):
    for worker in prange(n_workers):
        for truth in range(n_classes):
            total = 0.0
            for label in range(n_classes):
                r = worker * n_classes + label
                counts[0, r, truth] += counts[1, r, truth]
                total += counts[0, r, truth]
            for label in range(n_classes):
                r = worker * n_classes + label
                table[r, truth] = math.log(max(counts[0, r, truth], 1e-300) / max(total, 1e-300))


@njit(cache=True)
def _layout(block_size, task, worker, label, n_tasks, n_workers, n_classes):
    n_blocks = (n_tasks + block_size - 1) // block_size
    ptr = np.zeros(n_blocks + 1, np.int64)
    for t in task:
        ptr[t // block_size + 1] += 1
    for block in range(n_blocks):
        ptr[block + 1] += ptr[block]
    starts = np.zeros(n_workers * n_classes + 1, np.int64)
    for edge in range(task.size):
        starts[worker[edge] * n_classes + label[edge] + 1] += 1
    for r in range(n_workers * n_classes):
        starts[r + 1] += starts[r]
    by_row = np.empty(task.size, np.int64)
    for edge in range(task.size):
        r = worker[edge] * n_classes + label[edge]
        by_row[starts[r]] = edge
        starts[r] += 1
    cursor = ptr[:-1].copy()
    row, slot = np.empty(task.size, np.int32), np.empty(task.size, np.uint16)
    for edge in by_row:
        block = task[edge] // block_size
        row[cursor[block]] = worker[edge] * n_classes + label[edge]
        slot[cursor[block]] = task[edge] - block * block_size
        cursor[block] += 1
    return row, slot, ptr


def fit(task, worker, label, n_classes, iterations):
    """Codes in, posterior out, after this many EM iterations from the share of votes."""
    n_tasks, n_workers = int(task.max()) + 1, int(worker.max()) + 1
    block_size = min(BLOCK, -(-n_tasks // (4 * LANES)))
    row, slot, ptr = _layout(block_size, task, worker, label, n_tasks, n_workers, n_classes)
    counts = np.zeros((LANES, n_workers * n_classes, n_classes))
    classes, work = np.zeros((LANES, n_classes)), np.zeros((LANES, block_size, n_classes))
    posterior = np.empty((n_tasks, n_classes))
    # A table that makes the first E-step close to the share of votes, so that no other loop is needed.
    table = np.where(np.arange(n_classes)[:, None] == np.arange(n_classes), 1.0, 0.0)
    table = np.tile(table, (n_workers, 1))
    log_prior = np.full(n_classes, -math.log(n_classes))
    for iteration in range(iterations + 1):
        _pass(
            block_size,
            n_tasks,
            row,
            slot,
            ptr,
            table,
            log_prior,
            counts,
            classes,
            work,
            posterior,
            iteration == iterations,
        )
        _tables(counts, n_workers, n_classes, table)
        log_prior = np.log(classes.sum(axis=0) / n_tasks)
    return posterior
