"""Transition matrices that depend on task and worker, learnt from anchors, then kept while the classifier learns.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. Worker w, seeing truth k, says l
with probability T_w(x_t)[k, l]. Learnt all at once, f and so rich a T cannot be told apart; so in stages. First the
classifier learns from all labels; of some tasks it is then sure, and these, the anchors, are taken as known. On them,
what all workers together make of a task is learnt, and from there each worker's own way, where they have labels enough.
With these matrices fixed, the classifier is trained on all labels again.

S. Li, X. Xia, J. Deng, S. Ge and T. Liu (2023), "Transferring annotator- and instance-dependent transition matrix for
learning from crowds", arXiv 2306.03116; H. Guo, B. Wang and G. Yi (2023), "Label correction of crowdsourced noisy
annotations with an instance-dependent noise transition model", NeurIPS; slide "Methods for instance-dependent label
noise" of Ibrahim et al. 2025, which has the stages and no more.

| of the papers | here |
|---|---|
| warm-up: cross-entropy of f with every label | `TransitionObjective.loss`, stage 0 |
| distilled: f > (1 + 0.5) / 2 | `find_anchors` |
| global T(x) from the anchors: − log T(x)[truth, label] | stage 1, one worker for all |
| T_w(x), starting at the global one, for workers with 30 labels | stage 2 |
| f through T_w(x), fixed | stage 3, `instance_trace.losses_of_labels` |

A step costs O(labels of the batch × R K²) beside the network, as `instance_trace`, whose `TransitionHead` this is; R
numbers are kept for every task.

Departures: we know both papers at second hand, from Ibrahim et al. 2025 and from the first one's published program. T
is a head on what the classifier's last layer sees, there a network of its own; the transfer between neighbouring
workers by a graph network is left out, and so is the warm-up's pull towards equal classes. A class needs anchors: the
program begins again until all have some; here, where f is sure of fewer than a quarter of a class, its surest quarter
are taken. Stages are shares of the epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import INSTANCES
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.labels.errors import InputError
from crowdwise.learn.base import Learner
from crowdwise.learn.instance_trace import TransitionHead, losses_of_labels
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

__all__ = ["InstanceTransition"]

WARM_UP, GLOBAL, INDIVIDUAL, CORRECTED = range(4)
ENDS = (0.2, 0.35, 0.5)  # shares of the epochs at which the first three stages end
FEWEST_ANCHORS = 0.25  # share of the tasks of a class
NONE = -1


def training_stage(epoch: int, n_epochs: int) -> int:
    """Which stage an epoch (from 0) belongs to."""
    return sum(epoch >= end * n_epochs for end in ENDS)


def find_anchors(log_f: Tensor, threshold: float) -> Tensor:
    """The class (N,) of each task that the classifier (N, K) is surer of than the threshold; `NONE` for others.

    Where it is sure of few tasks of a class, the surest of that class.
    """
    sure, guess = log_f.exp().max(dim=1)
    known = sure > threshold
    for k in set(guess.tolist()):
        those = sure[guess == k]
        least = those.topk(max(round(FEWEST_ANCHORS * len(those)), 1)).values[-1]
        known |= (guess == k) & (sure >= least)
    return torch.where(known, guess, NONE)


class TransitionObjective(Objective):
    """Four losses, one for each stage. The head has one worker more, last: the crowd as a whole."""

    truth: Tensor
    low: Tensor
    source: Tensor

    def __init__(self, crowd: Crowd, width: int, rank: int, threshold: float, fewest: int) -> None:
        super().__init__(crowd)
        self.head = TransitionHead(crowd.n_workers + 1, crowd.n_classes, width, rank)
        self.mean = MeanConfusions(crowd.n_workers, crowd.n_classes)
        self.register_buffer("truth", torch.full((crowd.n_tasks,), NONE))
        self.register_buffer("low", torch.zeros(crowd.n_tasks, rank))
        self.register_buffer("source", torch.full((crowd.n_workers,), crowd.n_workers))  # whose weights a worker uses
        self.threshold, self.fewest = threshold, fewest
        self.stage = WARM_UP

    def check_restored(self) -> None:
        """Each worker uses their own weights, or the crowd's."""
        own = torch.arange(self.crowd.n_workers)
        if not ((self.source == own) | (self.source == self.crowd.n_workers)).all():
            raise InputError("source names weights that no worker has")

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:
        """At the end of the warm-up, find the anchors; then, when the global matrices are learnt, hand them out."""
        self.mean.clear_sums()
        self.stage = training_stage(epoch, self.n_epochs)
        before = training_stage(epoch - 1, self.n_epochs) if epoch else WARM_UP
        if before < GLOBAL <= self.stage:
            self.truth.copy_(find_anchors(forecast(), self.threshold))
        if before < INDIVIDUAL <= self.stage:
            self.start_worker_weights()

    @torch.no_grad()
    def start_worker_weights(self) -> None:
        """Workers with labels enough on anchors begin with the crowd's weights and go their own ways."""
        for weights in (self.head.weight, self.head.bias):
            weights[:-1] = weights[-1:]
        on_anchors = self.crowd.worker[self.truth[self.crowd.task] != NONE]
        counts = torch.bincount(on_anchors, minlength=self.crowd.n_workers)
        own = torch.arange(self.crowd.n_workers, device=counts.device)
        self.source.copy_(torch.where(counts >= self.fewest, own, self.crowd.n_workers))

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """The loss of the stage, a mean over the labels it is of."""
        low = self.low[batch.task] if self.stage == CORRECTED else self.head.reduce_features(seen.features.detach())
        matrices = self.head.matrices(low[batch.owner], self.source[batch.worker])
        f = seen.logits.softmax(dim=1)
        if self.training:
            self.low[batch.task] = low.detach().to(self.low.dtype)
            self.mean.add(batch.worker, matrices, f[batch.owner])
        if self.stage == WARM_UP:
            every = seen.logits.log_softmax(dim=1)[batch.owner].gather(1, batch.label[:, None])
            cost = divide_by_labels(-every.sum(), batch)
        elif self.stage == CORRECTED:
            cost = divide_by_labels(losses_of_labels(f, matrices.detach(), batch).sum(), batch)
        else:
            cost = self.anchor_loss(matrices, batch)
        # What stands still in this stage has a gradient of 0, not none: DDP must meet every parameter.
        return cost + 0 * (matrices.sum() + low.sum() + seen.logits.sum())

    def anchor_loss(self, matrices: Tensor, batch: Batch) -> Tensor:
        """Mean of − log T(x)[truth, label] over the labels of anchors; 0 where a batch has none."""
        truth = self.truth[batch.task][batch.owner]
        known = (truth != NONE).nonzero().squeeze(1)
        said = matrices[known, truth[known], batch.label[known]].clamp(min=SMALLEST).log()
        return -said.sum() / max(len(known), 1)

    def confusion(self) -> Tensor:
        """Each worker's mean matrix over their labels."""
        matrices: Tensor = self.mean(self.head.matrices_without_features()[self.source])
        return matrices


@estimator
class InstanceTransition(Learner):
    """Confusion matrices that depend on the task, learnt where the classifier is sure, then a classifier through them.

    Facts
    -----
    Assumes: matrices that depend on the features, learnt from tasks of which the classifier is sure
    Fails with: few sure tasks, few labels per worker
    Paper: Li, Xia, Deng, Ge & Liu 2023, arXiv 2306.03116, without its graph network; Guo, Wang & Yi 2023, NeurIPS

    Parameters
    ----------
    threshold
        How sure the classifier must be of a task to take it as known, in [0, 1].
    rank
        R, at least 1: how many numbers of a task the workers' mistakes may depend on.
    fewest
        Labels on such tasks that a worker must have for matrices of their own, at least 1; others have the crowd's.

    Notes
    -----
    When it fails: the classifier of all labels is sure and wrong, as where most of the crowd is; few tasks or labels;
    so few epochs that a stage has none (fewer than 7).

    `worker_learning_rate` is 0.01, as in the first paper's program.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features()
    >>> cw.InstanceTransition(network="linear", epochs=40, learning_rate=0.02).fit(X, labels).score(X, truth) > 0.9
    True
    """

    slug = "tai-dtm"
    family = INSTANCES
    alternates = True

    worker_learning_rate: float | None = 0.01
    threshold: float = 0.75
    rank: int = 8
    fewest: int = 30

    def _check(self) -> None:
        check_number("threshold", self.threshold, low=0, high=1)
        check_count("rank", self.rank)
        check_count("fewest", self.fewest)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        return TransitionObjective(
            crowd, representation_width(classifier, features), self.rank, self.threshold, self.fewest
        )
