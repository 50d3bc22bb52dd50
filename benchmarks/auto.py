"""What `auto` costs, as a multiple of one Dawid–Skene fit to the same labels, in one run.

    python benchmarks/auto.py [LABELS ...]

Simulated crowds, 10 classes, 5 labels a task, 1,000 labels a worker: of workers with one accuracy each, and of workers
who are good at one of two kinds of tasks (so that EBCC, the costliest member, wins). Default parameters; of two fits,
the quicker counts (one with 10 M labels); compiling is apart.
"""

from __future__ import annotations

import json
import platform
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import crowdwise as cw

RESULTS = Path(__file__).parent / "results" / "auto.json"
CLASSES, PER_TASK, PER_WORKER = 10, 5, 1000


def crowd(n_labels: int, kind: str, seed: int = 0) -> cw.CrowdLabels:
    generator = np.random.default_rng(seed)
    n_tasks, n_workers = n_labels // PER_TASK, max(50, n_labels // PER_WORKER)
    task = np.repeat(np.arange(n_tasks), PER_TASK)
    worker = generator.integers(0, n_workers, n_labels)
    truth = generator.integers(0, CLASSES, n_tasks)
    chance = generator.uniform(0.4, 0.95, n_workers)[worker]
    wrong = generator.integers(0, CLASSES, n_labels)
    if kind == "two kinds":
        good_at = generator.integers(0, 2, n_workers)[worker] == generator.integers(0, 2, n_tasks)[task]
        chance, wrong = np.where(good_at, 0.95, 0.2), (truth[task] + 1) % CLASSES
    label = np.where(generator.random(n_labels) < chance, truth[task], wrong)
    return cw.CrowdLabels.from_codes(
        task, worker, label, tasks=n_tasks, workers=n_workers, classes=CLASSES, on_duplicate="all"
    )


def seconds(make: type[cw.DawidSkene | cw.Auto], labels: cw.CrowdLabels, repeats: int) -> tuple[float, object]:
    best, model = np.inf, None
    for _ in range(repeats):
        started = time.perf_counter()
        model = make().fit(labels)
        best = min(best, time.perf_counter() - started)
    return best, model


def main() -> None:
    warnings.simplefilter("ignore", cw.NotConverged)
    sizes = [int(float(word)) for word in sys.argv[1:]] or [1_000_000, 10_000_000]
    for make in (cw.DawidSkene, cw.Auto):
        make().fit(crowd(150_000, "two kinds"))  # compiles
    rows = []
    for size in sizes:
        for kind in ("coins", "two kinds"):
            labels = crowd(size, kind)
            repeats = 2 if size <= 2_000_000 else 1
            plain, model = seconds(cw.DawidSkene, labels, repeats)
            auto, chosen = seconds(cw.Auto, labels, repeats)
            members = {row["method"]: round(row["weight"], 2) for row in chosen.league().to_pylist() if row["weight"]}
            row = {
                "labels": size,
                "crowd": kind,
                "dawid_skene_seconds": plain,
                "dawid_skene_iterations": int(model.n_iter_),
                "auto_seconds": auto,
                "ratio": auto / plain,
                "members": members,
            }
            rows.append(row)
            print(
                f"{size:>11,} {kind:9} dawid-skene {plain:6.2f} s, auto {auto:6.2f} s: {auto / plain:4.1f} × {members}"
            )
    machine = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    found = {"machine": machine, "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
