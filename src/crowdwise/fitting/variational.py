"""Mean-field variational inference where every worker's rows, and the class shares, have Dirichlet posteriors.

q(truths, rows, shares) = q(truths) q(rows) q(shares). Given the Dirichlets, the best q(truths) is a soft-max of
expected logarithms, which is the engine's `e_step`; given q(truths), the best Dirichlets are the priors plus
expected counts. With the best q(truths) put in, the evidence bound is the pass's value less the Dirichlets'
divergence from their priors, constants included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines import Statistics, prepare
from crowdwise.fitting.categorical_em import closed_form_skill_beta, safe_log
from crowdwise.fitting.em import climb
from crowdwise.fitting.priors import dirichlet_divergence, dirichlet_expected_logs
from crowdwise.fitting.skill_posterior import sample_skill_beta, skill_from_calibrated_posterior
from crowdwise.fitting.skill_sampler import sample_skill
from crowdwise.kernels import NO_GOLD, expected_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crowdwise.engines import Prepared
    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.fitting.skill_posterior import Deferred
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "VariationalState",
    "compute_skill",
    "confusion_priors",
    "diagonal_prior",
    "expected_logs_with_average",
    "fit_dirichlets",
    "make_log_class_share_function",
    "maximise_evidence_bound",
    "predict_new",
]


@dataclass(frozen=True)
class VariationalState:
    """What a variational step hands to the next."""

    tasks: FloatArray  # (S,): expected number of tasks in each state of the truth (the K classes, or more)
    rows: FloatArray  # (M, S, K) [worker, state, label]: Dirichlet parameters of each worker's rows


def diagonal_prior(right: float, wrong: float, n_classes: int) -> FloatArray:
    """Pseudo-counts (K, K): `right` on the diagonal, `wrong` in every other cell."""
    prior: FloatArray = np.full((n_classes, n_classes), float(wrong))
    np.fill_diagonal(prior, right)
    return prior


def confusion_priors(prior: FloatArray, known: PriorKnowledge) -> FloatArray:
    """Priors [worker, truth, label] from pseudo-counts (K, K) [truth, label]; one for all, or one each where known."""
    if known.worker_counts is None:
        return prior[None]
    return prior + known.worker_counts


def make_log_class_share_function(
    pseudo: FloatArray, known: PriorKnowledge
) -> Callable[[FloatArray], tuple[FloatArray, float]]:
    """Expected log class shares and their divergence given expected tasks (K,), with a Dirichlet(pseudo) prior."""
    fixed = known.log_prior

    def expected_log_shares(tasks: FloatArray) -> tuple[FloatArray, float]:
        if fixed is not None:
            return fixed, 0.0
        shape = pseudo + tasks
        return dirichlet_expected_logs(shape), dirichlet_divergence(shape, pseudo)

    return expected_log_shares


def fit_dirichlets(found: Statistics, prior: FloatArray) -> VariationalState:
    """The best Dirichlets given expected counts, which they take over; the states of a class share its prior."""
    rows = found.counts
    by_class = rows.reshape(rows.shape[0], prior.shape[1], -1, rows.shape[2])
    by_class += prior[:, :, None, :]
    return VariationalState(found.class_counts, rows)


def maximise_evidence_bound(
    labels: CrowdLabels,
    prepared: Prepared,
    gold: IntArray,
    *,
    starts: Iterable[VariationalState],
    prior_of: Callable[[FloatArray], tuple[FloatArray, float]],
    rows_prior: FloatArray,
    max_iter: int,
    tol: float,
    name: str,
    tidy: Callable[[VariationalState], VariationalState] = lambda beliefs: beliefs,
) -> tuple[Climb[VariationalState], FloatArray, Statistics]:
    """Climb the evidence bound; how it went, and the posterior (N, S) and the counts at its end.

    Parameters
    ----------
    prior_of
        Expected log-probability (S,) of the states given the expected number of tasks in each, and the divergence of
        the posteriors behind it from their priors.
    rows_prior : (M or 1, K, K) [worker, truth, label]
        One worker for all, or one each.
    tol
        Gain per label at which to stop.
    tidy
        Leaves out states that have become empty.
    """

    def step(current: VariationalState) -> tuple[float, float, VariationalState]:
        log_prior, loss = prior_of(current.tasks)
        table, losses = expected_logs(current.rows, rows_prior)
        found = prepared.e_step(log_prior, table, gold)
        value = found.log_likelihood
        return value - loss - float(losses.sum()), value, tidy(fit_dirichlets(found, rows_prior))

    ended = climb(starts, step, max_iter=max_iter, tol=tol * labels.n_labels, name=name)
    log_prior, _ = prior_of(ended.parameters.tasks)
    table, _ = expected_logs(ended.parameters.rows, rows_prior)
    posterior = labels.empty_rows(log_prior.size)
    return ended, posterior, prepared.e_step(log_prior, table, gold, posterior)


def compute_skill(
    labels: CrowdLabels, known: PriorKnowledge, posterior: FloatArray, prior: FloatArray, *, calibrated: bool = True
) -> tuple[FloatArray, Deferred]:
    """Skill (M,) of each worker and its Beta parameters, computed when they are asked for.

    Parameters
    ----------
    calibrated
        Whether the posterior (N, K) holds what it says, errors that workers share included. That of mean-field
        inference does not: it takes workers' errors as independent and q(truths) for the truth, and so its workers are
        graded at rows drawn towards the crowd, as in `fitting.categorical_em.compute_skill_beta`.
    """
    if calibrated:
        return skill_from_calibrated_posterior(labels, known, posterior, prior)
    log_prior = safe_log(prior)
    shape = closed_form_skill_beta(labels, known, log_prior, posterior)
    return shape[:, 0] / shape.sum(axis=1), sample_skill_beta(sample_skill, labels, known, posterior, lambda: shape)


def predict_new(labels: CrowdLabels, log_prior: FloatArray, log_table: FloatArray) -> FloatArray:
    """Posterior (N, S) of new tasks, from expected logarithms of the states and of labels [worker, state, label].

    Labels are aligned with the model; strangers are the worker after the last, the last of the table.
    """
    posterior = labels.empty_rows(log_prior.size)
    prepare(labels, log_prior.size).e_step(log_prior, log_table, NO_GOLD, posterior)
    return posterior


def expected_logs_with_average(rows: FloatArray, answers: IntArray) -> FloatArray:
    """E[log A] of workers whose rows have these Dirichlets [worker, state, label], and the average of the crowd's last.

    Workers weigh by their number of answers (M,) in the average.
    """
    average = np.average(rows / rows.sum(axis=2, keepdims=True), axis=0, weights=answers)
    return np.concatenate([expected_logs(rows, rows)[0], np.log(average)[None]])
