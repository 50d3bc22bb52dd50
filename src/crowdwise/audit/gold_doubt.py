"""Tells a wrong given answer from a task that misleads the crowd, where the crowd contradicts the answer.

Every task with a given answer g is one of three kinds, and its labels are drawn accordingly:

| kind | P(worker w says l) |
|---|---|
| ordinary | A_w[g, l], or what `difficulty` says of easy and hard tasks, if that is more |
| wrong answer: the truth is k ≠ g | A_w[k, l], as on an ordinary task of class k |
| misleading: drawn to a class k ≠ g, or hard | (1 - h) A_w[g, l] + h 1[l = k]; or + h × share of l |

The pull h of a misleading task is Beta with mean m and concentration s. Both readings explain a crowd that says k; what
tells them apart is that behind a wrong answer workers agree on k just as they do on ordinary tasks, each by their own
skill, whereas a misleading task draws them with a pull of its own, the skilled and the unskilled. That takes several
such tasks: shares of kinds φ, m and s are unknown and summed over a grid (`PULLS`, `SPREADS`, `SHARES`), and the
probability of each kind given all labels follows by Bayes' rule. The matrices A are counted on ordinary tasks only:
first on those whose majority says g, then by the probability of being ordinary, `ROUNDS` times in all.

Prior: none of either with chance one half each; else about one task in ten misleads, one answer in thirty is wrong.
Where tasks are many and labels few the two cannot be told apart, and neither probability is then large.
Cost: O(labels × (K + pulls) + tasks × grid).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "GoldTaskProbabilities",
    "classify_gold",
    "estimate_log_confusions",
    "grid_of_misleading_and_wrong_shares",
    "log_likelihoods_if_wrong",
    "log_prior_of_misleading_pulls",
    "misleading_task_likelihoods",
]

STEPS = np.array([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95])  # values of h
PULLS = np.array([0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.93])  # values of m
SPREADS = np.array([4.0, 15.0, 60.0])  # values of s
SHARES = np.array([0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3])  # of misleading tasks, and of wrong answers
NONE = 0.5  # prior weight of a share of nothing
USUAL_MISLEADING, USUAL_WRONG = 10.0, 30.0  # Beta(1, .) priors of the shares
LURED = 0.8  # of misleading tasks: those drawn to one class; the rest are hard
ROUNDS = 3
LIGHT = 1e-4  # of the weight of the likeliest cell of the grid, below which a cell is left aside
AT_ONCE = 2**20  # numbers held for some tasks


class GoldTaskProbabilities(NamedTuple):
    """Probabilities of what each task with a given answer is, and how its workers answer.

    Attributes
    ----------
    wrong, misleading : (N,)
        Not a number where no answer is given.
    likeliest : (N,)
        The class other than the given that the labels fit best.
    log_prior, table : (K,), (M, K, K)
        Log class shares, and log matrices [worker, truth, label].
    """

    wrong: FloatArray
    misleading: FloatArray
    likeliest: IntArray
    log_prior: FloatArray
    table: FloatArray


def estimate_log_confusions(labels: CrowdLabels, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log class shares and log matrices of workers, counted by the weights (N, K) of the classes of the tasks.

    Matrices are drawn to the crowd's own by as many labels as there are classes, and that towards uniform by one.
    """
    size = labels.n_classes
    known = np.flatnonzero(weight.sum(axis=1)[labels.task])
    task, worker, label = (array[known] for array in (labels.task, labels.worker, labels.label))
    counts = np.zeros((labels.n_workers, size, size))
    for k in range(size):
        cell = worker.astype(np.int64) * size + label
        counts[:, k] = np.bincount(cell, weight[task, k], labels.n_workers * size).reshape(-1, size)
    crowd = counts.sum(axis=0) + 1 / size
    counts += size * crowd / crowd.sum(axis=1, keepdims=True)
    shares = weight.sum(axis=0) + 1
    return np.log(shares / shares.sum()), np.log(counts / counts.sum(axis=2, keepdims=True))


def misleading_task_likelihoods(
    labels: CrowdLabels, given: IntArray, log_prior: FloatArray, table: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log-likelihood of every given task's labels (G, len(STEPS)) at each pull, and where nothing pulls (G,)."""
    size = labels.n_classes
    tasks = np.flatnonzero(given >= 0)
    place = np.full(labels.n_tasks, -1)
    place[tasks] = np.arange(tasks.size)
    edges = np.flatnonzero(place[labels.task] >= 0)
    row, label = place[labels.task[edges]], labels.label[edges]
    g = given[labels.task[edges]]
    own = table[labels.worker[edges], g, label]  # log A[g, l]
    plain = np.asarray(np.bincount(row, own, tasks.size), np.float64)
    n = np.bincount(row, minlength=tasks.size)
    # Only the classes that a task's workers say can draw them by much; those nobody says share one bound.
    key, inverse = np.unique(row * np.int64(size) + label, return_inverse=True)
    of_task, lure = key // size, key % size
    lure_prior = log_prior[lure] - np.log1p(-np.exp(log_prior[given[tasks[of_task]]]))
    lure_prior[lure == given[tasks[of_task]]] = -np.inf
    popularity = np.log(labels.class_shares[label] + 1e-12)
    out = np.empty((tasks.size, STEPS.size))
    for column, h in enumerate(STEPS):
        pulled = np.bincount(inverse, np.log1p(h / (1 - h) * np.exp(-own)), key.size) + lure_prior
        lured = np.full(tasks.size, -np.inf)
        np.logaddexp.at(lured, of_task, pulled)
        lured += plain + n * np.log1p(-h)
        hard = np.bincount(row, np.logaddexp(np.log1p(-h) + own, np.log(h) + popularity), tasks.size)
        out[:, column] = np.logaddexp(np.log(LURED) + lured, np.log1p(-LURED) + hard)
    return out, plain


def log_likelihoods_if_wrong(
    labels: CrowdLabels, given: IntArray, log_prior: FloatArray, table: FloatArray
) -> FloatArray:
    """Log-likelihood of every given task's labels and each class (G, K), if the answer given is wrong."""
    tasks = np.flatnonzero(given >= 0)
    others = np.empty((tasks.size, labels.n_classes))
    for k in range(labels.n_classes):
        said = table[labels.worker, k, labels.label]
        others[:, k] = log_prior[k] + np.bincount(labels.task, said, labels.n_tasks)[tasks]
    others[np.arange(tasks.size), given[tasks]] = -np.inf
    return np.asarray(others - np.log1p(-np.exp(log_prior[given[tasks]]))[:, None], np.float64)


def classify_gold(labels: CrowdLabels, given: IntArray, if_right: FloatArray | None = None) -> GoldTaskProbabilities:
    """What each task with a given answer (N,), -1 for none, is likely to be.

    Parameters
    ----------
    if_right : (G,)
        Log-likelihood of each given task's labels if it is ordinary, where some are harder than others (`difficulty`).
    """
    size, tasks = labels.n_classes, np.flatnonzero(given >= 0)
    g = given[tasks]
    weight = np.zeros((labels.n_tasks, size))
    votes = labels.vote_counts()[tasks]
    weight[tasks, g] = votes[np.arange(tasks.size), g] == votes.max(axis=1)  # at first, those that nobody disputes
    pulls = log_prior_of_misleading_pulls()
    log_shares = grid_of_misleading_and_wrong_shares()
    for _ in range(ROUNDS):
        log_prior, table = estimate_log_confusions(labels, weight)
        others = log_likelihoods_if_wrong(labels, given, log_prior, table)
        wrong = logsumexp(others, axis=1)
        steps, plain = misleading_task_likelihoods(labels, given, log_prior, table)
        misled = logsumexp(steps[:, None, :] + pulls, axis=2)  # (G, C) of each pair of m and s
        plain = plain if if_right is None else np.maximum(plain, if_right)
        p_wrong, p_misled = _average_over_parameters(wrong - plain, misled - plain[:, None], log_shares)
        best = others.argmax(axis=1)
        weight[tasks, g] = 1 - p_wrong - p_misled
    out = np.full((2, labels.n_tasks), np.nan)
    out[:, tasks] = p_wrong, p_misled
    likeliest = np.full(labels.n_tasks, -1)
    likeliest[tasks] = best
    return GoldTaskProbabilities(out[0], out[1], likeliest, log_prior, table)


def log_prior_of_misleading_pulls() -> FloatArray:
    """Log-weights (C, len(STEPS)) of the pulls for every pair of mean and concentration."""
    edges = np.linspace(0, 1, STEPS.size + 1)
    from scipy.stats import beta  # takes most of a second to import

    rows = [np.diff(beta.cdf(edges, m * s, (1 - m) * s)) for m in PULLS for s in SPREADS]
    return np.asarray(np.log(np.array(rows) + 1e-12), np.float64)


def grid_of_misleading_and_wrong_shares(grid: FloatArray = SHARES) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares of misleading tasks and of wrong answers, every pair (P,), and the log of the prior."""

    def log_share_prior(usual: float) -> FloatArray:
        dense = grid[1:] * (1 - grid[1:]) ** (usual - 1)  # per unit of log share, on which the grid is even
        weights = np.concatenate([[NONE], (1 - NONE) * dense / dense.sum()])
        return np.asarray(np.log(weights), np.float64)

    misled, wrong = (each.ravel() for each in np.meshgrid(grid, grid, indexing="ij"))
    weights = (log_share_prior(USUAL_MISLEADING)[:, None] + log_share_prior(USUAL_WRONG)).ravel()
    return misled, wrong, weights


def _average_over_parameters(
    wrong: FloatArray, misled: FloatArray, shares: tuple[FloatArray, FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Probability (G,) that a task's answer is wrong, and that the task misleads, over all that is unknown.

    Parameters
    ----------
    wrong, misled : (G,), (G, C)
        Log-likelihoods less that of an ordinary task.
    """
    n_pulls = misled.shape[1]
    share_misled, share_wrong, log_prior = (np.tile(each, n_pulls) for each in shares)
    column = np.repeat(np.arange(n_pulls), shares[0].size)
    evidence = log_prior.copy()
    for some in _task_chunks(wrong.size, column.size):
        parts = _joint_probabilities(wrong[some], misled[some], column, share_misled, share_wrong)
        evidence += np.log(parts.sum(axis=0)).sum(axis=0) + _largest_log_likelihoods(wrong[some], misled[some]).sum()
    posterior = np.exp(evidence - logsumexp(evidence))
    heavy = np.flatnonzero(posterior > LIGHT * posterior.max())
    posterior = posterior[heavy] / posterior[heavy].sum()
    found = np.empty((2, wrong.size))
    for some in _task_chunks(wrong.size, heavy.size):
        parts = _joint_probabilities(wrong[some], misled[some], column[heavy], share_misled[heavy], share_wrong[heavy])
        found[:, some] = (parts[1:] / parts.sum(axis=0)) @ posterior
    return found[0], found[1]


def _task_chunks(n_tasks: int, n_cells: int) -> list[slice]:
    """Tasks, some at a time."""
    step = max(1, AT_ONCE // n_cells)
    return [slice(first, min(first + step, n_tasks)) for first in range(0, n_tasks, step)]


def _largest_log_likelihoods(wrong: FloatArray, misled: FloatArray) -> FloatArray:
    """The largest log-likelihood of each task, that of an ordinary one being 0."""
    largest: FloatArray = np.maximum(np.maximum(wrong, misled.max(axis=1)), 0.0)
    return largest


def _joint_probabilities(
    wrong: FloatArray, misled: FloatArray, column: IntArray, share_misled: FloatArray, share_wrong: FloatArray
) -> FloatArray:
    """Chance of each kind (ordinary, wrong, misled) and the labels (3, G, cells), up to a factor of the task."""
    scale = _largest_log_likelihoods(wrong, misled)
    ordinary = np.exp(-scale)[:, None] * (1 - share_misled - share_wrong)
    by_wrong = np.exp(wrong - scale)[:, None] * share_wrong
    by_misled = np.exp(misled - scale[:, None])[:, column] * share_misled
    return np.stack([ordinary, by_wrong, by_misled])
