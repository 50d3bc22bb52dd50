"""Group-aware majority vote: a group of workers who err together has one vote, and so has everyone who is alone.

| in the tutorial | here |
|---|---|
| a group's opinion z on a task: the majority of its members' answers | `kernels.vote_winners` |
| the truth: the majority of the opinions, and of the answers of those who are alone | `shares` |

P. A. Traganitis and G. B. Giannakis (2022) and A. Jaffe et al. (2016) for the groups, which are given, or found as
`dependence.groups` says.

Departures: a tie in a group is an opinion in equal parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.dependence.group_labels import resolve_groups, split_by_group
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import GroupAggregator, VoteAggregator
from crowdwise.kernels import vote_winners

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["GroupMajorityVote"]


def group_vote_shares(labels: CrowdLabels, groups: IntArray, otherwise: FloatArray) -> FloatArray:
    """Share (N, K) of the opinions and lone votes for each class; `otherwise` (K,) for a task that has none."""
    opinions = split_by_group(labels, groups)
    votes = opinions.alone.vote_counts().astype(np.float64)
    np.add.at(votes, opinions.task, vote_winners(opinions.joint.vote_counts()))
    votes[votes.sum(axis=1) == 0] = otherwise
    posterior: FloatArray = votes / votes.sum(axis=1, keepdims=True)
    return posterior


@estimator
class GroupMajorityVote(GroupAggregator, VoteAggregator):
    """The class with most votes, where workers who err together have one vote together.

    Facts
    -----
    Assumes: every group of workers who err together has one vote, as has everyone else
    Fails with: groups differ in skill, or one worker outside is no match for a good group
    Cost: O(labels), once, and finding groups: O(pairs of labels of a task × K²)
    Paper: Traganitis & Giannakis 2022; Jaffe et al. 2016, AISTATS

    Attributes
    ----------
    posterior_ : (N, K)
        Share of the votes of each class; the shares of all labels for a task that has none.

    Notes
    -----
    Without groups this is majority vote. A good group counts no more than a worker who guesses. A worker unknown at
    prediction is in no group.

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

    slug = "group-majority-vote"

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        groups = resolve_groups(self.groups, labels, self.random_state)
        posterior = group_vote_shares(labels, groups, labels.class_shares)
        return self._make_fit_from_votes(labels, known, posterior, {"group": groups.astype(np.float64)})

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        return group_vote_shares(labels, np.append(self.group_, -1), self.label_shares_)
