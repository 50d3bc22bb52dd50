"""How often an audit finds anything in a crowd where there is nothing to find: at most 5 % of audits is promised.

    python benchmarks/false_alarms.py --processes 16           # 200 crowds of each of eight settings
    python benchmarks/false_alarms.py --quick                  # 10 crowds of each
    python benchmarks/false_alarms.py --settings both hard     # some of them

| setting | crowds |
|---|---|
| balanced | 2 to 6 classes, all alike; 150 to 1,500 tasks with 3 to 7 labels each, 10 to 60 workers who do alike |
| classes | the same, but three classes with shares .8, .15 and .05 |
| volumes | as balanced, but a few workers do most (a power law) |
| both | unequal classes and volumes |
| hard | as balanced, but everyone's skill is a fifth to three fifths on three tasks in ten |
| few labels | as balanced, with two labels a task |
| every size | 20 to 5,000 tasks, 3 to 300 workers, 2 to 10 classes; everything else at random, skills from 0.3 |
| weak | the same with skills from 0.1, next to guessing, which is what `find_spammers` looks for |

"Every size" has two labels a task to everyone on everything (60,000 labels at most), and at random unequal classes and
volumes, like or unlike skills, hard tasks, and tasks that mislead everyone to one wrong class.

Workers give the class with a chance of their own (0.4 to 0.95 in the first six) and else answer by a habit of their
own. Nobody guesses all the time, copies or changes; workers, tasks and times have groups and an order drawn at random,
which matter nothing. The truth of all tasks is given.

A false alarm is *any* finding of a kind, but for facts that are no tests. Hard tasks that are found to be hard are no
false alarm; the right label of a hard task that is doubted is one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import warnings
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

import crowdwise as cw
from crowdwise.audit.finding_types import FACT
from crowdwise.labels import CrowdLabels

RESULTS = Path(__file__).parent / "results" / "false_alarms.json"
PLAIN = ("balanced", "classes", "volumes", "both", "hard", "few labels")
LEAST_SKILLS = {"every size": 0.3, "weak": 0.1}
SETTINGS = (*PLAIN, *LEAST_SKILLS)
SHARES = (0.8, 0.15, 0.05)
MOST_LABELS = 60_000


class Honest(NamedTuple):
    """A crowd with nothing to find, its truth, and which of its tasks are hard."""

    labels: CrowdLabels
    truth: np.ndarray
    hard: np.ndarray


def plain_crowd(setting: str, rng: np.random.Generator) -> Honest:
    """A crowd of one of the first six settings."""
    n_tasks, n_workers = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((150, 1_500), (10, 60)))
    unequal = setting in ("classes", "both")
    n_classes = len(SHARES) if unequal else int(rng.integers(2, 7))
    truth = rng.choice(n_classes, n_tasks, p=SHARES if unequal else None)
    per_task = 2 if setting == "few labels" else int(rng.integers(3, 8))
    busy = rng.pareto(1.0, n_workers) + 0.05 if setting in ("volumes", "both") else np.ones(n_workers)
    drawn = np.log(busy) + rng.gumbel(size=(n_tasks, n_workers))
    worker = np.argsort(-drawn, axis=1)[:, :per_task].ravel()
    task = np.repeat(np.arange(n_tasks), per_task)
    hard = rng.random(n_tasks) < (0.3 if setting == "hard" else 0.0)
    gives = rng.uniform(0.4, 0.95, n_workers)[worker] * np.where(hard[task], rng.uniform(0.2, 0.6), 1.0)
    habit = rng.dirichlet(np.full(n_classes, 5.0), n_workers)  # their own: nobody leans where the others do
    guess = (rng.random(task.size)[:, None] > habit.cumsum(axis=1)[worker]).sum(axis=1).clip(0, n_classes - 1)
    label = np.where(rng.random(task.size) < gives, truth[task], guess)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return Honest(labels, truth, hard)


def honest_crowd(rng: np.random.Generator, least: float) -> Honest:
    """A crowd of a size, skill, balance and volume drawn at random, in which nobody is to be flagged."""
    n_tasks, n_workers = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((20, 5_000), (3, 300)))
    n_classes = int(rng.integers(2, 11))
    truth = rng.choice(n_classes, n_tasks, p=rng.dirichlet(np.full(n_classes, rng.choice([1.0, 3.0, 50.0]))))
    skill = skills(n_workers, least, rng)
    per_task = min(n_workers, int(rng.choice([2, 3, 5, 10, n_workers])), max(2, MOST_LABELS // n_tasks))
    volume = rng.dirichlet(np.full(n_workers, rng.choice([0.3, 1.0, 100.0]))) + 1e-9
    worker = np.empty((n_tasks, per_task), np.int64)
    for row in worker:  # without replacement, by volume
        row[:] = np.argpartition(-np.log(volume) - rng.gumbel(size=n_workers), per_task - 1)[:per_task]
    task, worker = np.repeat(np.arange(n_tasks), per_task), worker.ravel()

    hard = rng.random(n_tasks) < rng.choice([0.0, 0.3])
    knows = rng.random(task.size) < skill[worker] * np.where(hard[task], rng.uniform(0.1, 0.6), 1.0)
    habit = rng.dirichlet(np.full(n_classes, 5.0), n_workers).cumsum(axis=1)
    guess = (rng.random(task.size)[:, None] > habit[worker]).sum(axis=1).clip(0, n_classes - 1)
    label = np.where(knows, truth[task], guess)
    if rng.random() < 0.3 and hard.any():  # hard tasks look like one wrong class
        drawn = hard[task] & (label != truth[task]) & (rng.random(task.size) < 0.5)
        lure = (truth + rng.integers(1, n_classes, n_classes)[truth]) % n_classes
        label[drawn] = lure[task[drawn]]
    labels = CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return Honest(labels, truth, hard)


def skills(n_workers: int, least: float, rng: np.random.Generator) -> np.ndarray:
    """All alike, of every kind, or much alike."""
    kind, middle = rng.integers(3), rng.uniform(least, 0.95)
    if kind == 0:
        return np.full(n_workers, middle)
    if kind == 1:
        return rng.uniform(least, 0.95, n_workers)
    return np.clip(middle + rng.normal(0, 0.1, n_workers), least, 0.97)


def audit_one(job: tuple[str, int, int]) -> dict[str, Any]:
    """Kinds of findings in one crowd of a setting, which tests did not apply, and which facts were stated."""
    setting, number, seed = job
    warnings.simplefilter("ignore", cw.NotConverged)
    rng = np.random.default_rng([seed, number, SETTINGS.index(setting)])
    crowd = honest_crowd(rng, LEAST_SKILLS[setting]) if setting in LEAST_SKILLS else plain_crowd(setting, rng)
    labels = crowd.labels
    audit = cw.audit_crowd(
        labels,
        method="majority-vote",  # the consensus shown has no part in any finding
        truth=dict(enumerate(crowd.truth.tolist())),
        task_attributes=dict(enumerate(rng.choice(["a", "b"], labels.n_tasks).tolist())),
        worker_attributes=dict(enumerate(rng.choice(["x", "y"], labels.n_workers).tolist())),
        time=rng.permutation(labels.n_labels),
        random_state=number,
    )
    kinds, facts = set(), set()
    for finding in audit.findings:
        if finding.how == FACT:
            facts.add(finding.kind)
        elif not (finding.kind == "hard task" and all(crowd.hard[name] for name in finding.names)):
            kinds.add(finding.kind)
    accused = any(finding.about in ("worker", "workers") for finding in audit.findings)
    return {
        "setting": setting,
        "number": number,
        "kinds": sorted(kinds),
        "facts": sorted(facts),
        "accused": accused,
        "asked": sorted({screen.kind for screen in audit.screens if not screen.skipped}),
    }


def summary(setting: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one setting: audits with a finding of each kind, and those that accuse anyone, with 95 % intervals."""
    mine = [row for row in rows if row["setting"] == setting]
    found = Counter(kind for row in mine for kind in row["kinds"])
    asked = Counter(kind for row in mine for kind in row["asked"])
    counts = {kind: found.get(kind, 0) for kind in sorted({*found, *asked})}
    counts = {"any worker": sum(row["accused"] for row in mine)} | counts
    return {
        "setting": setting,
        "crowds": len(mine),
        "asked": dict(asked),
        "facts": dict(Counter(kind for row in mine for kind in row["facts"])),
        "found": {
            kind: {"audits": n, "rate": n / len(mine), "interval": interval(n, len(mine))} for kind, n in counts.items()
        },
    }


def interval(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(0.975, hits + 1, n - hits))
    return low, high


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    options.add_argument("--crowds", type=int, default=None)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--out", type=Path, default=None, help="a JSON file; benchmarks/results/ for the full run")
    chosen = options.parse_args()
    crowds = chosen.crowds or (10 if chosen.quick else 200)
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # of each process, which reads it when it starts
    jobs = product(chosen.settings, range(crowds), [chosen.seed])
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        rows = list(pool.imap_unordered(audit_one, jobs))
    tables = [summary(setting, rows) for setting in chosen.settings]
    for table in tables:
        print(f"{table['setting']} ({table['crowds']} crowds)")
        for kind, each in table["found"].items():
            low, high = each["interval"]
            print(f"    {kind:20} {each['audits']:4} {each['rate']:6.1%} ({low:.1%} to {high:.1%})")
        if table["facts"]:
            print(f"    facts: {', '.join(f'{kind} {n}' for kind, n in sorted(table['facts'].items()))}")
    out = chosen.out or (RESULTS if crowds >= 200 and chosen.settings == list(SETTINGS) else None)
    if out is not None:
        out.write_text(json.dumps({"python": platform.python_version(), "rows": tables}, indent=1) + "\n")


if __name__ == "__main__":
    main()
