"""BWA: the consensus is an average of votes, weighed by each worker's precision.

The generative story, for each class k by itself. Task t has a score z[t] ~ Normal(μ, 1/λ). A worker's answer y, 1 where
she names class k and 0 otherwise, is taken for a measurement of it: y ~ Normal(z[t], 1/v[w]), with her precision
v[w] ~ Gamma(a/2, b/2). The class with the highest score is the consensus.

Y. Li, B. Rubinstein and T. Cohn (2019), "Truth inference at scale: a Bayesian model for adjudicating highly redundant
crowd annotations", WWW.

| update | here |
|---|---|
| E-step: v[w] = (a + answers of w) / (b + Σ (z - y)²) | `expected_precisions` |
| M-step: μ = mean of z; z[t] = (λμ + Σ v y) / (λ + Σ v) | `average_votes`, `class_means` |
| b = a × variance of the answers around the share of votes × 4 (1 - 1/K) | `prior_scale` |
| log p(answers, z), the precisions integrated out, which EM climbs | `compute_objective` |

A worker's repeated answers to a task are one measurement, as in the authors' code: 1 for each class that she named.

Departures: the variance that sets b counts one more answer, with a vote split in half, so that b is above 0 where all
votes agree. The climb stops on its objective, not on the change of z. Scores are scaled to sum to 1 over the classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from crowdwise.fitting.base import Fit
from crowdwise.fitting.categorical_em import fit_coin_skill
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import VOTES
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kernels import NO_GOLD
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["BayesianWeightedAverage"]


@dataclass(frozen=True)
class Measurements:
    """One for each task and worker who met: `task`, `worker` (P,); label n of the data belongs to `place[n]` (S,)."""

    task: IntArray
    worker: IntArray
    place: IntArray
    labels: CrowdLabels

    def class_indicator(self, k: int) -> FloatArray:
        """1 where the worker named class k, 0 otherwise, (P,)."""
        found = np.zeros(self.task.size)
        found[self.place[self.labels.label == k]] = 1
        return found

    def sum_per_task(self, values: FloatArray) -> FloatArray:
        """Σ of values (P,) over each task's measurements, (N,)."""
        return np.bincount(self.task, weights=values, minlength=self.labels.n_tasks).astype(np.float64)

    def sum_per_worker(self, values: FloatArray) -> FloatArray:
        """Σ of values (P,) over each worker's measurements, (M,)."""
        return np.bincount(self.worker, weights=values, minlength=self.labels.n_workers).astype(np.float64)


def merge_repeated_labels(labels: CrowdLabels) -> Measurements:
    """The labels, with repeated answers of a worker to a task put together."""
    pairs = labels.task.astype(np.int64) * labels.n_workers + labels.worker
    met, place = np.unique(pairs, return_inverse=True)
    return Measurements(met // labels.n_workers, met % labels.n_workers, place, labels)


def prior_scale(data: Measurements, shares: FloatArray, strength: float) -> FloatArray:
    """B of each class (K,): the precision expected beforehand is that of the answers around the share of votes."""
    answers = data.sum_per_task(np.ones(data.task.size))
    variance = (answers @ (shares * (1 - shares)) + 0.25) / (answers.sum() + 1)
    scale: FloatArray = strength * variance * 4 * (1 - 1 / shares.shape[1])
    return scale


def sum_squared_residuals(data: Measurements, z: FloatArray) -> FloatArray:
    """Σ (z - y)² over each worker's answers, by class: (M, K)."""
    squares = [data.sum_per_worker((z[data.task, k] - data.class_indicator(k)) ** 2) for k in range(z.shape[1])]
    return np.stack(squares, axis=1)


def expected_precisions(answers: FloatArray, squares: FloatArray, strength: float, scale: FloatArray) -> FloatArray:
    """Expected precision of each worker in each class (M, K), given her number of answers (M,)."""
    expected: FloatArray = (strength + answers[:, None]) / (scale + squares)
    return expected


def class_means(z: FloatArray, known: PriorKnowledge) -> FloatArray:
    """μ of each class (K,): the class prior, where it is given."""
    return z.mean(axis=0) if known.class_prior is None else known.class_prior


def average_votes(
    data: Measurements, weights: FloatArray, mean: FloatArray, shrinkage: float, gold: IntArray = NO_GOLD
) -> FloatArray:
    """Z (N, K): votes averaged by precision (M, K), drawn towards the mean; 0 and 1 where the truth is known."""
    z = np.tile(mean, (data.labels.n_tasks, 1))
    for k in range(mean.size):
        weight = weights[data.worker, k]
        total = shrinkage + data.sum_per_task(weight)
        np.divide(
            shrinkage * mean[k] + data.sum_per_task(weight * data.class_indicator(k)),
            total,
            out=z[:, k],
            where=total > 0,
        )
    if gold.size:
        z[gold >= 0] = np.eye(mean.size)[gold[gold >= 0]]
    return z


def compute_objective(
    answers: FloatArray,
    z: FloatArray,
    mean: FloatArray,
    squares: FloatArray,
    strength: float,
    scale: FloatArray,
    shrinkage: float,
) -> tuple[float, float]:
    """Log-density of answers and scores, precisions integrated out, and that of the answers given the scores."""
    shape = (strength + answers[:, None]) / 2
    cells = gammaln(shape) - gammaln(strength / 2) + strength / 2 * np.log(scale / 2)
    cells = cells - shape * np.log((scale + squares) / 2)
    likelihood = float(cells.sum()) - float(answers.sum()) * z.shape[1] / 2 * math.log(2 * math.pi)
    prior = z.size / 2 * math.log(shrinkage / (2 * math.pi)) - shrinkage / 2 * float(((z - mean) ** 2).sum())
    return likelihood + prior, likelihood


@estimator
class BayesianWeightedAverage(ClimbingAggregator):
    """Consensus by votes averaged with each worker's precision, one class against the rest.

    Facts
    -----
    Assumes: votes are noisy measurements, averaged with each worker's precision
    Fails with: workers who are biased or contrary; its scores are not calibrated probabilities
    Cost: O(labels × K) an iteration
    Paper: Li, Rubinstein & Cohn 2019, WWW

    Parameters
    ----------
    strength : float, above 0
        a: how many answers the prior of a worker's precision counts as.
    shrinkage : float, above 0
        λ: precision of the scores around their mean.

    Attributes
    ----------
    posterior_ : (N, K)
        Scores scaled to sum to 1: weighted shares of votes, which rank the classes but are not calibrated.
    prior_ : (K,)
        Mean scores, scaled to sum to 1; the class prior, where it is given.
    precision_ : (M, K)
        Weight of each worker's vote for or against each class.
    skill_ : (M,)
        Chance that a worker is right, graded by the consensus and drawn towards the crowd's where answers are few.
    log_likelihood_, objective_ : (n_iter_,)
        Log-density of the answers given the scores, and with that of the scores, at each iteration.

    Notes
    -----
    Made for many labels from workers with few each, where confusion matrices cannot be learnt. A vote is never turned
    round. There are no confusion matrices. A worker unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> BayesianWeightedAverage().fit(labels).precision_.round(1).tolist()
    [[4.9, 4.9], [4.9, 4.9], [4.1, 4.1]]
    """

    slug = "bwa"
    has_confusion = False
    saved = (SavedArray("extra/mean", "K", low=0),)
    family = VOTES

    strength: float = 15.0
    shrinkage: float = 1.0

    precision_ = FittedArray(
        SavedArray("extra/precision", "M K", low=SMALLEST), "Weight of each worker's vote, (M, K)."
    )

    def _check(self) -> None:
        check_number("strength", self.strength, low=0, above=True)
        check_number("shrinkage", self.shrinkage, low=0, above=True)

    def _check_restored(self) -> None:
        super()._check_restored()
        if not self.extra_["mean"].any():
            raise InputError("extra/mean rules out every class")

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        data = merge_repeated_labels(labels)
        answers = data.sum_per_worker(np.ones(data.task.size))
        equal = np.ones((labels.n_workers, labels.n_classes))
        start = average_votes(data, equal, labels.class_shares, 0.0, known.gold)
        scale = prior_scale(data, start, self.strength)

        def weights_at(z: FloatArray) -> tuple[FloatArray, FloatArray]:
            squares = sum_squared_residuals(data, z)
            return squares, expected_precisions(answers, squares, self.strength, scale)

        def step(z: FloatArray) -> tuple[float, float, FloatArray]:
            mean = class_means(z, known)
            squares, weights = weights_at(z)
            value, likelihood = compute_objective(answers, z, mean, squares, self.strength, scale, self.shrinkage)
            return value, likelihood, average_votes(data, weights, mean, self.shrinkage, known.gold)

        ended = self._climb(start, step, labels)
        mean = class_means(ended.parameters, known)
        _, weights = weights_at(ended.parameters)
        posterior = _normalise_scores(average_votes(data, weights, mean, self.shrinkage, known.gold), mean)
        prior = mean / mean.sum()
        skill, skill_beta = fit_coin_skill(labels, known, posterior, prior)
        return Fit(
            posterior=posterior,
            prior=prior,
            skill=skill,
            skill_beta=skill_beta,
            extra={"precision": weights, "mean": mean},
        ).attach_climb_history(ended)

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        weights = self._append_unknown_worker(self.precision_)
        mean: FloatArray = self.extra_["mean"]
        return _normalise_scores(average_votes(merge_repeated_labels(labels), weights, mean, self.shrinkage), mean)


def _normalise_scores(z: FloatArray, mean: FloatArray) -> FloatArray:
    """Scores as shares; a class that the class prior rules out has none, whatever its votes."""
    possible = np.where(mean > 0, z, 0.0)
    shares: FloatArray = possible / possible.sum(axis=1, keepdims=True)
    return shares
