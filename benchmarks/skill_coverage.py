"""How often the 90 % intervals of `workers()` hold the true skill.

    python benchmarks/skill_coverage.py [--workers 3000] [--methods SLUG ...] [--processes 1] [--quick]
    python benchmarks/skill_coverage.py --table unlike [--methods SLUG ...]     # crowds that no model matches
    python benchmarks/skill_coverage.py --table real [--methods SLUG ...]       # real sets, CROWDWISE_DATA
    python benchmarks/skill_coverage.py --table learners [--methods SLUG ...]   # LabelMe, needs torch

The first table has 162 settings: crowds of six sizes with 2, 4 and 7 classes, drawn from each method's own model, with
as many workers a setting as asked for, spread over as many crowds as that takes. Skill is Σ_k prior[k] A[w, k, k]; for
GLAD the mean chance of a right answer on the worker's own tasks.

The second has crowds that the models do not match: unequal classes and volumes, hard tasks, few labels, tasks that
mislead everyone, and families of workers who copy one of them. Skill is the chance of a right answer on the worker's
own tasks.

The third and fourth compare with workers' accuracy on their own tasks with a truth, of workers with 20 such answers or
more. That share is itself known from few answers only where few tasks have a truth (`fact_eval`): `binomial` counts a
worker as covered as well where a rate inside the interval would give so extreme a share one time in ten. No truth is
used in any fit. `--quick` takes 60 workers a setting, and the smallest sets. Writes benchmarks/results/coverage.json
(the first table) or coverage_TABLE.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom

import crowdwise as cw
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate_workers
from crowdwise.simulate.workers import class_wise_confusion, draw_skilled_confusion, symmetric_confusion

RESULTS = Path(__file__).parent / "results"
SIZES = [(300, 30, 3), (300, 30, 10), (1000, 20, 3), (1000, 100, 3), (1000, 100, 5), (2000, 40, 5)]
CLASSES = (2, 4, 7)


def coins(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return symmetric_confusion(rng.uniform(0.5 if n_classes == 2 else 0.3, 0.95, n_workers), n_classes)


def guessers(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return symmetric_confusion(np.where(rng.random(n_workers) < 0.3, 1 / n_classes, 0.9), n_classes)


def vectors(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return class_wise_confusion(rng.beta(7.5, 2.5, (n_workers, n_classes)))


def matrices(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return draw_skilled_confusion(n_workers, n_classes, rng, skill=0.75, concentration=10)


def unlike_matrices(n_workers: int, n_classes: int, rng: np.random.Generator) -> Any:
    return draw_skilled_confusion(n_workers, n_classes, rng, skill=0.7, concentration=3)


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
    """Labels drawn from GLAD's own model, and the mean chance of each worker on their own tasks."""
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


def hard_tasks(
    n_tasks: int, n_workers: int, n_classes: int, per_task: int, rng: np.random.Generator, kind: str
) -> tuple[CrowdLabels, np.ndarray]:
    """A crowd whose workers err together, and the chance of each worker to be right on their own tasks."""
    skill = rng.uniform(0.6, 0.95, n_workers)
    volume = rng.lognormal(0, 1 if kind == "unequal" else 0.01, n_workers)
    shares = np.array([0.7] + [0.3 / (n_classes - 1)] * (n_classes - 1)) if kind == "unequal" else np.ones(n_classes)
    truth = rng.choice(n_classes, n_tasks, p=shares / shares.sum())
    order = np.argsort(rng.gumbel(size=(n_tasks, n_workers)) + np.log(volume), axis=1)
    task, worker = np.repeat(np.arange(n_tasks), per_task), order[:, -per_task:].ravel()
    difficulty = rng.normal(0, 1.5, n_tasks) if kind == "hard" else np.zeros(n_tasks)
    chance = expit(np.log(skill / (1 - skill))[worker] - difficulty[task])
    lure = (truth + rng.integers(1, n_classes, n_tasks)) % n_classes
    right = rng.random(task.size) < chance
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, n_classes, task.size)) % n_classes)
    if kind == "misled":  # one task in ten shows everyone something else, which they see as well as they see others
        misled = (rng.random(n_tasks) < 0.1)[task]
        label = np.where(misled & right, lure[task], np.where(misled, truth[task], label))
        chance = np.where(misled, 1 - chance, chance)
    if kind == "families":  # three families of one worker in ten each; nine answers in ten are the first's
        family = np.where(np.arange(n_workers) < 3 * (n_workers // 10), np.arange(n_workers) % 3, -1)
        leads = np.arange(3)
        leader = rng.random((3, n_tasks)) < skill[leads][:, None]
        copied = (family[worker] >= 0) & (rng.random(task.size) < 0.9)
        of = np.maximum(family[worker], 0)
        wrong = (truth[None] + rng.integers(1, n_classes, (3, n_tasks))) % n_classes
        label = np.where(copied, np.where(leader[of, task], truth[task], wrong[of, task]), label)
        chance = np.where(family[worker] >= 0, 0.9 * skill[of] + 0.1 * skill[worker], chance)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    given = np.bincount(worker, minlength=n_workers)
    return labels, np.bincount(worker, chance, minlength=n_workers) / np.maximum(given, 1)


KINDS = ("unequal", "hard", "few", "misled", "families")
UNLIKE_METHODS = ("auto", "dawid-skene", "mean-field", "one-coin", "glad", "majority-vote")
REAL = ("bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks", "labelme")
REAL += ("music", "imagenet15n")
GRADED = 20


def held(model: Any, skill: np.ndarray) -> np.ndarray:
    """Whether each worker's interval holds the skill."""
    table = model.workers(0.9)
    found: np.ndarray = (table["skill_low"].to_numpy() <= skill) & (skill <= table["skill_high"].to_numpy())
    return found


def own_model(job: tuple[Any, ...]) -> dict[str, Any]:
    """One of the 162 settings."""
    slug, name, n_classes, size, workers = job
    n_tasks, n_workers, per_task = size
    population = {one.__name__: one for many in POPULATIONS.values() for one in many if one is not None}.get(name)
    found = []
    for seed in range(-(-workers // n_workers)):
        rng = np.random.default_rng([seed, n_classes, *size, 7])
        if population is None:
            labels, skill = glad_crowd(n_tasks, n_workers, n_classes, per_task, rng)
        else:
            crowd = simulate_workers(population(n_workers, n_classes, rng), n_tasks, per_task, seed=rng)
            labels, skill = crowd.labels, crowd.skill
        found.append(held(cw.method(slug).load()().fit(labels), skill))
    coverage = round(float(np.mean(found)), 4)
    return {"method": slug, "crowd": name, "classes": n_classes, "size": size, "coverage": coverage}


def unlike_model(job: tuple[Any, ...]) -> dict[str, Any]:
    """Crowds whose workers err together: 400 tasks, 40 workers, 6 labels a task (two where labels are few)."""
    slug, kind, n_classes, workers = job
    found, width = [], []
    for seed in range(-(-workers // 40)):
        rng = np.random.default_rng([seed, n_classes, KINDS.index(kind)])
        labels, skill = hard_tasks(400, 40, n_classes, 2 if kind == "few" else 6, rng, kind)
        model = cw.method(slug).load()().fit(labels)
        met = labels.labels_per_worker > 0
        found.append(held(model, skill)[met])
        table = model.workers(0.9)
        width.append((table["skill_high"].to_numpy() - table["skill_low"].to_numpy())[met])
    return {
        "method": slug,
        "crowd": kind,
        "classes": n_classes,
        "coverage": round(float(np.concatenate(found).mean()), 4),
        "width": round(float(np.concatenate(width).mean()), 3),
    }


def against_truth(model: Any, labels: CrowdLabels, truth: np.ndarray) -> dict[str, Any]:
    """Coverage of the accuracy of workers with enough graded answers."""
    graded = truth[labels.task] >= 0
    answers = np.bincount(labels.worker[graded], minlength=labels.n_workers)
    right = np.bincount(labels.worker[graded & (truth[labels.task] == labels.label)], minlength=labels.n_workers)
    some, every = answers >= GRADED, answers > 0
    accuracy = right / np.maximum(answers, 1)
    inside = held(model, accuracy)
    table = model.workers(0.9)
    low, high = table["skill_low"].to_numpy(), table["skill_high"].to_numpy()
    nearest = np.clip(accuracy, low, high)
    extreme = np.minimum(binom.cdf(right, answers, nearest), binom.sf(right - 1, answers, nearest)) < 0.05
    middle = model.skill_beta_[:, 0] / model.skill_beta_.sum(axis=1)
    return {
        "workers": int(some.sum()),
        "coverage": round(float(inside[some].mean()), 3),
        "all_workers": round(float(inside[every].mean()), 3),
        "binomial": round(float((inside | ~extreme)[some].mean()), 3),
        "too_high_by": round(float((middle - accuracy)[some].mean()), 3),
        "width": round(float((high - low)[some].mean()), 3),
    }


def real_set(job: tuple[Any, ...]) -> dict[str, Any]:
    slug, name = job
    data = cw.datasets.load(name)
    model = cw.method(slug).load()().fit(data.labels)
    return {"method": slug, "data": name} | against_truth(model, data.labels, data.truth_codes)


def learner(job: tuple[Any, ...]) -> dict[str, Any]:
    import torch

    slug, name = job
    torch.set_num_threads(1)
    data = cw.datasets.load(name)
    features = np.load(Path(os.environ["CROWDWISE_DATA"]) / name / "features.npz", allow_pickle=False)
    tasks = features.get("id_train")
    model = cw.learner(slug).make(seed=0).fit(features["X_train"], data.labels, tasks=tasks)
    return {"method": slug, "data": name} | against_truth(model, data.labels, data.truth_codes)


def jobs_of(table: str, methods: list[str] | None, workers: int, quick: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    if table == "own":
        sizes = SIZES[:2] if quick else SIZES
        return own_model, [
            (slug, "its own" if population is None else population.__name__, n_classes, size, workers)
            for slug in methods or POPULATIONS
            for population in POPULATIONS[slug]
            for n_classes in CLASSES
            for size in sizes
        ]
    if table == "unlike":
        chosen = methods or list(UNLIKE_METHODS)
        return unlike_model, [(slug, kind, n, workers) for slug in chosen for kind in KINDS for n in (2, 4)]
    if table == "real":
        chosen, names = methods or list(UNLIKE_METHODS), REAL[:1] + REAL[3:5] if quick else REAL
        return real_set, [(slug, name) for slug in chosen for name in names]
    slugs = methods or [entry.slug for entry in cw.learners() if entry.models_workers and not entry.needs]
    return learner, [(slug, name) for slug in slugs for name in (("labelme",) if quick else ("labelme", "music"))]


def quietly(asked: tuple[Any, tuple[Any, ...]]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return asked[0](asked[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=("own", "unlike", "real", "learners"), default="own")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    workers = asked.workers or (60 if asked.quick else 3_000 if asked.table == "own" else 1_000)
    measure, jobs = jobs_of(asked.table, asked.methods, workers, asked.quick)
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    rows = []
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for row in pool.imap(quietly, [(measure, job) for job in jobs]):
            rows.append(row)
            print(row, flush=True)
    if asked.table == "own":
        inside = sum(0.86 <= row["coverage"] <= 0.94 for row in rows)
        print(f"{inside} of {len(rows)} settings between .86 and .94")
    if asked.methods is None and not asked.quick:
        RESULTS.mkdir(exist_ok=True)
        name = "coverage.json" if asked.table == "own" else f"coverage_{asked.table}.json"
        (RESULTS / name).write_text(json.dumps({"workers": workers, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
