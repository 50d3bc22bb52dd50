"""How the time of an iteration grows: every iterative method at 10⁵ and at 10⁶ labels, in one run.

    python benchmarks/scaling.py              # every method of the registry that has iterations
    python benchmarks/scaling.py sml m-msr    # these; the results of the others are kept

K = 4 classes, 5 labels a task, tasks/5 workers, so that labels, workers and pairs of workers who share a task all grow
tenfold: a method of cost O(labels) or O(pairs) has a ratio of about 10, more where its tables leave the cache. An
iteration's time is the difference between a fit of many iterations and one of few, over the difference of their
numbers; what is done once (pairs of workers, layout, intervals) is in the seconds of the fit with few. Times are of the
processor, all threads together, so that other work on the machine hardly enters. Compiling is done on a small table
before the clock starts and reported apart.
"""

from __future__ import annotations

import json
import platform
import sys
import time
import warnings
from pathlib import Path

import crowdwise as cw
from crowdwise.simulate import simulate

K, LABELS_PER_TASK, WORKERS_PER_TASK = 4, 5, 0.2
SMALL, SIZES = 10_000, (100_000, 1_000_000)
FEW, MANY, RUNS = 2, 22, 2
RESULTS = Path(__file__).parent / "results" / "scaling.json"
HEADINGS = "method                  ms/iter 1e5  ms/iter 1e6  ratio   fit 1e5 s   fit 1e6 s  ratio  compile s"


def labels_of(n_labels: int):
    n_tasks = n_labels // LABELS_PER_TASK
    return simulate(
        "one-coin",
        n_tasks=n_tasks,
        n_workers=int(WORKERS_PER_TASK * n_tasks),
        n_classes=K,
        labels_per_task=LABELS_PER_TASK,
        seed=0,
    ).labels


def timed(slug: str, labels, iterations: int) -> tuple[float, int]:
    """Seconds of the best of the runs, and the iterations made."""
    make = cw.method(slug).load()
    wanted = {"max_iter": iterations, "tol": 0.0}
    fixed = {name: value for name, value in wanted.items() if name in make().get_params()}
    seconds = []
    for _ in range(RUNS):
        model = make(**fixed)
        started = time.process_time()
        model.fit(labels)
        seconds.append(time.process_time() - started)
    return min(seconds), model.n_iter_


def one_size(slug: str, labels) -> tuple[float, float]:
    """Seconds of an iteration, and of a fit with few; where both end early, an iteration's share of the fit."""
    few, first = timed(slug, labels, FEW)
    many, last = timed(slug, labels, MANY)
    return max(many - few, 1e-9) / (last - first) if last > first else many / last, few


def one_method(slug: str, tables) -> dict[str, object]:
    tiny = labels_of(SMALL)
    started = time.perf_counter()
    cw.method(slug).load()(max_iter=FEW).fit(tiny)
    compiled = time.perf_counter() - started
    (small, small_fit), (large, large_fit) = (one_size(slug, labels) for labels in tables)
    print(
        f"{slug:24}{1e3 * small:10.2f}{1e3 * large:13.2f}{large / small:8.1f}"
        f"{small_fit:11.3f}{large_fit:12.3f}{large_fit / small_fit:8.1f}{compiled:10.1f}",
        flush=True,
    )
    return {
        "method": slug,
        "iteration_ms": [round(1e3 * small, 3), round(1e3 * large, 3)],
        "ratio": round(large / small, 2),
        "fit_s": [round(small_fit, 3), round(large_fit, 3)],
        "fit_ratio": round(large_fit / small_fit, 2),
        "compile": round(compiled, 2),
    }


def main() -> None:
    warnings.simplefilter("ignore", cw.NotConverged)
    asked = [cw.method(slug).slug for slug in sys.argv[1:]]
    chosen = [entry.slug for entry in cw.methods() if entry.iterative and (not asked or entry.slug in asked)]
    before = json.loads(RESULTS.read_text())["rows"] if asked and RESULTS.exists() else []
    tables = [labels_of(size) for size in SIZES]
    print(HEADINGS)
    rows = {row["method"]: row for row in before}
    for slug in chosen:
        rows[slug] = one_method(slug, tables)
        found = {
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "labels": SIZES,
            "classes": K,
            "iterations": [FEW, MANY],
            "rows": list(rows.values()),
        }
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
