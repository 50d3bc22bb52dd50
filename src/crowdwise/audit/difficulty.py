"""How much harder some tasks are than others, for everyone, told from the answers given.

Where tasks differ in difficulty workers err together more often than each alone: on a hard task all of them do. Two
levels stand for this. A share ρ of the tasks is hard. With e = 1 − A_w[g, g] the chance that worker w errs on class g,
counted over all tasks, and c = 1 − (share of g among all labels) that of a guess,

    on hard tasks  e₁ = (1 − h) e₀ + h c,    on the others  e₀ = (e − ρ h c) / (1 − ρ h),

so that the mean over all tasks remains e and only how far errors come together changes; which wrong class is said
remains as it is in A_w. A task's labels come from one level or the other, or its answer is wrong or it misleads the
crowd (`gold_doubt`, whose prior of the shares of these two is used); without them, wrong answers would pass for hard
tasks. The likelihood of ρ and h on a grid, times a prior in which no task is hard with chance `NONE`, gives their
posterior: labels are few, so all pairs that explain them count, not the best alone.

Matrices are counted on tasks as far as their answer is not wrong and they do not mislead, `ROUNDS` times at most: with
three rounds wrong answers still passed for hard tasks, and a tenth fewer of them were found.

Assumes one difficulty for all workers of a task. Fails with one label a task (errors cannot come together), where the
prior alone speaks. Cost: O(labels × (K + grid)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logsumexp

from crowdwise.audit.gold_doubt import (
    PULLS,
    SPREADS,
    estimate_log_confusions,
    grid_of_misleading_and_wrong_shares,
    log_likelihoods_if_wrong,
    log_prior_of_misleading_pulls,
    misleading_task_likelihoods,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "DrawPlan",
    "TaskDifficulty",
    "allocate_draws_over_grid",
    "fit_difficulty",
    "likeliest_log_matrices_by_level",
]

NONE = 0.5  # prior weight of no hard task
CELLS = np.array([(0.0, 0.0), *((share, h) for share in (0.05, 0.1, 0.2, 0.3, 0.45) for h in (0.3, 0.5, 0.7, 0.9))])
LEAST_PULL = 0.55  # of a task that misleads, here: with less the crowd is divided, as on a hard task
LEAST = 0.1  # of a worker's errors, those that easy tasks keep
SHARES = np.array([0.0, 0.01, 0.04, 0.15])  # of misleading tasks, and of wrong answers
ROUNDS = 8
STEADY = 0.02  # change of a task's weight from which on no further round is made


class TaskDifficulty(NamedTuple):
    """What is known of hard tasks.

    Attributes
    ----------
    weight : (len(CELLS),)
        Posterior of each pair of the share of hard tasks and how hard they are.
    log_prior, table : (K,), (M, K, K)
        Log class shares, and log matrices [worker, truth, label] over easy and hard tasks.
    if_right : (G,)
        Log-likelihood of the labels of each task with an answer if that is right, and the task easy or hard.
    """

    weight: FloatArray
    log_prior: FloatArray
    table: FloatArray
    if_right: FloatArray


def fit_difficulty(labels: CrowdLabels, given: IntArray) -> TaskDifficulty:
    """How hard tasks are, by the answers given (N,), -1 for none."""
    tasks = np.flatnonzero(given >= 0)
    place = np.full(labels.n_tasks, -1)
    place[tasks] = np.arange(tasks.size)
    edges = np.flatnonzero(place[labels.task] >= 0)
    row, worker, g = place[labels.task[edges]], labels.worker[edges], given[labels.task[edges]]
    right = labels.label[edges] == g
    pulls = log_prior_of_misleading_pulls()[np.repeat(PULLS, SPREADS.size) >= LEAST_PULL]
    prior = np.log(np.array([NONE, *np.full(len(CELLS) - 1, (1 - NONE) / (len(CELLS) - 1))]))
    weight = np.zeros((labels.n_tasks, labels.n_classes))
    weight[tasks, given[tasks]] = 1
    for _ in range(ROUNDS):
        log_prior, table = estimate_log_confusions(labels, weight)
        wrong = logsumexp(log_likelihoods_if_wrong(labels, given, log_prior, table), axis=1)
        steps, plain = misleading_task_likelihoods(labels, given, log_prior, table)
        misled = logsumexp(steps[:, None, :] + pulls, axis=(1, 2)) - np.log(len(pulls))
        error = 1 - np.exp(table[worker, g, g])
        guess = 1 - labels.class_shares[g]
        evidence, ordinary, mixed = np.empty(len(CELLS)), *np.empty((2, len(CELLS), tasks.size))
        for cell, (share, h) in enumerate(CELLS):
            by_level = [
                np.bincount(row, np.where(right, np.log1p(-e) - np.log1p(-error), np.log(e / error)), tasks.size)
                for e in split_errors_by_difficulty(error, guess, share, h)
            ]
            with np.errstate(divide="ignore"):  # nothing is hard in the first
                mixed[cell] = np.logaddexp(np.log1p(-share) + by_level[0], np.log(share) + by_level[1])
            evidence[cell], ordinary[cell] = _average_over_shares_of_kinds(
                np.stack([mixed[cell], wrong - plain, misled - plain])
            )
        log_posterior = prior + evidence - logsumexp(prior + evidence)
        before, after = weight[tasks, given[tasks]], np.exp(log_posterior) @ ordinary
        weight[tasks, given[tasks]] = after
        if np.abs(after - before).max() < STEADY:
            break
    if_right = plain + logsumexp(mixed + log_posterior[:, None], axis=0)
    return TaskDifficulty(np.exp(log_posterior), log_prior, table, if_right)


def split_errors_by_difficulty(
    error: FloatArray, guess: FloatArray, share: float, h: float
) -> tuple[FloatArray, FloatArray]:
    """Chances to err on easy and on hard tasks, whose mean is the given one, as far as it can be.

    >>> split_errors_by_difficulty(np.array([0.3]), np.array([0.5]), 0.5, 0.5)
    (array([0.23333333]), array([0.36666667]))
    """
    easy = np.clip((error - share * h * guess) / (1 - share * h), LEAST * error, error)
    return easy, np.maximum((1 - h) * easy + h * guess, error)


class DrawPlan(NamedTuple):
    """So many draws from the matrices (M, K or 2 K, K), where a share of the tasks is hard: the lower K rows."""

    draws: int
    matrices: FloatArray
    share: float


def allocate_draws_over_grid(labels: CrowdLabels, found: TaskDifficulty, draws: int) -> Iterator[DrawPlan]:
    """Share draws out among all pairs of the grid by their weight."""
    ends = np.floor(draws * np.cumsum(found.weight) / found.weight.sum() + 0.5).astype(np.int64)
    numbers = np.diff(ends, prepend=0)
    for cell in np.flatnonzero(numbers):
        yield DrawPlan(int(numbers[cell]), matrices_by_level(labels, found, int(cell)), float(CELLS[cell, 0]))


def likeliest_log_matrices_by_level(labels: CrowdLabels, found: TaskDifficulty) -> tuple[FloatArray, FloatArray]:
    """Log shares (2 K,) and log matrices (M, 2 K, K) of classes on easy and hard tasks, by the likeliest hard pair."""
    cell = 1 + int(found.weight[1:].argmax())
    share = CELLS[cell, 0]
    log_prior = np.concatenate([found.log_prior + np.log1p(-share), found.log_prior + np.log(share)])
    return log_prior, np.log(matrices_by_level(labels, found, cell))


def matrices_by_level(labels: CrowdLabels, found: TaskDifficulty, cell: int) -> FloatArray:
    """Matrices of workers (M, 2 K, K) on easy tasks, and below them on hard ones, for one pair of the grid."""
    matrix = np.exp(found.table)
    size = matrix.shape[2]
    error = 1 - np.diagonal(matrix, axis1=1, axis2=2)
    levels = []
    for e in split_errors_by_difficulty(error, 1 - labels.class_shares, *CELLS[cell]):
        rows = matrix * (e / error)[:, :, None]
        rows[:, np.arange(size), np.arange(size)] = 1 - e
        levels.append(rows)
    return np.concatenate(levels, axis=1)


def _average_over_shares_of_kinds(log_likelihood: FloatArray) -> tuple[float, FloatArray]:
    """Log-likelihood (3, G) of the kinds summed up, over all shares of kinds; chances of the first (G,)."""
    misled, wrong, log_prior = grid_of_misleading_and_wrong_shares(SHARES)
    shares = np.stack([1 - misled - wrong, wrong, misled])
    scale = log_likelihood.max(axis=0)
    likelihood = np.exp(log_likelihood - scale)
    mixed = likelihood.T @ shares
    evidence = log_prior + np.log(mixed).sum(axis=0)
    total = logsumexp(evidence)
    ordinary = likelihood[0] * ((shares[0] / mixed) @ np.exp(evidence - total))
    return float(total + scale.sum()), ordinary
