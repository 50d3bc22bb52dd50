"""Nine in ten of the 90 % intervals of `workers()` hold the worker's true skill, or nearly.

`benchmarks/skill_coverage.py` measures crowds of six sizes with 2, 4 and 7 classes, drawn from each model: 162 settings
of 1,500 workers (standard error .006 to .01). 151 lie between .85 and .95; eleven, with seven classes or three labels a
task, between .826 and .85. The constants of `fitting.intervals` were chosen by looking at these crowds.

Intervals that take the posterior at its word would cover .49 to .80 with three labels a task.

Seeds are fixed, so a false alarm can come only with another random stream or other code. Over 900 workers a
coverage has a standard error of about .01; the chance of a false alarm is below one in a hundred for most settings, and
one in four for those nearest to an edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import expit

import crowdwise as cw
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import Simulation, simulate_workers
from crowdwise.simulate.workers import class_wise, skilled, symmetric

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 900


def coins(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return symmetric(generator.uniform(0.5 if n_classes == 2 else 0.3, 0.95, n_workers), n_classes)


def spammers(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    """Three in ten guess."""
    return symmetric(np.where(generator.random(n_workers) < 0.3, 1 / n_classes, 0.9), n_classes)


def matrices(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return skilled(n_workers, n_classes, generator, skill=0.75, concentration=10)


def unlike_matrices(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return skilled(n_workers, n_classes, generator, skill=0.7, concentration=3)


def covered(model: Any, simulation: Simulation, level: float = 0.9) -> Any:
    table = model.fit(simulation.labels).workers(level)
    low, high = table["skill_low"].to_numpy(), table["skill_high"].to_numpy()
    return (low <= simulation.skill) & (simulation.skill <= high)


def coverage(
    make: Callable[[], Any],
    population: Any,
    n_classes: int,
    n_tasks: int,
    n_workers: int,
    labels_per_task: int,
    level: float = 0.9,
) -> float:
    found = []
    for seed in range(WORKERS // n_workers):
        generator = np.random.default_rng([seed, n_classes, labels_per_task, n_workers])
        crowd = population(n_workers, n_classes, generator)
        found.append(covered(make(), simulate_workers(crowd, n_tasks, labels_per_task, seed=generator), level))
    return float(np.mean(found))


LOW, HIGH = 0.85, 0.95
SIZES = pytest.mark.parametrize(
    ("n_tasks", "n_workers", "labels_per_task"),
    [(300, 30, 3), (300, 30, 5), (300, 30, 10), (1000, 20, 3), (1000, 20, 5), (1000, 100, 3), (1000, 100, 5)],
    ids=str,
)
CLASSES = pytest.mark.parametrize("n_classes", [2, 4])


@SIZES
@CLASSES
@pytest.mark.parametrize("population", [coins, spammers], ids=lambda population: population.__name__)
def test_one_coin(population: Any, n_classes: int, n_tasks: int, n_workers: int, labels_per_task: int) -> None:
    assert LOW <= coverage(cw.OneCoin, population, n_classes, n_tasks, n_workers, labels_per_task) <= HIGH


@SIZES
@CLASSES
@pytest.mark.parametrize("population", [matrices, unlike_matrices, spammers], ids=lambda p: p.__name__)
def test_dawid_skene(population: Any, n_classes: int, n_tasks: int, n_workers: int, labels_per_task: int) -> None:
    assert LOW <= coverage(cw.DawidSkene, population, n_classes, n_tasks, n_workers, labels_per_task) <= HIGH


@CLASSES
@pytest.mark.parametrize(("make", "population"), [(cw.OneCoin, coins), (cw.DawidSkene, matrices)])
def test_two_labels_a_task(make: Any, population: Any, n_classes: int) -> None:
    """Twenty labels a worker, two a task: the labels hardly tell. Coins of two classes are covered least, .832."""
    assert 0.82 <= coverage(make, population, n_classes, 300, 30, 2) <= 0.98


@pytest.mark.parametrize(("level", "low", "high"), [(0.5, 0.43, 0.60), (0.99, 0.975, 1.0)])
def test_other_levels(level: float, low: float, high: float) -> None:
    assert low <= coverage(cw.OneCoin, coins, 3, 300, 30, 5, level) <= high


def vectors(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return class_wise(generator.beta(7.5, 2.5, (n_workers, n_classes)))


def habits(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    """Competent, or spamming by a habit."""
    competent = generator.uniform(0.2, 0.95, n_workers)[:, None, None]
    habit = generator.dirichlet(np.full(n_classes, 3.0), n_workers)[:, None, :]
    return competent * np.eye(n_classes) + (1 - competent) * habit


@CLASSES
@pytest.mark.parametrize(("n_tasks", "n_workers", "labels_per_task"), [(300, 30, 5), (1000, 100, 5)], ids=str)
@pytest.mark.parametrize(("slug", "population"), [("confusion-vector", vectors), ("mace", habits), ("zencrowd", coins)])
def test_relatives(
    slug: str, population: Any, n_classes: int, n_tasks: int, n_workers: int, labels_per_task: int
) -> None:
    """Confusion vectors of four classes in a small crowd are covered least, .848."""
    make = cw.method(slug).load()
    assert LOW - 0.01 <= coverage(make, population, n_classes, n_tasks, n_workers, labels_per_task) <= HIGH


@pytest.mark.parametrize(("n_classes", "n_workers", "labels_per_task"), [(2, 50, 5), (4, 25, 5)])
def test_glad(n_classes: int, n_workers: int, labels_per_task: int) -> None:
    """Abilities and eases drawn from the model's own priors; skill is the mean chance on the worker's own tasks."""
    held = []
    for seed in range(300 // n_workers):
        rng = np.random.default_rng([seed, n_classes])
        ability, ease = rng.normal(1, 1, n_workers), np.exp(rng.normal(1, 1, 300))
        task = np.repeat(np.arange(300), labels_per_task)
        worker = np.argsort(rng.random((300, n_workers)), axis=1)[:, :labels_per_task].ravel()
        truth = rng.integers(0, n_classes, 300)[task]
        chance = expit(ability[worker] * ease[task])
        wrong = (truth + rng.integers(1, n_classes, task.size)) % n_classes
        label = np.where(rng.random(task.size) < chance, truth, wrong)
        labels = CrowdLabels.from_codes(task, worker, label, tasks=300, workers=n_workers, classes=n_classes)
        skill = np.bincount(worker, chance) / np.bincount(worker)
        table = cw.Glad().fit(labels).workers(0.9)
        held.append((table["skill_low"].to_numpy() <= skill) & (skill <= table["skill_high"].to_numpy()))
    assert LOW <= np.mean(held) <= HIGH


def test_more_labels_make_narrower_intervals() -> None:
    widths = []
    for labels_per_task in (3, 5, 10, 20):
        labels = simulate_workers(symmetric(np.full(25, 0.75), 3), 400, labels_per_task, seed=0).labels
        table = cw.DawidSkene().fit(labels).workers()
        widths.append(float(np.mean(table["skill_high"].to_numpy() - table["skill_low"].to_numpy())))
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.1


def test_a_worker_who_was_never_wrong() -> None:
    """Forty answers, all as the consensus: the interval is that of forty answers, neither a point nor all there is."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, 400)
    task = np.concatenate([np.repeat(np.arange(400), 9), np.arange(40)])
    worker = np.concatenate([np.tile(np.arange(9), 400), np.full(40, 9)])
    right = np.concatenate([generator.random(3600) < 0.85, np.ones(40, bool)])
    label = np.where(right, truth[task], 1 - truth[task])
    labels = CrowdLabels.from_codes(task, worker, label, tasks=400, workers=10, classes=2)
    for make in (cw.DawidSkene, cw.OneCoin, cw.MeanField, cw.Mace, cw.Glad):
        low = make().fit(labels).workers()["skill_low"][9].as_py()
        assert 0.85 < low < 0.985, make.slug
