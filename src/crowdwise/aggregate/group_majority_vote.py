"""Group-aware majority vote: a group of workers who err together has one vote, and so has everyone who is alone.

| in the tutorial | here |
|---|---|
| a group's opinion z on a task: the majority of its members' answers | `opinions_on` |
| the truth: the majority of the opinions, and of the answers of those who are alone | `shares` |

P. A. Traganitis and G. B. Giannakis (2022) and A. Jaffe et al. (2016) for the groups, which are given, or found as
`fitting.company` says.

Cost: O(labels + tasks × K), once, and that of finding the groups.

Departures: a tie in a group is an opinion in equal parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.categorical_em import fit_coin_skill
from crowdwise.fitting.intervals import mean_agreement
from crowdwise.fitting.opinions import groups_of, opinions_of

if TYPE_CHECKING:
    from crowdwise.fitting.knowledge import Knowledge
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["GroupMajorityVote"]


def opinions_on(votes: IntArray) -> FloatArray:
    """Opinions (P, K) from the votes of each group (P, K): the class with most, or equal parts of those that tie."""
    most = votes == votes.max(axis=1, keepdims=True)
    shares: FloatArray = most / most.sum(axis=1, keepdims=True)
    return shares


def shares(labels: CrowdLabels, groups: IntArray, otherwise: FloatArray) -> FloatArray:
    """Share (N, K) of the opinions and lone votes for each class; `otherwise` (K,) for a task that has none."""
    opinions = opinions_of(labels, groups)
    votes = opinions.alone.vote_counts().astype(np.float64)
    np.add.at(votes, opinions.task, opinions_on(opinions.joint.vote_counts()))
    votes[votes.sum(axis=1) == 0] = otherwise
    posterior: FloatArray = votes / votes.sum(axis=1, keepdims=True)
    return posterior


class GroupMajorityVote(Aggregator):
    """The class with most votes, where workers who err together have one vote together.

    Parameters
    ----------
    groups : "found", int, mapping, sequence
        Who belongs together: found from the labels, where the evidence is strong enough, and nobody otherwise; as many
        groups as this, of those who agree most beyond the truth; or given, as a mapping from worker to group or a group
        for each worker, None or -1 for those in no group.
    seed : int
        For finding groups.

    Attributes
    ----------
    posterior_ : (N, K)
        Share of the votes of each class; the shares of all labels for a task that has none.
    prior_ : (K,)
        Mean share of each class.
    group_ : (M,)
        Group of each worker, counted from 0; -1 for those in no group (also a column of `workers()`).
    skill_ : (M,)
        Chance that a worker is right, as `one-coin` would judge from the winners of the vote, which takes workers of a
        group as independent. The mean share of the vote behind a worker's labels is the column `agreement`.

    Notes
    -----
    Without groups this is majority vote. Fails where groups differ in skill: a good group counts no more than a worker
    who guesses. A worker unknown at prediction is in no group.

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang and Kluger (2016), AISTATS. Traganitis and Giannakis (2022).

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({
    ...     "task": [1, 1, 1, 1, 1],
    ...     "worker": ["ann", "a copy", "another", "bob", "cy"],
    ...     "label": ["x", "x", "x", "y", "y"],
    ... })
    >>> model = GroupMajorityVote(groups={"ann": 1, "a copy": 1, "another": 1}).fit(labels)
    >>> model.predict_proba().round(2).tolist()
    [[0.33, 0.67]]
    """

    slug: ClassVar[str] = "group-majority-vote"

    def __init__(self, *, groups: Any = "found", seed: int = 0) -> None:
        self.groups = groups
        self.seed = seed

    @property
    def group_(self) -> IntArray:
        """Group of each worker (M,), -1 for those in no group."""
        self._check_fitted()
        group: IntArray = self.worker_columns_["group"].astype(np.int64)
        return group

    def _fit(self, labels: CrowdLabels, known: Knowledge) -> Fit:
        groups = groups_of(self.groups, labels, self.seed)
        posterior = shares(labels, groups, labels.class_shares)
        prior = posterior.mean(axis=0)
        skill, skill_beta = fit_coin_skill(labels, known, posterior, prior)
        return Fit(
            posterior=posterior,
            prior=prior,
            skill=skill,
            skill_beta=skill_beta,
            worker_columns={"group": groups.astype(np.float64), "agreement": mean_agreement(labels, posterior)},
        )

    def _posterior_of(self, labels: CrowdLabels) -> FloatArray:
        return shares(labels, np.append(self.group_, -1), self.label_shares_)
