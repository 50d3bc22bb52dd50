"""Small crowds with features, for tests of learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.labels import CrowdLabels

__all__ = ["Crowded", "crowded"]


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
