"""Worker models: confusion matrices as parameters, rows on the simplex, and what they say of the labels of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Crowd

__all__ = [
    "Confusions",
    "MeanConfusions",
    "SoftmaxConfusions",
    "log_bayes",
    "soft_counts",
    "soft_counts_rows",
]


class Confusions(nn.Module):
    """A[w, truth, label] = softplus(ρ) over its row sum: listing 2 of 000, which starts at ρ = 6·I − 5."""

    def __init__(self, n_workers: int, n_classes: int) -> None:
        super().__init__()
        start = 6.0 * torch.eye(n_classes) - 5.0
        self.rho = nn.Parameter(start.repeat(n_workers, 1, 1))

    def forward(self) -> Tensor:
        """All matrices (M, K, K)."""
        positive = functional.softplus(self.rho)
        return positive / positive.sum(dim=-1, keepdim=True)


class SoftmaxConfusions(nn.Module):
    """A[w, truth, :] = softmax(ρ[w, truth, :]), from given matrices."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.rho = nn.Parameter(start.clamp(min=1e-6).log())

    def forward(self) -> Tensor:
        """All matrices (M, K, K)."""
        return self.rho.softmax(dim=-1)


def log_bayes(log_f: Tensor, owner: Tensor, log_said: Tensor) -> Tensor:
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
    counts = rows.new_zeros(n_workers * n_classes, n_classes)
    counts.index_add_(0, worker * n_classes + label, rows)
    return counts.view(n_workers, n_classes, n_classes).transpose(1, 2)


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

    def forget(self) -> None:
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
