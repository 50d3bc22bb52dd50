"""The Beta distribution behind a worker's interval: sampled where the crowd is small, in closed form where it is large.

Both take workers' errors as independent given the truth; `estimate_shared_error_loss` then takes off what errors in
common may have added to everyone's skill, and widens the interval by what the labels cannot tell of them. The work is
put off until someone asks for intervals (`Deferred`): most fits are made for their consensus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.shared_errors import DOUBT, estimate_shared_error_loss
from crowdwise.fitting.skill_intervals import confusion_skill_beta, match_beta
from crowdwise.fitting.skill_sampler import can_sample, sample_skill

if TYPE_CHECKING:
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.fitting.skill_sampler import SkillPosterior
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Deferred", "beta_moments", "sample_skill_beta", "skill_from_calibrated_posterior", "subtract_shared_errors"]

Deferred = Callable[[], "FloatArray"]
"""Beta parameters (M, 2) that are computed when they are asked for."""


def sample_skill_beta(
    sample: Callable[..., SkillPosterior],
    labels: CrowdLabels,
    known: PriorKnowledge,
    posterior: FloatArray,
    closed: Deferred,
) -> Deferred:
    """Beta parameters of skill, by a sampler where the crowd is small.

    Parameters
    ----------
    sample
        `sample_skill` where workers have confusion matrices, `sample_coin_skill` where they have one accuracy each.
    posterior : (N, K)
        Of the truths, from which sampling starts.
    closed
        The closed form, for crowds too large to sample.
    """

    def compute_beta_parameters() -> FloatArray:
        if not can_sample(labels):
            return subtract_shared_errors(labels, known.gold, posterior, *beta_moments(closed()))

        def sample_beta_parameters(labels: CrowdLabels, known: PriorKnowledge, posterior: FloatArray) -> FloatArray:
            found = sample(prepare(labels), known, posterior)
            return subtract_shared_errors(labels, known.gold, found.truths, found.mean, found.variance)

        return _compute_in_content_order(sample_beta_parameters, labels, known, posterior)

    return compute_beta_parameters


def skill_from_calibrated_posterior(
    labels: CrowdLabels, known: PriorKnowledge, posterior: FloatArray, prior: FloatArray
) -> tuple[FloatArray, Deferred]:
    """Skill (M,) graded by a posterior (N, K) that is calibrated, and its Beta parameters.

    A calibrated posterior already allows for errors in common, so that nothing is taken off. What a sampler that knows
    of none would say differs from it by what they cost; that difference is taken as the standard deviation (`DOUBT`) of
    what is not known of them.
    """
    prepared = prepare(labels)
    counts = prepared.accumulate(posterior).counts
    if known.worker_counts is not None:
        counts = counts + known.worker_counts
    shape = confusion_skill_beta(counts, *prepared.posterior_variance(posterior), prior)
    mean, variance = beta_moments(shape)

    def sample_moments(labels: CrowdLabels, known: PriorKnowledge, posterior: FloatArray) -> FloatArray:
        found = sample_skill(prepare(labels), known, posterior)
        return np.stack([found.mean, found.variance], axis=1)

    def compute_beta_parameters() -> FloatArray:
        if can_sample(labels):
            sampled = _compute_in_content_order(sample_moments, labels, known, posterior)
            apart, least = sampled[:, 0] - mean, sampled[:, 1]
        else:
            prepared = prepare(labels)
            sharp = np.eye(labels.n_classes)[posterior.argmax(axis=1)]
            graded = confusion_skill_beta(prepared.accumulate(sharp).counts, *prepared.posterior_variance(sharp), prior)
            apart, least = beta_moments(graded)[0] - mean, variance
        return match_beta(mean, np.maximum(variance, least) + (DOUBT * apart) ** 2)

    return mean, compute_beta_parameters


def _compute_in_content_order(
    compute: Callable[[CrowdLabels, PriorKnowledge, FloatArray], FloatArray],
    labels: CrowdLabels,
    known: PriorKnowledge,
    posterior: FloatArray,
) -> FloatArray:
    """Two values (M, 2) of each worker that are drawn, in an order in which the draws depend on the answers alone.

    One worker without answers is added, whose values all have who gave none.
    """
    order = order_by_content(labels, known)
    found = compute(
        order.arrange(labels, add_worker=True),
        order.arrange_knowledge(known, add_worker=True),
        order.arrange_posterior(posterior),
    )
    others = np.broadcast_to(found[-1], (labels.n_workers, 2)).copy()
    return order.restore_workers(order.average_alike_workers(found[:-1]), others)


def subtract_shared_errors(
    labels: CrowdLabels, gold: IntArray, posterior: FloatArray, mean: FloatArray, variance: FloatArray
) -> FloatArray:
    """Beta parameters (M, 2) of skill with this mean and variance (M,), less what workers' common errors added."""
    shared = estimate_shared_error_loss(labels, posterior, gold)
    return match_beta(mean - shared.mean, variance + shared.variance)


def beta_moments(shape: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances (M,) of Beta distributions with parameters (M, 2)."""
    total = shape.sum(axis=1)
    mean = shape[:, 0] / total
    return mean, mean * (1 - mean) / (total + 1)
