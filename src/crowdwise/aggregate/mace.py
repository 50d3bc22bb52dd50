"""MACE: a worker either knows the answer or spams.

The generative story. A task's truth is any class, all alike. For each label, worker w is competent with
probability θ[w] and gives the truth; otherwise she spams and gives l with probability ξ[w, l], her habit.

D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy (2013), "Learning whom to trust with MACE", NAACL.

| equation | here |
|---|---|
| (1) P(l | truth) = θ [l = truth] + (1-θ) ξ[l] | `_log_label_probabilities` |
| E-step, marginals of truth | the engine's `e_step_votes` |
| E-step, P(competent | l is right) = θ / (θ + (1-θ) ξ[l]) | `expected_counts` |
| M-step, maximum a posteriori | `map_step` |
| section 3, variational Bayes with Beta(½, ½) and Dirichlet(10) priors | `variational_step` |

Departures: the first start trusts everyone alike (θ = ½, uniform habits), so that the result does not depend on
chance; the paper's random restarts are added by `n_restarts`. Both objectives are exact: the log-posterior, or
the evidence lower bound, constants included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, gammaln

from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import VoteParameters, fit_votes, safe_log
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import BAYESIAN
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_number
from crowdwise.fitting.priors import dirichlet_divergence, dirichlet_expected_logs
from crowdwise.fitting.saved_arrays import ROUNDING, SMALLEST, SavedArray
from crowdwise.kernels import NO_GOLD, worker_answer_sums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.engines import Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["Mace"]

COMPETENCE = 0.5  # Beta(½, ½) prior of competence, section 3
HABIT = 10.0  # symmetric Dirichlet prior of habits, section 3


@dataclass(frozen=True)
class MaceParameters(VoteParameters):
    """Vote parameters and what they are made of.

    Attributes
    ----------
    log_competent : (M,)
        log θ, or its expectation.
    competence : (M, 2)
        θ and 1 - θ, or the Beta parameters of their posterior.
    habit : (M, K)
        ξ, or the Dirichlet parameters of its posterior.
    """

    log_competent: FloatArray
    competence: FloatArray
    habit: FloatArray


def _log_label_probabilities(
    log_competent: FloatArray, log_spam: FloatArray, log_habit: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log of P(l | truth is l) and of P(l | truth is another), (M, K) each."""
    log_wrong = np.maximum(log_spam[:, None] + log_habit, safe_log(np.zeros(1)))
    return np.logaddexp(log_competent[:, None], log_wrong), log_wrong


def make_parameters(competence: FloatArray, habit: FloatArray) -> MaceParameters:
    """Parameters from θ (M,) and ξ (M, K)."""
    log_right, log_wrong = _log_label_probabilities(safe_log(competence), safe_log(1 - competence), safe_log(habit))
    log_prior = np.full(habit.shape[1], -np.log(habit.shape[1]))
    pair = np.stack([competence, 1 - competence], axis=1)
    return MaceParameters(log_prior, log_right, log_wrong, safe_log(competence), pair, habit)


def expected_counts(
    found: Statistics, current: MaceParameters, answers: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expected competent answers (M,), spammed answers (M,), and spammed answers by label (M, K)."""
    competent = found.counts * np.exp(current.log_competent[:, None] - current.log_right)
    spammed = np.maximum(answers - competent, 0)
    return competent.sum(axis=1), spammed.sum(axis=1), spammed


def map_step(found: Statistics, current: MaceParameters, answers: FloatArray, smoothing: float) -> MaceParameters:
    """Highest posterior under Beta(1 + smoothing) and Dirichlet(1 + smoothing) priors; flat priors for 0."""
    competent, spam, habits = expected_counts(found, current, answers)
    total = competent + spam + 2 * smoothing
    competence = np.divide(competent + smoothing, total, out=np.full(total.size, 0.5), where=total > 0)
    mass = spam + smoothing * habits.shape[1]
    habit = np.divide(
        habits + smoothing,
        mass[:, None],
        out=np.full(habits.shape, 1 / habits.shape[1]),
        where=mass[:, None] > 0,
    )
    return make_parameters(np.clip(competence, 0, 1), habit)


def log_prior_density(parameters: MaceParameters, smoothing: float) -> float:
    """Log-density of θ and ξ under their priors, constants included; 0 without smoothing."""
    if smoothing == 0:
        return 0.0
    n_workers, n_classes = parameters.habit.shape
    constant = gammaln(n_classes * (1 + smoothing)) - n_classes * gammaln(1 + smoothing)
    constant -= betaln(1 + smoothing, 1 + smoothing)
    logs = safe_log(parameters.competence).sum() + safe_log(parameters.habit).sum()
    return float(n_workers * constant + smoothing * logs)


def variational_step(found: Statistics, current: MaceParameters, answers: FloatArray) -> MaceParameters:
    """Posteriors of θ and ξ given expected answers, and the expectations of their logarithms."""
    competent, spam, habits = expected_counts(found, current, answers)
    return posterior_parameters(
        np.stack([competent + COMPETENCE, spam + COMPETENCE], axis=1), habits + HABIT, current.log_prior
    )


def posterior_parameters(competence: FloatArray, habit: FloatArray, log_prior: FloatArray) -> MaceParameters:
    """Vote parameters from expectations under Beta (M, 2) and Dirichlet (M, K) posteriors."""
    logs = dirichlet_expected_logs(competence)
    log_right, log_wrong = _log_label_probabilities(logs[:, 0], logs[:, 1], dirichlet_expected_logs(habit))
    return MaceParameters(log_prior, log_right, log_wrong, logs[:, 0], competence, habit)


def negative_divergence(parameters: MaceParameters) -> float:
    """-KL of the posteriors of θ and ξ from their priors: what the evidence bound adds to the E-step's value."""
    return -dirichlet_divergence(parameters.competence, COMPETENCE) - dirichlet_divergence(parameters.habit, HABIT)


@estimator
class Mace(ClimbingAggregator):
    """Consensus with a competence and a spamming habit for every worker.

    Facts
    -----
    Assumes: every worker either knows the answer or spams, by a habit of their own
    Fails with: honest confusion between classes: it is taken for spamming
    Cost: O(labels × K) an iteration
    Paper: Hovy et al. 2013, NAACL

    Parameters
    ----------
    inference : "vb", "em"
        Variational Bayes, which the paper recommends, or maximum a posteriori by EM.
    smoothing : float, 0 or more
        For "em": pseudo-count of every count; 0 is maximum likelihood.
    n_restarts : int, 0 or more
        Random starts besides the first; the one that ends highest is kept.
    random_state : int
        For random starts.

    Attributes
    ----------
    prior_ : (K,)
        Uniform.
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l], at the (mean) parameters.
    skill_ : (M,)
        Chance that a worker is right: competent, or spamming and lucky.
    log_likelihood_, objective_ : (n_iter_,)
        The E-step's value and the objective (log-posterior or evidence bound) at each iteration.

    Notes
    -----
    `workers()` adds `competence`. A worker unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> from crowdwise.labels import CrowdLabels
    >>> labels = CrowdLabels.from_dense([["x", "x", "y"], ["y", "y", "y"], ["x", "x", "y"], ["y", "y", "y"]])
    >>> Mace().fit(labels).predict().tolist()
    ['x', 'y', 'x', 'y']
    """

    slug = "mace"
    saved = (
        SavedArray("worker_columns/competence", "M", low=0, high=1),
        SavedArray("extra/log_right", "M K", high=ROUNDING),
        SavedArray("extra/log_wrong", "M K", high=ROUNDING),
        SavedArray("extra/log_prior", "K", low=-np.inf, logarithms=True),
    )
    family = BAYESIAN

    inference: str = "vb"
    smoothing: float = 0.1
    n_restarts: int = 0
    random_state: int = 0

    def _check(self) -> None:
        check_choice("inference", self.inference, ("vb", "em"))
        check_number("smoothing", self.smoothing, low=0)
        check_count("n_restarts", self.n_restarts, low=0)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        answers = worker_answer_sums(labels)
        variational = self.inference == "vb"

        def m_step(found: Statistics, current: MaceParameters) -> MaceParameters:
            if variational:
                return variational_step(found, current, answers)
            return map_step(found, current, answers, self.smoothing)

        def log_density(parameters: MaceParameters) -> float:
            return negative_divergence(parameters) if variational else log_prior_density(parameters, self.smoothing)

        fit, ended = fit_votes(
            labels,
            known,
            starts=lambda: self._starts(labels, known, answers),
            m_step=m_step,
            log_density=log_density,
            **self._climb_options,
        )
        competence = ended.competence[:, 0] / ended.competence.sum(axis=1)
        habit = ended.habit / ended.habit.sum(axis=1, keepdims=True)
        confusion = np.repeat(((1 - competence)[:, None] * habit)[:, None, :], labels.n_classes, axis=1)
        confusion += competence[:, None, None] * np.eye(labels.n_classes)
        return replace(
            fit,
            confusion=confusion,
            skill=np.einsum("wkk,k->w", confusion, fit.prior),
            worker_columns={"competence": competence},
            extra={"log_right": ended.log_right, "log_wrong": ended.log_wrong, "log_prior": ended.log_prior},
        )

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        kept, posterior = self.extra_, np.empty((labels.n_tasks, labels.n_classes))
        # What no one ever said must not decide by itself: the difference of two infinities is no number.
        average = np.maximum(self._log_confusion_table()[-1], np.log(SMALLEST))
        right, wrong = np.diag(average), np.where(np.eye(labels.n_classes) > 0, np.log(SMALLEST), average).max(axis=0)
        bonus = np.concatenate([kept["log_right"] - kept["log_wrong"], (right - wrong)[None]])
        prepare(labels).e_step_votes(kept["log_prior"], bonus, NO_GOLD, posterior)
        return posterior

    def _starts(self, labels: CrowdLabels, known: PriorKnowledge, answers: FloatArray) -> Iterator[MaceParameters]:
        n_workers, n_classes = answers.shape
        log_prior = np.full(n_classes, -np.log(n_classes))
        trust = answers.sum(axis=1) / 2
        yield self._starting_point(trust, np.full((n_workers, n_classes), 1 / n_classes), answers, log_prior)
        if not self.n_restarts:
            return
        generator, order = np.random.default_rng(self.random_state), order_by_content(labels, known)
        habit = np.full((n_workers, n_classes), 1 / n_classes)
        for _ in range(self.n_restarts):
            share = order.restore_workers(generator.uniform(0.1, 0.9, order.workers.size), np.full(n_workers, 0.5))
            trust = answers.sum(axis=1) * share
            habit[np.ix_(order.workers, order.classes)] = generator.dirichlet(np.ones(n_classes), order.workers.size)
            yield self._starting_point(trust, habit, answers, log_prior)

    def _starting_point(
        self, trust: FloatArray, habit: FloatArray, answers: FloatArray, log_prior: FloatArray
    ) -> MaceParameters:
        """Parameters as if `trust` of a worker's answers were competent and the rest followed `habit`."""
        total = answers.sum(axis=1)
        if self.inference == "em":
            share = np.divide(trust, total, out=np.full(total.size, 0.5), where=total > 0)
            return make_parameters(share, habit)
        spam = total - trust
        competence = np.stack([trust + COMPETENCE, spam + COMPETENCE], axis=1)
        return posterior_parameters(competence, spam[:, None] * habit + HABIT, log_prior)
