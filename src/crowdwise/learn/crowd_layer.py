"""Crowd layer: a small layer for each worker turns the classifier's output into their answer.

The generative story. A network's softmax f(x) is the truth as far as features tell it. Worker w's layer turns it into
scores of the labels, and their label is drawn from the softmax of these. Their layer is a matrix (MW: f·W[w]), a weight
for each class (VW), a bias for each class (VB) or both (VW+B). Network and layers are trained together by cross-entropy
over the labels that are there; then the layers are taken away, and f is the classifier.

F. Rodrigues and F. C. Pereira (2018), "Deep learning from crowds", AAAI.

| of the paper | here |
|---|---|
| f_r(σ) = W^r σ; w^r ⊙ σ; σ + b^r; w^r ⊙ σ + b^r | `layer_scores` |
| softmax cross-entropy, labels that are missing masked | `CrowdLayerObjective.loss`: labels there are, no mask |
| start at the identity: W = I, w = 1, b = 0 | `start="identity"` |
| appendix D of Kim et al. 2022, W = δ·I | `delta`, for MW |
| (2) of Cao et al. 2019, its start there on CIFAR-10 | `start="labels"`, for MW |

A step costs O(labels of the batch × K²) beside the network.

Departures: none in the loss. Its softmax comes *after* the layer, so that no row of W is a distribution. The confusion
matrix that a worker is shown with is what their layer makes of a certain truth: row k is P(label | f is sure of k).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import MATRICES
from crowdwise.fitting.parameter_checks import check_choice, check_number
from crowdwise.labels.errors import InputError
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import divide_by_tasks
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import vote_confusions

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["CrowdLayer"]

KINDS = ("MW", "VW", "VB", "VW+B")
STARTS = ("identity", "labels")
SMOOTHING = 1.0  # answers like the crowd's in each row that start="labels" counts, where equation (2) has log 0


def layer_scores(f: Tensor, matrix: Tensor | None, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """What the layers of the labels' workers make of f: (E, K).

    Parameters
    ----------
    f : (E, K)
        The classifier's output for each label's task.
    matrix : (E, K, K), scale : (E, K), shift : (E, K)
        Of each label's worker, or None where the kind of layer has none.
    """
    said = f if matrix is None else torch.einsum("ek,ekl->el", f, matrix)
    said = said if scale is None else said * scale
    return said if shift is None else said + shift


class CrowdLayerObjective(Objective):
    """Cross-entropy of the labels, through the layers of their workers."""

    def __init__(self, crowd: Crowd, kind: str, start: str, delta: float = 1.0) -> None:
        super().__init__(crowd)
        shape = (crowd.n_workers, crowd.n_classes)
        self.matrix = self.scale = self.shift = None
        if kind == "MW":
            identity = delta * torch.eye(crowd.n_classes, device=self.device).repeat(crowd.n_workers, 1, 1)
            self.matrix = nn.Parameter(identity if start == "identity" else vote_confusions(crowd, SMOOTHING).log())
        if kind in ("VW", "VW+B"):
            self.scale = nn.Parameter(torch.ones(shape, device=self.device))
        if kind in ("VB", "VW+B"):
            self.shift = nn.Parameter(torch.zeros(shape, device=self.device))

    def label_log_probabilities(self, f: Tensor, worker: Tensor) -> Tensor:
        """Log-probabilities of all labels (E, K) that these workers may give where the classifier says f (E, K)."""
        layers = [None if layer is None else layer[worker] for layer in (self.matrix, self.scale, self.shift)]
        return layer_scores(f, *layers).log_softmax(dim=1)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Cross-entropy of the batch's labels, as a mean over its tasks."""
        log_said = self.label_log_probabilities(self.log_f(seen).exp()[batch.owner], batch.worker)
        return divide_by_tasks(-log_said.gather(1, batch.label[:, None]).sum(), batch)

    def confusion(self) -> Tensor:
        """What each worker's layer says of a certain truth."""
        n_workers, n_classes = self.crowd.n_workers, self.crowd.n_classes
        certain = next(self.parameters()).new_zeros(n_classes, n_classes).fill_diagonal_(1)
        worker = torch.arange(n_workers, device=certain.device).repeat_interleave(n_classes)
        return (
            self.label_log_probabilities(certain.repeat(n_workers, 1), worker)
            .exp()
            .view(n_workers, n_classes, n_classes)
        )


@estimator
class CrowdLayer(Learner):
    """A classifier with a layer on top for each worker, which turns its output into their answer.

    Facts
    -----
    Assumes: a layer for each worker turns the classifier's output into their answer
    Fails with: most workers name one class whatever they see, few labels per worker
    Paper: Rodrigues & Pereira 2018, AAAI

    Parameters
    ----------
    kind
        A worker's layer: "MW" (a matrix, K² parameters), "VW" (a weight for each class), "VB" (a bias for each class)
        or "VW+B".
    start
        "identity", or "labels": log-confusions counted with the shares of the votes, which kind "MW" alone can take.
    delta
        δ, at least 0: matrices start from δ times the identity, where they start from it.

    Notes
    -----
    When it fails: most workers name one class whatever they see. Nothing but the start keeps the classifier's classes
    in place, so that a long training can move them. The probabilities are over-confident: a layer of small weights
    needs an output of 0 or 1 to explain anything.

    Where `worker_learning_rate` is None it is `learning_rate`: the layers
    are part of the network.
    """

    slug = "crowd-layer"
    family = MATRICES
    workers_faster: ClassVar[float] = 1.0  # the paper's layers are part of the network

    kind: str = "MW"
    start: str = "identity"
    delta: float = 1.0

    def _check(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_number("delta", self.delta, low=0)
        check_choice("start", self.start, STARTS)
        if self.start == "labels" and self.kind != "MW":
            raise InputError(f"start='labels' fills matrices; kind {self.kind!r} has none. Use kind='MW'.")

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return CrowdLayerObjective(crowd, self.kind, self.start, self.delta)
