"""GLAD: ability of the worker times ease of the task is the log-odds of a right answer.

The generative story. Worker w has an ability α[w] (negative: adversarial), task t an ease β[t] > 0. The label is
right with probability σ(α[w] β[t]), otherwise one of the other K-1 classes, all alike. α ~ N(1, 1) and
log β ~ N(1, 1). Classes are equally likely beforehand.

J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma and J. Movellan (2009), "Whose vote should count more", NeurIPS.

| equation | here |
|---|---|
| (1) P(right) = 1 / (1 + exp(-α β)) | `kernels.glad` |
| E-step, p(z | l, α, β) | `kernels.ability_posterior` |
| M-step, gradient of Q by α and by log β | `kernels.ability_gradient`, `expected_objective` |
| priors on α and log β, section 3.1 | `log_density` |

Departures: the M-step climbs Q by L-BFGS, where the paper uses conjugate gradients; it need not reach the top,
the objective rises all the same. More than two classes as in the paper's supplement (wrong answers alike).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from crowdwise.fitting.base import Fit
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import EM
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.fitting.skill_intervals import skill_beta_given_variance
from crowdwise.fitting.skill_posterior import beta_moments, subtract_shared_errors
from crowdwise.kernels import NO_GOLD, worker_sums
from crowdwise.kernels.glad import ability_gradient, truth_posterior
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["Glad"]

PRIOR_MEAN = 1.0  # of α and of log β, section 3.1; the standard deviation is 1
CLIMB_STEPS = 25  # L-BFGS steps in one M-step, as many as the authors' conjugate gradients


@dataclass(frozen=True)
class GladParameters:
    """Ability (M,), and logarithm of ease (N,)."""

    ability: FloatArray
    log_ease: FloatArray


def log_density(parameters: GladParameters) -> float:
    """Log-density of the parameters under their unit Gaussian priors, constants included."""
    both = np.concatenate([parameters.ability, parameters.log_ease])
    return float(-0.5 * ((both - PRIOR_MEAN) ** 2).sum() - 0.5 * both.size * np.log(2 * np.pi))


def expected_objective(labels: CrowdLabels, right: FloatArray, parameters: GladParameters) -> tuple[float, FloatArray]:
    """Q, the expected log-likelihood plus log-density (up to constants), and its gradient (M + N,)."""
    value, by_ability, by_ease = ability_gradient(labels, right, parameters.ability, np.exp(parameters.log_ease))
    distance = np.concatenate([parameters.ability, parameters.log_ease]) - PRIOR_MEAN
    gradient = np.concatenate([by_ability, by_ease]) - distance
    return value - 0.5 * float(distance @ distance), gradient


def m_step(labels: CrowdLabels, right: FloatArray, current: GladParameters) -> GladParameters:
    """Climb Q from the current parameters."""
    n_workers = labels.n_workers

    def negative_objective(flat: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = expected_objective(labels, right, GladParameters(flat[:n_workers], flat[n_workers:]))
        return -value, -gradient

    start = np.concatenate([current.ability, current.log_ease])
    from scipy.optimize import minimize

    found = minimize(negative_objective, start, jac=True, method="L-BFGS-B", options={"maxiter": CLIMB_STEPS})
    return GladParameters(found.x[:n_workers], found.x[n_workers:])


def compute_skill(labels: CrowdLabels, right: FloatArray, parameters: GladParameters) -> tuple[FloatArray, FloatArray]:
    """Expected share of right answers among the worker's own, and Beta parameters (M, 2) of her mean chance there.

    The share differs from the mean chance as tosses of unlike coins do, and it is not known exactly which answers are
    right: Σ c(1-c) + Σ q(1-q), c the chance σ(αβ) and q the posterior that an answer is right. The mean of c itself
    would be surer than the labels are: each task's ease is fitted to a handful of answers.
    """
    correct, total = worker_sums(labels, right), labels.labels_per_worker.astype(np.float64)
    guess = expit(PRIOR_MEAN * np.exp(PRIOR_MEAN))
    skill = np.divide(correct, total, out=np.full(total.size, guess), where=total > 0)
    chance = expit(parameters.ability[labels.worker] * np.exp(parameters.log_ease)[labels.task])
    noise = worker_sums(labels, chance * (1 - chance) + right * (1 - right))
    return skill, skill_beta_given_variance(correct, total, noise)


@estimator
class Glad(ClimbingAggregator):
    """Consensus with an ability for every worker and an ease for every task, by EM.

    Facts
    -----
    Assumes: every worker has an ability, every task an ease; their product is the log-odds of a right answer
    Fails with: very few labels per task, workers with a bias towards some class
    Cost: O(labels × K) for each gradient step
    Paper: Whitehill et al. 2009, NeurIPS

    Attributes
    ----------
    prior_ : (K,)
        Uniform.
    ability_ : (M,)
        α (also a column of `workers()`); below 0, the worker is right less often than not.
    ease_ : (N,)
        β (also a column of `consensus()`).
    confusion_ : (M, K, K)
        The skill on the diagonal, the rest spread evenly, at [worker, truth, label].
    skill_ : (M,)
        Expected share of right answers among the worker's own.
    log_likelihood_, objective_ : (n_iter_,)
        Log-probability of the labels, and with the log-density of the priors added, at each iteration.

    Notes
    -----
    With very few labels the ease of a task stays at its prior. At prediction, a new task has the mean log-ease, an
    unknown worker the mean ability.
    """

    slug = "glad"
    family = EM

    max_iter: int = 200
    tol: float = 1e-5

    ability_ = FittedArray(SavedArray("worker_columns/ability", "M"), "α of each worker.")
    ease_ = FittedArray(SavedArray("task_columns/ease", "N", low=SMALLEST), "β of each task.")

    def _keeps_unlabelled_tasks(self) -> bool:
        return True  # `ease_` has a value for each

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        n_classes = labels.n_classes
        log_prior = np.full(n_classes, -np.log(n_classes)) if known.log_prior is None else known.log_prior

        # L-BFGS stops after a few steps, and where it stops depends on the last digit of every sum.
        order = order_by_content(labels, known)
        arranged, gold = order.arrange(labels), order.arrange_knowledge(known).gold

        def step(parameters: GladParameters) -> tuple[float, float, GladParameters]:
            log_likelihood, _, right = truth_posterior(
                arranged, parameters.ability, np.exp(parameters.log_ease), log_prior[order.classes], gold
            )
            objective = log_likelihood + log_density(parameters)
            return objective, log_likelihood, m_step(arranged, right, parameters)

        start = GladParameters(np.full(arranged.n_workers, PRIOR_MEAN), np.full(arranged.n_tasks, PRIOR_MEAN))
        # L-BFGS makes many small BLAS calls: threads of the library's own would only wait for each other.
        with threadpool_limits(1, user_api="blas"):
            ended = self._climb(start, step, labels)
        # Who has no answers stays at the mean of the prior.
        ability, log_ease = np.full(labels.n_workers, PRIOR_MEAN), np.full(labels.n_tasks, PRIOR_MEAN)
        ability[order.workers], log_ease[order.tasks] = ended.parameters.ability, ended.parameters.log_ease
        _, posterior, right = truth_posterior(labels, ability, np.exp(log_ease), log_prior, known.gold)
        skill, skill_beta = compute_skill(labels, right, GladParameters(ability, log_ease))
        confusion = np.repeat(((1 - skill) / max(n_classes - 1, 1))[:, None], n_classes**2, axis=1)
        confusion = confusion.reshape(-1, n_classes, n_classes)
        confusion[:, np.arange(n_classes), np.arange(n_classes)] = skill[:, None]
        return Fit(
            posterior=posterior,
            prior=np.exp(log_prior),
            confusion=confusion,
            skill=skill,
            skill_beta=lambda: subtract_shared_errors(labels, known.gold, posterior, *beta_moments(skill_beta)),
            worker_columns={"ability": ability},
            task_columns={"ease": np.exp(log_ease)},
        ).attach_climb_history(ended)

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        known = positions(labels.tasks, self._names.tasks)
        ease = np.where(known >= 0, self.ease_[known], np.exp(np.log(self.ease_).mean()))
        ability = self._append_unknown_worker(self.ability_)
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.prior_)
        _, posterior, _ = truth_posterior(labels, ability, ease, log_prior, NO_GOLD)
        return posterior
