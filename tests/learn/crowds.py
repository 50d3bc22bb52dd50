"""Small crowds with features, a ragged handful of labels, and batches of them, for tests of learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crowdwise.labels import CrowdLabels
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
from crowdwise.simulate import simulate_workers

N_CLASSES, N_WORKERS, N_TASKS, WIDTH = 3, 5, 5, 4  # worker 4 has no label


@dataclass(frozen=True)
class Crowded:
    """Features, the truth, its labels, and the matrices that the labels were drawn with."""

    X: Any
    truth: Any
    labels: CrowdLabels
    confusion: Any


def crowded(
    n_tasks: int = 32,
    n_classes: int = 3,
    n_workers: int = 4,
    per_task: int = 3,
    *,
    skill: float = 1.0,
    apart: float = 6.0,
    n_features: int = 5,
    seed: int = 0,
) -> Crowded:
    """Every class is there and has a direction of its own; workers are right with probability `skill`."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n_tasks) % n_classes)
    centres = np.linalg.qr(rng.normal(size=(max(n_classes, n_features),) * 2))[0][:n_classes, :n_features]
    X = rng.normal(size=(n_tasks, n_features)) * 0.5 + apart * centres[truth]
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    task = np.repeat(np.arange(n_tasks), per_task)
    confusion = np.full((n_workers, n_classes, n_classes), (1 - skill) / (n_classes - 1))
    confusion[:, np.arange(n_classes), np.arange(n_classes)] = skill
    wrong = (truth[task] + rng.integers(1, n_classes, task.size)) % n_classes
    label = np.where(rng.random(task.size) < skill, truth[task], wrong)
    names = {"tasks": n_tasks, "workers": n_workers, "classes": n_classes}
    return Crowded(X, truth, CrowdLabels.from_codes(task, worker, label, **names), confusion)


def ragged(n_classes: int = N_CLASSES, seed: int = 0) -> CrowdLabels:
    """Five tasks: with four labels, with one, with none, with two and with three."""
    label = np.random.default_rng(seed).integers(0, n_classes, 10)
    task, worker = [0, 0, 0, 0, 1, 3, 3, 4, 4, 4], [0, 1, 2, 3, 2, 0, 3, 1, 2, 3]
    return CrowdLabels.from_codes(task, worker, label, tasks=N_TASKS, workers=N_WORKERS, classes=n_classes)


def crowd_of(n_classes: int) -> Crowd:
    """The same as a crowd, of other labels for each number of classes."""
    return Crowd(ragged(n_classes, seed=n_classes))


def whole(crowd: Crowd) -> Batch:
    """All tasks as one batch."""
    task, edge = torch.arange(crowd.n_tasks), torch.arange(crowd.n_labels)
    return Batch(torch.zeros(crowd.n_tasks, 1), task, crowd.task, crowd.worker, crowd.label, edge)


def one_task(crowd: Crowd, task: int) -> Batch:
    edge = torch.arange(int(crowd.ptr[task]), int(crowd.ptr[task + 1]))
    owner = torch.zeros(len(edge), dtype=torch.int64)
    return Batch(torch.zeros(1, 1), torch.tensor([task]), owner, crowd.worker[edge], crowd.label[edge], edge)


def seen_of(n_tasks: int, n_classes: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> NetworkOutput:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_tasks, n_classes, generator=generator).to(dtype).requires_grad_()
    features = torch.randn(n_tasks, WIDTH, generator=generator).to(dtype).requires_grad_()
    return NetworkOutput(logits, features)


def shaken(module: Any, seed: int = 1) -> Any:
    """The module in double precision, its parameters moved away from their start."""
    generator = torch.Generator().manual_seed(seed)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator).double())
    return module


def finite_where_little_is_known(make: Any) -> None:
    """No label, one task, few and many classes, both precisions: `make(crowd)` must cost a finite number."""
    for n_classes in (2, 7):
        for dtype in (torch.float32, torch.float64):
            crowd = crowd_of(n_classes)
            objective = make(crowd).to(dtype)
            objective.n_epochs = 3
            objective.begin_epoch(0, lambda crowd=crowd: crowd.task_vote_shares().clamp(min=1e-3).log())
            for task in (0, 1, 2):
                seen = seen_of(1, n_classes, dtype)
                loss = objective.loss(seen, one_task(crowd, task))
                loss.backward()
                assert loss.dtype == dtype
                assert loss.isfinite()
                for parameter in objective.parameters():
                    assert parameter.grad is None or parameter.grad.isfinite().all()
            matrices = objective.confusion()
            assert matrices.shape == (crowd.n_workers, n_classes, n_classes)
            torch.testing.assert_close(matrices.sum(dim=2), torch.ones_like(matrices[..., 0]))


def same_with_gradients(ours: torch.Tensor, theirs: torch.Tensor, over: Any) -> None:
    """Two losses agree, and so do their gradients with respect to all of `over`."""
    over = list(over)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    mine = torch.autograd.grad(ours, over, allow_unused=True)
    other = torch.autograd.grad(theirs, over, allow_unused=True)
    for first, second in zip(mine, other, strict=True):
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            torch.testing.assert_close(first, second, rtol=1e-6, atol=1e-8)


def without_labels() -> Batch:
    """The one task that has none."""
    return one_task(crowd_of(N_CLASSES), 2)


def logits_of(n_classes: int = N_CLASSES, seed: int = 1) -> torch.Tensor:
    """What a network might say of the five tasks, with a gradient."""
    return seen_of(N_TASKS, n_classes, seed=seed).logits


def three_classes(n_tasks: int = 300, seed: int = 0) -> tuple[Any, CrowdLabels, Any, Any]:
    """Features, labels, truth and true matrices: workers who are right at .9, .8 and .7, and one who swaps two."""
    eye, even = np.eye(3), np.full((3, 3), 1 / 3)
    swaps = np.array([[0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    confusion = np.stack([*(right * eye + (1 - right) * even for right in (0.85, 0.7, 0.55)), swaps])
    rng = np.random.default_rng(seed)
    simulated = simulate_workers(confusion, n_tasks=n_tasks, random_state=seed)
    centres = 2.5 * np.array([[0, 1], [-1, -1], [1, -1]])
    X = (centres[simulated.truth] + rng.normal(size=(n_tasks, 2))).astype(np.float32)
    return X, simulated.labels, simulated.truth, confusion
