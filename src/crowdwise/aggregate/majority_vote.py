"""Majority vote: the share of votes, every worker alike.

| equation | here |
|---|---|
| Ibrahim et al. 2025, "Majority voting": ŷ = argmax_k Σ_m 1[label = k] | `kernels.vote_shares`, `Aggregator.predict` |

Ties go to the class more common in all labels, then to the class that comes first; with a `seed`, to one of the
tied classes at random. The confidence is the share of votes.

Departures: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import VoteAggregator
from crowdwise.kernels import NO_GOLD, vote_shares

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MajorityVote"]


@estimator
class MajorityVote(VoteAggregator):
    """The class with most votes, and the share of votes as confidence.

    Facts
    -----
    Assumes: every vote counts the same; the share of votes is the confidence
    Fails with: workers differ in skill, or a majority shares a mistake
    Cost: O(labels), once
    Paper: folklore

    Parameters
    ----------
    random_state : int, optional
        Break ties at random with this seed; by default they are broken by rule, never at random.

    Attributes
    ----------
    posterior_ : (N, K)
        Share of votes of each class; the shares of all labels for a task that has none.

    Notes
    -----
    Votes are counted, not weighed.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({"task": [1, 1, 1], "worker": ["ann", "bob", "cy"], "label": ["x", "x", "y"]})
    >>> MajorityVote().fit(labels).predict_proba().round(2).tolist()
    [[0.67, 0.33]]
    """

    slug = "majority-vote"

    random_state: int | None = None

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        posterior = vote_shares(labels, known.gold)
        return self._make_fit_from_votes(labels, known, posterior, {})

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        return vote_shares(labels, NO_GOLD)

    def _decide(self, posterior: FloatArray) -> IntArray:
        if self.random_state is None:
            return super()._decide(posterior)
        order = np.random.default_rng(self.random_state).random(posterior.shape)
        chosen: IntArray = np.where(self._find_ties(posterior), order, -1.0).argmax(axis=1)
        return chosen
