"""COINNet: coupled cross-entropy, and a few tasks on which workers err in ways of their own.

The generative story. The truth of task t is drawn from f(x_t), a network's softmax. On most tasks worker w, seeing
truth k, says l with probability A[w, k, l]. On a few, outliers, the features mislead: P(label of w) = A_w f(x_t) +
e[t, w], with any e that leaves a distribution. Who the outliers are is not known; that they are few is. So a task pays
for having any e at all, hardly more for a large one, and f is not bent to explain labels that it cannot.

T. Nguyen, S. Ibrahim and X. Fu (2024), "Noisy label learning with instance-dependent outliers: identifiability via
crowd wisdom", NeurIPS; slides "Implementation: COINNet" of Ibrahim et al. 2025.

| equation of Ibrahim et al. 2025 | here |
|---|---|
| L_CE = 1/S Σ CE(A_m f(x_n) + e, label) | `outlier_label_probability`, `losses.divide_by_labels` |
| e ∈ 𝓔: zero sum; the sum with A f clipped, normalised | `project_to_zero_sum`, `outlier_label_probability` |
| L_outlier = Σ_n (Σ_m ‖e‖² + ζ)^(p/2) | `outlier_penalty`, as the mean over the tasks of a batch |
| L_vol = − log det(F Fᵀ) | `losses.volume_of_outputs` |
| score s_n = Σ_m ‖e‖² | `CoinObjective.task_columns` |

A step costs O(labels of the batch × K²) beside the network; e takes K numbers for each *label*, never tasks × workers,
and as much twice for Adam, which steps through all of them.

Departures: Ibrahim et al. 2025 do not say what 𝓔 is, nor ζ, p, μ₁ and μ₂; they are those of the authors' program: e has
mean zero over the classes, A f + e is clipped below at 1e-10 and divided by its sum, ζ = 1e-10, p = 0.4, μ₁ = μ₂ =
0.01, and the outlier term is a mean over the tasks of a batch. The matrices start as those of Tanno et al. 2019 (the
program's start at a softmax of I, which says little of who is right); the log-determinant has GeoCrowdNet's ridge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import INSTANCES
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.learn.base import Learner
from crowdwise.learn.geo_crowd_net import RIDGE
from crowdwise.learn.losses import SMALLEST, divide_by_labels, divide_by_tasks, volume_of_outputs
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import Confusions

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["CoinNet"]

ZETA = 1e-10  # keeps the root's gradient finite at e = 0


def project_to_zero_sum(free: Tensor) -> Tensor:
    """Vectors (E, K) moved so that each sums to zero: what may be added to a distribution."""
    return free - free.mean(dim=1, keepdim=True)


def outlier_label_probability(f: Tensor, confusion: Tensor, e: Tensor, batch: Batch) -> Tensor:
    """P(label) by A_w f + e of each label (E,), clipped and normalised so that it stays a distribution."""
    mixed = torch.einsum("ek,ekl->el", f[batch.owner], confusion[batch.worker]) + e
    mixed = mixed.clamp(min=SMALLEST)
    return mixed.gather(1, batch.label[:, None]).squeeze(1) / mixed.sum(dim=1)


def outlier_norms(e: Tensor, owner: Tensor, n_tasks: int) -> Tensor:
    """Sum over a task's labels of ‖e‖²: (n_tasks,)."""
    return e.new_zeros(n_tasks).index_add(0, owner, e.square().sum(dim=1))


def outlier_penalty(e: Tensor, batch: Batch, power: float) -> Tensor:
    """Sum over the batch's tasks of (Σ_w ‖e‖² + ζ)^(p/2)."""
    return (outlier_norms(e, batch.owner, len(batch)) + ZETA).pow(power / 2).sum()


class CoinObjective(Objective):
    """Coupled cross-entropy with outliers, their price, and the volume of the classifier's outputs."""

    owner: Tensor

    def __init__(self, crowd: Crowd, outlier_price: float, power: float, strength: float) -> None:
        super().__init__(crowd)
        self.workers = Confusions(crowd.n_workers, crowd.n_classes)
        self.free = nn.Parameter(torch.zeros(crowd.n_labels, crowd.n_classes))
        # The labels that e belongs to: after training, `crowd` has those held out as well.
        self.register_buffer("owner", crowd.task.clone())
        self.outlier_price, self.power, self.strength = outlier_price, power, strength

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """L_CE + μ₁ L_outlier + μ₂ L_vol of the batch."""
        f = seen.logits.softmax(dim=1)
        e = project_to_zero_sum(self.free[batch.edge])
        cost = divide_by_labels(-outlier_label_probability(f, self.workers(), e, batch).log().sum(), batch)
        price = divide_by_tasks(outlier_penalty(e, batch, self.power), batch)
        return cost + self.outlier_price * price - self.strength * volume_of_outputs(f, RIDGE)

    def confusion(self) -> Tensor:
        """Each worker's matrix, on tasks that are no outliers."""
        matrices: Tensor = self.workers()
        return matrices

    def task_columns(self) -> dict[str, Tensor]:
        """How odd each task is, from 0."""
        odd = outlier_norms(project_to_zero_sum(self.free), self.owner, self.crowd.n_tasks)
        learnt = torch.zeros_like(odd, dtype=torch.bool)
        learnt[self.owner] = True
        return {"oddness": odd.where(learnt, torch.nan)}


@estimator
class CoinNet(Learner):
    """A classifier and confusion matrices at once, with outliers: tasks whose labels neither is made to explain.

    `consensus()` has a column `oddness`, s = Σ ‖e‖² over a task's labels: the higher, the more its labels are at odds
    with what its features and its workers' other answers say. Tasks held out to choose the epoch, and those without
    labels, have none (not a number); `held_out=0` scores all.

    Facts
    -----
    Assumes: as coupled-ce, with a few tasks on which everyone errs in a way of their own
    Fails with: many odd tasks, one label a task
    Paper: Nguyen et al. 2024, NeurIPS

    Parameters
    ----------
    outlier_price
        μ₁, at least 0: what a task pays to be odd. Too small, and every label is explained by itself.
    power
        p, above 0 and at most 2: the smaller, the fewer outliers; 2 is a plain square.
    strength
        μ₂, at least 0, of the volume of the classifier's outputs, as in GeoCrowdNet "F".

    Notes
    -----
    When it fails: tasks have one label, which says nothing of oddness; many tasks are odd; batches smaller than the
    number of classes. The posterior of features and labels together takes odd labels at face value.

    A label's e moves only when its task is met, by about
    `worker_learning_rate` each time: with few epochs, that must be larger; too large, and every label is odd. Where it
    is None, it is `learning_rate`.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features()
    >>> model = cw.CoinNet(network="linear", epochs=30, learning_rate=0.01).fit(X, labels)
    >>> model.score(X, truth) > 0.9, "oddness" in model.consensus().column_names
    (True, True)
    """

    slug = "coinnet"
    saved = (SavedArray("task_columns/oddness", "N", low=0, missing=True),)
    family = INSTANCES
    workers_faster: ClassVar[float] = (
        1.0  # e of a label is met once an epoch: steps as large as the matrices' overshoot
    )

    outlier_price: float = 0.01
    power: float = 0.4
    strength: float = 0.01

    def _check(self) -> None:
        check_number("outlier_price", self.outlier_price, low=0)
        check_number("power", self.power, low=0, high=2, above=True)
        check_number("strength", self.strength, low=0)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return CoinObjective(crowd, self.outlier_price, self.power, self.strength)
