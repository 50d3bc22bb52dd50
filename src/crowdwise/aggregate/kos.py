"""KOS: messages between tasks and workers.

The generative story. A task's truth is ±1. Worker w gives it with probability p[w], otherwise the other (one coin). A
worker is as reliable as her answers fit what the others said of her tasks; a task is what its reliable workers say. A
message leaves out what its receiver said, so that nobody is confirmed by her own voice.

D. R. Karger, S. Oh and D. Shah (2011), "Iterative learning for reliable crowdsourcing systems", NIPS.

| equation | here |
|---|---|
| task message x[t→w] = Σ_{w' ≠ w} A[t,w'] y[w'→t] | `pass_messages` |
| worker message y[w→t] = Σ_{t' ≠ t} A[t',w] x[t'→w] | `pass_messages` |
| decision: sign of Σ_w A[t,w] y[w→t] | `Kos._fit` |

A round costs O(labels · K); the scale of the skills once O(co-labelling pairs).

Departures: messages start from ones, where the paper draws them from N(1, 1), so that nothing depends on chance.
K > 2 classes are K problems of one against the rest, with A = +1 for the class and -1/(K-1) for another, ±1 where
K = 2. Messages are scaled after each round, which changes no sign; where they would vanish in a connected part of the
crowd they stay as they were. A part's sign is the one that makes most of its workers reliable. The paper gives a sign
only. Here the skills are s[w] ∝ Σ_t A[t,w] x[t→w] per answer, regressed once on the partners' skills, at the scale that
explains how often workers agree; the confidence is the soft-max of the scores, scaled to the mean square of the weights
that Bayes' rule would give these skills. Such a scale is one for a connected part and all classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.rank_one import (
    connected_parts,
    fit_given_accuracies,
    given_or_uniform_log_prior,
    majority_signs,
    merge_answers,
    normalise_within_parts,
)
from crowdwise.fitting.score_aggregator import ScoreAggregator, estimate_score_skills, normalise_columns_within_parts

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Kos"]


def pass_messages(
    task: IntArray, worker: IntArray, answer: FloatArray, part: IntArray, *, rounds: int
) -> tuple[FloatArray, FloatArray]:
    """What the last round sends along each edge: x of its task to its worker, and y of its worker to its task.

    Parameters
    ----------
    task, worker, part : (E,)
        Of each edge; no task and worker share two.
    answer : (E,)
        A[t, w].
    """
    to_worker, to_task = np.zeros(task.size), np.ones(task.size)
    for _ in range(rounds):
        said = answer * to_task
        to_worker = np.bincount(task, said)[task] - said
        fitted = answer * to_worker
        following, there = normalise_within_parts(np.bincount(worker, fitted)[worker] - fitted, part)
        to_task = np.where(there, following, to_task)
    return to_worker, to_task


@estimator
class Kos(ScoreAggregator):
    """Consensus by messages between tasks and workers.

    Facts
    -----
    Assumes: one reliability for every worker, by messages between tasks and workers
    Fails with: few workers with most of the answers, unbalanced classes
    Cost: O(labels × K) an iteration
    Paper: Karger, Oh & Shah 2011, NIPS

    Parameters
    ----------
    max_iter : int
        Rounds of messages. The paper's number grows with the logarithm of the tasks; there is no test of convergence.

    Attributes
    ----------
    skill_ : (M,)
        Accuracy of each worker, from the messages sent to her.
    weights_ : (M, K)
        What each worker's answer weighs for or against each class, for tasks not seen in the fit.

    Notes
    -----
    Made for tasks and workers assigned at random, about as many answers from each worker. The messages of those who
    give most of the answers grow with their number. Where no message gets through (one worker, one label a task) it is
    the majority vote. A worker unknown at prediction has the mean weight of the crowd.
    """

    slug = "kos"
    plug_in = True

    max_iter: int = 10

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        answers = merge_answers(labels)
        task, worker = answers.task, answers.worker
        task_part, part = connected_parts(labels)
        heard = np.empty((labels.n_workers, labels.n_classes))
        score = np.empty((labels.n_tasks, labels.n_classes))
        for kind in range(labels.n_classes):
            answer = answers.sum_coded_answers(labels, kind)
            to_worker, to_task = pass_messages(task, worker, answer, part[worker], rounds=self.max_iter)
            heard[:, kind] = np.bincount(worker, answer * to_worker, labels.n_workers)
            sign = majority_signs(heard[:, kind], part)
            heard[:, kind] *= sign
            score[:, kind] = np.bincount(task, answer * to_task * sign[worker], labels.n_tasks)
        found = estimate_score_skills(labels, heard, part)
        scale = np.zeros(labels.n_tasks + labels.n_workers)
        scale[part] = found.scale
        weights = found.scale[:, None] * normalise_columns_within_parts(heard, worker, part)
        posterior = softmax(given_or_uniform_log_prior(labels, known) + scale[task_part][:, None] * score, axis=1)
        fit = fit_given_accuracies(labels, known, found.accuracy, name=self.slug)
        return replace(fit, posterior=posterior, n_iter=self.max_iter, extra={"weights": weights})
