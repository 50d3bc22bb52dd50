"""Max-margin majority vote: weights under which the truth wins the vote by a margin, and CrowdSVM.

The problem. Worker w's vote weighs η[w]; a task's truth y should lead every other class by ℓ votes. What is lacking,
ζ[t] = max_{d ≠ y} (ℓ + votes[t, d] - votes[t, y]), costs 2c where it is above 0; weights are Gaussian of variance v.
M3V chooses y and η at the least cost. CrowdSVM is Bayesian and adds Dawid–Skene's confusion matrices Φ with Dirichlet
priors: p(y, η, Φ) ∝ p(η) p(Φ) Π_t [Π_w Φ[w, y, label] × exp(-2c max(0, ζ[t]))].

T. Tian and J. Zhu (2015), "Max-margin majority voting for learning from crowds", NeurIPS.

| equation | here |
|---|---|
| crowdsourcing margin, ζ | `margin_shortfall` |
| M3V: min ½ ‖η‖² / v + 2c Σ max(0, ζ) | `margin_objective`, `MaxMarginMajorityVote._fit_point_estimate` |
| CrowdSVM: Φ given y, Dirichlet | `draw_log_confusions` |
| η given y and λ, Gaussian | `kernels.max_margin_votes.gibbs_update_weights` |
| 1/λ given η and y, inverse Gaussian | `draw_augmentation_weights` |
| y given η and Φ | `MaxMarginMajorityVote._fit_by_gibbs` |

Departures: weights are drawn one by one, each from its Gaussian given the others, instead of all at once, which needs a
matrix of workers × workers. M3V is solved with the same augmentation, λ at its expectation (a bound from above on the
cost, which is exact for two classes), instead of a quadratic program for each y. ℓ, c and v are fixed beforehand.
Draws are made in the order of `fitting.content_order`, so that the result depends on the answers alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.base import Aggregator
from crowdwise.fitting.categorical_em import fit_from_posterior
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import VOTES
from crowdwise.fitting.parameter_checks import check_choice, check_number
from crowdwise.fitting.prior_knowledge import GOLD, PRIOR
from crowdwise.fitting.priors import uniform_log_prior
from crowdwise.fitting.progress_bar import show_progress
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kernels import draw_gammas, sum_votes_and_logs, vote_shares
from crowdwise.kernels.max_margin_votes import Margins, gibbs_update_weights

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MaxMarginMajorityVote"]

BURNED = 0.25  # share of the sweeps that are not kept
NEAREST = 1e-3  # to a margin just met, where the augmentation would divide by 0
ROUNDS = 5  # over all weights, in one step of M3V
GAIN = 1e-7  # of the cost, at which M3V stops


def margin_shortfall(votes: FloatArray, margin: float) -> FloatArray:
    """What each class k lacks as the truth (N, K): margin + the best other class's votes - its own."""
    best = votes.max(axis=1)
    leads = votes == best[:, None]
    second = np.where(leads & (leads.cumsum(axis=1) == 1), -np.inf, votes).max(axis=1)
    rival = np.where(leads & (leads.cumsum(axis=1) == 1), second[:, None], best[:, None])
    lack: FloatArray = margin + rival - votes
    return lack


def strongest_rivals(votes: FloatArray, truths: IntArray) -> IntArray:
    """The class with most votes that is not the truth (N,)."""
    others = votes.copy()
    others[np.arange(truths.size), truths] = -np.inf
    rivals: IntArray = others.argmax(axis=1)
    return rivals


def margin_objective(
    votes: FloatArray, weights: FloatArray, truths: IntArray, margin: float, cost: float, v: float
) -> float:
    """Minus the cost of M3V: -½ ‖η‖² / v - 2c Σ max(0, ζ)."""
    lack = margin_shortfall(votes, margin)[np.arange(truths.size), truths]
    return float(-0.5 * (weights @ weights) / v - 2 * cost * np.maximum(lack, 0).sum())


def draw_log_confusions(
    labels: CrowdLabels, truths: IntArray, smoothing: float, generator: np.random.Generator
) -> FloatArray:
    """Logarithm of confusion matrices [worker, truth, label] drawn from Dirichlet(smoothing + counts) rows."""
    n_classes = labels.n_classes
    cell = (labels.worker.astype(np.int64) * n_classes + truths[labels.task]) * n_classes + labels.label
    counts = np.bincount(cell, minlength=labels.n_workers * n_classes**2).reshape(-1, n_classes, n_classes)
    drawn = np.maximum(draw_gammas(counts + smoothing, generator), 1e-300)
    table: FloatArray = np.log(drawn / drawn.sum(axis=2, keepdims=True))
    return table


def draw_augmentation_weights(lack: FloatArray, cost: float, generator: np.random.Generator) -> FloatArray:
    """c² / λ for each task, 1/λ from its inverse Gaussian given what is lacking."""
    bend: FloatArray = cost**2 * generator.wald(1 / (cost * np.maximum(np.abs(lack), NEAREST)), 1.0)
    return bend


@estimator
class MaxMarginMajorityVote(Aggregator):
    """Votes weighed so that truths win by a margin: CrowdSVM by Gibbs sampling, or M3V.

    Facts
    -----
    Assumes: votes weigh so that truths win by a margin, with confusion matrices besides (CrowdSVM)
    Fails with: most workers share a mistake
    Cost: O(labels × K + workers × K²) an iteration
    Paper: Tian & Zhu 2015, NeurIPS

    Parameters
    ----------
    inference : "gibbs", "m3v"
        CrowdSVM, which averages over truths, weights and confusion matrices; or the point estimate from weighted votes
        alone.
    margin : float above 0
        ℓ: votes by which a truth should lead.
    cost : float above 0
        c: half of what a vote that lacks costs.
    variance : float above 0
        v: of the weights beforehand.
    smoothing : float above 0
        For "gibbs": parameter of the Dirichlet prior of every row of a confusion matrix; 1 is flat.
    max_iter : int
        Sweeps of "gibbs", of which the first quarter is not kept; most iterations of "m3v".
    random_state : int
        For "gibbs".

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task; for "m3v" the shares of exp(-2c max(0, ζ)).
    prior_ : (K,)
        Uniform over the classes that are named at all, or the class prior given.
    weights_ : (M,)
        η, or its mean over sweeps (also a column of `workers()`).
    confusion_ : (M, K, K)
        Mean over sweeps, or for "m3v" the expected shares of answers, [worker, truth, label].
    skill_ : (M,)
        Chance that a worker is right, from the expected shares of answers.
    objective_ : (n_iter_,)
        Log-density of M3V (the cost with its sign turned) at the truths and weights of each iteration.

    Notes
    -----
    A worker unknown at prediction has the mean weight and the mean confusion matrix of the crowd.

    Examples
    --------
    >>> MaxMarginMajorityVote(inference="m3v").fit(labels).weights_.round(1).tolist()[:2]
    [1.5, 1.5]
    """

    slug = "max-margin"
    numpy_cost = 32
    family = VOTES
    uses = frozenset({GOLD, PRIOR})
    random = True
    plug_in = True

    inference: str = "gibbs"
    margin: float = 3.0
    cost: float = 0.25
    variance: float = 1.0
    smoothing: float = 1.0
    max_iter: int = 200
    random_state: int = 0

    weights_ = FittedArray(SavedArray("worker_columns/weight", "M"), "Weight of each worker.")

    def _check(self) -> None:
        check_choice("inference", self.inference, ("gibbs", "m3v"))
        for name in ("margin", "cost", "variance", "smoothing"):
            check_number(name, getattr(self, name), low=0, above=True)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        order = order_by_content(labels, known)
        arranged, told = order.arrange(labels), order.arrange_knowledge(known)
        log_prior = uniform_log_prior(arranged, told.gold) if told.log_prior is None else told.log_prior
        self.label_shares_ = arranged.class_shares  # the rule for ties needs them before the fit is done
        truths = self._decide(vote_shares(arranged, told.gold))
        solve = self._fit_by_gibbs if self.inference == "gibbs" else self._fit_point_estimate
        posterior, weights, confusion, values, converged = solve(arranged, told, log_prior, truths)
        logs = np.empty(log_prior.size)
        logs[order.classes] = log_prior
        found = np.full((labels.n_tasks, labels.n_classes), np.exp(logs))
        fit = fit_from_posterior(
            labels, known, logs, order.restore_posterior(order.average_alike_tasks(posterior), found)
        )
        if confusion is not None:  # of a worker without answers: the mean of the prior
            flat = np.full((labels.n_workers, labels.n_classes, labels.n_classes), 1 / labels.n_classes)
            confusion = order.restore_matrices(order.average_alike_workers(confusion), flat)
        return replace(
            fit,
            confusion=fit.confusion if confusion is None else confusion,
            objective=np.array(values),
            n_iter=len(values),
            converged=converged,
            worker_columns={
                "weight": order.restore_workers(order.average_alike_workers(weights), np.zeros(labels.n_workers))
            },
        )

    def _fit_by_gibbs(
        self, labels: CrowdLabels, known: PriorKnowledge, log_prior: FloatArray, truths: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray | None, list[float], bool]:
        """Means over the kept sweeps of the truth's probabilities, the weights and the confusion matrices."""
        generator = np.random.default_rng(self.random_state)
        burned = int(BURNED * self.max_iter)
        # Two classes may change names, and all weights their sign, at no cost: then votes count for what they say.
        even = labels.n_classes == 2 and log_prior[0] == log_prior[1]
        symmetric = even and known.gold.size == 0
        tasks = np.arange(labels.n_tasks)
        weights = np.ones(labels.n_workers)
        votes = weighted_vote_counts(labels, weights)
        posterior = np.zeros((labels.n_tasks, labels.n_classes))
        mean_weights = np.zeros(labels.n_workers)
        confusion = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
        values: list[float] = []
        with show_progress(self.slug, self.max_iter) as advance:
            for sweep in range(self.max_iter):
                table = draw_log_confusions(labels, truths, self.smoothing, generator)
                lack = margin_shortfall(votes, self.margin)[tasks, truths]
                bend = draw_augmentation_weights(lack, self.cost, generator)
                noise = generator.standard_normal(labels.n_workers)
                margins = Margins(truths, strongest_rivals(votes, truths), lack, bend, self.cost, self.variance)
                weights = gibbs_update_weights(labels, weights, noise, margins)
                votes, logs = sum_votes_and_logs(labels, weights, table)
                chance = self._truth_probabilities(votes, logs, log_prior, known.gold)
                truths = draw_classes(chance, generator)
                if symmetric and labels.labels_per_worker @ weights < 0:
                    weights, truths, votes = -weights, 1 - truths, -votes
                    table, chance = table[:, ::-1], chance[:, ::-1]
                values.append(margin_objective(votes, weights, truths, self.margin, self.cost, self.variance))
                advance(values[-1])
                if sweep >= burned:
                    posterior += chance
                    mean_weights += weights
                    confusion += np.exp(table)
        kept = self.max_iter - burned
        posterior /= posterior.sum(axis=1, keepdims=True)
        return posterior, mean_weights / kept, confusion / kept, values, True

    def _fit_point_estimate(
        self, labels: CrowdLabels, known: PriorKnowledge, log_prior: FloatArray, truths: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray | None, list[float], bool]:
        """Truths by the vote, then weights that lower the cost, until it falls no more."""
        tasks, still = np.arange(labels.n_tasks), np.zeros(labels.n_workers)
        weights = np.ones(labels.n_workers)
        votes = weighted_vote_counts(labels, weights)
        values = [margin_objective(votes, weights, truths, self.margin, self.cost, self.variance)]
        converged = False
        while not converged and len(values) < self.max_iter:
            trial, at = weights, votes
            for _ in range(ROUNDS):
                lack = margin_shortfall(at, self.margin)[tasks, truths]
                bend = self.cost / np.maximum(np.abs(lack), NEAREST)
                margins = Margins(truths, strongest_rivals(at, truths), lack, bend, self.cost, self.variance)
                trial = gibbs_update_weights(labels, trial, still, margins)
                at = weighted_vote_counts(labels, trial)
            value = margin_objective(at, trial, truths, self.margin, self.cost, self.variance)
            if value > values[-1]:
                weights, votes = trial, at
            truths = self._winning_classes(votes, known.gold)
            value = margin_objective(votes, weights, truths, self.margin, self.cost, self.variance)
            converged = value - values[-1] <= GAIN * abs(value)
            values.append(value)
        return (
            self._truth_probabilities(votes, np.zeros_like(votes), log_prior, known.gold),
            weights,
            None,
            values,
            converged,
        )

    def _winning_classes(self, votes: FloatArray, gold: IntArray) -> IntArray:
        truths = self._decide(votes)
        return truths if gold.size == 0 else np.where(gold >= 0, gold, truths)

    def _truth_probabilities(
        self, votes: FloatArray, logs: FloatArray, log_prior: FloatArray, gold: IntArray
    ) -> FloatArray:
        """Probability of each truth given weights and confusion matrices, (N, K)."""
        logits = log_prior + logs - 2 * self.cost * np.maximum(margin_shortfall(votes, self.margin), 0)
        chance: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        if gold.size:
            chance[gold >= 0] = np.eye(log_prior.size)[gold[gold >= 0]]
        return chance

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        # A label that is impossible under every truth must leave probabilities behind.
        table = np.maximum(self._log_confusion_table(), np.log(SMALLEST))
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.prior_)
        if self.inference == "m3v":
            table = np.zeros_like(table)
        votes, logs = sum_votes_and_logs(labels, self._append_unknown_worker(self.weights_), table)
        return self._truth_probabilities(votes, logs, log_prior, np.empty(0, np.int64))


def weighted_vote_counts(labels: CrowdLabels, weights: FloatArray) -> FloatArray:
    """Weighted votes (N, K)."""
    cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
    votes = np.bincount(cell, weights[labels.worker], labels.n_tasks * labels.n_classes).astype(np.float64)
    return votes.reshape(labels.n_tasks, labels.n_classes)


def draw_classes(chance: FloatArray, generator: np.random.Generator) -> IntArray:
    """One class for each row of probabilities."""
    level = generator.random((chance.shape[0], 1))
    drawn: IntArray = np.minimum((chance.cumsum(axis=1) < level).sum(axis=1), chance.shape[1] - 1)
    return drawn
