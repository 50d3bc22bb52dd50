"""Families of workers who err together: a joint model of truth, families and workers, by EM and by Gibbs sampling.

On task t with truth k ~ prior, family j has a latent class z ~ Ξ_j[k]: one of the K classes, or none. A member i
gives that class with chance c_i (a class at random where the family has none), and otherwise answers on their own from
A_i[k], as workers in no family always do:

    P(l | k, z) = c_i (1[l = z] or 1/K) + (1 - c_i) A_i[k, l].

Given the truth the families are independent. "None" are tasks that are hard for the family: its members err on
them together, but each in their own way. (Group-Dawid–Skene, Jaffe et al. 2016, is the case A_i uniform.)

| step | here |
|---|---|
| posterior of truth and latent classes, exactly, task by task | `kernels.family_model` |
| EM: posterior means of the parameters given expected counts | `run_family_em` |
| Gibbs: truths, latent classes and causes of labels, then parameters, in turn | `sample_correlations` |
| r̄, the mean correlation of two workers' errors, given truths | `error_correlation` |

Priors are Dirichlet and Beta: a worker's accuracy is drawn to the crowd's by `LIKE_OTHERS` labels, the rows of A_i to
that accuracy by max(4, (K - 2)²), as the cells of a matrix are K² and a worker's labels do not grow with them; the
crowd's matrix and Ξ_j towards being right by a few (`SOLID`, `LATENT`). They were set on simulated independent crowds
with two to 25 classes, by how far r̄ comes out from zero.

What the sampler gives is the posterior of r̄ itself, uncertainty about the truth included: in each draw errors are
counted against the truths of that draw, with exponential weights of the tasks (Rubin 1981), so that dependence that the
families do not describe is counted as well, and what other tasks would have shown is allowed for.

With more than `MOST_CLASSES` classes, the classes of every task are numbered anew at random (`limit_classes`): who
agrees with whom is all that is then used, which keeps a pass O(labels).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from crowdwise.kernels.family_model import FamilyEdges, FamilyParameters, expected_family_counts, sample_hidden
from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.kernels.family_model import FamilyCounts
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "arrange_edges",
    "draw_truths",
    "error_correlation",
    "initialise_family_parameters",
    "limit_classes",
    "run_family_em",
    "sample_correlations",
]

LIKE_OTHERS = 8.0  # pseudo-labels by which a worker's accuracy is drawn to the crowd's
FEWEST_PSEUDO = 4.0  # pseudo-labels by which a row of a worker's matrix is drawn to their accuracy, with few classes
SOLID = 3.0, 1.0  # pseudo-labels on the diagonal of the crowd's matrix, and beside it in all
LATENT = 4.0, 1.0, 0.5  # pseudo-counts of latent classes: right, wrong in all, none
FOLLOW = 1.5  # pseudo-labels after the family, and as many on one's own
MOST_CLASSES = 12
GAIN = 1e-5  # log-likelihood per label below which EM stops


def limit_classes(labels: CrowdLabels, truth: IntArray, rng: np.random.Generator) -> tuple[CrowdLabels, IntArray]:
    """Labels with at most `MOST_CLASSES` classes, and the known truths (N,) in these, -1 where unknown.

    Where there are more, those that a task has are numbered in random order, the rarest of too many as one.
    """
    if labels.n_classes <= MOST_CLASSES:
        return labels, truth
    known = np.flatnonzero(truth >= 0)
    size = np.int64(labels.n_classes)
    key = np.concatenate([labels.task * size + labels.label, known * size + truth[known]])
    found, inverse, times = np.unique(key, return_inverse=True, return_counts=True)
    task = found // size

    def rank_within_task(order: IntArray) -> IntArray:
        """Number of each entry among those of its task, in this order (sorted by task first)."""
        place = np.empty(found.size, np.int64)
        first = np.searchsorted(task[order], task[order], side="left")
        place[order] = np.arange(found.size) - first
        return place

    common = np.minimum(rank_within_task(np.lexsort((rng.random(found.size), -times, task))), MOST_CLASSES - 1)
    shuffled = rng.permuted(np.tile(np.arange(MOST_CLASSES), (labels.n_tasks, 1)), axis=1)
    code = shuffled[task, common][inverse]
    narrow = CrowdLabels.from_codes(
        labels.task,
        labels.worker,
        code[: labels.n_labels],
        tasks=labels.n_tasks,
        workers=labels.n_workers,
        classes=MOST_CLASSES,
        on_duplicate="all",
    )
    told = np.full(labels.n_tasks, -1, np.int64)
    told[known] = code[labels.n_labels :]
    return narrow, told


def arrange_edges(labels: CrowdLabels, family: IntArray, gold: IntArray) -> FamilyEdges:
    """Labels sorted by task and family (M,), -1 for none, with known truths (N,)."""
    order = np.lexsort((family[labels.worker], labels.task))
    worker, label = (array[order].astype(np.int64) for array in (labels.worker, labels.label))
    return FamilyEdges(labels.task_ptr.astype(np.int64), worker, label, family.astype(np.int64), gold.astype(np.int64))


def _pseudo_counts(counts: FamilyCounts) -> tuple[FloatArray, FloatArray]:
    """Pseudo-labels of the rows of A_i (M, K, K) and pseudo-counts of the rows of Ξ_j (K, K + 1).

    A row of A_i is drawn to the worker's own accuracy, more or less by how hard the class is for the crowd (on the
    scale of log-odds), with wrong answers spread as the crowd's are.
    """
    size = counts.classes.size
    base = np.full((size, size), SOLID[1] / (size - 1))
    np.fill_diagonal(base, SOLID[0])
    crowd = counts.own.sum(axis=0) + base
    right = np.diagonal(crowd) / crowd.sum(axis=1)
    answers = counts.own.sum(axis=(1, 2))
    mean = np.diagonal(crowd).sum() / crowd.sum()
    skill = (np.trace(counts.own, axis1=1, axis2=2) + LIKE_OTHERS * mean) / (answers + LIKE_OTHERS)
    diagonal = expit(logit(skill)[:, None] + logit(right) - logit(mean))
    np.fill_diagonal(crowd, 0.0)
    own = (1 - diagonal)[:, :, None] * (crowd / crowd.sum(axis=1, keepdims=True))
    own[:, np.arange(size), np.arange(size)] = diagonal
    latent = np.full((size, size + 1), LATENT[1] / (size - 1))
    np.fill_diagonal(latent, LATENT[0])
    latent[:, size] = LATENT[2]
    return max(FEWEST_PSEUDO, (size - 2.0) ** 2) * own, latent


def _normalise(prior: FloatArray, own: FloatArray, follow: FloatArray, latent: FloatArray) -> FamilyParameters:
    return FamilyParameters(
        prior / prior.sum(),
        own / own.sum(axis=2, keepdims=True),
        follow,
        latent / latent.sum(axis=2, keepdims=True),
    )


def _posterior_means(counts: FamilyCounts, family: IntArray) -> FamilyParameters:
    own, latent = _pseudo_counts(counts)
    follow = (counts.followed[:, 1] + FOLLOW) / (counts.followed.sum(axis=1) + 2 * FOLLOW)
    return _normalise(counts.classes + 1, counts.own + own, np.where(family >= 0, follow, 0.0), counts.latent + latent)


def _draw_parameters(counts: FamilyCounts, family: IntArray, rng: np.random.Generator) -> FamilyParameters:
    own, latent = _pseudo_counts(counts)
    follow = rng.beta(counts.followed[:, 1] + FOLLOW, counts.followed[:, 0] + FOLLOW)
    prior, matrices, hidden = (
        rng.standard_gamma(each) + 1e-12 for each in (counts.classes + 1, counts.own + own, counts.latent + latent)
    )
    return _normalise(prior, matrices, np.where(family >= 0, follow, 0.0), hidden)


def initialise_family_parameters(edges: FamilyEdges, n_classes: int) -> FamilyParameters:
    """Begin with the truth that a vote gives in which every family counts once."""
    n_workers, n_tasks = edges.family.size, edges.task_ptr.size - 1
    n_families = int(edges.family.max(initial=-1)) + 1
    task = np.repeat(np.arange(n_tasks), np.diff(edges.task_ptr))
    voter = np.where(edges.family >= 0, edges.family, n_families + np.arange(n_workers))[edges.worker]
    _, inverse, size = np.unique(
        task * np.int64(n_families + n_workers) + voter, return_inverse=True, return_counts=True
    )
    votes = np.bincount(task * n_classes + edges.label, 1 / size[inverse], n_tasks * n_classes)
    q = votes.reshape(n_tasks, n_classes) + 1e-9
    q /= q.sum(axis=1, keepdims=True)
    known = edges.gold >= 0
    q[known] = np.eye(n_classes)[edges.gold[known]]
    own = np.zeros((n_workers, n_classes, n_classes))
    for k in range(n_classes):
        np.add.at(own[:, k], (edges.worker, edges.label), q[task, k])
    latent = np.full((n_families, n_classes, n_classes + 1), 0.25 / n_classes)
    latent[:, np.arange(n_classes), np.arange(n_classes)] = 0.75
    return _normalise(
        q.sum(axis=0) + 1e-6, own + np.eye(n_classes) + 0.5, np.where(edges.family >= 0, 0.5, 0.0), latent
    )


def run_family_em(edges: FamilyEdges, parameters: FamilyParameters, steps: int) -> tuple[float, FamilyParameters]:
    """Some steps of EM: the log-likelihood, and the parameters after the last."""
    before, value = -np.inf, -np.inf
    for _ in range(steps):
        value, counts = expected_family_counts(edges, parameters)
        parameters = _posterior_means(counts, edges.family)
        if value - before < GAIN * edges.worker.size:
            break
        before = value
    return value, parameters


def draw_truths(edges: FamilyEdges, parameters: FamilyParameters, rng: np.random.Generator) -> IntArray:
    """One draw of the truths (N,) from their posterior."""
    return sample_hidden(edges, parameters, rng)[0]


def error_correlation(edges: FamilyEdges, truth: IntArray, weight: FloatArray) -> float:
    """Mean correlation of the errors of two workers, pairs counted by the tasks that they share.

    With e = 1[label ≠ truth] standardised for each worker as x, this is Σ_t Σ_{i≠j} x_ti x_tj / Σ_t n_t (n_t - 1); a
    worker who is always, or never, right counts as uncorrelated. O(labels).

    Parameters
    ----------
    truth, weight : (N,)
        Class and weight of each task.
    """
    n_tasks, n_workers = truth.size, edges.family.size
    each = np.diff(edges.task_ptr)
    task = np.repeat(np.arange(n_tasks), each)
    heavy, wrong = weight[task], (edges.label != truth[task]).astype(np.float64)
    total = np.maximum(np.bincount(edges.worker, heavy, n_workers), 1e-12)
    mean = np.bincount(edges.worker, heavy * wrong, n_workers) / total
    spread = np.sqrt(mean * (1 - mean))
    x = (wrong - mean[edges.worker]) / np.where(spread > 1e-9, spread, np.inf)[edges.worker]
    sums, squares = np.bincount(task, x, n_tasks), np.bincount(task, x * x, n_tasks)
    return float((weight * (sums**2 - squares)).sum() / (weight * each * (each - 1.0)).sum())


def sample_correlations(
    edges: FamilyEdges, parameters: FamilyParameters, rng: np.random.Generator, *, warm: int, draws: int, thin: int
) -> Iterator[float]:
    """Draws from the posterior of `error_correlation`, after some sweeps, and one in so many."""
    for sweep in range(warm + draws * thin):
        truth, counts = sample_hidden(edges, parameters, rng)
        parameters = _draw_parameters(counts, edges.family, rng)
        if sweep >= warm and (sweep - warm) % thin == 0:
            yield error_correlation(edges, truth, rng.standard_exponential(truth.size))
