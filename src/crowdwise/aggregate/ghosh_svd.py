"""Ghosh-SVD: the leading singular vector of the answers.

The generative story. A task's truth is q = ±1. Worker w gives it with probability p[w], otherwise the other (one
coin), with skill s = 2p - 1. The tasks × workers matrix U of answers is q sᵀ on average: rank one, and the signs of its
leading left singular vector are the truths, if most workers are better than chance.

A. Ghosh, S. Kale and P. McAfee (2011), "Who moderates the moderators? Crowdsourcing abuse detection in user-generated
content", EC.

| equation | here |
|---|---|
| leading eigenvector x of UUᵀ, by power iteration | `leading_singular_vector`, x = U w |
| decision: sign of x[t] = Σ_w U[t,w] w[w] | `fitting.rank_one.score_posterior` |
| the sign for which raters are better than chance | `fitting.rank_one.majority_signs` |

An iteration costs O(labels · K); the scale of the skills once O(co-labelling pairs).

Departures: K > 2 classes are K problems of one against the rest, with U = +1 for the class and -1/(K-1) for another,
±1 where K = 2. Parts of the crowd that never meet have a singular vector each. The paper gives a sign only. Here the
skills are s[w] ∝ Σ_t U[t,w] (x[t] - U[t,w] w[w]) per answer, the worker's own voice left out, regressed once on the
partners' skills, at the scale that explains how often workers agree; the confidence is the soft-max of the scores,
scaled to the mean square of the weights that Bayes' rule would give these skills.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.rank_one import (
    connected_parts,
    fit_given_accuracies,
    majority_signs,
    merge_answers,
    normalise_within_parts,
)
from crowdwise.fitting.score_aggregator import (
    ScoreAggregator,
    estimate_score_skills,
    normalise_columns_within_parts,
    posterior_from_scores,
)

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["GhoshSvd"]


def leading_singular_vector(
    task: IntArray, worker: IntArray, answer: FloatArray, part: IntArray, *, max_iter: int, tol: float
) -> tuple[FloatArray, int, bool]:
    """Right singular vector w (M,) of each part, of mean square 1 over its workers; iterations; converged.

    Parameters
    ----------
    task, worker, answer : (E,)
        The cells of U.
    part : (M,)
        Of each worker. Where a part's U is zero, its weights are 1.
    """
    weight = np.ones(part.size)
    for n_iter in range(1, max_iter + 1):
        score = np.bincount(task, answer * weight[worker])
        product = np.bincount(worker, answer * score[task], part.size).astype(np.float64)
        following, _ = normalise_within_parts(product, part)
        moved = float(np.abs(following - weight).max())
        weight = following
        if moved <= tol:
            return weight, n_iter, True
    return weight, max_iter, False


def agreement_with_others(task: IntArray, worker: IntArray, answer: FloatArray, weight: FloatArray) -> FloatArray:
    """Σ_t U[t,w] (x[t] - U[t,w] w[w]), (M,): how well a worker's answers fit what the others say."""
    said = answer * weight[worker]
    rest = np.bincount(task, said)[task] - said
    return np.bincount(worker, answer * rest, weight.size).astype(np.float64)


@estimator
class GhoshSvd(ScoreAggregator):
    """Consensus by the leading singular vector of the answers.

    Facts
    -----
    Assumes: the answers are rank one on average: their leading singular vector is the truth
    Fails with: few workers with most of the answers, unbalanced classes
    Cost: O(labels × K) an iteration
    Paper: Ghosh, Kale & McAfee 2011, EC

    Parameters
    ----------
    max_iter, tol : int, float
        Most power iterations, and the move of a weight at which to stop, their mean square being 1.

    Attributes
    ----------
    n_iter_, converged_
        Iterations of the class that took longest, and whether all came to rest.

    Notes
    -----
    A singular vector gathers on workers who give most of the answers, and with unbalanced classes it follows the habit,
    not the truth. Where nobody shares a task it is the majority vote. A worker unknown at prediction has the mean
    weight of the crowd.
    """

    slug = "ghosh-svd"

    max_iter: int = 1000
    tol: float = 1e-10

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        answers = merge_answers(labels)
        cells = answers.task, answers.worker
        _, part = connected_parts(labels)
        weights = np.empty((labels.n_workers, labels.n_classes))
        heard = np.empty_like(weights)
        ends = []
        for kind in range(labels.n_classes):
            coded = answers.sum_coded_answers(labels, kind)
            weight, *end = leading_singular_vector(*cells, coded, part, max_iter=self.max_iter, tol=self.tol)
            weights[:, kind] = weight * majority_signs(weight, part)
            heard[:, kind] = agreement_with_others(*cells, coded, weights[:, kind])
            ends.append(end)
        found = estimate_score_skills(labels, heard, part)
        weights = found.scale[:, None] * normalise_columns_within_parts(weights, answers.worker, part)
        fit = fit_given_accuracies(labels, known, found.accuracy, name=self.slug)
        return replace(
            fit,
            posterior=posterior_from_scores(labels, fit.prior, weights),
            n_iter=max(end[0] for end in ends),
            converged=all(end[1] for end in ends),
            extra={"weights": weights},
        )
