"""Soft bootstrapping: the target is the majority vote and a little of the classifier's own opinion.

The generative story: there is none. The vote t of a task may be wrong; a classifier that has seen many tasks has an
opinion f of its own. The target is β t + (1 − β) f, which is the cross-entropy to the vote and, with weight 1 − β, the
entropy of the classifier's opinion: it is asked to be sure of something, if not of the vote.

S. Reed, H. Lee, D. Anguelov, C. Szegedy, D. Erhan and A. Rabinovich (2014), "Training deep neural networks on noisy
labels with bootstrapping", arXiv:1412.6596, section 3.2; as R. Tanno et al. (2019), CVPR, compare it in
section 3.3, with β = 0.95 and on the majority vote.

| equation | here |
|---|---|
| L_soft = −Σ_k (β t[k] + (1 − β) f[k]) log f[k] | `bootstrap_cost` |
| majority vote of several labels (Tanno et al. 2019) | `losses.one_hot_winners` of `batches.Crowd.task_vote_shares` |

A step costs nothing beside the network.

Departures: a tied vote is spread over the classes that tie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import TARGETS
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import cross_entropy_to, one_hot_winners
from crowdwise.learn.objective import TargetedObjective

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["SoftBootstrap"]


def bootstrap_cost(logits: Tensor, vote: Tensor, trust: float) -> Tensor:
    """Mean over tasks of −Σ_k (β t[k] + (1 − β) f[k]) log f[k]; the gradient is that of both f."""
    return cross_entropy_to(trust * vote + (1 - trust) * logits.softmax(dim=1), logits)


class BootstrapObjective(TargetedObjective):
    """Cross-entropy to the vote and the classifier's own opinion."""

    vote: Tensor

    def __init__(self, crowd: Crowd, trust: float) -> None:
        super().__init__(crowd)
        self.trust = trust
        self.register_buffer("vote", one_hot_winners(crowd.task_vote_shares()))

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """L_soft as a mean over the batch's tasks."""
        return bootstrap_cost(seen.logits, self.vote[batch.task], self.trust)


@estimator
class SoftBootstrap(Learner):
    """A classifier trained on the majority vote and, a little, on its own opinion.

    Facts
    -----
    Assumes: a target is the vote's winner and a little of the classifier's own opinion
    Fails with: labels that are often wrong in the same way
    Paper: Reed et al. 2014

    Parameters
    ----------
    trust
        β, the weight of the vote, in [0, 1]; 1 is majority vote.

    Notes
    -----
    When it fails: labels that are often wrong in the same way, and where trust is low: the classifier then becomes sure
    of what it happened to think first.
    """

    slug = "soft-bootstrap"
    family = TARGETS
    models_workers = False

    trust: float = 0.95

    def _check(self) -> None:
        check_number("trust", self.trust, low=0, high=1)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return BootstrapObjective(crowd, self.trust)
