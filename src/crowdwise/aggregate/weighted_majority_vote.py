"""Weighted majority vote: votes weigh as much as their worker is worth.

| equation | here |
|---|---|
| Ibrahim et al. 2025, "weighted MV": ŷ = argmax_k Σ_m w[m] 1[label = k] | `kernels.vote_shares` |
| Wawa: w[m] = share of m's labels that agree with the vote, again and again | `agreement_with_winners` |

Learnt weights start equal, so the first round is majority vote; the rounds end when the winners no longer change (a
fixed point), when they return to earlier winners, or at `max_iter`.

Departures: weights may also be given, by worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import WeightedVoteAggregator
from crowdwise.fitting.parameter_checks import as_numbers
from crowdwise.kernels import NO_GOLD, vote_shares, worker_sums
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.vocabulary import as_vocabulary, positions

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["WeightedMajorityVote"]


def agreement_with_winners(labels: CrowdLabels, winners: IntArray) -> FloatArray:
    """Share of each worker's labels that are the winner of their task; 0 for a worker without labels."""
    agreed = worker_sums(labels, winners[labels.task] == labels.label)
    share: FloatArray = agreed / np.maximum(labels.labels_per_worker, 1)
    return share


@estimator
class WeightedMajorityVote(WeightedVoteAggregator):
    """Votes weighed by given weights, or by how often their worker agrees with the weighted vote (Wawa).

    Facts
    -----
    Assumes: votes weigh as much as their worker agrees with the weighted vote
    Fails with: most workers share a mistake: agreement is then rewarded, not skill
    Cost: O(labels) an iteration
    Paper: folklore (Wawa: worker agreement with aggregate)

    Parameters
    ----------
    weights : mapping from worker to a number, 0 or more; optional
        Weights to use. By default they are learnt.
    max_iter : int
        Most rounds of learning weights; 1 is Wawa as first described.

    Notes
    -----
    A worker unknown at prediction has the mean weight of the crowd.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({"task": [1, 1], "worker": ["ann", "bob"], "label": ["x", "y"]})
    >>> WeightedMajorityVote(weights={"ann": 1, "bob": 3}).fit(labels).predict_proba().tolist()
    [[0.25, 0.75]]
    """

    slug = "weighted-majority-vote"

    weights: Any = None

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        self.label_shares_ = labels.class_shares  # the rule for ties needs them before the fit is done
        if self.weights is not None:
            weights, n_iter, converged = _read_given_weights(self.weights, labels), 1, True
        else:
            weights, n_iter, converged = self._learn_weights(labels, known.gold)
        posterior = vote_shares(labels, known.gold, weights)
        return self._make_fit_from_votes(
            labels, known, posterior, {"weight": weights}, n_iter=n_iter, converged=converged
        )

    def _learn_weights(self, labels: CrowdLabels, gold: IntArray) -> tuple[FloatArray, int, bool]:
        weights = np.ones(labels.n_workers)
        seen: set[bytes] = set()
        for round_ in range(1, self.max_iter + 1):
            winners = self._decide(vote_shares(labels, gold, weights))
            fingerprint = winners.tobytes()
            if fingerprint in seen:
                return weights, round_ - 1, True
            seen.add(fingerprint)
            weights = agreement_with_winners(labels, winners)
        return weights, self.max_iter, False

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        return vote_shares(labels, NO_GOLD, self._append_unknown_worker(self.weights_))


def _read_given_weights(given: Any, labels: CrowdLabels) -> FloatArray:
    if not isinstance(given, dict):
        raise InputError("weights must be a mapping from worker to a number, 0 or more.")
    places = positions(as_vocabulary(list(given), "worker"), labels.workers)
    numbers = as_numbers(list(given.values()), "weights")
    if numbers.ndim != 1:
        raise InputError("weights must give each worker one number, 0 or more.")
    weights = np.full(labels.n_workers, np.nan)
    weights[places[places >= 0]] = numbers[places >= 0]
    lacking = np.flatnonzero(np.isnan(weights))
    if lacking.size:
        names = [labels.workers[int(worker)].as_py() for worker in lacking]
        raise InputError(f"weights says nothing of the workers {listing(names)}. Give every worker a weight.")
    if (weights < 0).any() or not np.isfinite(weights).all():
        raise InputError("weights must be finite and 0 or more.")
    return weights / max(float(weights.max()), 1.0) if weights.max() > 1e100 else weights  # so that sums stay finite
