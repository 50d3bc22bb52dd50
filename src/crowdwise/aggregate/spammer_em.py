"""Spammer EM: workers whose answers do not depend on the truth are found, drawn to their habit, and dropped.

The generative story. As in Dawid–Skene, worker w says l of a task of class k with probability A[w, k, l]. A spammer's
rows are all alike: she answers by a habit v[w]. Beforehand every row lies around the habit, with density ∝
exp(-½ λ[w] ‖A[w, k] - v[w]‖²), and λ[w] is learnt: small for workers who look, infinite for spammers, whose labels then
say nothing and who are pruned.

V. Raykar and S. Yu (2012), "Eliminating spammers and ranking annotators for crowdsourced labeling tasks", JMLR 13.

| equation | here |
|---|---|
| spammer score Σ_{c<c'} ‖A[c] - A[c']‖² / (K (K-1)); (ψ + η - 1)² for two classes | `spammer_scores` |
| automatic spammer prior, ∝ exp(-½ λ × squared distance from a spammer) | `log_density` |
| E-step | the engine's `e_step` |
| M-step, highest posterior of the rows | `m_step` |
| λ by type-II likelihood; λ → ∞ prunes | `prior_precisions` |

Departures. The distance is that of each row from the worker's own label shares, which are data, instead of that between
rows: the M-step is then exact, row by row, for any number of classes. λ is the inverse of the rows' mean squared
distance from the habit, less what chance alone would give (the evidence where rows are Gaussian), instead of Laplace's
approximation; it is infinite for who is not two standard deviations beyond chance. λ is learnt in the first iterations;
then it stands, and EM climbs to the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.categorical_em import ConfusionParameters, fit_confusions
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import EM
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kernels import worker_answer_sums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.engines import Prepared, Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["SpammerEm"]

SIGNS = 2.0  # standard deviations beyond chance at which a worker is no spammer
MOST = 0.5  # of all labels that spammers may have given; beyond it, labels are too few to tell, and nobody is dropped
LEARNING = 20  # iterations in which λ is learnt
ROOT_STEPS = 100  # of Newton for the multiplier of a row, which takes a handful
PRECISE = 1e-14  # how near a row's sum is to 1


def worker_label_shares(labels: CrowdLabels) -> FloatArray:
    """Each worker's label shares v (M, K); of a worker without labels, those of the crowd."""
    answers = worker_answer_sums(labels)
    total = answers.sum(axis=1, keepdims=True)
    habits: FloatArray = np.where(total > 0, answers / np.maximum(total, 1), labels.class_shares)
    return habits


def prior_precisions(counts: FloatArray, habits: FloatArray) -> FloatArray:
    """λ (M,) from expected answers [worker, truth, label]: infinite for spammers, 0 where the labels cannot tell.

    With n answers in row k, n ‖rate - v‖² is 1 - Σv² by chance, on average over rows (less one, as v is fitted). What
    is above, over n, is the squared distance of the true row.
    """
    total = counts.sum(axis=2)
    answers = total.sum(axis=1)
    off = counts - total[:, :, None] * habits[:, None, :]
    distance = np.divide((off**2).sum(axis=2), total, out=np.zeros_like(total), where=total > 0).sum(axis=1)
    freedom = np.maximum(np.minimum(total, 1).sum(axis=1) - 1, 0)
    unit = 1 - (habits**2).sum(axis=1)
    spread = answers - np.divide((total**2).sum(axis=1), answers, out=np.zeros_like(answers), where=answers > 0)
    excess = distance - unit * freedom
    chance = unit * np.sqrt(2 * freedom / max(habits.shape[1] - 1, 1))
    learnt = np.divide(spread, excess, out=np.full_like(answers, np.inf), where=excess > SIGNS * chance)
    precision: FloatArray = np.where(spread < 1, 0.0, learnt)
    return precision


def maximise_rows(counts: FloatArray, habits: FloatArray, precision: FloatArray) -> FloatArray:
    """Rows a that maximise Σ n log a - ½ λ ‖a - v‖² on the simplex; counts and result are [worker, truth, label].

    n / a - λ (a - v) is the same for every label: a quadratic for a, and a convex equation for the multiplier, which
    Newton's steps climb from the left.
    """
    spammers = np.isinf(precision)
    pull = np.where(spammers, 0.0, precision)[:, None, None]
    habit = habits[:, None, :]
    total = counts.sum(axis=2, keepdims=True)
    multiplier = total - pull
    for _ in range(ROOT_STEPS):
        lean = pull * habit - multiplier
        root = np.sqrt(lean**2 + 4 * pull * counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(lean > 0, (lean + root) / (2 * pull), 2 * counts / (root - lean))
            shares = np.where(np.isfinite(shares), shares, 0.0)
            slope = np.divide(shares, root, out=np.zeros_like(root), where=root > 0).sum(axis=2, keepdims=True)
        over = shares.sum(axis=2, keepdims=True) - 1
        if np.abs(over[slope > 0]).max(initial=0.0) < PRECISE:
            break
        multiplier = multiplier + np.divide(over, slope, out=np.zeros_like(over), where=slope > 0)
    mass = shares.sum(axis=2, keepdims=True)
    found: FloatArray = np.divide(shares, mass, out=np.broadcast_to(habit, counts.shape).copy(), where=mass > 0)
    found[spammers] = habits[spammers, None, :]
    return found


def m_step(found: Statistics, habits: FloatArray, precision: FloatArray) -> ConfusionParameters:
    """The highest posterior given expected answers."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(found.class_counts / found.class_counts.sum())
        return ConfusionParameters(log_prior, np.log(maximise_rows(found.counts, habits, precision)))


def log_density(parameters: ConfusionParameters, habits: FloatArray, precision: FloatArray) -> float:
    """-½ Σ_w λ[w] Σ_k ‖A[w, k] - v[w]‖², the prior up to what depends on λ alone; spammers are at no distance."""
    off = np.exp(parameters.log_table) - habits[:, None, :]
    finite = np.where(np.isinf(precision), 0.0, precision)
    return -0.5 * float(finite @ (off**2).sum(axis=(1, 2)))


def spammer_scores(confusion: FloatArray) -> FloatArray:
    """Spammer score (M,) of confusion matrices [worker, truth, label]: 0 for a spammer, 1 for a perfect worker."""
    n_classes = confusion.shape[1]
    off = confusion - confusion.mean(axis=1, keepdims=True)
    scores: FloatArray = (off**2).sum(axis=(1, 2)) / max(n_classes - 1, 1)
    return scores


@estimator
class SpammerEm(ClimbingAggregator):
    """Consensus of those whose answers depend on the truth, by EM with a prior that finds the others.

    Facts
    -----
    Assumes: every worker has a confusion matrix near their habit; those who follow only the habit are dropped
    Fails with: few labels per worker, or most workers are spammers with the same habit
    Cost: O(labels × K + workers × K²) an iteration
    Paper: Raykar & Yu 2012, JMLR 13

    Parameters
    ----------
    max_iter : int
        Most iterations, after λ has been learnt.

    Attributes
    ----------
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l]; the rows of a pruned worker are her label shares.
    spammer_ : (M,)
        Score of Raykar and Yu: 0 for a spammer, 1 for a worker who is always right, or wrong in a way that can be
        undone (also a column of `workers()`).
    pruned_ : (M,)
        1 where the worker's labels were left out, else 0 (also a column of `workers()`).
    log_likelihood_, objective_ : (n_iter_,)
        Log-probability of the labels, and with the prior at the learnt λ added (up to a constant), at each iteration.

    Notes
    -----
    Many spammers with the same habit look like a consensus. Where more than half of all labels would be dropped (tasks
    with hardly more than one label), nobody is, and the method is Dawid–Skene's. A worker unknown at prediction counts
    as the average of the crowd.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({
    ...     "task": [task for task in range(8) for _ in range(4)],
    ...     "worker": ["ann", "bob", "cy", "spam"] * 8,
    ...     "label": ["x", "x", "x", "x", "y", "y", "y", "x"] * 4,
    ... })
    >>> model = SpammerEm().fit(labels)
    >>> model.pruned_.tolist(), model.spammer_.round(2).tolist()
    ([0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0])
    """

    slug = "spammer-em"
    saved = (SavedArray("extra/precision", "M", low=0, high=np.inf),)
    family = EM

    spammer_ = FittedArray(SavedArray("worker_columns/spammer", "M", low=0), "Score of each worker: 0 for a spammer.")
    pruned_ = FittedArray(
        SavedArray("worker_columns/pruned", "M", low=0, codes="2"), "1 where the worker's labels were left out."
    )

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        habits = worker_label_shares(labels)
        precision = np.zeros(labels.n_workers)

        def starts(prepared: Prepared) -> Iterator[ConfusionParameters]:
            found = prepared.count_against_vote_shares(labels.class_shares, known.gold)
            for _ in range(min(LEARNING, self.max_iter)):
                precision[:] = prior_precisions(found.counts, habits)
                if labels.labels_per_worker @ np.isinf(precision) > MOST * labels.n_labels:
                    precision[:] = 0.0
                now = m_step(found, habits, precision)
                log_prior = now.log_prior if known.log_prior is None else known.log_prior
                found = prepared.e_step(log_prior, now.log_table, known.gold)
            yield m_step(found, habits, precision)

        fit = fit_confusions(
            labels,
            known,
            starts=starts,
            m_step=lambda found: m_step(found, habits, precision),
            log_density=lambda parameters: log_density(parameters, habits, precision),
            **self._climb_options,
        )
        scores = np.zeros(labels.n_workers) if fit.confusion is None else spammer_scores(fit.confusion)
        columns = {"spammer": scores, "pruned": np.isinf(precision).astype(np.float64)}
        return replace(fit, worker_columns=columns, extra={"precision": precision})
