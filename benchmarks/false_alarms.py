"""How often an audit accuses anyone in a crowd where all are honest: at most 5 % of audits is what `level` promises.

    python benchmarks/false_alarms.py                          # 200 crowds with skills from 0.3, as many from 0.1
    python benchmarks/false_alarms.py --crowds 50 --seed 7     # fewer, others

Crowds of 20 to 5,000 tasks, 3 to 300 workers and 2 to 10 classes, with two labels a task to everyone on everything
(60,000 labels at most); equal and unequal classes; workers of like or unlike skill, who give the class or else
answer by a habit of their own; few who do most, or all alike; and in half of the crowds, three tasks in ten on
which everyone's skill is a tenth to six tenths of what it is elsewhere, in some of them with one wrong class that draws
the errors. Nobody guesses, copies or changes. A crowd is flagged if any finding is about workers.

The truth is given too, and a right label that is doubted ("mislabel") is a false alarm of its own, which accuses
nobody; it is counted by whether tasks are hard, and whether hard ones mislead.

A skill of 0.1 is next to guessing, and what `find_spammers` looks for: the second row says how the weak fare among the
weak.
"""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

import crowdwise as cw
from crowdwise.labels import CrowdLabels

RESULTS = Path(__file__).parent / "results" / "false_alarms.json"
ACCUSING = ("dependent workers", "spammer", "colluders")  # tests; that of spammers also finds "opposite" workers
LEAST_SKILLS = (0.3, 0.1)
MOST_LABELS = 60_000


def honest_crowd(rng: np.random.Generator, least: float) -> tuple[CrowdLabels, np.ndarray, str]:
    """A crowd of a size, skill, balance and volume drawn at random, in which nobody is to be flagged.

    With the truth, and how hard its tasks are.
    """
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
    hardness = "hard tasks" if hard.any() else "no hard tasks"
    if rng.random() < 0.3 and hard.any():  # hard tasks look like one wrong class
        hardness = "misleading tasks"
        drawn = hard[task] & (label != truth[task]) & (rng.random(task.size) < 0.5)
        lure = (truth + rng.integers(1, n_classes, n_classes)[truth]) % n_classes
        label[drawn] = lure[task[drawn]]
    labels = CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return labels, truth, hardness


def skills(n_workers: int, least: float, rng: np.random.Generator) -> np.ndarray:
    """All alike, of every kind, or much alike."""
    kind, middle = rng.integers(3), rng.uniform(least, 0.95)
    if kind == 0:
        return np.full(n_workers, middle)
    if kind == 1:
        return rng.uniform(least, 0.95, n_workers)
    return np.clip(middle + rng.normal(0, 0.1, n_workers), least, 0.97)


def alarms(least: float, crowds: int, seed: int) -> dict[str, Any]:
    """Audit so many crowds: how many are flagged, by which tests, and how many are large enough to be tested."""
    flagged, found, large, tested = 0, Counter[str](), Counter[str](), 0
    of_each, doubted = Counter[str](), Counter[str]()
    for number in range(crowds):
        labels, truth, hardness = honest_crowd(np.random.default_rng([seed, number, round(100 * least)]), least)
        audit = cw.audit_crowd(labels, truth=dict(enumerate(truth.tolist())), seed=number)
        kinds = {finding.kind for finding in audit.findings if finding.about in ("worker", "workers")}
        applied = [screen.kind for screen in audit.screens if screen.kind in ACCUSING and not screen.skipped]
        flagged += bool(kinds)
        found.update(kinds)
        large.update(applied)
        tested += bool(applied)
        of_each[hardness] += 1
        doubted[hardness] += any(finding.kind == "mislabel" for finding in audit.findings)
    low, high = interval(flagged, crowds)
    rates = {"flagged": flagged, "rate": flagged / crowds, "low": low, "high": high}
    sizes = {"large_enough": tested, "large_enough_for": dict(large), "flagged_as": dict(found)}
    sizes |= {"crowds_with": dict(of_each), "right_label_doubted": dict(doubted)}
    return {"least_skill": least, "crowds": crowds, "seed": seed} | rates | sizes


def interval(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(0.975, hits + 1, n - hits))
    return low, high


def counted(kinds: dict[str, int]) -> str:
    return ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--crowds", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    warnings.simplefilter("ignore", cw.NotConverged)
    rows = []
    for least in LEAST_SKILLS:
        row = alarms(least, chosen.crowds, chosen.seed)
        rows.append(row)
        print(
            f"skills from {least}: {row['flagged']} of {row['crowds']} audits flag a worker, {row['rate']:.1%} "
            f"(95 % interval {row['low']:.1%} to {row['high']:.1%})"
        )
        print(f"    flagged as: {counted(row['flagged_as']) or 'nothing'}")
        print(f"    large enough for: {counted(row['large_enough_for'])}; for any: {row['large_enough']}")
        parts = [f"{row['right_label_doubted'][kind]} of {n} with {kind}" for kind, n in row["crowds_with"].items()]
        print(f"    a right label doubted in: {', '.join(sorted(parts))}", flush=True)
    if chosen.crowds >= 200:
        RESULTS.write_text(json.dumps({"python": platform.python_version(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
