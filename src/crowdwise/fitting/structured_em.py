"""EM where the truths of tasks depend on each other: the labels speak first, then the structure of the tasks.

A worker's answer to a task depends on the truth of that task alone, so that an E-step has two parts: the evidence of
its labels for each class of each task, as in any confusion model, and an inference over the structure (a chain, a
graph) that turns evidence into posteriors and counts what the structure's own parameters need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.categorical_em import ConfusionParameters
from crowdwise.fitting.em import climb
from crowdwise.fitting.skill_intervals import DRAWS, FEW_ANSWERS, confusion_skill, confusion_skill_beta, shrink_rows
from crowdwise.fitting.skill_posterior import beta_moments, subtract_shared_errors
from crowdwise.kernels import NO_GOLD

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.engines import Prepared, Statistics
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.fitting.skill_posterior import Deferred
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["estimate_worker_skill_betas", "fit_structured", "label_evidence", "pseudo_counts"]

P = TypeVar("P", bound=ConfusionParameters)
X = TypeVar("X")


def label_evidence(prepared: Prepared, log_table: FloatArray, gold: IntArray) -> tuple[float, FloatArray]:
    """Chance of each task's labels under each class, as rows (N, K) that sum to one, and Σ log of what they lack.

    Where the truth is known, the other classes have none.
    """
    evidence = np.empty((prepared.n_tasks, prepared.n_classes))
    found = prepared.e_step(np.zeros(prepared.n_classes), log_table, gold, evidence)
    return found.log_likelihood, evidence


def pseudo_counts(smoothing: float, labels: CrowdLabels, known: PriorKnowledge) -> FloatArray:
    """Pseudo-counts [worker, truth, label]: one for all workers, or one each where some are known."""
    if known.worker_counts is None:
        return np.full((1, labels.n_classes, labels.n_classes), float(smoothing))
    each: FloatArray = smoothing + known.worker_counts
    return each


def fit_structured(
    labels: CrowdLabels,
    prepared: Prepared,
    *,
    start: P,
    e_step: Callable[[P], tuple[float, FloatArray, X]],
    m_step: Callable[[Statistics, FloatArray, X], P],
    with_rows: Callable[[P, FloatArray], P],
    log_density: Callable[[P], float],
    max_iter: int,
    tol: float,
    name: str,
) -> tuple[Fit, P]:
    """EM for a confusion model with structured truth; also returns its parameters.

    Parameters
    ----------
    e_step
        Value, posterior (N, K), and what else the structure's M-step needs.
    m_step
        Parameters from expected answers, the posterior, and that.
    with_rows
        The same parameters with other confusion matrices, log P(label | truth) [worker, truth, label].
    """

    def step(parameters: P) -> tuple[float, float, P]:
        value, posterior, own = e_step(parameters)
        return value + log_density(parameters), value, m_step(prepared.accumulate(posterior), posterior, own)

    ended = climb([start], step, max_iter=max_iter, tol=tol * labels.n_labels, name=name)
    _, posterior, _ = e_step(ended.parameters)
    counts = prepared.accumulate(posterior).counts
    confusion = np.exp(ended.parameters.log_table)
    prior = np.exp(ended.parameters.log_prior)

    def infer(log_rows: FloatArray) -> FloatArray:
        return e_step(with_rows(ended.parameters, log_rows))[1]

    fit = Fit(
        posterior=posterior,
        prior=prior,
        confusion=confusion,
        skill=confusion_skill(confusion, counts, prior),
        skill_beta=estimate_worker_skill_betas(labels, counts, posterior, prior, infer),
    ).attach_climb_history(ended)
    return fit, ended.parameters


def estimate_worker_skill_betas(
    labels: CrowdLabels,
    counts: FloatArray,
    posterior: FloatArray,
    prior: FloatArray,
    infer: Callable[[FloatArray], FloatArray],
) -> Deferred:
    """Beta parameters of each worker's skill, at rows drawn towards the crowd where answers are few.

    Parameters
    ----------
    infer
        Posterior (N, K) at other confusion matrices, log P(label | truth) [worker, truth, label].
    """

    def compute_beta_parameters() -> FloatArray:
        prepared, believed, found = prepare(labels), posterior, counts
        if labels.n_labels < FEW_ANSWERS * labels.n_workers * labels.n_classes:
            for _ in range(DRAWS):
                believed = infer(shrink_rows(found))
                found = prepared.accumulate(believed).counts
        moments = beta_moments(confusion_skill_beta(found, *prepared.posterior_variance(believed), prior))
        return subtract_shared_errors(labels, NO_GOLD, believed, *moments)

    return compute_beta_parameters
