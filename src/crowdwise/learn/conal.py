"""CoNAL: a worker's mistake is everyone's or their own, and an auxiliary network tells which.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. With probability ω[t, w] worker w
makes of it what everyone would (the common layer, G), else what only they do (their own layer, W_w): common mistakes
come from hard tasks, one's own from one's skill. ω is the likeness of the worker's and the task's embedding. The layers
are not stochastic matrices but weights of a linear layer, whose outputs are a label's logits.

Z. Chu, J. Ma and H. Wang (2021), "Learning from crowds by modeling common confusions", AAAI.

| of the paper | here |
|---|---|
| ω[t, w] = σ(uᵀ v), u and v embeddings of unit length | `CommonObjective.common_share` |
| label logits = ω f G + (1 − ω) f W_w, cross-entropy over labels | `label_logits`, `loss` |
| − λ Σ_w ‖G − W_w‖: own layers keep away from the common one | `layer_distance` |
| both layers start at 2·I | `START` |

A step costs O(labels of the batch × K²) beside the network, and O(M K²) for the last term: nothing is computed for
workers who have not labelled a task, where the authors' program goes through all.

Departures: equations are those of the authors' program (embeddings of 20 numbers, tasks through two linear layers of
which the first has 128 units, λ = 1e-5). Tasks are embedded from what the classifier's last layer sees, where the
program has a second network on the raw features: any classifier will do, and the embedding costs next to nothing. A
worker's matrix, which the paper has not, is softmax(ω G[k] + (1 − ω) W_w[k]) for truth k, its mean over their labels in
the last epoch (`MeanConfusions`). Workers without labels have no part in the last term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import INSTANCES
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import divide_by_labels
from crowdwise.learn.networks import representation_width
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import MeanConfusions, draw_for_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["Conal"]

START = 2.0  # the diagonal of both layers at the start, as in the authors' program
HIDDEN = 128


def mix_layers(share: Tensor, common: Tensor, own: Tensor) -> Tensor:
    """ω G + (1 − ω) W_w of each label (E, K, K), from ω (E,), G (K, K) and W of the labels' workers (E, K, K)."""
    return share[:, None, None] * common + (1 - share)[:, None, None] * own


def label_logits(f: Tensor, layers: Tensor) -> Tensor:
    """Logits of the labels (E, K): f of each label's task (E, K) through its layer (E, K, K)."""
    return torch.einsum("ek,ekl->el", f, layers)


def layer_distance(common: Tensor, own: Tensor) -> Tensor:
    """Sum over workers of ‖G − W_w‖, Frobenius."""
    # At the start all are 0, where a norm has no gradient; torch gives it 0, and none moves for this term alone.
    norms: Tensor = torch.linalg.vector_norm(own - common, dim=(1, 2))
    return norms.sum()


class CommonObjective(Objective):
    """Cross-entropy of the labels through the common and the workers' own layers."""

    def __init__(self, crowd: Crowd, width: int, embedding: int, strength: float) -> None:
        super().__init__(crowd)
        start = START * torch.eye(crowd.n_classes)
        self.common = nn.Parameter(start.clone())
        self.own = nn.Parameter(start.repeat(crowd.n_workers, 1, 1))
        self.of_task = nn.Sequential(nn.Linear(width, HIDDEN), nn.Linear(HIDDEN, embedding))
        drawn = draw_for_workers(crowd, (embedding,), nn.init.normal_)
        self.of_worker = nn.Embedding(crowd.n_workers, embedding, _weight=drawn)
        self.mean = MeanConfusions(crowd.n_workers, crowd.n_classes)
        self.strength = strength

    def common_share(self, features: Tensor, batch: Batch) -> Tensor:
        """ω of each label (E,), between σ(−1) and σ(1)."""
        tasks = functional.normalize(self.of_task(features), dim=1)
        workers = functional.normalize(self.of_worker(batch.worker), dim=1)
        return (tasks[batch.owner] * workers).sum(dim=1).sigmoid()

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Mean cross-entropy of the batch's labels, less λ times how far the layers are apart."""
        f = seen.logits.softmax(dim=1)
        share = self.common_share(seen.features, batch)
        layers = mix_layers(share, self.common, self.own[batch.worker])
        if self.training:
            self.mean.add(batch.worker, layers.softmax(dim=2), f[batch.owner])
        cost = functional.cross_entropy(label_logits(f[batch.owner], layers), batch.label, reduction="sum")
        apart = layer_distance(self.common, self.crowd.select_workers_with_labels(self.own))
        return divide_by_labels(cost, batch) - self.strength * apart

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:  # noqa: ARG002
        """Begin the mean matrices anew."""
        self.mean.clear_sums()

    def confusion(self) -> Tensor:
        """Each worker's mean matrix over their labels; for one without labels, half common and half their own."""
        even = self.own.new_full((len(self.own),), 0.5)
        matrices: Tensor = self.mean(mix_layers(even, self.common, self.own).softmax(dim=2))
        return matrices


@estimator
class Conal(Learner):
    """A classifier and two layers at once: of mistakes that all make and of each worker's own.

    Works with a single label for each task.

    Facts
    -----
    Assumes: a mistake is the worker's own or everyone's, which an auxiliary network tells by task and worker
    Fails with: few labels per worker
    Paper: Chu, Ma & Wang 2021, AAAI

    Parameters
    ----------
    strength
        λ, at least 0, that keeps the workers' layers away from the common one.
    embedding
        Length of the workers' and the tasks' embeddings, at least 1.

    Notes
    -----
    When it fails: workers with few labels have layers that are hardly theirs; a crowd that is mostly wrong in the same
    way is believed, for nothing but the start says which class is which.

    `worker_learning_rate` is 0.01, as in the authors' program.
    """

    slug = "conal"
    family = INSTANCES

    worker_learning_rate: float | None = 0.01
    strength: float = 1e-5
    embedding: int = 20

    def _check(self) -> None:
        check_number("strength", self.strength, low=0)
        check_count("embedding", self.embedding)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        return CommonObjective(crowd, representation_width(classifier, features), self.embedding, self.strength)
