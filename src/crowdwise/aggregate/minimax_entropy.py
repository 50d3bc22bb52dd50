"""Minimax entropy: every task and every worker tilts the answers, and nothing else is assumed.

The principle. Among all ways in which labels could have been given that agree with the observed counts of (truth,
label) of every worker and of every task, take the one of largest entropy; among all truths, those for which that
entropy is smallest. Its dual is a model: P(worker w says l of task t | truth k) ∝ exp(σ[t, k, l] + τ[w, k, l]), with
classes equally likely beforehand. Counts need not be met exactly: Gaussian penalties on σ and τ allow slack.

D. Zhou, J. Platt, S. Basu and Y. Mao (2012), "Learning from the wisdom of crowds by minimax entropy", NeurIPS.
D. Zhou, Q. Liu, J. Platt and C. Meek (2014), "Aggregating ordinal labels from crowds by minimax conditional entropy",
ICML; with N. Shah (2015), "Regularized minimax conditional entropy for crowdsourcing", arXiv 1503.07240.

| equation (2015) | here |
|---|---|
| P(l given k) ∝ exp(σ + τ), the dual's solution | `kernels.loglinear` |
| the dual, -½α Σ‖τ‖² - ½β Σ‖σ‖² added | `squared_penalty`, `MinimaxEntropy._fit` |
| coordinate ascent: τ of each worker, σ of each task | `m_step`, `kernels.loglinear.improve_tables` |
| then the truths, q[t, k] ∝ Π P(l given k) | `kernels.table_posterior` |
| ordinal: σ, τ are sums over thresholds s of terms in (k ≥ s, l ≥ s) | `ordinal=True` |
| α = γ K², β = α × labels a worker / labels a task | `penalty_weights` |
| γ by the likelihood of held-out labels | `choose_regularisation` |

Memory: O((N + M) K²).

Departures: the objective is the dual with the truth summed out, Σ_t log mean_k Π_w P(l | k) less the penalties, which
these steps climb and which can be compared with other likelihoods. Newton steps with a safe curvature take the place
of L-BFGS. Where labels are few for their classes, the authors' γ of 1 or ¼ leaves only a uniform posterior: then, and
only then, smaller ones are tried. A class that no label names is ruled out: nothing would speak against it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax, softmax

from crowdwise.fitting.categorical_em import fit_from_posterior
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import DIFFICULTY
from crowdwise.fitting.parameter_checks import check_choice, check_flag, check_number
from crowdwise.fitting.priors import uniform_log_prior
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kernels import NO_GOLD, vote_shares
from crowdwise.kernels.loglinear import improve_tables, table_posterior
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MinimaxEntropy"]

AUTHORS, SMALLER = (1.0, 2.0**-2), (2.0**-4, 2.0**-6, 2.0**-8)  # of γ
FOLDS = 5  # as the authors
ENOUGH = 2000  # labels held out that decide between regularisations; folds that would hold out more are left
TELLS = 0.95  # a model whose held-out log-likelihood is nearer to guessing than this has collapsed
ROUNDS = 20  # iterations at most of a fit that only compares regularisations
ROUGHLY = 1e-4  # gain per label at which such a fit stops
CHUNK = 2**16  # held-out labels scored at a time


@dataclass(frozen=True)
class EffectTables:
    """σ (N, K, K) [task, truth, label] and τ (M, K, K) [worker, truth, label]."""

    task: FloatArray
    worker: FloatArray


@dataclass(frozen=True)
class PenaltyWeights:
    """β and α: what the squares of σ and τ cost."""

    task: float
    worker: float


def penalty_weights(labels: CrowdLabels, regularisation: float) -> PenaltyWeights:
    """α = γ K², and β in proportion to how many more labels a worker has than a task."""
    worker = regularisation * labels.n_classes**2
    n_tasks, n_workers = (int(np.count_nonzero(each)) for each in (labels.labels_per_task, labels.labels_per_worker))
    return PenaltyWeights(worker * n_tasks / n_workers, worker)


def squared_penalty(table: FloatArray, weight: float, ordinal: bool) -> float:
    """Half of weight times the squared parameters of the tables (·, K, K).

    An ordinal table has four parameters for each threshold s, ± one number for truths below s and ± one for the others;
    either is half the rise of the table's first or last row from label s-1 to s.
    """
    if not ordinal:
        return 0.5 * weight * float(np.vdot(table, table))
    return 0.25 * weight * float((np.diff(table[:, [0, -1], :], axis=2) ** 2).sum())


def m_step(
    labels: CrowdLabels, posterior: FloatArray, now: EffectTables, weights: PenaltyWeights, ordinal: bool
) -> EffectTables:
    """Better τ for each worker given σ, then better σ for each task given τ."""
    worker = improve_tables(labels, posterior, now.worker, now.task, weights.worker, of_workers=True, ordinal=ordinal)
    task = improve_tables(labels, posterior, now.task, worker, weights.task, of_workers=False, ordinal=ordinal)
    return EffectTables(task, worker)


def starting_tables(labels: CrowdLabels, gold: IntArray, weights: PenaltyWeights, ordinal: bool) -> EffectTables:
    """Tables from the share of votes."""
    n_classes = labels.n_classes
    empty = EffectTables(
        np.zeros((labels.n_tasks, n_classes, n_classes)), np.zeros((labels.n_workers, n_classes, n_classes))
    )
    return m_step(labels, vote_shares(labels, gold), empty, weights, ordinal)


def choose_regularisation(
    labels: CrowdLabels, log_prior: FloatArray, gold: IntArray, ordinal: bool, rounds: int, seed: int
) -> float:
    """The regularisation under which labels held out are most likely; smaller than the authors' only in need."""
    fold = np.empty(labels.n_labels, np.int64)
    fold[order_by_content(labels).sort_edges(labels)] = np.random.default_rng(seed).permutation(labels.n_labels) % FOLDS
    n_folds = min(FOLDS, -(-ENOUGH * FOLDS // labels.n_labels))
    parts = [(labels.keep(fold != number), labels.keep(fold == number)) for number in range(n_folds)]
    guessing = -np.log(labels.n_classes) * sum(unseen.n_labels for _, unseen in parts)
    best, highest = AUTHORS[0], -np.inf
    for regularisation in (*AUTHORS, *SMALLER):
        if regularisation == SMALLER[0] and highest > TELLS * guessing:
            break
        weights = penalty_weights(labels, regularisation)
        score = 0.0
        for seen, unseen in parts:
            tables, before = starting_tables(seen, gold, weights, ordinal), -np.inf
            for _ in range(rounds):
                value, posterior = table_posterior(seen, tables.task, tables.worker, log_prior, gold)
                value -= squared_penalty(tables.task, weights.task, ordinal) + squared_penalty(
                    tables.worker, weights.worker, ordinal
                )
                if value - before <= ROUGHLY * seen.n_labels:
                    break
                before, tables = value, m_step(seen, posterior, tables, weights, ordinal)
            score += held_out_log_likelihood(unseen, posterior, tables)
        if score > highest:
            best, highest = regularisation, score
    return best


def held_out_log_likelihood(labels: CrowdLabels, posterior: FloatArray, tables: EffectTables) -> float:
    """Σ log Σ_k q[t, k] P(label | k) over labels that the posterior has not seen."""
    total = 0.0
    for first in range(0, labels.n_labels, CHUNK):
        part = slice(first, first + CHUNK)
        task, worker, label = labels.task[part], labels.worker[part], labels.label[part]
        shares = np.exp(log_softmax(tables.task[task] + tables.worker[worker], axis=2))
        named = np.take_along_axis(shares, label[:, None, None].astype(np.int64), axis=2)[:, :, 0]
        total += float(np.log((posterior[task] * named).sum(axis=1)).sum())
    return total


@estimator
class MinimaxEntropy(ClimbingAggregator):
    """Consensus with a table of (truth, label) effects for every worker and for every task.

    Facts
    -----
    Assumes: every worker and every task tilts the answers given the truth; largest entropy otherwise
    Fails with: one or two labels per task, which say nothing of a task's own difficulty
    Cost: O(labels × K²) for each Newton step
    Paper: Zhou et al. 2012, NeurIPS; 2014, ICML

    Parameters
    ----------
    ordinal : bool
        Whether the classes have an order, which is that of `classes` in the labels: effects are then sums over
        thresholds, so that near classes are confused more easily than far ones.
    regularisation : float above 0, "auto"
        γ: how strongly effects are drawn to 0. "auto" takes the value, of five from 1 to 1/256, that gives labels
        held out the highest likelihood; ¼ is what the authors' own program sets.
    random_state : int
        For the folds of "auto".

    Attributes
    ----------
    prior_ : (K,)
        Uniform over the classes that are named at all, or the class prior given.
    task_effects_, worker_effects_ : (N, K, K), (M, K, K)
        σ and τ, [task or worker, truth, label].
    regularisation_ : float
        γ that was used.
    confusion_ : (M, K, K)
        Expected shares of a worker's answers, [worker, truth, label]: the counts that the method matches.
    skill_ : (M,)
        Chance that a worker is right, from these.
    log_likelihood_, objective_ : (n_iter_,)
        Log-probability of the labels, and with the penalties taken off, at each iteration.

    Notes
    -----
    With too much regularisation for the labels there are, the posterior is uniform. At prediction a new task has no
    effects, an unknown worker the mean effects of the crowd. Held-out labels need not choose the regularisation that is
    best for the truth: on the web-search data of the paper they prefer less than the authors'.

    Examples
    --------
    >>> MinimaxEntropy(regularisation=0.25).fit(labels).worker_effects_.shape
    (3, 2, 2)
    """

    slug = "minimax-entropy"
    saved = (SavedArray("extra/regularisation", "", low=SMALLEST),)
    family = DIFFICULTY
    numpy_cost = 8
    random = True

    ordinal: bool = False
    regularisation: Any = "auto"
    max_iter: int = 200
    tol: float = 1e-5
    random_state: int = 0

    task_effects_ = FittedArray(SavedArray("extra/task_effects", "N K K"), "σ of each task, [task, truth, label].")
    worker_effects_ = FittedArray(
        SavedArray("extra/worker_effects", "M K K"), "τ of each worker, [worker, truth, label]."
    )

    def _check(self) -> None:
        check_flag("ordinal", self.ordinal)

    def _keeps_unlabelled_tasks(self) -> bool:
        return True  # `task_effects_` has a table for each

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        gold, ordinal = known.gold, self.ordinal
        log_prior = uniform_log_prior(labels, gold) if known.log_prior is None else known.log_prior
        regularisation = self._resolve_regularisation(labels, log_prior, gold)
        weights = penalty_weights(labels, regularisation)

        def step(now: EffectTables) -> tuple[float, float, EffectTables]:
            log_likelihood, posterior = table_posterior(labels, now.task, now.worker, log_prior, gold)
            cost = squared_penalty(now.task, weights.task, ordinal) + squared_penalty(
                now.worker, weights.worker, ordinal
            )
            return log_likelihood - cost, log_likelihood, m_step(labels, posterior, now, weights, ordinal)

        first = starting_tables(labels, gold, weights, ordinal)
        ended = self._climb(first, step, labels)
        _, posterior = table_posterior(labels, ended.parameters.task, ended.parameters.worker, log_prior, gold)
        extra = {
            "task_effects": ended.parameters.task,
            "worker_effects": ended.parameters.worker,
            "regularisation": np.array(regularisation),
        }
        return replace(fit_from_posterior(labels, known, log_prior, posterior), extra=extra).attach_climb_history(ended)

    def _resolve_regularisation(self, labels: CrowdLabels, log_prior: FloatArray, gold: IntArray) -> float:
        if isinstance(self.regularisation, str):
            check_choice("regularisation", self.regularisation, ("auto",))
            return choose_regularisation(
                labels, log_prior, gold, self.ordinal, min(self.max_iter, ROUNDS), self.random_state
            )
        check_number("regularisation", self.regularisation, low=1e-100)  # its inverse is squared
        return float(self.regularisation)

    @property
    def regularisation_(self) -> float:
        """γ that was used."""
        return float(self.extra_["regularisation"])

    def _predict_answers(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray:  # noqa: ARG002
        effects = self.task_effects_[task] + self.worker_effects_[worker]
        predicted: FloatArray = np.einsum("ek,ekl->el", self.posterior_[task], softmax(effects, axis=2))
        return predicted

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        known = positions(labels.tasks, self._names.tasks)
        task = np.where((known >= 0)[:, None, None], self.task_effects_[known], 0.0)
        worker = self._append_unknown_worker(self.worker_effects_)
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.prior_)
        _, posterior = table_posterior(labels, task, worker, log_prior, NO_GOLD)
        return posterior
