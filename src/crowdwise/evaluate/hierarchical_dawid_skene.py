"""Dawid–Skene with a prior that is learnt from the crowd (empirical Bayes): what `auto` fits where labels are few.

Every worker has an accuracy around the crowd's, and a confusion matrix around one with this accuracy and the crowd's
errors. With many labels the matrices are free, with few they are the crowd's.

| quantity | here |
|---|---|
| accuracy of worker w: (right + `OWN` · crowd) / (answers + `OWN`) | `intervals.shrink_rows_to_crowd` |
| prior of the row of truth k: `row_strength` answers of this accuracy, the crowd's errors | `prior_pseudo_answers` |
| class shares ∝ the square root of the shares of the labels: half-way to uniform, in logarithms | `class_shares` |

The prior is estimated anew in every EM step from the expected counts. (Estimated once, from the votes, it would take
each worker's agreement with their own vote for skill; with one or two labels a task that is nearly all there is.)

The square root: uniform shares fail where one class is rare (a tagger's "outside"), label shares exaggerate what a
lazy crowd says too often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.skill_intervals import shrink_rows_to_crowd
from crowdwise.kernels import log_rows

if TYPE_CHECKING:
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["HierarchicalDawidSkene", "class_shares", "prior_pseudo_answers"]

OWN = 8.0  # answers of the crowd that count towards a worker's accuracy
STEPS = 150
PRECISE = 1e-6  # change of the log-likelihood per label at which EM stops
TRACE = 0.01  # share of the crowd's prior in rows that are known
UNSEEN = 0.01  # of a uniform label, for classes that nobody said


def class_shares(labels: CrowdLabels, power: float) -> FloatArray:
    """Class shares (K,) proportional to a power of the labels' shares: 0 for uniform, 1 for those of the labels."""
    lifted = labels.class_shares + UNSEEN / labels.n_classes
    shares: FloatArray = lifted**power / (lifted**power).sum()
    return shares


def prior_pseudo_answers(counts: FloatArray, known: PriorKnowledge, weight: float) -> FloatArray:
    """Answers that workers are taken to have given beforehand, [worker, truth, label], `weight` for each class.

    As the worker's accuracy and the crowd's errors have it. Rows that are known from elsewhere are as known, with a
    trace of the crowd's: an answer that was never seen is not impossible.
    """
    prior: FloatArray = weight * shrink_rows_to_crowd(counts, OWN)
    if known.worker_counts is not None:
        told = known.worker_counts
        prior = np.where(told.sum(axis=2, keepdims=True) > 0, told + TRACE * prior, prior)
    return prior


class HierarchicalDawidSkene:
    """A member of auto's shortlist; it has what held-out prediction asks of a fitted aggregator.

    Parameters
    ----------
    row_strength
        Answers for each class that the prior of a worker's matrix counts as, above 0. Very many make it a model of one
        accuracy for each worker.

    Attributes
    ----------
    posterior_ : (N, K)
    prior_ : (K,)
    """

    def __init__(self, row_strength: float) -> None:
        self.row_strength = row_strength

    def fit_with_knowledge(self, labels: CrowdLabels, known: PriorKnowledge) -> HierarchicalDawidSkene:
        """Fit to labels, with class prior and known workers as far as they are given."""
        prepared = prepare(labels)
        self.prior_ = class_shares(labels, 0.5) if known.class_prior is None else known.class_prior
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.prior_)
        found, before = prepared.count_against_vote_shares(labels.class_shares, known.gold), -np.inf
        for _ in range(STEPS):
            table = log_rows(found.counts, prior_pseudo_answers(found.counts, known, self.row_strength))
            found = prepared.e_step(log_prior, table, known.gold)
            if abs(found.log_likelihood - before) < PRECISE * labels.n_labels:
                break
            before = found.log_likelihood
        self.posterior_ = np.empty((labels.n_tasks, labels.n_classes))
        prepared.e_step(log_prior, table, known.gold, self.posterior_)
        return self

    def _predict_answers(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray | None:  # noqa: ARG002
        """Held-out labels are predicted from the posterior."""
        return None

    def _state_posterior(self, labels: CrowdLabels) -> FloatArray:  # noqa: ARG002
        return self.posterior_
