"""How near the truth each worker's answers are, from how alike answers are: one factor.

Answers i and j to task n by different workers have the similarity s_ij. An answer is a true part and a part of its
own, and own parts of different workers have nothing in common. Then

    s_ij = t_n q_i q_j + noise,

with q_m the factor of worker m, the similarity of their answers to the truth (0 by chance, 1 for the truth itself), and
t_n how alike answers to the task are, about 1. It is the one-factor model of Tenzer et al. (2022) for values, with
similarities in place of covariances; texts need no coordinates for it.

| step | function |
|---|---|
| q, t and the crowd's mean q̄ make Σ (s_ij - t_n q_i q_j)² / (n - 1) + penalties smallest | `fit_nearness` |
| penalties: 4 answers of the crowd's factor for each worker, 4 pairs of t = 1 for each task | `penalised_error` |
| similarity of one answer to the truth, r_i: regression of s_ij on t_n q_j, drawn to q_i | `answer_nearness` |

A pair counts 1 / (n - 1), with n the answers to the task: all pairs of an answer count as one answer.

GLEU is no product. Of words that worker m has right with probability a_m, n-grams are right with probability a_m^n.
With f(a) = Σ_n c_n a^n, c_n the share of n-grams of n words, s_ij is about f(a_i a_j), and the nearness of a worker is
f(a_m). Two workers of factor q have s = q² and so a² = f⁻¹(q²): the nearness is f(√f⁻¹(q²)) (`factor_to_nearness`).
Without that, nearness is .02 to .04 too high in simulated crowds, and its intervals hold too seldom.

A worker whose answers are a known truth has q = 1, which is not estimated.

The constants were chosen in simulated crowds. That one factor is used, and that answers of one worker are no pair, was
also tried against the truth of `translations` (docs/kinds.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from crowdwise.kinds.texts.text_pairs import TextPairs
    from crowdwise.labels.types import FloatArray

__all__ = [
    "Nearness",
    "answer_nearness",
    "factor_to_nearness",
    "fit_nearness",
    "level_tasks",
    "pair_weights",
    "penalised_error",
]

# Both by simulated crowds (3 to 10 answers a task, none or a quarter of the workers spammers): texts near the truth,
# and intervals of workers that hold; a larger FEW draws workers too far to the crowd for that.
FEW = 4.0  # answers of the crowd that count beside a worker's own, and pairs beside a task's
OWN = 0.5  # answers of others that a worker's factor counts as, in what is thought of one answer
STEPS = 200


class Nearness(NamedTuple):
    """Factors q (M,) of workers, t (N,) of tasks, and the crowd's mean q."""

    worker: FloatArray
    task: FloatArray
    mean: float


def penalised_error(
    parameters: FloatArray, pairs: TextPairs, similarity: FloatArray, weight: FloatArray, known: FloatArray
) -> tuple[float, FloatArray]:
    """The sum of squares with its penalties, and its gradient, at [q, t, mean]; q of `known` workers is given."""
    n_workers = known.size
    q = np.where(np.isnan(known), parameters[:n_workers], known)
    t, mean = parameters[n_workers:-1], parameters[-1]
    one, other, task = pairs.worker[pairs.one], pairs.worker[pairs.other], pairs.task[pairs.one]
    few = FEW * _mean_similarity(similarity)
    off = t[task] * q[one] * q[other] - similarity
    pull = 2 * weight * off
    by_worker = np.bincount(one, pull * t[task] * q[other], n_workers)
    by_worker += np.bincount(other, pull * t[task] * q[one], n_workers)
    by_task = np.bincount(task, pull * q[one] * q[other], t.size)
    value = (weight * off**2).sum() + few * ((q - mean)[np.isnan(known)] ** 2).sum() + few**2 * ((t - 1) ** 2).sum()
    by_worker = np.where(np.isnan(known), by_worker + 2 * few * (q - mean), 0.0)
    by_mean = -2 * few * (q - mean)[np.isnan(known)].sum()
    return float(value), np.concatenate([by_worker, by_task + 2 * few**2 * (t - 1), [by_mean]])


def fit_nearness(pairs: TextPairs, similarity: FloatArray, known: FloatArray) -> Nearness:
    """The q, t and mean that make `penalised_error` smallest; `known` (M,) holds q that are given, NaN elsewhere."""
    start = float(np.sqrt(np.clip(_mean_similarity(similarity), 0.01, 1.0)))
    if not pairs.one.size:
        return Nearness(np.where(np.isnan(known), start, known), np.ones(pairs.n_tasks), start)
    first = np.concatenate([np.full(known.size, start), np.ones(pairs.n_tasks), [start]])
    bounds = [(0.0, 1.0)] * known.size + [(0.05, 20.0)] * pairs.n_tasks + [(0.0, 1.0)]
    given = pairs, similarity, pair_weights(pairs), known
    found = minimize(
        penalised_error, first, given, jac=True, bounds=bounds, method="L-BFGS-B",
        options={"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-9},
    ).x  # fmt: skip
    q = np.where(np.isnan(known), found[: known.size], known)
    return Nearness(q, found[known.size : -1], float(found[-1]))


def pair_weights(pairs: TextPairs) -> FloatArray:
    """What each pair counts (P,): one over the answers that its task has besides."""
    counts = np.bincount(pairs.task, minlength=pairs.n_tasks)
    weights: FloatArray = 1.0 / np.maximum(counts - 1, 1)[pairs.task[pairs.one]]
    return weights


def level_tasks(pairs: TextPairs, similarity: FloatArray, q: FloatArray) -> FloatArray:
    """The t (N,) of tasks, given the workers."""
    both, task = q[pairs.worker[pairs.one]] * q[pairs.worker[pairs.other]], pairs.task[pairs.one]
    weight, few = pair_weights(pairs), (FEW * _mean_similarity(similarity)) ** 2
    there = np.bincount(task, weight * similarity * both, pairs.n_tasks) + few
    level: FloatArray = np.clip(there / (np.bincount(task, weight * both**2, pairs.n_tasks) + few), 0.05, 20.0)
    return level


def answer_nearness(
    pairs: TextPairs, similarity: FloatArray, q: FloatArray, t: FloatArray, own_weight: float = OWN
) -> FloatArray:
    """Similarity of each answer to the truth (n,): that to others, regressed on t q, and drawn to the worker's."""
    one, other = q[pairs.worker[pairs.one]], q[pairs.worker[pairs.other]]
    own, level = q[pairs.worker], t[pairs.task]
    prior = max(own_weight, 1e-9) * level * max(float(np.mean(q**2)), 1e-6)
    there = pairs.sum_over_pairs(other * similarity, one * similarity)
    found: FloatArray = (there + prior * own) / (pairs.sum_over_pairs(other**2, one**2) * level + prior)
    return found


def factor_to_nearness(q: FloatArray, shares: FloatArray) -> FloatArray:
    """Nearness f(√f⁻¹(q²)) for factors q, with f(a) = Σ_n shares[n-1] a^n; q itself where only words count.

    >>> factor_to_nearness(np.array([0.5]), np.array([1.0, 0, 0, 0])).round(6).tolist()
    [0.5]
    """
    grid = np.linspace(0.0, 1.0, 2001)
    values = sum(share * grid**order for order, share in enumerate(shares, 1))
    right = np.sqrt(np.interp(np.clip(q, 0.0, 1.0) ** 2, values, grid))
    found: FloatArray = np.asarray(np.interp(right, grid, values), np.float64)
    return found


def _mean_similarity(similarity: FloatArray) -> float:
    return max(float(similarity.mean()), 0.01) if similarity.size else 0.25
