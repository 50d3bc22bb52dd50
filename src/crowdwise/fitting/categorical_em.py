"""EM for the two families of models that the fused passes serve; a method brings its own M-step.

*Confusion models*: a table of log P(label | truth) for each worker. *Vote models*: a label l is either right or
says nothing about which other class is true, so that P(l | truth) takes two values for each worker and label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from crowdwise.engines import Statistics, prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.crowd_model import TIE
from crowdwise.fitting.em import climb
from crowdwise.fitting.skill_intervals import (
    DRAWS,
    FEW_ANSWERS,
    FEW_LABELS,
    coin_skill_beta,
    confusion_skill,
    confusion_skill_beta,
    shrink_accuracies,
    shrink_rows,
)
from crowdwise.fitting.skill_posterior import beta_moments, sample_skill_beta, subtract_shared_errors
from crowdwise.fitting.skill_sampler import sample_coin_skill, sample_skill
from crowdwise.kernels import NO_GOLD, log_rows, sum_named_class, vote_shares, worker_answer_sums, worker_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crowdwise.engines import Prepared
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.fitting.skill_posterior import Deferred
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "ConfusionParameters",
    "VoteParameters",
    "closed_form_skill_beta",
    "compute_skill_beta",
    "fit_coin_skill",
    "fit_confusions",
    "fit_from_posterior",
    "fit_votes",
    "make_confusion_fit",
    "make_fit",
    "one_coin_parameters",
    "safe_log",
    "starting_vote_counts",
]

SMALLEST = 1e-300  # logarithms of a zero probability are taken here, so that sums of them stay finite


@dataclass(frozen=True)
class ConfusionParameters:
    """log P(truth) (K,), and log P(label | truth) (M, K, K) [worker, truth, label]."""

    log_prior: FloatArray
    log_table: FloatArray


@dataclass(frozen=True)
class VoteParameters:
    """log P(truth) (K,), and log P(l | truth is l), log P(l | truth is another), both (M, K) [worker, label]."""

    log_prior: FloatArray
    log_right: FloatArray
    log_wrong: FloatArray


V = TypeVar("V", bound=VoteParameters)


def one_coin_parameters(accuracy: FloatArray, log_prior: FloatArray) -> VoteParameters:
    """Vote parameters where one accuracy (M,) describes a worker, and errors fall on the other classes alike."""
    n_classes = log_prior.size
    shape = (accuracy.size, n_classes)
    wrong = (1 - accuracy) / max(n_classes - 1, 1)
    return VoteParameters(
        log_prior,
        np.broadcast_to(safe_log(accuracy)[:, None], shape),
        np.broadcast_to(safe_log(wrong)[:, None], shape),
    )


def fit_confusions(
    labels: CrowdLabels,
    known: PriorKnowledge,
    *,
    starts: Callable[[Prepared], Iterable[ConfusionParameters]],
    m_step: Callable[[Statistics], ConfusionParameters],
    log_density: Callable[[ConfusionParameters], float],
    max_iter: int,
    tol: float,
    name: str,
) -> Fit:
    """EM for a confusion model.

    Parameters
    ----------
    starts
        First parameters of each climb, given the prepared labels.
    log_density
        Log-density of the parameters under their prior; 0 for maximum likelihood.
    tol
        Gain per label at which to stop.
    """
    prepared = prepare(labels)
    gold, fixed = known.gold, known.log_prior

    def fix_log_prior(parameters: ConfusionParameters) -> ConfusionParameters:
        return parameters if fixed is None else replace(parameters, log_prior=fixed)

    def step(parameters: ConfusionParameters) -> tuple[float, float, ConfusionParameters]:
        found = prepared.e_step(parameters.log_prior, parameters.log_table, gold)
        return found.log_likelihood + log_density(parameters), found.log_likelihood, fix_log_prior(m_step(found))

    end: list[tuple[ConfusionParameters, FloatArray, Statistics]] = []  # of the latest climb that came so far

    def last_step(parameters: ConfusionParameters) -> tuple[float, float, ConfusionParameters]:
        end.clear()
        end.append((parameters, *find_posterior(labels, prepared, known, parameters)))
        log_likelihood = end[0][2].log_likelihood
        return log_likelihood + log_density(parameters), log_likelihood, parameters

    ended = climb(
        map(fix_log_prior, starts(prepared)),
        step,
        max_iter=max_iter,
        tol=tol * labels.n_labels,
        name=name,
        last_step=last_step,
    )
    found = end[0][1:] if end and end[0][0] is ended.parameters else None  # not if it converged before, for one
    end.clear()
    return make_confusion_fit(labels, prepared, known, ended.parameters, found=found).attach_climb_history(ended)


def find_posterior(
    labels: CrowdLabels, prepared: Prepared, known: PriorKnowledge, parameters: ConfusionParameters
) -> tuple[FloatArray, Statistics]:
    """Bayes' rule for every task (N, K), and what the pass found."""
    posterior = labels.empty_rows(labels.n_classes)
    return posterior, prepared.e_step(parameters.log_prior, parameters.log_table, known.gold, posterior)


def make_confusion_fit(
    labels: CrowdLabels,
    prepared: Prepared,
    known: PriorKnowledge,
    parameters: ConfusionParameters,
    few_answers: float = FEW_ANSWERS,
    found: tuple[FloatArray, Statistics] | None = None,
) -> Fit:
    """What given parameters say: Bayes' rule for every task, and every worker's skill and how sure it is.

    Below `few_answers` for a worker and class, the intervals are taken at rows drawn towards the crowd. `found` is what
    `find_posterior` gave, where that was done before.
    """
    posterior, last = found or find_posterior(labels, prepared, known, parameters)
    prior = np.exp(parameters.log_prior)
    confusion = np.exp(parameters.log_table)
    return Fit(
        posterior=posterior,
        prior=prior,
        confusion=confusion,
        skill=confusion_skill(confusion, last.counts, prior),
        skill_beta=compute_skill_beta(labels, known, parameters.log_prior, posterior, few_answers),
        log_likelihood=np.array([last.log_likelihood]),
        objective=np.array([last.log_likelihood]),
    )


def make_fit(
    labels: CrowdLabels, posterior: FloatArray, confusion: FloatArray, classifier: FloatArray | None = None
) -> Fit:
    """A `Fit` from a posterior (N, K) and matrices (M, K, K) that were found elsewhere.

    `classifier` (N, K) are probabilities of a classifier that was trained on the same labels and is part of the
    posterior, if there is one.
    """
    prepared = prepare(labels)
    counts = prepared.accumulate(posterior).counts
    prior = posterior.mean(axis=0)
    confusion = confusion / confusion.sum(axis=2, keepdims=True)
    return Fit(
        posterior=posterior,
        prior=prior,
        confusion=confusion,
        skill=confusion_skill(confusion, counts, prior),
        skill_beta=lambda: grade_by_posterior(labels, posterior, prior, classifier),
    )


def fit_from_posterior(labels: CrowdLabels, known: PriorKnowledge, log_prior: FloatArray, posterior: FloatArray) -> Fit:
    """A `Fit` from a posterior (N, K) alone: matrices and skills are the expected shares of each worker's answers."""
    counts = prepare(labels).accumulate(posterior).counts
    confusion = np.exp(log_rows(counts, np.zeros((1, labels.n_classes, labels.n_classes))))
    prior = np.exp(log_prior)
    return Fit(
        posterior=posterior,
        prior=prior,
        confusion=confusion,
        skill=confusion_skill(confusion, counts, prior),
        skill_beta=compute_skill_beta(labels, known, log_prior, posterior),
    )


def compute_skill_beta(
    labels: CrowdLabels,
    known: PriorKnowledge,
    log_prior: FloatArray,
    posterior: FloatArray,
    few_answers: float = FEW_ANSWERS,
) -> Deferred:
    """Beta parameters of each worker's skill, computed when they are asked for."""
    return sample_skill_beta(
        sample_skill,
        labels,
        known,
        posterior,
        lambda: closed_form_skill_beta(labels, known, log_prior, posterior, few_answers),
    )


def closed_form_skill_beta(
    labels: CrowdLabels,
    known: PriorKnowledge,
    log_prior: FloatArray,
    posterior: FloatArray,
    few_answers: float = FEW_ANSWERS,
) -> FloatArray:
    """Beta parameters of each worker's skill in closed form, at rows drawn towards the crowd where answers are few.

    Answers that a worker is known to have given elsewhere count as graded.
    """
    prepared = prepare(labels)
    counts = prepared.accumulate(posterior).counts
    if labels.n_labels < few_answers * labels.n_workers * labels.n_classes:
        posterior = labels.empty_rows(labels.n_classes)
        for _ in range(DRAWS):
            found = prepared.e_step(log_prior, shrink_rows(counts), known.gold, posterior)
            counts = found.counts
            if known.log_prior is None:
                log_prior = safe_log(found.class_counts / found.class_counts.sum())
    if known.worker_counts is not None:
        counts = counts + known.worker_counts
    return confusion_skill_beta(counts, *prepared.posterior_variance(posterior), np.exp(log_prior))


def fit_votes(
    labels: CrowdLabels,
    known: PriorKnowledge,
    *,
    starts: Callable[[], Iterable[V]],
    m_step: Callable[[Statistics, V], V],
    log_density: Callable[[V], float],
    max_iter: int,
    tol: float,
    name: str,
    of_accuracies: Callable[[FloatArray, V], V] | None = None,
) -> tuple[Fit, V]:
    """EM for a vote model; also returns its parameters. Skill is the chance of a right label under the model.

    Parameters
    ----------
    of_accuracies
        Parameters with other accuracies (M,) in place of those given, if the model has one for each worker.
    """
    prepared = prepare(labels)
    n_classes = labels.n_classes
    given = worker_answer_sums(labels)
    gold, fixed = known.gold, known.log_prior

    def fix_log_prior(parameters: V) -> V:
        return parameters if fixed is None else replace(parameters, log_prior=fixed)

    def e_step(parameters: VoteParameters, posterior: FloatArray | None = None) -> tuple[float, Statistics]:
        bonus = _subtract(parameters.log_right, parameters.log_wrong)
        found = prepared.e_step_votes(parameters.log_prior, bonus, gold, posterior)
        return found.log_likelihood + float(np.vdot(given, parameters.log_wrong)), found

    def step(parameters: V) -> tuple[float, float, V]:
        log_likelihood, found = e_step(parameters)
        return log_likelihood + log_density(parameters), log_likelihood, fix_log_prior(m_step(found, parameters))

    end: list[tuple[V, FloatArray, Statistics]] = []  # of the latest climb that came so far

    def last_step(parameters: V) -> tuple[float, float, V]:
        end.clear()
        posterior = labels.empty_rows(n_classes)
        log_likelihood, found = e_step(parameters, posterior)
        end.append((parameters, posterior, found))
        return log_likelihood + log_density(parameters), log_likelihood, parameters

    ended = climb(
        map(fix_log_prior, starts()),
        step,
        max_iter=max_iter,
        tol=tol * labels.n_labels,
        name=name,
        last_step=last_step,
    )
    if not end or end[0][0] is not ended.parameters:  # it converged before, or an earlier climb ended higher
        last_step(ended.parameters)
    _, posterior, last = end[0]

    def closed_form_beta() -> FloatArray:
        correct, answers, sure = last.counts.sum(axis=1), given.sum(axis=1), posterior
        if of_accuracies is not None and labels.n_labels < FEW_LABELS * labels.n_workers:
            sure = labels.empty_rows(n_classes)
            drawn = of_accuracies(shrink_accuracies(correct, answers), ended.parameters)
            correct = e_step(drawn, sure)[1].counts.sum(axis=1)
        _, undecided = prepared.posterior_variance(sure)
        return coin_skill_beta(correct, answers, undecided.sum(axis=1))

    prior = np.exp(ended.parameters.log_prior)
    confusion = np.repeat(np.exp(ended.parameters.log_wrong)[:, None, :], n_classes, axis=1)
    confusion[:, np.arange(n_classes), np.arange(n_classes)] = np.exp(ended.parameters.log_right)
    fit = Fit(
        posterior=posterior,
        prior=prior,
        confusion=confusion,
        skill=np.minimum(np.einsum("wkk,k->w", confusion, prior), 1),  # shares can sum to a rounding more than 1
        skill_beta=sample_skill_beta(
            sample_skill if of_accuracies is None else sample_coin_skill, labels, known, posterior, closed_form_beta
        ),
    )
    return fit.attach_climb_history(ended), ended.parameters


def _subtract(log_right: FloatArray, log_wrong: FloatArray) -> FloatArray:
    """The difference (M, K), which repeats a worker's one value in place where both do."""
    if log_right.strides[1] == log_wrong.strides[1] == 0:
        return np.broadcast_to(log_right[:, :1] - log_wrong[:, :1], log_right.shape)
    return log_right - log_wrong


def fit_coin_skill(
    labels: CrowdLabels, known: PriorKnowledge, consensus: FloatArray, prior: FloatArray
) -> tuple[FloatArray, Deferred]:
    """Skill (M,) and its Beta parameters, where a method's scores (N, K) rank classes but are no probabilities.

    Votes are such scores. Workers are graded by the consensus, and the truths inferred from them as by `one-coin`, at
    accuracies drawn towards the crowd's, so that the skill is a chance to be right and no agreement with the votes.
    """
    prepared, answers = prepare(labels), labels.labels_per_worker.astype(np.float64)

    def find_winners(scores: FloatArray) -> FloatArray:
        winners: FloatArray = (scores >= scores.max(axis=1, keepdims=True) - TIE).astype(np.float64)
        winners /= winners.sum(axis=1, keepdims=True)  # classes that tie are as likely to be right
        return winners

    correct = sum_named_class(labels, consensus, find_winners)
    posterior = labels.empty_rows(labels.n_classes)
    for _ in range(DRAWS):
        rate = shrink_accuracies(correct, answers)
        bonus = np.log(rate) - np.log((1 - rate) / max(labels.n_classes - 1, 1))
        table = np.repeat(bonus[:, None], labels.n_classes, axis=1)
        correct = prepared.e_step_votes(safe_log(prior), table, known.gold, posterior).counts.sum(axis=1)
    _, undecided = prepared.posterior_variance(posterior)
    shape = coin_skill_beta(correct, answers, undecided.sum(axis=1))
    return shape[:, 0] / shape.sum(axis=1), sample_skill_beta(
        sample_coin_skill, labels, known, posterior, lambda: shape
    )


def grade_by_posterior(
    labels: CrowdLabels, posterior: FloatArray, prior: FloatArray, classifier: FloatArray | None = None
) -> FloatArray:
    """Beta parameters (M, 2) of workers graded by a posterior (N, K) that has more to go by than these labels alone.

    It has counted labels twice if it holds a classifier that was trained on them: the classifier alone may know less,
    classifier and labels together claim more than both know. The truth is taken to lie between the two, half of their
    distance being the standard deviation.
    """
    prepared = prepare(labels)
    middle = posterior if classifier is None else (posterior + classifier) / 2
    counts, undecided = prepared.accumulate(middle).counts, prepared.posterior_variance(middle)
    mean, variance = beta_moments(confusion_skill_beta(counts, *undecided, prior))
    if classifier is not None:
        apart = worker_sums(labels, (posterior - classifier)[labels.task, labels.label])
        variance += (apart / (2 * np.maximum(labels.labels_per_worker, 1))) ** 2
    return subtract_shared_errors(labels, NO_GOLD, middle, mean, variance)


def starting_vote_counts(labels: CrowdLabels, gold: IntArray) -> Statistics:
    """The counts that a vote model's M-step needs when the posterior is the share of votes."""
    if not labels.in_memory:
        found = prepare(labels).count_against_vote_shares(labels.class_shares, gold)
        return replace(found, counts=np.ascontiguousarray(np.diagonal(found.counts, axis1=1, axis2=2)))
    shares = vote_shares(labels, gold)
    counts = worker_answer_sums(labels, shares[labels.task, labels.label])
    return Statistics(0.0, shares.sum(axis=0), counts)


def safe_log(probability: FloatArray) -> FloatArray:
    """Logarithm that stays finite at zero."""
    result: FloatArray = np.log(np.maximum(probability, SMALLEST))
    return result
