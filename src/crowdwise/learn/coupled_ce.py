"""Coupled cross-entropy (CCEM): the classifier's output, sent through each worker's matrix, explains their labels.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. Worker w, seeing truth k, says l
with probability A[w, k, l], whatever the features. The network and the matrices are learnt together, by gradient
descent on the cross-entropy of all labels; nothing else tells A·P from A for a permuted or blurred classifier P than
where the search starts. With infinitely many labels the solution is the true one, up to the order of the classes, if
every class has an anchor (a task that is surely of it) and an expert (a worker who says it when, and only when, it is
true): theorem 1 of Ibrahim et al.

S. Ibrahim, T. Nguyen and X. Fu (2023), "Deep learning from crowdsourced labels: coupled cross-entropy minimization,
identifiability, and regularization", ICLR; slides "Coupled Cross Entropy Minimization (CCEM)" of Ibrahim et al. 2025.

| equation of Ibrahim et al. 2025 | here |
|---|---|
| p = A_m f(x_n) | `losses.coupled_probability` |
| 1/|S| Σ over labels of CE(A_m f(x_n), label) | `losses.divide_by_labels` of `losses.coupled_cross_entropy` |
| A ≥ 0, rows (there columns) that sum to one | `worker_models.SoftmaxConfusions` |

A step costs O(labels of the batch × K) beside the network, and O(M K²) for the matrices.

How it differs from `trace` with strength 0: the cost is a mean over the *labels* of a batch, where Tanno et al. 2019
have a mean over its tasks, so that the cost does not grow with the labels of a task (Adam hardly notices); and rows are
a softmax that starts a little nearer to even, where Tanno et al.'s softplus starts at 6·I − 5.

Departures: Ibrahim et al. 2025 do not say how A is kept on the simplex or where it starts. Here it starts at `start` on
the diagonal, because the order of the classes is only pinned by the start. |S| is the number of labels in a batch, so
that labels of a batch with fewer of them count a little more. After training, `ConfusionLearner` makes matrices that go
with the chosen epoch's classifier beside the learnt ones: the epoch is chosen for the classifier's sake, often before
they have come far from their start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import MATRICES
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.learn.confusion_learner import ConfusionLearner
from crowdwise.learn.losses import coupled_cross_entropy, divide_by_labels
from crowdwise.learn.objective import ConfusionObjective
from crowdwise.learn.worker_models import SoftmaxConfusions

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["CoupledCrossEntropy"]


def near_identity(n_workers: int, n_classes: int, diagonal: float) -> Tensor:
    """Matrices (M, K, K) with `diagonal` on the diagonal and the rest even."""
    eye = torch.eye(n_classes)
    matrix = diagonal * eye + (1 - diagonal) / (n_classes - 1) * (1 - eye)
    return matrix.repeat(n_workers, 1, 1)


class CoupledObjective(ConfusionObjective):
    """The mean cross-entropy of the labels."""

    def __init__(self, crowd: Crowd, start: float) -> None:
        super().__init__(crowd, SoftmaxConfusions(near_identity(crowd.n_workers, crowd.n_classes, start)))

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """1/|S| Σ CE(A_m f(x_n), label) over the batch's labels."""
        return divide_by_labels(coupled_cross_entropy(seen.logits.softmax(dim=1), self.workers(), batch), batch)


@estimator
class CoupledCrossEntropy(ConfusionLearner):
    """A classifier and confusion matrices at once, by the cross-entropy of the labels alone.

    Works with a single label for each task.

    Facts
    -----
    Assumes: the classifier's output through each worker's matrix explains their labels
    Fails with: no experts or no sure tasks of some class
    Paper: Ibrahim et al. 2023, ICLR

    Parameters
    ----------
    start
        Where the matrices' diagonals start, above 0 and at most 0.999. It pins the order of the classes.

    Notes
    -----
    When it fails: some class has neither a task that is surely of it nor an expert (a warning says so), most labels are
    wrong, or a worker's mistakes depend on the features. Trained for long, the network learns the noise into f.
    """

    slug = "coupled-ce"
    family = MATRICES

    start: float = 0.9

    def _check(self) -> None:
        check_number("start", self.start, low=0, high=0.999, above=True)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return CoupledObjective(crowd, self.start)
