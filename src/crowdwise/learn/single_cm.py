"""One confusion matrix for all: a layer after the classifier that turns the truth into the vote.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. The label that t is known by, the
majority vote of its labels, is l with probability A[k, l] when the truth is k, whoever the workers were. f and A are
learnt together by gradient descent, A with a penalty on its trace, without which it would stay near the identity.

S. Sukhbaatar, J. Bruna, M. Paluri, L. Bourdev and R. Fergus (2014), "Training convolutional networks with noisy
labels", arXiv:1406.2080; with Tanno et al.'s penalty, as R. Tanno et al. (2019), CVPR, compare it in section 3.3.

| equation | here |
|---|---|
| P(label given x) = Σ_k A[k, l] f[k] | `vote_cost` |
| + λ tr(A), λ = 0.01 (Tanno et al. 2019, section 3.3) | `worker_models.Confusions.mean_trace` |
| majority vote of several labels (Tanno et al. 2019) | `losses.one_hot_winners` of `batches.Crowd.task_vote_shares` |

A step costs O(tasks of the batch × K²) beside the network.

Departures: Sukhbaatar et al. keep A near the identity at first and then let weight decay blur it; Tanno et al. 2019 put
the penalty on the trace in its place, and so does this, with Tanno et al.'s start. A tied vote is spread over the
classes that tie. A is a matrix of the vote: `confusion_`, of workers, is counted afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import TARGETS
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import SMALLEST, one_hot_winners
from crowdwise.learn.objective import TargetedObjective
from crowdwise.learn.worker_models import Confusions

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["SingleConfusion"]


def vote_cost(f: Tensor, matrix: Tensor, vote: Tensor) -> Tensor:
    """Mean over tasks of −Σ_l vote[l] log Σ_k f[k] A[k, l]."""
    return -(vote * (f @ matrix).clamp(min=SMALLEST).log()).sum(dim=1).mean()


class SingleObjective(TargetedObjective):
    """Cross-entropy of the votes through one matrix, and λ times its trace."""

    vote: Tensor

    def __init__(self, crowd: Crowd, strength: float) -> None:
        super().__init__(crowd)
        self.shared = Confusions(1, crowd.n_classes)
        self.strength = strength
        self.register_buffer("vote", one_hot_winners(crowd.task_vote_shares()))

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """CE(A f(x), vote) as a mean over the batch's tasks, + λ tr(A)."""
        cost = vote_cost(seen.logits.softmax(dim=1), self.shared()[0], self.vote[batch.task])
        return cost + self.strength * self.shared.mean_trace()


@estimator
class SingleConfusion(Learner):
    """A classifier and one confusion matrix, of the majority vote, for all workers together.

    Facts
    -----
    Assumes: all workers share one matrix
    Fails with: workers who differ
    Paper: Sukhbaatar et al. 2014

    Parameters
    ----------
    strength
        λ, the weight of the matrix's trace, at least 0.

    Attributes
    ----------
    vote_confusion_ : (K, K) [truth, vote]
        The matrix, the same for all.

    Notes
    -----
    What the good know is drowned in what the bad say, and many labels for each task add no more than their vote.

    `confusion_` is counted afterwards. Where `worker_learning_rate` is None it is `learning_rate`: the matrix learns
    from every task. A network that trains until it knows wrong labels by heart may need a faster matrix: on MNIST with
    a vote that is right in two tasks of three, ten times the rate gave 86.0 % in place of 81.8 (tanno-table-1-causes).
    """

    slug = "single-cm"
    family = TARGETS
    models_workers = False
    workers_faster: ClassVar[float] = 1.0  # the one matrix learns from every task

    strength: float = 0.01

    @property
    def vote_confusion_(self) -> FloatArray:
        """The matrix, the same for all (K, K) [truth, vote]."""
        self._check_fitted()
        matrix: FloatArray = self.module_.get_submodule("shared")()[0].detach().double().numpy()
        return matrix

    def _check(self) -> None:
        check_number("strength", self.strength, low=0)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return SingleObjective(crowd, self.strength)
