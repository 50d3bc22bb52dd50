"""From scores to probabilities: what the rank-one methods share that only weigh answers for and against each class.

A score of a class is Σ weight · coded answer; its direction is the method's, its scale is that of Bayes' rule with
accuracies which are read from how workers agree (`rank_one`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import AccuracyAggregator
from crowdwise.fitting.rank_one import (
    NOTHING,
    normalise_within_parts,
    pairwise_agreement,
    regress_skills,
    scale_skills_to_agreement,
    skills_to_accuracies,
)
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kernels import NO_GOLD

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "ScoreAggregator",
    "ScoreSkills",
    "estimate_score_skills",
    "log_odds_table",
    "normalise_columns_within_parts",
    "posterior_from_scores",
]


@dataclass(frozen=True)
class ScoreSkills:
    """Skills of a method that only scores, and what turns its scores into probabilities."""

    accuracy: FloatArray  # (M,): of each worker
    # (M,): what weights of root mean square 1 within a worker's part are multiplied by, so that their square is on
    # average that of the weights by Bayes' rule, (K - 1)/K log(p (K - 1)/(1 - p)) for a coded answer.
    scale: FloatArray


def estimate_score_skills(labels: CrowdLabels, heard: FloatArray, part: IntArray) -> ScoreSkills:
    """Read accuracies from how well workers' answers fit what the others said.

    A worker's own answers are left out, so a good worker is compared with worse ones; skills are therefore regressed
    once on those of the partners.

    Parameters
    ----------
    heard : (M, K)
        Σ of the worker's coded answers times what the others said, in proportion to n s, for each class.
    part : (M,)
        The part of the crowd.
    """
    n_classes = labels.n_classes
    direction = np.zeros(labels.n_workers)
    for column in heard.T:
        level, there = normalise_within_parts(column, part)
        direction += np.where(there, level, 0.0)
    pairs = pairwise_agreement(labels)
    skill = scale_skills_to_agreement(pairs, direction / np.maximum(labels.labels_per_worker, 1))
    skill = scale_skills_to_agreement(pairs, regress_skills(pairs, skill))
    accuracy = skills_to_accuracies(labels, pairs, skill)
    weight = np.log(accuracy * (n_classes - 1) / (1 - accuracy)) * (n_classes - 1) / n_classes
    given = labels.labels_per_worker
    n_parts = int(part.max()) + 1
    mean_square = np.bincount(part, given * weight * weight, n_parts) / np.maximum(np.bincount(part, given, n_parts), 1)
    return ScoreSkills(accuracy, np.sqrt(mean_square)[part])


def log_odds_table(weights: FloatArray) -> FloatArray:
    """What a label adds to the log-odds of each class, [worker, truth, label], from weights (M, K) [worker, truth]."""
    n_classes = weights.shape[1]
    code = (n_classes * np.eye(n_classes) - 1) / (n_classes - 1)
    table: FloatArray = weights[:, :, None] * code
    return table


def normalise_columns_within_parts(values: FloatArray, worker: IntArray, part: IntArray) -> FloatArray:
    """Columns of `values` (M, K) with mean square 1 over the edges of each part; 1 where there is nothing."""
    n_parts = int(part.max()) + 1
    edges = np.bincount(worker, minlength=part.size)
    total = np.maximum(np.bincount(part, edges, n_parts), 1)
    columns = []
    for column in values.T:
        size = np.sqrt(np.bincount(part, edges * column * column, n_parts) / total)[part]
        columns.append(np.where(size > NOTHING, column / np.where(size > NOTHING, size, 1), 1.0))
    return np.stack(columns, axis=1)


def posterior_from_scores(labels: CrowdLabels, prior: FloatArray, weights: FloatArray) -> FloatArray:
    """Posterior (N, K): the soft-max of log prior + Σ weight · coded answer, weights (M, K) [worker, truth]."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    posterior = labels.empty_rows(labels.n_classes)
    prepare(labels).e_step(log_prior, log_odds_table(weights), NO_GOLD, posterior)
    return posterior


@estimator
class ScoreAggregator(AccuracyAggregator):
    """Base of methods that give each worker's answer a weight for or against each class.

    Attributes
    ----------
    posterior_ : (N, K)
        Soft-max of the scores, scaled by the skills.
    weights_ : (M, K)
        What each worker's answer weighs for or against each class.
    """

    weights_ = FittedArray(
        SavedArray("extra/weights", "M K"), "What each worker's answer weighs for or against each class, (M, K)."
    )

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        return posterior_from_scores(labels, self.prior_, self._append_unknown_worker(self.weights_))
