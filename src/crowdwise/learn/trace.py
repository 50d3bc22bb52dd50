"""Trace regularisation: coupled cross-entropy, and the workers as confused as the labels allow.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. Worker w, seeing truth k, says l
with probability A[w, k, l], whatever the features. f and A are learnt together by gradient descent. Cross-entropy alone
cannot tell A·P from A for a permuted or blurred classifier P; of all pairs that explain the labels, the one with the
smallest trace of A is the true one where the crowd's mean matrix is diagonally dominant (theorem 1).

R. Tanno, A. Saeedi, S. Sankaranarayanan, D. C. Alexander and N. Silberman (2019), "Learning from noisy labels by
regularized estimation of annotator confusion", CVPR.

| equation of Tanno et al. 2019 | here |
|---|---|
| (2) P(label given x) = Σ_k A[w, k, l] f[k] | `losses.label_probability` |
| (3) the cross-entropy of all labels | `TraceObjective.loss`, as the mean over the tasks of a batch |
| (4) + λ tr(A), algorithm 1 | `trace_penalty` |
| listing 2, ρ = 6·I − 5, softplus, rows normalised | `worker_models.Confusions` |
| listing 3, probabilities clipped at 1e-10 | `losses.SMALLEST` |
| (35) of Kim et al. 2022, + λ tr(log A) | `trace_penalty` with `log=True` |
| appendix D of Kim et al. 2022, softmax(δ·I) | `SoftmaxConfusions`, with `delta` |

A step costs O(labels of the batch × K) beside the network, and O(M K²) for the matrices, the penalty and Adam; O(K²)
for each worker of the batch where the crowd is large beside a batch.

Departures: the penalty is λ times the *mean* of the workers' traces, as in listing 1, where equation (4) has their sum:
with cross-entropy as a mean over tasks, a sum would swamp it as soon as there are many workers. Listing 3's upper clip
at 0.9999999 is left out: it has no gradient to spare.
With more than `LARGE_CROWD` workers for each label of a batch, the penalty of a step is an estimate from the batch's
workers, (N / BM) Σ over labels of tr(A[w]) / n[w] with N tasks, B in the batch and n[w] labels of w, whose mean over
batches is the penalty of all who gave labels; and a worker's matrix moves when they have a label in the batch
(`lazy_adam`). Not so with `clip`, several devices or 16-mixed precision.
After training, `ConfusionLearner` makes matrices that go with the chosen epoch's classifier beside the learnt ones: the
epoch is chosen for the classifier's sake, often before they have come far from their start. Workers without labels have
no part in the penalty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import MATRICES
from crowdwise.fitting.parameter_checks import check_flag, check_number
from crowdwise.learn.confusion_learner import ConfusionLearner
from crowdwise.learn.losses import SMALLEST, divide_by_tasks, label_probability
from crowdwise.learn.objective import ConfusionObjective
from crowdwise.learn.worker_models import Confusions, SoftmaxConfusions

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["TraceRegularized"]


LARGE_CROWD = 2  # below, dense passes over all matrices cost no more than finding the batch's workers


def diagonal_penalties(diagonal: Tensor, *, log: bool) -> Tensor:
    """What is summed of diagonals: A[w, k, k], or its logarithm."""
    return diagonal.clamp(min=SMALLEST).log() if log else diagonal


def trace_penalty(diagonal: Tensor, *, log: bool) -> Tensor:
    """Mean over workers of tr(A), or of tr(log A), from the diagonals (M, K)."""
    return diagonal_penalties(diagonal, log=log).sum() / len(diagonal)


class TraceObjective(ConfusionObjective):
    """Coupled cross-entropy and λ times the mean trace."""

    workers: Confusions | SoftmaxConfusions

    def __init__(self, crowd: Crowd, strength: float, *, log: bool, delta: float | None = None) -> None:
        workers: Confusions | SoftmaxConfusions = Confusions(crowd.n_workers, crowd.n_classes)
        if delta is not None:
            start = (delta * torch.eye(crowd.n_classes)).softmax(dim=1)
            workers = SoftmaxConfusions(start.repeat(crowd.n_workers, 1, 1))
        super().__init__(crowd, workers)
        self.strength, self.log = strength, log
        self.weight: Tensor | None = None  # N / (M n[w]) of each worker, where steps are lazy

    def allow_lazy_steps(self, n_tasks: int, batch_size: int) -> None:
        """Steps over the batch's workers alone, in a crowd that is large beside them."""
        crowd, lazy = self.crowd, isinstance(self.workers, Confusions)
        n_workers = len(crowd.with_labels)
        if lazy and n_workers * n_tasks > LARGE_CROWD * batch_size * crowd.n_labels:
            given = torch.bincount(crowd.worker, minlength=crowd.n_workers).clamp(min=1)
            self.weight = (n_tasks / (n_workers * given)).to(self.workers.rho.dtype)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Equation (4), the first sum as a mean over the batch's tasks, the second as a mean over those with labels."""
        if self.weight is None or not isinstance(self.workers, Confusions):
            said, diagonal = self.workers.label_entries_and_diagonal(batch.worker, batch.label)
            penalty = trace_penalty(self.crowd.select_workers_with_labels(diagonal), log=self.log)
        else:
            rows, place, times = batch.worker.unique(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
            said, diagonal = self.workers.entries_of_some(rows, place, batch.label)
            share = self.weight.index_select(0, rows).mul_(times)
            penalty = divide_by_tasks(share @ diagonal_penalties(diagonal, log=self.log).sum(dim=1), batch)
        chance = label_probability(seen.logits.softmax(dim=1), said, batch)
        cost = divide_by_tasks(-chance.clamp(min=SMALLEST).log().sum(), batch)
        return cost + self.strength * penalty


@estimator
class TraceRegularized(ConfusionLearner):
    """A classifier and confusion matrices at once, the matrices with the smallest trace that explains the labels.

    Works with a single label for each task.

    Facts
    -----
    Assumes: as coupled-ce, with workers as confused as the labels allow
    Fails with: the crowd's mean matrix is not diagonally dominant, copying workers
    Paper: Tanno et al. 2019, CVPR

    Parameters
    ----------
    strength
        λ, at least 0; 0 is coupled cross-entropy from the same start. Too large, and the matrices diffuse.
    log
        Penalise the trace of log A, equation (35) of Kim et al. 2022, instead of A's.
    delta
        δ, at least 0: matrices are softmax(ρ), from ρ = δ·I, as in appendix D of Kim et al. 2022. None: softplus of ρ,
        rows normalised, from ρ = 6·I − 5, as in Tanno et al. 2019.

    Notes
    -----
    When it fails: the crowd's mean matrix is not diagonally dominant (a warning says so), workers copy each other, or a
    worker's mistakes depend on the features.
    """

    slug = "trace"
    is_default = True
    family = MATRICES

    strength: float = 0.01
    log: bool = False
    delta: float | None = None

    def _check(self) -> None:
        check_number("strength", self.strength, low=0)
        check_flag("log", self.log)
        if self.delta is not None:
            check_number("delta", self.delta, low=0)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return TraceObjective(crowd, self.strength, log=self.log, delta=self.delta)
