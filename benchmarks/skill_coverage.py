"""How often the 90 % intervals of `workers()` hold the true skill, on crowds of varied sizes that match the model.

    python benchmarks/skill_coverage.py [WORKERS] [SLUG ...]

WORKERS workers a setting (3,000), spread over as many crowds as that takes. Skill is Σ_k prior[k] A[w, k, k]; for GLAD
the mean chance of a right answer on the worker's own tasks.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import crowdwise as cw
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate_workers
from crowdwise.simulate.workers import class_wise, skilled, symmetric

RESULTS = Path(__file__).parent / "results" / "coverage.json"
SIZES = [(300, 30, 3), (300, 30, 10), (1000, 20, 3), (1000, 100, 3), (1000, 100, 5), (2000, 40, 5)]
CLASSES = (2, 4, 7)


def coins(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return symmetric(rng.uniform(0.5 if n_classes == 2 else 0.3, 0.95, n_workers), n_classes)


def guessers(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return symmetric(np.where(rng.random(n_workers) < 0.3, 1 / n_classes, 0.9), n_classes)


def vectors(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return class_wise(rng.beta(7.5, 2.5, (n_workers, n_classes)))


def matrices(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return skilled(n_workers, n_classes, rng, skill=0.75, concentration=10)


def unlike_matrices(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return skilled(n_workers, n_classes, rng, skill=0.7, concentration=3)


def habits(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    """Competent or spamming by a habit, as MACE has it."""
    competent = rng.uniform(0.2, 0.95, n_workers)[:, None, None]
    habit = rng.dirichlet(np.full(n_classes, 3.0), n_workers)[:, None, :]
    return competent * np.eye(n_classes) + (1 - competent) * habit


POPULATIONS = {
    "one-coin": (coins, guessers),
    "dawid-skene": (matrices, unlike_matrices, guessers),
    "confusion-vector": (vectors, coins),
    "mace": (habits,),
    "glad": (None,),
}


def glad_crowd(n_tasks: int, n_workers: int, n_classes: int, per_task: int, rng: np.random.Generator) -> Any:
    """Labels drawn from GLAD's own model, and the mean chance of each worker on her own tasks."""
    ability, ease = rng.normal(1, 1, n_workers), np.exp(rng.normal(1, 1, n_tasks))
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    truth = rng.integers(0, n_classes, n_tasks)
    chance = expit(ability[worker] * ease[task])
    wrong = (truth[task] + rng.integers(1, n_classes, task.size)) % n_classes
    label = np.where(rng.random(task.size) < chance, truth[task], wrong)
    skill = np.bincount(worker, chance, minlength=n_workers) / np.bincount(worker, minlength=n_workers)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return labels, skill


def coverage(slug: str, population: Any, n_classes: int, size: tuple[int, int, int], workers: int) -> float:
    """Share of the intervals that hold the skill."""
    n_tasks, n_workers, per_task = size
    held = []
    for seed in range(-(-workers // n_workers)):
        rng = np.random.default_rng([seed, n_classes, *size, 7])
        if population is None:
            labels, skill = glad_crowd(n_tasks, n_workers, n_classes, per_task, rng)
        else:
            crowd = simulate_workers(population(n_workers, n_classes, rng), n_tasks, per_task, seed=rng)
            labels, skill = crowd.labels, crowd.skill
        table = cw.method(slug).load()().fit(labels).workers(0.9)
        held.append((table["skill_low"].to_numpy() <= skill) & (skill <= table["skill_high"].to_numpy()))
    return float(np.mean(held))


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
    slugs = sys.argv[2:] or list(POPULATIONS)
    warnings.simplefilter("ignore", cw.NotConverged)
    rows = []
    print(f"{'method':18}{'crowd':18}{'K':>3}  " + "".join(f"{'/'.join(map(str, size)):>14}" for size in SIZES))
    for slug in slugs:
        for population in POPULATIONS[slug]:
            name = "its own" if population is None else population.__name__
            for n_classes in CLASSES:
                line = f"{slug:18}{name:18}{n_classes:>3}  "
                for size in SIZES:
                    found = coverage(slug, population, n_classes, size, workers)
                    rows.append(
                        {"method": slug, "crowd": name, "classes": n_classes, "size": size, "coverage": round(found, 4)}
                    )
                    line += f"{found:>14.3f}"
                print(line, flush=True)
    if len(slugs) == len(POPULATIONS):
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"workers": workers, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
