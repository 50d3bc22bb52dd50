"""BCC: Bayesian classifier combination, by Gibbs sampling or mean field.

The generative story. Class shares are drawn from a Dirichlet, and so is every row A[w, k, :] of every worker's
confusion matrix, with more weight on the diagonal. The truth of task t is drawn from the class shares; each worker w
who meets t says l with probability A[w, truth, l], independently of the others given the truth (the paper's IBCC).

H.-C. Kim and Z. Ghahramani (2012), "Bayesian classifier combination", AISTATS.

| section 2, independent BCC | here |
|---|---|
| shares given truths ~ Dirichlet(pseudo-counts + tasks of a class) | `draw_class_shares` |
| rows given truths ~ Dirichlet(pseudo-counts + answers) | `draw_confusion_rows` |
| truths given rows and shares ∝ share × Π A | the engine's `e_step`, `draw_truths` |
| the same posterior by mean field | `aggregate.mean_field.fit_mean_field` |

Departures: the pseudo-counts are given, not drawn from an exponential prior of their own (the authors of EBCC found the
same numbers with 4 on the diagonal and 1 off it, the default here). Averages over sweeps take each task's conditional
posterior rather than its drawn truth, which has the same mean and less noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.aggregate.mean_field import DIRICHLETS, fit_mean_field, predict_mean_field
from crowdwise.engines import prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.categorical_em import safe_log
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import RowPriorAggregator
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_number
from crowdwise.fitting.progress_bar import show_progress
from crowdwise.fitting.skill_posterior import subtract_shared_errors
from crowdwise.fitting.skill_sampler import draw_truths
from crowdwise.fitting.variational import confusion_priors, diagonal_prior
from crowdwise.kernels import draw_gammas, vote_shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["BayesianClassifierCombination"]


@dataclass(frozen=True)
class GibbsSweep:
    """One draw: class shares (K,), rows (M, K, K) [worker, truth, label], and given them the posterior (N, K).

    `posterior` is overwritten by the next sweep.
    """

    shares: FloatArray
    rows: FloatArray
    posterior: FloatArray
    log_likelihood: float


def draw_class_shares(counts: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Class shares (K,) from Dirichlet(counts)."""
    drawn: FloatArray = generator.dirichlet(counts)
    return drawn


def draw_confusion_rows(counts: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Rows from Dirichlet(counts), along the labels of [worker, truth, label]."""
    drawn = draw_gammas(counts, generator)
    drawn /= np.maximum(drawn.sum(axis=2, keepdims=True), np.finfo(float).tiny)
    return drawn


def generate_gibbs_sweeps(
    labels: CrowdLabels,
    known: PriorKnowledge,
    *,
    rows_prior: FloatArray,
    share_prior: float,
    generator: np.random.Generator,
) -> Iterator[GibbsSweep]:
    """Gibbs sampling without end, from truths drawn by share of votes.

    Parameters
    ----------
    rows_prior : (M or 1, K, K) [worker, truth, label]
        Pseudo-counts of the rows.
    share_prior
        Pseudo-count of each class.
    """
    prepared = prepare(labels)
    posterior = vote_shares(labels, known.gold)
    while True:
        truths = draw_truths(posterior, generator)
        rows = draw_confusion_rows(prepared.accumulate(truths).counts + rows_prior, generator)
        shares = known.class_prior
        if shares is None:
            shares = draw_class_shares(truths.sum(axis=0) + share_prior, generator)
        found = prepared.e_step(safe_log(shares), safe_log(rows), known.gold, posterior)
        yield GibbsSweep(shares, rows, posterior, found.log_likelihood)


def fit_gibbs(
    labels: CrowdLabels,
    known: PriorKnowledge,
    *,
    confusion: FloatArray,
    share_prior: float,
    n_sweeps: int,
    burn_in: int,
    seed: int,
    name: str,
) -> Fit:
    """Means over `n_sweeps` sweeps after `burn_in` others; the skill's Beta has its mean and variance over sweeps."""
    order = order_by_content(labels, known)
    arranged, told = order.arrange(labels, add_worker=True), order.arrange_knowledge(known, add_worker=True)
    rows_prior = confusion_priors(confusion, told)
    chain = generate_gibbs_sweeps(
        arranged, told, rows_prior=rows_prior, share_prior=share_prior, generator=np.random.default_rng(seed)
    )
    posterior = np.zeros((arranged.n_tasks, labels.n_classes))
    rows, shares = np.zeros((arranged.n_workers, labels.n_classes, labels.n_classes)), np.zeros(labels.n_classes)
    skill, squares = np.zeros(arranged.n_workers), np.zeros(arranged.n_workers)
    values = np.empty(burn_in + n_sweeps)
    with show_progress(name, values.size) as advance:
        for number in range(values.size):
            sweep = next(chain)
            values[number] = sweep.log_likelihood
            advance(sweep.log_likelihood)
            if number < burn_in:
                continue
            right = np.einsum("wkk,k->w", sweep.rows, sweep.shares)
            posterior += sweep.posterior
            rows += sweep.rows
            shares += sweep.shares
            skill += right
            squares += right**2
    posterior /= posterior.sum(axis=1, keepdims=True)
    rows /= rows.sum(axis=2, keepdims=True)
    skill /= n_sweeps
    variance = np.maximum(squares / n_sweeps - skill**2, 0) * n_sweeps / max(n_sweeps - 1, 1)
    prior = np.empty(labels.n_classes)
    prior[order.classes] = shares / n_sweeps
    # Who gave no answers is as the worker who was added.
    moments = order.restore_workers(
        order.average_alike_workers(np.stack([skill, variance], axis=1)[:-1]),
        np.tile([skill[-1], variance[-1]], (labels.n_workers, 1)),
    )
    matrices = np.empty((labels.n_workers, labels.n_classes, labels.n_classes))
    matrices[:, order.classes[:, None], order.classes] = rows[-1]
    found = order.restore_posterior(order.average_alike_tasks(posterior), np.tile(prior, (labels.n_tasks, 1)))
    return Fit(
        posterior=found,
        prior=prior if known.class_prior is None else known.class_prior,
        confusion=order.restore_matrices(order.average_alike_workers(rows[:-1]), matrices),
        skill=moments[:, 0].copy(),
        skill_beta=lambda: subtract_shared_errors(labels, known.gold, found, *moments.T),
        log_likelihood=values,
        objective=values,
        n_iter=values.size,
        converged=True,
    )


@estimator
class BayesianClassifierCombination(RowPriorAggregator):
    """Consensus with a posterior of every worker's confusion matrix: independent BCC.

    Facts
    -----
    Assumes: Dawid-Skene with Dirichlet priors, by Gibbs sampling or mean field
    Fails with: copying workers, one label per task, crowds where most are contrary
    Cost: O(labels × K + workers × K²) a sweep
    Paper: Kim & Ghahramani 2012, AISTATS

    Parameters
    ----------
    inference : "mean-field", "gibbs"
        Mean field is fast, the same at every call, and too sure of itself; Gibbs sampling is exact up to noise, and
        its intervals are credible intervals.
    share_prior : float, above 0
        Pseudo-count of each class in the Dirichlet prior of the class shares.
    max_iter, tol
        For "mean-field": most iterations, and the gain per label at which to stop.
    n_sweeps, burn_in : int
        For "gibbs": sweeps to average over, and sweeps before them that are left out.
    random_state : int
        For "gibbs".

    Attributes
    ----------
    skill_ : (M,)
        Chance that a worker is right. With "gibbs" the mean of Σ_k share[k] A[w, k, k]; with "mean-field" drawn towards
        the crowd's where answers are few.
    log_likelihood_, objective_ : (n_iter_,)
        With "mean-field" the E-step's value and the bound on the log-evidence at each iteration; with "gibbs" both the
        log-probability of the labels at each sweep's parameters, burn-in included.
    n_iter_, converged_
        How the climb ended; with "gibbs" the number of sweeps, and True.

    Notes
    -----
    Priors on the diagonal are wrong where most workers are contrary. With "gibbs", predictions for new tasks use the
    mean matrices. A worker unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> model = BayesianClassifierCombination().fit(labels)
    >>> model.predict().tolist()
    ['x', 'y', 'x', 'y']
    >>> BayesianClassifierCombination(inference="gibbs").fit(labels).skill_.round(1).tolist()
    [0.8, 0.8, 0.7]
    """

    slug = "bcc"
    saved = DIRICHLETS
    plug_in = True  # with "gibbs"

    inference: str = "mean-field"
    share_prior: float = 1.0
    n_sweeps: int = 1000
    burn_in: int = 200
    random_state: int = 0

    def _check(self) -> None:
        check_choice("inference", self.inference, ("mean-field", "gibbs"))
        super()._check()
        check_number("share_prior", self.share_prior, low=0, above=True)
        check_count("n_sweeps", self.n_sweeps, low=2)
        check_count("burn_in", self.burn_in, low=0)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        confusion = diagonal_prior(self.right, self.wrong, labels.n_classes)
        if self.inference == "mean-field":
            return fit_mean_field(
                labels,
                known,
                confusion=confusion,
                shares=self.share_prior,
                **self._climb_options,
            )
        return fit_gibbs(
            labels,
            known,
            confusion=confusion,
            share_prior=self.share_prior,
            n_sweeps=self.n_sweeps,
            burn_in=self.burn_in,
            seed=self.random_state,
            name=self.slug,
        )

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        if "confusion_counts" in self.extra_:
            return predict_mean_field(labels, self.prior_, self.extra_, self.labels_per_worker_)
        return super()._predict_posterior(labels)
