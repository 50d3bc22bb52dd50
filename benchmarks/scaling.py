"""How the time of an iteration and of a fit grows: every method at 10⁵ and at 10⁶ labels, in one run.

    python benchmarks/scaling.py              # every method of the registry
    python benchmarks/scaling.py sml m-msr    # these; the results of the others are kept

K = 4 classes, 5 labels a task, tasks/5 workers, so that labels, workers and pairs of workers who share a task all grow
tenfold: a method of cost O(labels) or O(pairs) has a ratio of about 10, more where its tables leave the cache. An
iteration's time is the difference between a fit of many iterations and one of few, over the difference of their
numbers; what is done once (pairs of workers, layout, intervals) is in the seconds of the fit with few. A slow method is
given fewer iterations, and one without iterations has only the seconds of its fit. Times are of the processor, all
threads together, so that other work on the machine hardly enters. Compiling is done on a small table before the clock
starts and reported apart. Each method has a process of its own, which ends after `LIMIT` seconds of the processor.
"""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import crowdwise as cw
from crowdwise.simulate import simulate

K, LABELS_PER_TASK, WORKERS_PER_TASK = 4, 5, 0.2
SMALL, SIZES = 10_000, (100_000, 1_000_000)
FEW, MANY, RUNS = 2, 12, 2
SLOW, LIMIT = 4.0, 90  # seconds of the processor: of a fit with few iterations, of everything for a method
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
        random_state=0,
    ).labels


def timed(slug: str, labels, iterations: int, runs: int) -> tuple[float, int]:
    """Seconds of the best of the runs, and the iterations made."""
    make = cw.method(slug).load()
    wanted = {"max_iter": iterations, "tol": 0.0}
    fixed = {name: value for name, value in wanted.items() if name in make().get_params()}
    seconds = []
    for _ in range(runs):
        model = make(**fixed)
        started = time.process_time()
        model.fit(labels)
        seconds.append(time.process_time() - started)
    return min(seconds), model.n_iter_


def one_size(slug: str, labels) -> tuple[float | None, float]:
    """Seconds of an iteration (None where there are no more to be had), and of a fit with few."""
    few, first = timed(slug, labels, FEW, RUNS)
    if not cw.method(slug).iterative:
        return None, few
    slow = few > SLOW
    many, last = timed(slug, labels, FEW + 2 if slow else MANY, 1 if slow else RUNS)
    return (max(many - few, 1e-9) / (last - first) if last > first else None), few


def measure(slug: str) -> None:
    """In a process of its own: the row of a method as a JSON line."""
    warnings.simplefilter("ignore", cw.NotConverged)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    compiled = timed(slug, labels_of(SMALL), FEW, 1)[0]
    (small, small_fit), (large, large_fit) = (one_size(slug, labels_of(size)) for size in SIZES)
    row = {"method": slug, "fit_s": [round(small_fit, 3), round(large_fit, 3)]}
    row |= {"fit_ratio": round(large_fit / small_fit, 2), "compile": round(compiled, 2)}
    if small is not None and large is not None:
        row |= {"iteration_ms": [round(1e3 * small, 3), round(1e3 * large, 3)], "ratio": round(large / small, 2)}
    print(json.dumps(row))


def one_method(slug: str) -> dict[str, object]:
    command = [sys.executable, __file__, "--measure", slug]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"ended after {LIMIT} s of the processor"])[-1]
        print(f"{slug:24}{why}", flush=True)
        return {"method": slug, "note": why}
    row: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    iteration = f"{'':23}{'':8}"
    if "ratio" in row:
        iteration = f"{row['iteration_ms'][0]:10.2f}{row['iteration_ms'][1]:13.2f}{row['ratio']:8.1f}"
    fit = f"{row['fit_s'][0]:11.3f}{row['fit_s'][1]:12.3f}{row['fit_ratio']:8.1f}{row['compile']:10.1f}"
    print(f"{slug:24}{iteration}{fit}", flush=True)
    return row


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
        return
    asked = [cw.method(slug).slug for slug in sys.argv[1:]]
    before = json.loads(RESULTS.read_text())["rows"] if asked and RESULTS.exists() else []
    print(HEADINGS)
    rows = {row["method"]: row for row in before}
    for slug in asked or [entry.slug for entry in cw.methods()]:
        rows[slug] = one_method(slug)
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
