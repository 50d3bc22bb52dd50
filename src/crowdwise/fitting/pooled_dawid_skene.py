"""Dawid and Skene's model held to what is usual in the crowd, for workers with few labels and tasks with few answers.

Each worker's matrix has a Dirichlet prior of `POOLED` answers to each class, shared out as those of a usual worker, who
agrees with others as often as two workers of this crowd do (`confusion_from_mean_agreement`, from the votes alone);
class shares are those of the labels. A worker of few labels is then taken for a usual one. Where tasks have one or two
labels, or classes are many, the likelihood is nearly flat, and plain EM drifts to a solution in which all tasks have
one class; neither prior lets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines import prepare
from crowdwise.kernels import NO_GOLD, log_rows

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["confusion_from_mean_agreement", "estimate_attention_from_agreement", "fit_pooled_dawid_skene"]

POOLED = 5.0  # answers to each class by which the usual matrix counts in each worker's
STEPS = 30  # of EM
TOLERANCE = 1e-5  # gain per label at which EM stops


def estimate_attention_from_agreement(labels: CrowdLabels) -> float:
    """Share a of answers that follow the class, of a worker who agrees with others as two workers of this crowd do.

    If everyone gives the class with chance a and else answers by the crowd's shares p, two agree with chance
    a² + (1 - a²) Σ p²: the votes alone give a, before any model is fitted.
    """
    votes = labels.vote_counts().astype(np.float64)
    total = votes.sum(axis=1)
    pairs = (total * (total - 1)).sum()
    by_chance = float((labels.class_shares**2).sum())
    agree = float((votes * (votes - 1)).sum() / pairs) if pairs else by_chance
    return float(np.sqrt(np.clip((agree - by_chance) / max(1 - by_chance, 1e-9), 0.01, 0.99)))


def confusion_from_mean_agreement(labels: CrowdLabels) -> FloatArray:
    """Matrix [truth, label] of a worker who follows the class as often as is usual, and else the crowd's shares."""
    share = estimate_attention_from_agreement(labels)
    return np.asarray(share * np.eye(labels.n_classes) + (1 - share) * labels.class_shares)


def fit_pooled_dawid_skene(labels: CrowdLabels) -> tuple[FloatArray, FloatArray]:
    """Log class shares (K,) and log matrices [worker, truth, label], all finite."""
    prepared = prepare(labels)
    pseudo = POOLED * confusion_from_mean_agreement(labels)[None] + 1e-6
    log_prior = np.log(np.maximum(labels.class_shares, 1e-12))
    found = prepared.count_against_vote_shares(labels.class_shares, NO_GOLD)
    before = -np.inf
    for _ in range(STEPS):
        log_table = log_rows(found.counts, pseudo)
        found = prepared.e_step(log_prior, log_table, NO_GOLD)
        if abs(found.log_likelihood - before) < TOLERANCE * labels.n_labels:
            break
        before = found.log_likelihood
    return log_prior, log_table
