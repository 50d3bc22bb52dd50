"""Trace regularisation with matrices that depend on the features: who errs how, on what.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. Worker w, seeing truth k, says l
with probability T_w(x_t)[k, l]: their matrix depends on the task as well, through a second head on what the
classifier's last layer sees. Cross-entropy alone can put anything into so rich a T; of all that explain the labels,
matrices with a small trace are taken, that is, workers as unreliable as the labels allow.

L. Zhang, R. Tanno, M.-C. Xu, C. Jin, J. Jacob, O. Ciccarelli, F. Barkhof and D. C. Alexander (2020), "Disentangling
human error from the ground truth in segmentation of medical images", NeurIPS; slide "Methods for instance-dependent
label noise" of Ibrahim et al. 2025.

| equation of Ibrahim et al. 2025 | here |
|---|---|
| P(label) = T_m(x_n) f(x_n) | `TransitionHead`, `losses_of_labels` |
| 1/|S| Σ CE(T_m(x_n) f(x_n), label) | `losses.divide_by_labels` |
| + β ΣΣ trace(T_m(x_n)) | `InstanceObjective.loss`, as the mean over labels |
| start near I, kept for a warm-up | `TransitionHead`: biases 6·I − 5, weights 0; then listing 2 of Tanno et al. 2019 |

A step costs O(labels of the batch × R K²) beside the network. A full second head would have D K² weights a worker, to
be gathered for every label; here the representation is first brought down to R numbers by a layer that all workers
share, and each has R K² weights of their own. Only observed pairs of task and worker are computed.

Departures: for classes of tasks instead of pixels. The paper is known from Ibrahim et al. 2025 and its abstract. Its
trace runs over all workers and tasks; here it is the mean over observed pairs, so that β does not depend on how many
there are, with Tanno et al.'s β = 0.01. The paper's workers have no shared bottleneck. Its warm-up, as we understand
it, maximises the trace for the first iterations; here the matrices stand still near I for the first part of the epochs,
while f learns from all labels: without, T_w(x) soon does f's work and f is left with guesses. A worker's matrix in
`confusion_` is the mean of T_w(x) over their labels in the last epoch (`MeanConfusions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn
from torch.nn import functional

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import INSTANCES
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import SMALLEST, divide_by_labels
from crowdwise.learn.networks import representation_width
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import MeanConfusions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["InstanceTrace", "TransitionHead", "losses_of_labels"]


class TransitionHead(nn.Module):
    """T_w(x): what the last layer sees, brought down to R numbers, times the worker's own weights."""

    def __init__(self, n_workers: int, n_classes: int, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank)
        self.weight = nn.Parameter(torch.zeros(n_workers, rank, n_classes * n_classes))
        start = 6.0 * torch.eye(n_classes) - 5.0
        self.bias = nn.Parameter(start.flatten().repeat(n_workers, 1))
        self.n_classes = n_classes

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        """Each label's matrix (E, K, K), from the features of the batch's tasks (B, D)."""
        return self.matrices(self.reduce_features(features)[batch.owner], batch.worker)

    def reduce_features(self, features: Tensor) -> Tensor:
        """What the workers' mistakes may depend on (B, R)."""
        low: Tensor = self.down(features)
        return low.relu()

    def matrices(self, low: Tensor, worker: Tensor) -> Tensor:
        """The matrix (E, K, K) of each worker (E,) on a task that is R numbers (E, R)."""
        return self.normalise_to_matrices(torch.einsum("er,erc->ec", low, self.weight[worker]) + self.bias[worker])

    def matrices_without_features(self) -> Tensor:
        """Matrices (M, K, K) of tasks without any feature."""
        return self.normalise_to_matrices(self.bias)

    def normalise_to_matrices(self, raw: Tensor) -> Tensor:
        """Matrices from raw numbers (n, K²), rows on the simplex: listing 2 of Tanno et al. 2019."""
        positive = functional.softplus(raw).view(-1, self.n_classes, self.n_classes)
        return positive / positive.sum(dim=2, keepdim=True)


def losses_of_labels(f: Tensor, matrices: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of each label (E,), from f of the batch's tasks (B, K) and each label's matrix (E, K, K)."""
    column = matrices[torch.arange(len(matrices), device=f.device), :, batch.label]
    return -(f[batch.owner] * column).sum(dim=1).clamp(min=SMALLEST).log()


class InstanceObjective(Objective):
    """Coupled cross-entropy with the second head's matrices, and β times their mean trace."""

    def __init__(self, crowd: Crowd, width: int, rank: int, strength: float, warm_up: float) -> None:
        super().__init__(crowd)
        self.head = TransitionHead(crowd.n_workers, crowd.n_classes, width, rank)
        self.mean = MeanConfusions(crowd.n_workers, crowd.n_classes)
        self.strength, self.warm_up = strength, warm_up
        self.warming = False

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Both means over the batch's labels."""
        matrices = self.head(seen.features, batch)
        if self.warming:
            matrices = matrices.detach() + 0 * matrices  # stands still; DDP must meet every parameter nevertheless
        f = seen.logits.softmax(dim=1)
        if self.training:
            self.mean.add(batch.worker, matrices, f[batch.owner])
        trace = matrices.diagonal(dim1=1, dim2=2).sum()
        cost = losses_of_labels(f, matrices, batch).sum()
        return divide_by_labels(cost + self.strength * trace, batch)

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:  # noqa: ARG002
        """Begin the mean matrices anew; let go of them after the warm-up."""
        self.mean.clear_sums()
        self.warming = epoch < self.warm_up * self.n_epochs

    def confusion(self) -> Tensor:
        """Each worker's mean matrix over their labels."""
        matrices: Tensor = self.mean(self.head.matrices_without_features())
        return matrices


@estimator
class InstanceTrace(Learner):
    """A classifier and confusion matrices that depend on the task, those with the smallest trace.

    Works with a single label for each task.

    Facts
    -----
    Assumes: a worker's matrix depends on the features; its trace is kept small
    Fails with: few labels per worker
    Paper: Zhang et al. 2020, NeurIPS

    Parameters
    ----------
    strength
        β, at least 0. Too large, and the matrices diffuse.
    rank
        R, at least 1: how many numbers of a task the workers' mistakes may depend on.
    warm_up
        Share of the epochs in which the matrices stay near I, in [0, 0.9].

    Notes
    -----
    When it fails: workers with few labels, whose R K² weights learn them by heart; the classifier's features do not
    tell what makes a task hard; the crowd's mean matrix is not diagonally dominant (a warning says so).

    Where `worker_learning_rate` is None it is `learning_rate`: a faster
    head would do the classifier's work.
    """

    slug = "instance-trace"
    family = INSTANCES
    workers_faster: ClassVar[float] = 1.0  # the matrices are a second head of the network

    strength: float = 0.01
    rank: int = 8
    warm_up: float = 0.3

    def _check(self) -> None:
        check_number("strength", self.strength, low=0)
        check_count("rank", self.rank)
        check_number("warm_up", self.warm_up, low=0, high=0.9)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        return InstanceObjective(
            crowd, representation_width(classifier, features), self.rank, self.strength, self.warm_up
        )
