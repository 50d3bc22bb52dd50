"""Losses over edges: a label costs what the classifier and its worker's model make of it; an absent one nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd

__all__ = [
    "SMALLEST",
    "coupled_cross_entropy",
    "coupled_probability",
    "cross_entropy_to",
    "divide_by_labels",
    "divide_by_tasks",
    "label_probability",
    "log_det",
    "noisy_log_likelihood",
    "one_hot_winners",
    "volume_of_outputs",
]

SMALLEST = 1e-10  # probabilities are clipped here before a logarithm is taken: listing 3 of Tanno et al. 2019


def coupled_probability(f: Tensor, confusion: Tensor, batch: Batch) -> Tensor:
    """P(label | x) = Σ_k f[x, k] A[worker, k, label] of each label (E,)."""
    return label_probability(f, confusion[batch.worker, :, batch.label], batch)


def label_probability(f: Tensor, said: Tensor, batch: Batch) -> Tensor:
    """The same from said[e, k] = A[worker of e, k, label of e] (E, K)."""
    return (f.index_select(0, batch.owner) * said).sum(dim=1)


def coupled_cross_entropy(f: Tensor, confusion: Tensor, batch: Batch) -> Tensor:
    """Coupled cross-entropy: −Σ log P(label | x) over the labels of the batch."""
    return -coupled_probability(f, confusion, batch).clamp(min=SMALLEST).log().sum()


def divide_by_tasks(total: Tensor, batch: Batch) -> Tensor:
    """A sum over a batch's labels as the mean over its tasks, as in listing 3 of Tanno et al. 2019."""
    return total / max(len(batch), 1)


def cross_entropy_to(posterior: Tensor, logits: Tensor) -> Tensor:
    """Mean over tasks of −Σ_k q[k] log f[k]."""
    return -(posterior * logits.log_softmax(dim=1)).sum(dim=1).mean()


def log_det(gram: Tensor, ridge: float) -> Tensor:
    """Log-determinant of a Gram matrix (K, K), which a small ridge keeps finite where it has not full rank."""
    gram = gram.to(torch.promote_types(gram.dtype, torch.float32))  # there is no determinant in half precision
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    volume: Tensor = torch.linalg.slogdet(gram + ridge * eye).logabsdet
    return volume


def one_hot_winners(shares: Tensor) -> Tensor:
    """All of a row's weight on its largest element (N, K); even among those that tie, as a draw would be on average."""
    # Shares that differ by rounding alone tie.
    best = (shares >= shares.max(dim=1, keepdim=True).values - 1e-6).to(shares.dtype)
    return best / best.sum(dim=1, keepdim=True)


def divide_by_labels(total: Tensor, batch: Batch) -> Tensor:
    """A sum over a batch's labels as their mean, as in Ibrahim et al. 2025; 0 where there are none."""
    return total / max(len(batch.label), 1)


def volume_of_outputs(f: Tensor, ridge: float) -> Tensor:
    """Logarithm of det(F Fᵀ) of the classifier's outputs (B, K), which are the columns of Ibrahim et al.'s F."""
    return log_det(f.T @ f, ridge)


def noisy_log_likelihood(log_f: Tensor, crowd: Crowd) -> Tensor:
    """Mean log-probability of labels under the classifier (N, K), mixed with guesses as suits the labels best: ().

    A classifier that is as sure as it should be of the truth is surer than of any label. Without the guesses, an epoch
    in which it is as vague as the labels would be taken for the best; with them, sharpness costs nothing, while a
    classifier that swaps classes gains nothing.
    """
    chance = log_f.exp()[crowd.task, crowd.label]
    shares = torch.linspace(0, 1, 21, dtype=chance.dtype, device=chance.device)
    fits = [(share * chance + (1 - share) / log_f.shape[1]).clamp(min=SMALLEST).log().mean() for share in shares]
    return torch.stack(fits).max()
