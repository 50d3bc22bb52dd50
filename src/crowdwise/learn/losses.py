"""Losses over edges: a label costs what the classifier and its worker's model make of it; an absent one nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch

__all__ = [
    "SMALLEST",
    "coupled_probability",
    "coupled_sum",
    "cross_entropy_to",
    "log_det",
    "per_label",
    "per_task",
    "winners",
]

SMALLEST = 1e-10  # probabilities are clipped here before a logarithm is taken: listing 3 of 000


def coupled_probability(f: Tensor, confusion: Tensor, batch: Batch) -> Tensor:
    """P(label | x) = Σ_k f[x, k] A[worker, k, label] of each label (E,)."""
    return (f[batch.owner] * confusion[batch.worker, :, batch.label]).sum(dim=1)


def coupled_sum(f: Tensor, confusion: Tensor, batch: Batch) -> Tensor:
    """Coupled cross-entropy: −Σ log P(label | x) over the labels of the batch."""
    return -coupled_probability(f, confusion, batch).clamp(min=SMALLEST).log().sum()


def per_task(total: Tensor, batch: Batch) -> Tensor:
    """A sum over a batch's labels as the mean over its tasks, as in listing 3 of 000."""
    return total / max(len(batch), 1)


def cross_entropy_to(posterior: Tensor, logits: Tensor) -> Tensor:
    """Mean over tasks of −Σ_k q[k] log f[k]."""
    return -(posterior * logits.log_softmax(dim=1)).sum(dim=1).mean()


def log_det(gram: Tensor, ridge: float) -> Tensor:
    """Log-determinant of a Gram matrix (K, K), which a small ridge keeps finite where it has not full rank."""
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    volume: Tensor = torch.linalg.slogdet(gram + ridge * eye).logabsdet
    return volume


def per_label(total: Tensor, batch: Batch) -> Tensor:
    """A sum over a batch's labels as their mean, as in 002; 0 where there are none."""
    return total / max(len(batch.label), 1)


def winners(shares: Tensor) -> Tensor:
    """All of a row's weight on its largest element (N, K); even among those that tie, as a draw would be on average."""
    # Shares that differ by rounding alone tie.
    best = (shares >= shares.max(dim=1, keepdim=True).values - 1e-6).to(shares.dtype)
    return best / best.sum(dim=1, keepdim=True)
