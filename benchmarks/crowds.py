"""Crowds that benchmarks share: real sets with a truth, the same with fewer labels, and simulated ones.

A crowd is named: `dog` (a data set), `dog@3` (three labels a task of it), `judges/framing` (language models, the unique
majority of people as truth), `misled/2` (simulated, seed 2).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import crowdwise as cw
from crowdwise.simulate.workers import draw_skilled_confusion

LEAGUE = ["bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks"]
LEAGUE += ["labelme", "music", "imagenet15n", "cifar10h"]
JUDGES = ["cebab_aspects", "cebab_stars", "framing", "lesion", "prompts10k"]
MORE = [f"judges/{name}" for name in JUDGES] + ["cifar10n", "ner_crowd"]
FEWER = ["bluebird@5", "bluebird@12", "ducks@6", "ducks@15", "cifar10h@3", "cifar10h@10", "dog@3", "dog@5", "rte@3"]
FEWER += ["rte@5", "temp@3", "temp@5", "sp@3", "web@3", "zencrowd_us@3", "music@2"]
KINDS = ["independent", "few", "unequal", "hard", "dependent", "misled", "spammers", "many"]
SOME_TASKS = 4000  # of the two largest sets

Crowd = tuple[cw.CrowdLabels, np.ndarray]


def load_crowd(name: str) -> Crowd:
    """The labels, and the true class of each task or -1."""
    if "@" in name:
        whole, _, most = name.partition("@")
        return keep_labels(*load_crowd(whole), int(most))
    kind, _, rest = name.partition("/")
    if kind == "judges":
        return load_judges(rest)
    if rest:
        return simulate_crowd(kind, int(rest))
    data = cw.datasets.load(name)
    if name in ("cifar10n", "ner_crowd"):
        chosen = np.zeros(data.labels.n_tasks, np.bool_)
        chosen[np.random.default_rng(0).permutation(chosen.size)[:SOME_TASKS]] = True
        return data.labels.keep_tasks(chosen), data.truth_codes[chosen]
    return data.labels, data.truth_codes


def keep_labels(labels: cw.CrowdLabels, truth: np.ndarray, most: int) -> Crowd:
    """At most so many labels of each task, drawn at random."""
    order = np.lexsort((np.random.default_rng(0).random(labels.n_labels), labels.task))
    first = np.cumsum(labels.labels_per_task) - labels.labels_per_task
    rank = np.empty(labels.n_labels, np.int64)
    rank[order] = np.arange(labels.n_labels) - first[labels.task[order]]
    return labels.keep(rank < most), truth


def load_judges(name: str) -> Crowd:
    """Votes of language models; the truth is the class that most people of the item chose, where it is one class."""
    folder = Path(os.environ["CROWDWISE_DATA"]) / f"judges_{name}"
    labels, humans = (cw.read_labels(folder / f"{who}.csv") for who in ("judges", "humans"))
    votes = humans.vote_counts()
    unique = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1
    people = dict(zip(humans.tasks.to_pylist(), votes.argmax(axis=1), strict=True))
    alone = dict(zip(humans.tasks.to_pylist(), unique, strict=True))
    place = {name: code for code, name in enumerate(labels.classes.to_pylist())}
    names = humans.classes.to_pylist()
    truth = [place.get(names[people[task]], -1) if alone.get(task, False) else -1 for task in labels.tasks.to_pylist()]
    return labels, np.array(truth)


def simulate_crowd(kind: str, seed: int) -> Crowd:
    """A crowd of random size, skill and number of classes, of one of the `KINDS`."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n_classes = int(rng.choice([30, 100, 200] if kind == "many" else [2, 3, 5, 8]))
    n_tasks, n_workers = int(rng.choice([300, 600, 1500])), int(rng.choice([15, 40, 100]))
    per_task = 2 if kind == "few" else int(rng.choice([3, 5, 10]))
    skill = rng.uniform(0.65 if n_classes == 2 else 0.55, 0.8)
    shares = np.full(n_classes, 1 / n_classes)
    volume = np.ones(n_workers)
    if kind == "unequal":
        shares = rng.dirichlet(np.ones(n_classes)) + 0.02
        volume = rng.pareto(1.2, n_workers) + 0.05
    truth = rng.choice(n_classes, n_tasks, p=shares / shares.sum())
    chance = rng.gumbel(size=(n_tasks, n_workers)) + np.log(volume)
    worker = np.argsort(-chance, axis=1)[:, :per_task].ravel()
    task = np.repeat(np.arange(n_tasks), min(per_task, n_workers))
    if kind in ("hard", "many"):
        right = rng.uniform(0.4, 0.9, n_workers)[worker]
        if kind == "hard":
            ability, ease = rng.normal(1.2, 0.8, n_workers), np.exp(rng.normal(0.3, 1.0, n_tasks))
            knows = np.clip(2 / (1 + np.exp(-ability[worker] * ease[task])) - 1, 0, 1)
            right = 1 / n_classes + (1 - 1 / n_classes) * knows
        wrong = (truth[task] + rng.integers(1, n_classes, task.size)) % n_classes
        label = np.where(rng.random(task.size) < right, truth[task], wrong)
    else:
        label = draw_labels(kind, truth, task, worker, skilled_workers(kind, n_workers, n_classes, skill, rng), rng)
    made = cw.CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return made, truth


def skilled_workers(kind: str, n_workers: int, n_classes: int, skill: float, rng: np.random.Generator) -> np.ndarray:
    """Confusion matrices [worker, truth, label]; of spammers, a third answer by a habit."""
    concentration = float(rng.choice([5, 15]))
    if kind == "dependent":
        skill, concentration = 0.85, 20.0
    confusion = draw_skilled_confusion(n_workers, n_classes, rng, skill=skill, concentration=concentration)
    if kind == "spammers":
        lazy = rng.random(n_workers) < 1 / 3
        confusion[lazy] = rng.dirichlet(np.full(n_classes, 0.5), int(lazy.sum()))[:, None]
    return confusion


def draw_labels(
    kind: str,
    truth: np.ndarray,
    task: np.ndarray,
    worker: np.ndarray,
    confusion: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Answers to what each worker takes for the truth: that of the task, of everyone misled, or of their family."""
    n_classes = confusion.shape[1]
    seen = truth[task]
    if kind == "misled":
        misled = rng.random(truth.size) < 0.1
        seen = np.where(misled, (truth + rng.integers(1, n_classes, truth.size)) % n_classes, truth)[task]
    if kind == "dependent":
        n_families = int(rng.integers(3, 7))
        family = rng.integers(0, n_families, confusion.shape[0])
        opinions = draw_skilled_confusion(n_families, n_classes, rng, skill=rng.uniform(0.6, 0.8), concentration=20.0)
        held = np.stack([draw(rows[truth], rng) for rows in opinions], axis=1)
        seen = held[task, family[worker]]
    return draw(confusion[worker, seen], rng)


def draw(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One class from each row of probabilities."""
    return np.minimum((rows.cumsum(axis=1) < rng.random(len(rows))[:, None]).sum(axis=1), rows.shape[1] - 1)
