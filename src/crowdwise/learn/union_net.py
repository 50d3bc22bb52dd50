"""UnionNet: all workers' labels of a task as one answer, through one long transition matrix.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. An answer is a worker and a label
at once: given truth k, it is (w, l) with probability T[k, w, l], which sums to one over workers *and* labels. So a
worker may answer more often where some class is true, and workers who say much count for much. The union of a task's
labels is as likely as the product of its answers.

H. Wei, R. Xie, L. Feng, B. Han and B. An (2022), "Deep learning from multiple noisy annotators as a union", IEEE
Transactions on Neural Networks and Learning Systems 34.

| of the paper | here |
|---|---|
| (2) one-hot labels of all workers, concatenated | the edges of a task |
| (6) − Σ over a task's labels of log Σ_k f[k] T[k, (w, l)] | `coupled_cross_entropy` with `UnionTransition`, per task |
| (7) every worker's block starts at 1 − ε, elsewhere ε/(K − 1) | `UnionTransition` |

A step costs O(labels of the batch × K) beside the network, and O(M K²) for the softmax: T is as large as everybody's
matrices together, and never multiplied whole.

Departures: known from the paper's abstract and another library's account of its variant B; variant A is not here. (7)
is what the softmax is taken of, as in that account, so that the diagonal starts e times as likely as the rest (with
ε = 0), and not at 1 − ε: where it started there, the rest would hardly have a gradient. A worker's matrix is their
block of T, rows normalised. Workers without labels belong to no sum: they could not have answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import MATRICES
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import coupled_cross_entropy, divide_by_tasks
from crowdwise.learn.objective import Objective

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["UnionNet"]


class UnionTransition(nn.Module):
    """T[w, truth, label], which sums to one over labels and over the workers who have some."""

    def __init__(self, crowd: Crowd, epsilon: float) -> None:
        super().__init__()
        eye = torch.eye(crowd.n_classes)
        start = (1 - epsilon) * eye + epsilon / (crowd.n_classes - 1) * (1 - eye)
        self.rho = nn.Parameter(start.repeat(crowd.n_workers, 1, 1))

    def forward(self, crowd: Crowd) -> Tensor:
        """All of T (M, K, K)."""
        total = crowd.select_workers_with_labels(self.rho).logsumexp(dim=(0, 2), keepdim=True)
        return (self.rho - total).exp()


class UnionObjective(Objective):
    """Cross-entropy of the union of a task's labels."""

    def __init__(self, crowd: Crowd, epsilon: float) -> None:
        super().__init__(crowd)
        self.union = UnionTransition(crowd, epsilon)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Equation (6), the mean over the batch's tasks."""
        transition = self.union(self.crowd)
        return divide_by_tasks(coupled_cross_entropy(seen.logits.softmax(dim=1), transition, batch), batch)

    def confusion(self) -> Tensor:
        """Each worker's block, rows normalised: what they say, given that they answer."""
        return self.union.rho.softmax(dim=2)


@estimator
class UnionNet(Learner):
    """A classifier and one transition matrix at once, from a true class to any worker's any label.

    Works with a single label for each task.

    Facts
    -----
    Assumes: all workers' labels of a task as one answer, through one long transition matrix
    Fails with: very many workers, few labels each
    Paper: Wei et al. 2022, IEEE TNNLS

    Parameters
    ----------
    epsilon
        Where the transitions start, in [0, 1]: 0 is most trusting of the workers.

    Notes
    -----
    When it fails: who answers which tasks has another reason than their class (one worker was given a batch of one
    kind): the model takes the one for the other. Workers with few labels share in what the busy ones are.

    `worker_learning_rate` is 0.01, as near-even matrices have far to go.
    """

    slug = "union-net"
    family = MATRICES

    worker_learning_rate: float | None = 0.01
    epsilon: float = 1e-5

    def _check(self) -> None:
        check_number("epsilon", self.epsilon, low=0, high=1)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return UnionObjective(crowd, self.epsilon)
