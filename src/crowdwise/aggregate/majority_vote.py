"""Majority vote: the share of votes, every worker alike.

| equation | here |
|---|---|
| Ibrahim et al. 2025, "Majority voting": ŷ = argmax_k Σ_m 1[label = k] | `kernels.vote_shares`, `Aggregator.predict` |

Ties go to the class more common in all labels, then to the class that comes first; with a `seed`, to one of the
tied classes at random. The confidence is the share of votes.

Cost: O(labels + tasks × K), once.

Departures: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.categorical_em import fit_coin_skill
from crowdwise.fitting.intervals import mean_agreement
from crowdwise.fitting.parameters import check_count
from crowdwise.kernels import NO_GOLD, vote_shares

if TYPE_CHECKING:
    from crowdwise.fitting.knowledge import Knowledge
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MajorityVote"]


class MajorityVote(Aggregator):
    """The class with most votes, and the share of votes as confidence.

    Parameters
    ----------
    seed : int, optional
        Break ties at random with this seed; by default they are broken by rule, never at random.

    Attributes
    ----------
    posterior_ : (N, K)
        Share of votes of each class; the shares of all labels for a task that has none.
    prior_ : (K,)
        Mean share of each class.
    skill_ : (M,)
        Chance that a worker is right, as `one-coin` would judge from the winners of the vote. How far the worker agrees
        with the vote is the column `agreement` of `workers()`: the mean share of the vote behind the worker's labels,
        their own vote included.

    Notes
    -----
    Fails where workers differ much in skill, or where a majority shares a mistake: votes are counted, not weighed.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({"task": [1, 1, 1], "worker": ["ann", "bob", "cy"], "label": ["x", "x", "y"]})
    >>> MajorityVote().fit(labels).predict_proba().round(2).tolist()
    [[0.67, 0.33]]
    """

    slug: ClassVar[str] = "majority-vote"

    def __init__(self, *, seed: int | None = None) -> None:
        self.seed = seed

    def _fit(self, labels: CrowdLabels, known: Knowledge) -> Fit:
        if self.seed is not None:
            check_count("seed", self.seed, low=0)
        posterior = vote_shares(labels, known.gold)
        prior = posterior.mean(axis=0)
        skill, skill_beta = fit_coin_skill(labels, known, posterior, prior)
        return Fit(
            posterior=posterior,
            prior=prior,
            skill=skill,
            skill_beta=skill_beta,
            worker_columns={"agreement": mean_agreement(labels, posterior)},
        )

    def _posterior_of(self, labels: CrowdLabels) -> FloatArray:
        return vote_shares(labels, NO_GOLD)

    def _decide(self, posterior: FloatArray) -> IntArray:
        if self.seed is None:
            return super()._decide(posterior)
        order = np.random.default_rng(self.seed).random(posterior.shape)
        chosen: IntArray = np.where(self._find_ties(posterior), order, -1.0).argmax(axis=1)
        return chosen
