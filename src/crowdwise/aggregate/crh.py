"""CRH: truths and weights of workers that together make the weighted disagreement smallest.

The problem. Choose a truth y[t] for every task and a weight for every worker so that Σ_w weight[w] Σ_t d(y[t], label)
is as small as can be, where d is 1 for a label that is not the truth. Not all weights are 0: Σ_w exp(-weight[w]) = 1.
Alternate: given truths, a weight is minus the logarithm of the worker's share of all disagreement; given weights, a
truth is the weighted vote.

Q. Li, Y. Li, J. Gao, B. Zhao, W. Fan and J. Han (2014), "Resolving conflicts in heterogeneous data by truth discovery
and source reliability estimation", SIGMOD. The tutorial (Ibrahim et al. 2025) gives the general form, min Σ_w weight[w]
Σ d with r(weight) = 1.

| equation | here |
|---|---|
| (1) the objective | `objective` |
| (5) weight = -log(loss / Σ loss) | `optimal_weights` |
| (7) truth under 0-1 loss: the weighted vote | `kernels.vote_shares` |
| section 2.5, sources that say little: loss over number of claims | `constraint_coefficients` |

Departures: where workers have given different numbers of labels, the constraint counts each as often as she has
answered, Σ_w c[w] exp(-weight[w]) = 1 with c = labels over mean labels. That is the paper's where all have the same
number, compares losses by label as its section 2.5 does, and remains one objective that both steps lower. A worker who
always agrees would have an infinite weight: `smoothing` adds that many wrong and that many right answers to everybody.
Weights below 0 are not allowed; who has weight 0 decides only where nobody else has answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import WeightedVoteAggregator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kernels import NO_GOLD, vote_shares, worker_sums

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Crh"]

WHISPER = 1e-9  # what a vote of weight 0 counts for: nothing, except where there is no other


def worker_losses(labels: CrowdLabels, truths: IntArray, smoothing: float) -> FloatArray:
    """Disagreement of each worker with the truths (M,), `smoothing` added."""
    return worker_sums(labels, truths[labels.task] != labels.label) + smoothing


def constraint_coefficients(labels: CrowdLabels, smoothing: float) -> FloatArray:
    """How often each worker counts in the constraint, c (M,): 1 on average over those with answers, who alone do."""
    active = labels.labels_per_worker > 0
    answers = np.where(active, labels.labels_per_worker + 2 * smoothing, 0)
    shares: FloatArray = answers / answers[active].mean()
    return shares


def optimal_weights(loss: FloatArray, counted: FloatArray) -> FloatArray:
    """Weights (M,), 0 or more, that minimise Σ weight × loss with Σ counted × exp(-weight) = 1.

    exp(-weight) is in proportion to loss / counted, but at most 1: who would be beyond it has weight 0, and the others
    share what is left. Who does not count has weight 0.
    """
    silent = counted == 0
    rate = loss / np.where(silent, 1, counted)
    while True:
        share = rate * (1 - counted[silent].sum()) / loss[~silent].sum()
        beyond = ~silent & (share > 1)
        if not beyond.any():
            return np.where(silent, 0.0, -np.log(np.minimum(share, 1)))
        silent |= beyond


def weighted_disagreement(loss: FloatArray, weights: FloatArray) -> float:
    """The weighted disagreement."""
    return float(loss @ weights)


@estimator
class Crh(WeightedVoteAggregator):
    """Votes weighed so that the weighted disagreement with the winners is smallest.

    Facts
    -----
    Assumes: votes weigh as minus the logarithm of their worker's share of all disagreement with the winners
    Fails with: most workers share a mistake; workers with a bias towards some class
    Cost: O(labels) an iteration
    Paper: Li et al. 2014, SIGMOD

    Parameters
    ----------
    smoothing : float above 0
        Wrong answers, and as many right ones, that everybody counts as having given besides: no weight is infinite.

    Attributes
    ----------
    objective_ : (n_iter_,)
        The weighted disagreement after each round, with its sign turned so that it climbs.

    Notes
    -----
    Weights differ little, as logarithms do: near to the majority vote. A worker unknown at prediction has the mean
    weight of the crowd.

    Examples
    --------
    >>> Crh().fit(labels).weights_.round(2).tolist()
    [1.95, 1.95, 0.34]
    """

    slug = "crh"

    smoothing: float = 0.5

    def _check(self) -> None:
        check_number("smoothing", self.smoothing, low=0, above=True)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        self.label_shares_ = labels.class_shares  # the rule for ties needs them before the fit is done
        counted = constraint_coefficients(labels, self.smoothing)
        weights = np.ones(labels.n_workers)
        values: list[float] = []
        converged = False
        while not converged and len(values) < self.max_iter:
            posterior = vote_shares(labels, known.gold, np.maximum(weights, WHISPER))
            loss = worker_losses(labels, self._decide(posterior), self.smoothing)
            following = optimal_weights(loss, counted)
            values.append(-weighted_disagreement(loss, following))
            converged = bool(np.array_equal(following, weights))
            weights = following
        posterior = vote_shares(labels, known.gold, np.maximum(weights, WHISPER))
        ended = {"objective": np.array(values), "n_iter": len(values), "converged": converged}
        return self._make_fit_from_votes(labels, known, posterior, {"weight": weights}, **ended)

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        return vote_shares(labels, NO_GOLD, np.maximum(self._append_unknown_worker(self.weights_), WHISPER))
