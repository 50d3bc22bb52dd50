"""A ragged handful of labels, and batches of them, for the oracles of losses."""

from __future__ import annotations

import numpy as np
import torch

import crowdwise as cw
from crowdwise.learn.batches import Batch, Crowd

N_CLASSES, N_WORKERS, N_TASKS = 3, 4, 5


def ragged(n_classes: int = N_CLASSES, seed: int = 0) -> cw.CrowdLabels:
    """Five tasks: with four labels, with one, with none, with two and with three."""
    label = np.random.default_rng(seed).integers(0, n_classes, 10)
    task, worker = [0, 0, 0, 0, 1, 3, 3, 4, 4, 4], [0, 1, 2, 3, 2, 0, 3, 1, 2, 3]
    return cw.CrowdLabels.from_codes(task, worker, label, tasks=N_TASKS, workers=N_WORKERS, classes=n_classes)


def batch_of(crowd: Crowd) -> Batch:
    """All tasks as one batch."""
    task, edge = torch.arange(crowd.n_tasks), torch.arange(crowd.n_labels)
    return Batch(torch.zeros(crowd.n_tasks, 1), task, crowd.task, crowd.worker, crowd.label, edge)


def without_labels() -> Batch:
    """The one task that has none."""
    none = torch.zeros(0, dtype=torch.int64)
    return Batch(torch.zeros(1, 1), torch.tensor([2]), none, none, none, none)


def logits_of(n_classes: int = N_CLASSES, seed: int = 1) -> torch.Tensor:
    """What a network might say of the five tasks, with a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N_TASKS, n_classes, dtype=torch.float64, generator=generator).requires_grad_()
