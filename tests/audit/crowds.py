"""Crowds for the audit's tests: honest ones of every kind, and ones with a bias or with drift planted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.simulate.assignment import assign
from crowdwise.simulate.draws import draw_from_rows
from crowdwise.simulate.workers import draw_skilled_confusion

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, IntArray


DRIFTERS = (0, 1, 2)


class Crowd(NamedTuple):
    labels: CrowdLabels
    truth: IntArray


def honest(
    n_tasks: int,
    n_workers: int,
    n_classes: int,
    per_task: int | None,
    rng: np.random.Generator,
    *,
    skill: float = 0.8,
    concentration: float = 20.0,
    prior: object = None,
    hard: float | BoolArray = 0.0,
    unequal: bool = False,
) -> Crowd:
    """Independent workers, some tasks hard: there half of the labels are drawn towards one wrong class, or guessed."""
    truth = rng.choice(n_classes, n_tasks, p=prior)  # type: ignore[arg-type]
    confusion = draw_skilled_confusion(n_workers, n_classes, rng, skill=skill, concentration=concentration)
    if unequal and per_task is not None:  # a few workers do most
        volume = np.log(rng.pareto(1.0, n_workers) + 0.05) + rng.gumbel(size=(n_tasks, n_workers))
        worker = np.argsort(-volume, axis=1)[:, :per_task].ravel()
        task = np.repeat(np.arange(n_tasks), per_task)
    else:
        task, worker = assign(n_tasks, n_workers, per_task, rng)
    label = draw_from_rows(worker, truth[task], confusion, rng).astype(np.int64)
    lure = (truth + rng.integers(1, n_classes, n_tasks)) % n_classes
    trapped = (rng.random(n_tasks) < hard)[task] & (rng.random(task.size) < 0.5)
    guess = rng.integers(0, n_classes, task.size)
    label[trapped] = np.where(rng.random(task.size) < 0.6, lure[task], guess)[trapped]
    return Crowd(
        CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes), truth
    )


def varied(seed: int) -> Crowd:
    """An honest crowd of a size, skill, balance and volume drawn at random."""
    rng = np.random.default_rng(seed)
    n_tasks, n_workers = (int(np.exp(rng.uniform(np.log(a), np.log(b)))) for a, b in ((20, 1500), (3, 100)))
    n_classes = int(rng.integers(2, 8))
    everyone = rng.random() < 0.2 and n_tasks * n_workers < 40_000
    return honest(
        n_tasks,
        n_workers,
        n_classes,
        None if everyone else int(rng.integers(2, min(n_workers, 8) + 1)),
        rng,
        skill=rng.uniform(1 / n_classes + 0.1, 0.95),
        concentration=float(rng.choice([3.0, 10.0, 50.0])),
        prior=rng.dirichlet(np.ones(n_classes) * 3),
        hard=float(rng.choice([0.0, 0.3])),
        unequal=bool(rng.random() < 0.5),
    )


def relabelled(crowd: Crowd, edges: BoolArray, label: int) -> Crowd:
    """The same crowd with some of its labels changed to one class."""
    labels = crowd.labels
    changed = np.where(edges, label, labels.label)
    return Crowd(
        CrowdLabels.from_codes(
            labels.task, labels.worker, changed, tasks=labels.tasks, workers=labels.workers, classes=labels.classes
        ),
        crowd.truth,
    )


def drifting(seed: int, *, better: bool = False) -> tuple[CrowdLabels, np.ndarray]:
    """Three of thirty workers guess 60 % of their labels in the last 40 % of the time (or, better, the first)."""
    rng = np.random.default_rng(seed)
    labels = honest(3000, 30, 3, 5, rng).labels
    time = rng.random(labels.n_labels)
    late = time < 0.4 if better else time > 0.6
    guessed = np.isin(labels.worker, DRIFTERS) & late & (rng.random(labels.n_labels) < 0.6)
    label = np.where(guessed, rng.integers(0, 3, labels.n_labels), labels.label)
    return CrowdLabels.from_codes(labels.task, labels.worker, label, tasks=3000, workers=30, classes=3), time
