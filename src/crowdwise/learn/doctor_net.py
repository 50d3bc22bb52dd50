"""Doctor net: a head for each worker on a shared trunk; the heads' mean decides.

The generative story. There is none of a truth: each worker's label is drawn from their own softmax, a linear layer of
what a trunk that all share makes of the features. Trunk and heads are trained by the cross-entropy of the labels that
there are. A new task is given the mean of all heads, or a weighted mean, with weights that are learnt afterwards while
trunk and heads stay as they are: for a training task, the heads of the workers who did *not* label it, averaged, should
match the labels that it got.

M. Y. Guan, V. Gulshan, A. M. Dai and G. E. Hinton (2018), "Who said what: modeling individual labelers improves
classification", AAAI.

| of the paper | here |
|---|---|
| doctor net: the cross-entropy of a label under its own worker's head | `head_cost` |
| doctor net: the mean of all heads | `DoctorObjective.log_f` |
| weighted doctor net: averaging logits, one for each worker, softmax | `DoctorObjective.log_weights` |
| weighted doctor net: other workers' heads against the labels of a task | `weighting_cost` |

A step costs O(labels of the batch × K × D) beside the trunk, D being the length of what the trunk gives. A prediction
needs every head, O(tasks × M × K): workers are gone through in chunks.

Departures: the trunk is whatever the network has below its last linear layer, which is not used. Where everyone
labelled a task, no other heads are left, and all of them are weighed. A worker without labels to train on has no say.
In the second stage, the last quarter of the epochs, dropout stays on. Where labels held out speak against the weights,
an epoch before they are learnt is chosen, which is the plain mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import HEADS, Variant
from crowdwise.fitting.parameter_checks import check_flag
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import SMALLEST, divide_by_tasks
from crowdwise.learn.networks import representation_width
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import draw_for_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["DoctorNet"]

MOST_HELD = 2**24  # heads' outputs that are held at one time
STAGE = 4  # one of so many parts of the epochs learns the weights
ABSENT = -1e4  # averaging logit of a worker with no say: its softmax is 0 in any precision


def head_cost(features: Tensor, heads: Tensor, bias: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of the labels of a batch under their workers' heads, summed: ()."""
    scores = torch.einsum("ed,ekd->ek", features[batch.owner], heads[batch.worker]) + bias[batch.worker]
    return nn.functional.cross_entropy(scores, batch.label, reduction="sum")


def head_probabilities(features: Tensor, heads: Tensor, bias: Tensor) -> Tensor:
    """What these heads (m, K, D) say of every task: (B, m, K)."""
    return (torch.einsum("bd,mkd->bmk", features, heads) + bias).softmax(dim=2)


def weighting_cost(said: Tensor, log_weights: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of a task's labels under the weighted mean of those who did not give them, summed over tasks.

    Parameters
    ----------
    said : (B, M, K)
        Opinions of all heads, which stay as they are.
    log_weights : (M,)
        Averaging logits.
    """
    size, n_workers, n_classes = said.shape
    spoke = torch.zeros(size, n_workers, dtype=torch.bool, device=said.device)
    spoke[batch.owner, batch.worker] = True
    mute = (log_weights <= ABSENT).expand(size, -1)
    nobody_else = (spoke | mute).all(dim=1, keepdim=True)
    share = log_weights.masked_fill(spoke & ~nobody_else, ABSENT).softmax(dim=1)
    mean = torch.einsum("bm,bmk->bk", share, said).clamp(min=SMALLEST)
    votes = said.new_zeros(size, n_classes)
    votes.index_put_((batch.owner, batch.label), votes.new_ones(()), accumulate=True)
    votes = votes / votes.sum(dim=1, keepdim=True).clamp(min=1)
    return -(votes * mean.log()).sum()


class DoctorObjective(Objective):
    """A linear head for each worker and, in a second stage, the weights of their mean."""

    def __init__(self, crowd: Crowd, n_features: int, *, weighted: bool) -> None:
        super().__init__(crowd)
        reach = 1 / math.sqrt(n_features)  # as torch starts a linear layer

        def draw(values: Tensor) -> Tensor:
            return values.uniform_(-reach, reach)

        self.heads = nn.Parameter(draw_for_workers(crowd, (crowd.n_classes, n_features), draw))
        self.bias = nn.Parameter(draw_for_workers(crowd, (crowd.n_classes,), draw))
        self.logits = nn.Parameter(torch.zeros(crowd.n_workers, device=self.device), requires_grad=weighted)
        self.heard: Tensor
        self.register_buffer("heard", torch.bincount(crowd.worker, minlength=crowd.n_workers) > 0)
        self.weighted, self.weighing = weighted, False

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:
        """Begin the second stage in time."""
        del forecast
        self.weighing = self.weighted and epoch >= self.n_epochs - self.n_epochs // STAGE

    def log_weights(self) -> Tensor:
        """Averaging logits of the workers (M,)."""
        return self.logits.masked_fill(~self.heard, ABSENT)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Cross-entropy of the labels, first under their workers' heads, then under the mean of the others'."""
        if not self.weighing:
            return divide_by_tasks(head_cost(seen.features, self.heads, self.bias, batch), batch)
        with torch.no_grad():
            said = head_probabilities(seen.features, self.heads, self.bias)
        return divide_by_tasks(weighting_cost(said, self.log_weights(), batch), batch)

    def log_f(self, seen: NetworkOutput) -> Tensor:
        """The mean of all heads, as log-probabilities (B, K)."""
        share = self.log_weights().softmax(dim=0)
        step = max(MOST_HELD // max(self.bias.shape[1] * len(seen.features), 1), 1)
        mean = seen.logits.new_zeros(seen.logits.shape)
        for first in range(0, len(share), step):
            part = slice(first, first + step)
            said = head_probabilities(seen.features, self.heads[part], self.bias[part])
            mean = mean + torch.einsum("m,bmk->bk", share[part], said)
        return mean.clamp(min=SMALLEST).log()


@estimator
class DoctorNet(Learner):
    """A classifier for each worker on a trunk that all share; their mean decides.

    Facts of doctor-net
    -------------------
    Assumes: a head for each worker on a shared trunk; their mean decides
    Fails with: most workers weak, few labels per worker
    Paper: Guan et al. 2018, AAAI

    Facts of weighted-doctor-net
    ----------------------------
    Assumes: a head for each worker on a shared trunk; their mean, with weights learnt afterwards, decides
    Fails with: most workers weak, few labels per worker
    Paper: Guan et al. 2018, AAAI

    Parameters
    ----------
    weighted
        Learn weights of the mean in the last quarter of the epochs, with all else fixed. With `patience`, training may
        stop before.

    Notes
    -----
    When it fails: most workers are weak or say the same whatever they see, for the mean of what they would say is as
    weak; workers have few labels to train a head with.

    The last layer of `network_` is not trained: what the heads say together is `predict_proba`.

    Where `worker_learning_rate`, the heads', is None, it is
    `learning_rate`.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features()
    >>> cw.DoctorNet(network="mlp", epochs=10).fit(X, labels).score(X, truth) > 0.9
    True
    """

    family = HEADS
    models_workers = False
    variants = (
        Variant("doctor-net"),
        Variant("weighted-doctor-net", parameters={"weighted": True}, alternates=True),
    )
    workers_faster: ClassVar[float] = 1.0  # a worker's head is the last layer of a network

    weighted: bool = False

    @property
    def slug(self) -> str:  # type: ignore[override]
        """Its name on the command line."""
        return "weighted-doctor-net" if self.weighted else "doctor-net"

    def _check(self) -> None:
        check_flag("weighted", self.weighted)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        return DoctorObjective(crowd, representation_width(classifier, features), weighted=self.weighted)
