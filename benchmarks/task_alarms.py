"""Given answers called wrong, and classes called mixed up: how often falsely, and how often rightly.

    python benchmarks/task_alarms.py                           # 200 crowds a setting
    python benchmarks/task_alarms.py --processes 16 --crowds 400 --seed 7
    python benchmarks/task_alarms.py --quick                   # 10 crowds a setting; nothing is written

Given answers (`find_mislabels` with a truth). Crowds with workers of skill .65 to .95, in sizes from 100 tasks with 20
labels each to 300 tasks with 8. All answers right and a tenth of the tasks misleading (each worker gives one wrong
class with chance .7, .8 or .9, or a chance of .5 to 1 that differs by task): the share of audits in which any answer is
called wrong ("mislabel"). A twentieth of the answers wrong, without and with misleading tasks: the share of wrong
answers that are called wrong, and that are at least asked about ("disputed answer").

Classes mixed up (`find_confused_classes`). Honest crowds with equal classes or shares .8/.15/.05, equal or unequal
volumes, wrong answers spread evenly, by habits, or by the class shares: the share of audits that find any confusion.
Planted confusions: the share of audits that find the one planted.

The threshold `tasks.SURE` was chosen on the settings of the first kind with other seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

from crowdwise.audit.confused_classes import find_confused_classes  # noqa: E402
from crowdwise.audit.mislabels import find_mislabels  # noqa: E402
from crowdwise.labels import CrowdLabels  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "task_alarms.json"
SIZES = [
    (100, 20, 20, 3),
    (100, 20, 20, 2),
    (200, 12, 12, 3),
    (300, 30, 8, 4),
]  # tasks, workers, labels a task, classes
PULLS = {"pull .7": (0.7, 0.7), "pull .8": (0.8, 0.8), "pull .9": (0.9, 0.9), "pull .5 to 1": (0.5, 1.0)}
EQUAL, UNEQUAL = (1 / 3, 1 / 3, 1 / 3), (0.8, 0.15, 0.05)
HONEST = {
    "equal classes": {"shares": EQUAL},
    "equal classes, habits": {"shares": EQUAL, "guess": "habit"},
    "unequal classes": {"shares": UNEQUAL},
    "unequal classes, habits": {"shares": UNEQUAL, "guess": "habit"},
    "unequal classes, guesses by shares": {"shares": UNEQUAL, "guess": "shares"},
    "unequal classes and volumes": {"shares": UNEQUAL, "volume": 0.3},
    "unequal classes and volumes, habits, 3 labels": {
        "shares": UNEQUAL,
        "volume": 0.3,
        "guess": "habit",
        "per_task": 3,
    },
}
PLANTED = {
    "equal classes, 0 for 2 in .15": {"shares": EQUAL, "planted": (0, 2, 0.15)},
    "unequal classes, 0 for 2 in .15": {"shares": UNEQUAL, "planted": (0, 2, 0.15)},
    "unequal classes, 0 for 1 in .15": {"shares": UNEQUAL, "planted": (0, 1, 0.15)},
    "unequal classes, 1 for 2 in .3": {"shares": UNEQUAL, "planted": (1, 2, 0.3)},
    "unequal classes, 2 for 1 in .3": {"shares": UNEQUAL, "planted": (2, 1, 0.3)},
}


def draw_workers(rng: np.random.Generator, n_tasks: int, volume: np.ndarray, per_task: int) -> np.ndarray:
    """Different workers for each task, by volume."""
    keys = -np.log(volume) - rng.gumbel(size=(n_tasks, volume.size))
    return np.argpartition(keys, per_task - 1, axis=1)[:, :per_task].ravel()


def judge_answers(
    size: tuple[int, int, int, int], pull: tuple[float, float] | None, wrong: bool, seed: int
) -> tuple[int, int, int]:
    """Right answers called wrong; wrong answers called wrong; wrong answers called wrong or asked about."""
    n_tasks, n_workers, per_task, n_classes = size
    rng = np.random.default_rng([seed, *size])
    truth, skill = rng.integers(0, n_classes, n_tasks), rng.uniform(0.65, 0.95, n_workers)
    worker = draw_workers(rng, n_tasks, np.ones(n_workers), per_task)
    task = np.repeat(np.arange(n_tasks), per_task)
    off = (truth[task] + rng.integers(1, n_classes, task.size)) % n_classes
    label = np.where(rng.random(task.size) < skill[worker], truth[task], off)
    n_wrong = n_tasks // 20 if wrong else 0
    if pull is not None:
        misleading = (rng.random(n_tasks) < 0.1) & (np.arange(n_tasks) >= n_wrong)
        lure, chance = (truth + rng.integers(1, n_classes, n_tasks)) % n_classes, rng.uniform(*pull, n_tasks)
        label = np.where(misleading[task] & (rng.random(task.size) < chance[task]), lure[task], label)
    given = truth.copy()
    given[:n_wrong] = (given[:n_wrong] + rng.integers(1, n_classes, n_wrong)) % n_classes
    labels = CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    findings = find_mislabels(labels, truth=dict(enumerate(given.tolist())), random_state=seed).findings
    called = [finding.names[0] for finding in findings if finding.kind == "mislabel"]
    asked = [finding.names[0] for finding in findings]
    return sum(t >= n_wrong for t in called), sum(t < n_wrong for t in called), sum(t < n_wrong for t in asked)


def find_confusions(setting: dict[str, Any], seed: int) -> list[tuple[int, int]]:
    """Pairs of classes that are said to be mixed up in a crowd of 600 tasks and 30 workers."""
    rng = np.random.default_rng([seed, 600])
    shares = np.array(setting["shares"])
    truth, skill = rng.choice(3, 600, p=shares), rng.uniform(0.4, 0.95, 30)
    per_task = setting.get("per_task", 5)
    worker = draw_workers(rng, 600, rng.dirichlet(np.full(30, setting.get("volume", 100.0))) + 1e-9, per_task)
    task = np.repeat(np.arange(600), per_task)
    habits = {"even": np.full((30, 3), 1 / 3), "habit": rng.dirichlet(np.full(3, 5.0), 30)}
    habit = habits.get(setting.get("guess", "even"), np.tile(shares, (30, 1)))
    guess = (rng.random(task.size)[:, None] > habit.cumsum(axis=1)[worker]).sum(axis=1).clip(0, 2)
    label = np.where(rng.random(task.size) < skill[worker], truth[task], guess)
    if "planted" in setting:
        one, two, chance = setting["planted"]
        label = np.where((truth[task] == one) & (rng.random(task.size) < chance), two, label)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=600, workers=30, classes=3)
    return [finding.names for finding in find_confused_classes(labels, random_state=seed).findings]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--crowds", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--quick", action="store_true", help="10 crowds a setting; nothing is written")
    chosen = options.parse_args()
    crowds = 10 if chosen.quick else chosen.crowds
    seeds = range(chosen.seed, chosen.seed + crowds)
    rows: list[dict[str, Any]] = []

    def show(row: dict[str, Any]) -> None:
        rows.append(row | {"crowds": crowds})
        print(json.dumps(rows[-1]), flush=True)

    with get_context("spawn").Pool(chosen.processes) as pool:
        for size in SIZES:
            where = "tasks {}, workers {}, labels a task {}, classes {}".format(*size)
            for name, pull in PULLS.items():
                found = pool.map(partial(judge_answers, size, pull, False), seeds)
                show({"answers": where, "misleading": name, "called_wrong": np.mean([n > 0 for n, *_ in found])})
            for name, pull in ({"none": None} | {"pull .8": PULLS["pull .8"]}).items():
                found = np.array(pool.map(partial(judge_answers, size, pull, True), seeds))
                planted = crowds * (size[0] // 20)
                show(
                    {"answers": where, "misleading": name, "wrong_found": found[:, 1].sum() / planted}
                    | {"wrong_asked": found[:, 2].sum() / planted, "right_called_wrong": (found[:, 0] > 0).mean()}
                )
        for name, setting in HONEST.items():
            found = pool.map(partial(find_confusions, setting), seeds)
            show({"confusions": name, "found_any": np.mean([bool(each) for each in found])})
        for name, setting in PLANTED.items():
            found = pool.map(partial(find_confusions, setting), seeds)
            show({"confusions": name, "found": np.mean([setting["planted"][:2] in each for each in found])})
    if not chosen.quick:
        rows = [{key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()} for row in rows]
        RESULTS.write_text(json.dumps({"python": platform.python_version(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
