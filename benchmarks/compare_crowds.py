"""Simulated crowds that keep or break one assumption each, for `benchmarks/compare_ranking.py`.

Every crowd has a truth, workers with confusion matrices, and one thing that may mislead held-out scores:

| crowd | what is broken |
|---|---|
| independent | nothing |
| spammers | nothing: 30 % of the workers answer by a habit, whatever the truth |
| imbalance | nothing: class shares .8, .15, .05 (two classes: .9, .1) |
| hard tasks | on 30 % of the tasks everybody guesses |
| families | 60 % of the workers are in three families; four of five answers are the family's common opinion |
| misled | on 10 % of the tasks each worker gives the task's own wrong class with probability .75 |
| misled classes | each class has a subtype (25 % of its tasks) that 70 % of the workers take for the next class |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels import CrowdLabels
from crowdwise.simulate.workers import draw_skilled_confusion

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

CROWDS = ("independent", "spammers", "imbalance", "hard tasks", "families", "misled", "misled classes")
BROKEN = ("families", "misled", "misled classes")  # errors that workers share

SHAPES = ((300, 20, 6), (300, 60, 10), (1000, 40, 5))  # tasks, workers, labels a task
CLASSES = (2, 4)


def draw_rows(rows: FloatArray, generator: np.random.Generator) -> IntArray:
    """One class for each row of probabilities."""
    drawn: IntArray = (generator.random(len(rows))[:, None] > np.cumsum(rows, axis=1)[:, :-1]).sum(axis=1)
    return drawn


def simulate_assumption(
    name: str, n_tasks: int, n_workers: int, per_task: int, n_classes: int, seed: int, tasks_seed: int | None = None
) -> tuple[CrowdLabels, IntArray]:
    """Labels and truth of a crowd of `CROWDS`; `tasks_seed` draws other tasks for the same workers."""
    generator = np.random.default_rng([seed, n_tasks, n_workers, per_task, n_classes, CROWDS.index(name)])
    confusion = draw_skilled_confusion(
        n_workers, n_classes, generator, skill=0.7 if n_classes > 2 else 0.75, concentration=10
    )
    family = np.where(np.arange(n_workers) < 0.6 * n_workers, np.arange(n_workers) % 3, -1)
    of_family = draw_skilled_confusion(3, n_classes, generator, skill=0.7, concentration=10)
    fooled = generator.random((n_workers, n_classes)) < 0.7
    if name == "spammers":
        bad = generator.random(n_workers) < 0.3
        confusion[bad] = generator.dirichlet(np.ones(n_classes), int(bad.sum()))[:, None, :]
    if tasks_seed is not None:
        generator = np.random.default_rng([tasks_seed, seed])

    shares = np.full(n_classes, 1 / n_classes)
    if name == "imbalance":
        shares = np.array([0.9, 0.1]) if n_classes == 2 else np.array([0.8, 0.15, 0.05] + [0.0] * (n_classes - 3))
    truth = generator.choice(n_classes, n_tasks, p=shares)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(generator.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    label = draw_rows(confusion[worker, truth[task]], generator)
    if name == "hard tasks":
        hard = (generator.random(n_tasks) < 0.3)[task]
        label = np.where(hard, generator.integers(0, n_classes, task.size), label)
    if name == "families":
        opinion = np.stack([draw_rows(rows[truth], generator) for rows in of_family], axis=1)
        follows = (family[worker] >= 0) & (generator.random(task.size) < 0.8)
        label = np.where(follows, opinion[task, family[worker]], label)
    if name == "misled":
        lure = (truth + generator.integers(1, n_classes, n_tasks)) % n_classes
        lured = (generator.random(n_tasks) < 0.1)[task] & (generator.random(task.size) < 0.75)
        label = np.where(lured, lure[task], label)
    if name == "misled classes":
        subtype = generator.random(n_tasks) < 0.25
        lured = subtype[task] & fooled[worker, truth[task]] & (generator.random(task.size) < 0.9)
        label = np.where(lured, (truth[task] + 1) % n_classes, label)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return labels, truth
