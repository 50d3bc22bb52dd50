"""Worker models: confusion matrices as parameters, rows on the simplex, and what they say of the labels of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.parameter_checks import as_numbers
from crowdwise.fitting.variational import diagonal_prior
from crowdwise.labels.errors import InputError, quote
from crowdwise.learn.lazy_adam import take_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Crowd

__all__ = [
    "Confusions",
    "LabelEntriesAndDiagonal",
    "MeanConfusions",
    "SoftmaxConfusions",
    "confusion_pseudo_counts",
    "dirichlet_logs",
    "draw_for_workers",
    "fit_confusions_to_classifier",
    "log_posterior_given_labels",
    "smooth_rows",
    "soft_counts",
    "soft_counts_rows",
    "vote_confusions",
]

CATCHING_UP = 10  # steps of EM after training, where matrices may lag behind
RIGHT_AND_WRONG = (2.0, 1.0)  # every worker's pseudo-answers in the experiments of Kim et al. 2022 with a wrong prior


class Confusions(nn.Module):
    """A[w, truth, label] = softplus(ρ) over its row sum, from ρ = 6·I − 5: listing 2 of Tanno et al. 2019."""

    def __init__(self, n_workers: int, n_classes: int) -> None:
        super().__init__()
        start = 6.0 * torch.eye(n_classes) - 5.0
        self.rho = nn.Parameter(start.repeat(n_workers, 1, 1))

    def forward(self) -> Tensor:
        """All matrices (M, K, K)."""
        return _normalise(self.rho)

    def mean_trace(self) -> Tensor:
        """Mean over all workers of tr(A)."""
        matrices: Tensor = self()
        return matrices.diagonal(dim1=1, dim2=2).sum(dim=1).mean()

    def label_entries_and_diagonal(self, worker: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """A[worker, :, label] of labels (E, K), and the diagonals of all matrices (M, K), in few passes over ρ."""
        return LabelEntriesAndDiagonal.apply(self.rho, worker, label)  # type: ignore[no-any-return, no-untyped-call]

    def entries_of_some(self, rows: Tensor, place: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """The same of the workers `rows` (R,) alone, among whom `place` (E,) is each label's: (E, K) and (R, K)."""
        some = take_rows(self.rho, rows)
        return LabelEntriesAndDiagonal.apply(some, place, label)  # type: ignore[no-any-return, no-untyped-call]


class LabelEntriesAndDiagonal(torch.autograd.Function):
    """What a step of trace regularisation needs of A = p / s, p = softplus(ρ), s[w, k] its row sums, and no more.

    The gradient g of A is zero but for the diagonals and the batch's labels. With c[w, k] = Σ_l g[w, k, l] A[w, k, l],
    that of ρ is (g − c) σ(ρ) / s: one dense pass for c, and the few elements of g added to it. Adam reads all of it at
    each step in any case; autograd would write (M, K, K) a dozen times to get there.
    """

    @staticmethod
    def forward(ctx: Any, rho: Tensor, worker: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """A[worker, :, label] (E, K) and A[w, k, k] (M, K)."""
        n_classes = rho.shape[-1]
        positive = functional.softplus(rho)
        total = positive @ positive.new_ones(n_classes)  # faster than a sum over a short dimension
        place = torch.arange(0, n_classes**2, n_classes, device=rho.device) + (worker * n_classes**2 + label)[:, None]
        total_said = total.index_select(0, worker)
        said = positive.take(place).div_(total_said)
        diagonal = positive.diagonal(dim1=1, dim2=2) / total
        ctx.save_for_backward(rho, worker, place, total, total_said, said, diagonal)
        return said, diagonal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_said: Tensor, of_diagonal: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of ρ."""
        rho, worker, place, total, total_said, said, diagonal = ctx.saved_tensors
        gradient = torch.sigmoid(rho)
        at_labels = gradient.take(place).mul_(of_said).div_(total_said)
        at_diagonal = (gradient.diagonal(dim1=1, dim2=2) * of_diagonal).div_(total)
        centre = (of_diagonal * diagonal).index_add_(0, worker, of_said * said)
        gradient.mul_(centre.div_(total).neg_().unsqueeze(-1))
        gradient.diagonal(dim1=1, dim2=2).add_(at_diagonal)
        gradient.view(-1).index_add_(0, place.view(-1), at_labels.view(-1))
        return gradient, None, None


def _normalise(rho: Tensor) -> Tensor:
    positive = functional.softplus(rho)
    return positive / positive.sum(dim=-1, keepdim=True)


class SoftmaxConfusions(nn.Module):
    """A[w, truth, :] = softmax(ρ[w, truth, :]), from given matrices."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.rho = nn.Parameter(start.clamp(min=1e-6).log())

    def forward(self) -> Tensor:
        """All matrices (M, K, K)."""
        return self.rho.softmax(dim=-1)

    def label_entries_and_diagonal(self, worker: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """A[worker, :, label] of labels (E, K), and the diagonals of all matrices (M, K)."""
        matrices: Tensor = self()
        return matrices[worker, :, label], matrices.diagonal(dim1=1, dim2=2)


def log_posterior_given_labels(log_f: Tensor, owner: Tensor, log_said: Tensor) -> Tensor:
    """Normalised log f(x) + Σ over a task's labels of log P(label | truth): (B, K).

    Parameters
    ----------
    log_f : (B, K)
    owner : (E,)
        Position in the batch of each label's task.
    log_said : (E, K)
        log A[worker, :, label] of each label.
    """
    return log_f.index_add(0, owner, log_said).log_softmax(dim=1)


def soft_counts(crowd: Crowd, posterior: Tensor) -> Tensor:
    """Σ over a worker's labels l of q[t, k]: (M, K, K) [worker, truth, label]. The M-step's counts."""
    return soft_counts_rows(posterior[crowd.task], crowd.worker, crowd.label, crowd.n_workers)


def soft_counts_rows(rows: Tensor, worker: Tensor, label: Tensor, n_workers: int) -> Tensor:
    """The same from q of each label's task, (E, K)."""
    n_classes = rows.shape[1]
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))  # in half precision, sums stop at 256
    counts = rows.new_zeros(n_workers * n_classes, n_classes)
    counts.index_add_(0, worker * n_classes + label, rows)
    return counts.view(n_workers, n_classes, n_classes).transpose(1, 2)


def confusion_pseudo_counts(alpha: Any, n_classes: int, *, pair: bool = False) -> FloatArray:
    """Pseudo-counts (K, K) [truth, label] of workers' rows: from a matrix, or a pair of right and, spread, wrong.

    None is (2, 1). With `pair`, a matrix is refused.
    """
    given = as_numbers(RIGHT_AND_WRONG if alpha is None else alpha, "alpha")
    shapes = [(2,)] if pair else [(2,), (n_classes, n_classes)]
    if given.shape not in shapes or not (given > 0).all() or not np.isfinite(given).all():
        also = "" if pair else f", or an array of shape {(n_classes, n_classes)}"
        raise InputError(f"alpha is {quote(given.tolist())}; it must be two numbers above 0{also}.")
    return diagonal_prior(given[0], given[1] / (n_classes - 1), n_classes) if given.shape == (2,) else given


def dirichlet_logs(shape: Tensor) -> Tensor:
    """E[log p] for p ~ Dirichlet(shape), along the last axis."""
    return torch.digamma(shape) - torch.digamma(shape.sum(dim=-1, keepdim=True))


def vote_confusions(crowd: Crowd, smoothing: float) -> Tensor:
    """Matrices (M, K, K) counted with the shares of the votes: Cao et al.'s (2019) equation (2), before its logarithm.

    A worker's row is divided by the tasks that they labelled, not by all: their silence says nothing. To each row
    `smoothing` answers like the crowd's are added.
    """
    return smooth_rows(soft_counts(crowd, crowd.task_vote_shares()), smoothing)


def smooth_rows(counts: Tensor, weight: float = 1.0) -> Tensor:
    """Confusion matrices from counts (M, K, K), `weight` answers like the crowd's added to each row."""
    crowd = counts.sum(dim=0) + 1 / counts.shape[2]
    rows = counts + weight * crowd / crowd.sum(dim=1, keepdim=True)
    return rows / rows.sum(dim=2, keepdim=True)


class MeanConfusions(nn.Module):
    """P(label | truth) of each worker in an epoch, where matrices depend on the task as well.

    A row is the mean over a worker's labels, each task weighed by the chance that it is of the row's class. Kept in
    buffers, so that it is the chosen epoch's. The matrices are those that each batch met, before its step.
    """

    total: Tensor
    weight: Tensor

    def __init__(self, n_workers: int, n_classes: int) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(n_workers, n_classes, n_classes))
        self.register_buffer("weight", torch.zeros(n_workers, n_classes))

    def clear_sums(self) -> None:
        """Begin another epoch."""
        self.total.zero_()
        self.weight.zero_()

    @torch.no_grad()
    def add(self, worker: Tensor, matrices: Tensor, f: Tensor) -> None:
        """Take in labels: their workers (E,), matrices (E, K, K) and the classifier's opinion of their tasks (E, K)."""
        f = f.to(self.total.dtype)
        self.total.index_add_(0, worker, f[:, :, None] * matrices.to(self.total.dtype))
        self.weight.index_add_(0, worker, f)

    def forward(self, otherwise: Tensor) -> Tensor:
        """All matrices (M, K, K); rows of `otherwise` (M, K, K) for classes that a worker has not met."""
        met = self.weight[:, :, None]
        return torch.where(met > 1e-6, self.total / met.clamp(min=1e-6), otherwise)


def draw_for_workers(crowd: Crowd, shape: tuple[int, ...], draw: Callable[[Tensor], Tensor]) -> Tensor:
    """Values (M, …) that `draw` fills in place for the workers who have labels; 0 for the others, who cost no draw.

    Workers take their turns in an order of their labels, so that the rows may come in any.
    """
    values = torch.zeros(crowd.n_workers, *shape, device=crowd.device)
    order = torch.as_tensor(order_by_content(crowd.labels).workers, device=crowd.device)
    values[order] = draw(torch.empty(len(order), *shape, device=crowd.device))
    return values


def fit_confusions_to_classifier(crowd: Crowd, log_f: Tensor) -> Tensor:
    """The matrices (M, K, K) that go with a classifier: EM's steps with its log-probabilities (N, K) held fixed.

    The epoch is chosen for the classifier's sake, often long before matrices that start at the identity have arrived.
    """
    confusion = smooth_rows(soft_counts(crowd, log_f.exp()))
    for _ in range(CATCHING_UP):
        said = confusion[crowd.worker, :, crowd.label].log()
        confusion = smooth_rows(soft_counts(crowd, log_posterior_given_labels(log_f, crowd.task, said).exp()))
    return confusion
