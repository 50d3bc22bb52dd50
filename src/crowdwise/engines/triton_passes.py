"""The loops of the CUDA engine in Triton: labels by task are gathered, tasks by worker and label are summed.

A *row* holds the values of all states of the truth, `STRIDE` apart from the next.
A list is a range of an index array. A program takes a few lists at once and reads `AT_ONCE` members of each in a step,
so that many rows are on their way at the same time. No sum depends on the order in which programs run: there are no
atomic additions.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["share_votes", "sum_named", "sum_rows", "weigh_confusions", "weigh_votes"]


@triton.jit
def soften(logits, log_prior, known, state, n_states, per_class, HAS_GOLD: tl.constexpr):
    """Posterior of a few tasks (rows of `logits`), and the log-likelihood of each.

    Labels that no class allows teach nothing: the truth or the prior stands.
    """
    logits += log_prior
    allowed = state < n_states
    stands = log_prior + tl.zeros_like(logits)
    if HAS_GOLD:
        of_known = state // per_class == known
        allowed = allowed & ((known < 0) | of_known)
        stands = tl.where(known < 0, stands, tl.where(of_known & (state < n_states), 0.0, float("-inf")))
    logits = tl.where(allowed, logits, float("-inf"))
    highest = tl.max(logits, axis=1)
    impossible = (highest == float("-inf"))[:, None]
    weights = tl.exp(tl.where(impossible, stands, logits - tl.where(impossible, 0.0, highest[:, None])))
    mass = tl.sum(weights, axis=1)
    return weights * (1 / mass)[:, None], highest + tl.log(mass)


@triton.jit
def keep(belief, task, state, posterior, n_tasks, STRIDE: tl.constexpr):
    """Store the posterior of a few tasks; its sum over them."""
    there = (task < n_tasks)[:, None]
    tl.store(posterior + task[:, None] * STRIDE + state, belief, mask=there & (state < STRIDE))
    return tl.sum(tl.where(there, belief, 0.0), axis=0)


@triton.jit
def weigh_confusions(
    task_ptr, cell, table, log_prior, gold, posterior, class_counts, log_likelihood, n_tasks, n_states, per_class,
    HAS_GOLD: tl.constexpr, STATES: tl.constexpr, STRIDE: tl.constexpr,
    LISTS: tl.constexpr, AT_ONCE: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """Posterior of each task from the rows of its labels' cells (worker and label) in the log-probabilities' table."""
    state = tl.arange(0, STATES)[None, :]
    prior = tl.load(log_prior + state, mask=state < n_states, other=float("-inf"))
    counted, likelihoods = tl.zeros((STATES,), tl.float64), tl.zeros((LISTS,), tl.float64)
    for turn in range(ROUNDS):
        task = (tl.program_id(0).to(tl.int64) * ROUNDS + turn) * LISTS + tl.arange(0, LISTS)
        first = tl.load(task_ptr + task, mask=task < n_tasks, other=0)
        last = tl.load(task_ptr + task + 1, mask=task < n_tasks, other=0)
        logits = tl.zeros((LISTS, STATES), tl.float64)
        for step in range(0, tl.max(last - first), AT_ONCE):
            at = first[:, None] + step + tl.arange(0, AT_ONCE)[None, :]
            there = at < last[:, None]
            row = tl.load(cell + at, mask=there, other=0).to(tl.int64)
            where = row[:, :, None] * STRIDE + state[None, :, :]
            values = tl.load(table + where, mask=there[:, :, None] & (state < STRIDE)[None, :, :], other=0.0)
            logits += tl.sum(values, axis=1)
        known = tl.load(gold + task, mask=task < n_tasks, other=-1)[:, None] if HAS_GOLD else -1
        belief, likelihood = soften(logits, prior, known, state, n_states, per_class, HAS_GOLD)
        counted += keep(belief, task, state, posterior, n_tasks, STRIDE)
        likelihoods += tl.where(task < n_tasks, likelihood, 0.0)
    tl.store(class_counts + tl.program_id(0) * STATES + tl.arange(0, STATES), counted)
    tl.store(log_likelihood + tl.program_id(0), tl.sum(likelihoods, axis=0))


@triton.jit
def add_votes(
    task_ptr, cell, bonus, task, state, n_tasks, CLASSES: tl.constexpr,
    COUNT: tl.constexpr, BY_WORKER: tl.constexpr, STATES: tl.constexpr, LISTS: tl.constexpr,
):  # fmt: skip
    """Sum for each task and class of the bonus of the labels that name it; of 1 for each with COUNT."""
    first = tl.load(task_ptr + task, mask=task < n_tasks, other=0)
    last = tl.load(task_ptr + task + 1, mask=task < n_tasks, other=0)
    votes = tl.zeros((LISTS, STATES), tl.float64)
    for step in range(tl.max(last - first)):
        there = first + step < last
        row = tl.load(cell + first + step, mask=there, other=0)
        if COUNT:
            value = tl.where(there, 1.0, 0.0).to(tl.float64)
        elif BY_WORKER:
            value = tl.load(bonus + row // CLASSES, mask=there, other=0.0)
        else:
            value = tl.load(bonus + row, mask=there, other=0.0)
        votes += tl.where((row % CLASSES)[:, None] == state, value[:, None], 0.0)
    return votes


@triton.jit
def weigh_votes(
    task_ptr, cell, bonus, log_prior, gold, posterior, class_counts, log_likelihood, n_tasks, CLASSES: tl.constexpr,
    HAS_GOLD: tl.constexpr, BY_WORKER: tl.constexpr, STATES: tl.constexpr, STRIDE: tl.constexpr,
    LISTS: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """Posterior of each task where a label speaks for the class that it names alone."""
    state = tl.arange(0, STATES)[None, :]
    prior = tl.load(log_prior + state, mask=state < CLASSES, other=float("-inf"))
    counted, likelihoods = tl.zeros((STATES,), tl.float64), tl.zeros((LISTS,), tl.float64)
    for turn in range(ROUNDS):
        task = (tl.program_id(0).to(tl.int64) * ROUNDS + turn) * LISTS + tl.arange(0, LISTS)
        logits = add_votes(task_ptr, cell, bonus, task, state, n_tasks, CLASSES, False, BY_WORKER, STATES, LISTS)
        known = tl.load(gold + task, mask=task < n_tasks, other=-1)[:, None] if HAS_GOLD else -1
        belief, likelihood = soften(logits, prior, known, state, CLASSES, 1, HAS_GOLD)
        counted += keep(belief, task, state, posterior, n_tasks, STRIDE)
        likelihoods += tl.where(task < n_tasks, likelihood, 0.0)
    tl.store(class_counts + tl.program_id(0) * STATES + tl.arange(0, STATES), counted)
    tl.store(log_likelihood + tl.program_id(0), tl.sum(likelihoods, axis=0))


@triton.jit
def share_votes(
    task_ptr, cell, otherwise, gold, posterior, class_counts, log_likelihood, n_tasks, CLASSES: tl.constexpr,
    HAS_GOLD: tl.constexpr, STATES: tl.constexpr, STRIDE: tl.constexpr,
    LISTS: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """Share of each class in a task's labels; `otherwise` where it has none."""
    state = tl.arange(0, STATES)[None, :]
    silent = tl.load(otherwise + state, mask=state < CLASSES, other=0.0)
    counted = tl.zeros((STATES,), tl.float64)
    for turn in range(ROUNDS):
        task = (tl.program_id(0).to(tl.int64) * ROUNDS + turn) * LISTS + tl.arange(0, LISTS)
        votes = add_votes(task_ptr, cell, otherwise, task, state, n_tasks, CLASSES, True, False, STATES, LISTS)
        total = tl.sum(votes, axis=1)[:, None]
        shares = tl.where(total > 0, votes / tl.maximum(total, 1.0), silent + tl.zeros_like(votes))
        if HAS_GOLD:
            known = tl.load(gold + task, mask=task < n_tasks, other=-1)[:, None]
            shares = tl.where(known < 0, shares, tl.where(state == known, 1.0, 0.0))
        counted += keep(shares, task, state, posterior, n_tasks, STRIDE)
    tl.store(class_counts + tl.program_id(0) * STATES + tl.arange(0, STATES), counted)
    tl.store(log_likelihood + tl.program_id(0), 0.0)


@triton.jit
def sum_rows(
    start,
    member,
    rows,
    out,
    n_lists,
    INDIRECT: tl.constexpr,
    STATES: tl.constexpr,
    STRIDE: tl.constexpr,
    LISTS: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """Sum of the rows of each list's members; without INDIRECT, of the rows that lie in the list's range."""
    which = tl.program_id(0).to(tl.int64) * LISTS + tl.arange(0, LISTS)
    first = tl.load(start + which, mask=which < n_lists, other=0)
    last = tl.load(start + which + 1, mask=which < n_lists, other=0)
    state = tl.arange(0, STATES)[None, :]
    total = tl.zeros((LISTS, STATES), tl.float64)
    for step in range(0, tl.max(last - first), AT_ONCE):
        at = first[:, None] + step + tl.arange(0, AT_ONCE)[None, :]
        there = at < last[:, None]
        row = tl.load(member + at, mask=there, other=0).to(tl.int64) if INDIRECT else at.to(tl.int64)
        where = row[:, :, None] * STRIDE + state[None, :, :]
        values = tl.load(rows + where, mask=there[:, :, None] & (state < STRIDE)[None, :, :], other=0.0)
        total += tl.sum(values, axis=1)
    tl.store(out + which[:, None] * STRIDE + state, total, mask=(which < n_lists)[:, None] & (state < STRIDE))


@triton.jit
def sum_named(start, member, column, rows, out, n_lists, STRIDE: tl.constexpr, LISTS: tl.constexpr):
    """Sum of one column, the list's own, of the rows of its members."""
    which = tl.program_id(0).to(tl.int64) * LISTS + tl.arange(0, LISTS)
    first = tl.load(start + which, mask=which < n_lists, other=0)
    last = tl.load(start + which + 1, mask=which < n_lists, other=0)
    own = tl.load(column + which, mask=which < n_lists, other=0)
    total = tl.zeros((LISTS,), tl.float64)
    for step in range(tl.max(last - first)):
        there = first + step < last
        row = tl.load(member + first + step, mask=there, other=0).to(tl.int64)
        total += tl.load(rows + row * STRIDE + own, mask=there, other=0.0)
    tl.store(out + which, total, mask=which < n_lists)
