"""Crowdwise against crowd-kit, and against a bare loop, on the same labels in one run.

    python benchmarks/aggregation.py                 # everything; crowd-kit takes most of the time
    python benchmarks/aggregation.py dawid-skene 1e6  # one method, one size

K = 10 classes, 5 labels a task, tasks/100 workers, 20 EM iterations, from an integer table in memory (pandas) to
the posterior. Each figure is from a fresh process; compiling is done before the clock starts and reported apart.
Crowdwise runs three times before crowd-kit and three times after it, and the median counts: machines are fast and slow
by turns, and crowd-kit takes minutes. Processor seconds stand beside: where other programs want the cores, they are
what can be compared.
Peak memory is the process's high-water mark over what it was once labels and libraries were loaded.

The last line says what the memory of the machine can do (two threads that copy), those of Dawid–Skene what the passes
ask of it: labels twice, and for each block of tasks the workers' tables read and their counts read and written.

crowd-kit's GLAD does not end in useful time at this size, so it is timed for one iteration, and ours for one as well.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

K, LABELS_PER_TASK, ITERATIONS = 10, 5, 20
RUNS = 3  # of one process
HEADINGS = "method              labels        who   seconds    ratio     cpu s  peak MB  extra MB compile s"
RESULTS = Path(__file__).parent / "results" / "aggregation.json"
CASES = {
    "majority-vote": (1e6, 1e7),
    "one-coin": (1e6,),
    "dawid-skene": (1e6, 1e7),
    "glad": (1e5,),
}


def table(n_labels: int):
    """The labels as a crowd-kit user holds them: a data frame of integers."""
    import pandas as pd

    from crowdwise.simulate import simulate

    n_tasks = n_labels // LABELS_PER_TASK
    labels = simulate(
        "dawid-skene",
        n_tasks=n_tasks,
        n_workers=max(n_tasks // 100, 10),
        n_classes=K,
        labels_per_task=5,
        random_state=0,
    ).labels
    frame = pd.DataFrame({"task": labels.task, "worker": labels.worker, "label": labels.label}).astype("int64")
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


def ours(slug: str, iterations: int):
    import crowdwise as cw

    fixed = {} if slug == "majority-vote" else {"max_iter": iterations, "tol": 0.0}
    return lambda frame: cw.method(slug).load()(**fixed).fit(frame).posterior_


def crowd_kit(slug: str, iterations: int):
    from crowdkit.aggregation import GLAD, DawidSkene, MajorityVote, OneCoinDawidSkene

    if slug == "majority-vote":
        return lambda frame: MajorityVote().fit_predict_proba(frame)
    made = {"dawid-skene": DawidSkene, "one-coin": OneCoinDawidSkene, "glad": GLAD}[slug]
    return lambda frame: made(n_iter=iterations, tol=-1e300).fit_predict_proba(frame)


def bare_loop(slug: str, iterations: int):
    """The best plain loop we can write for Dawid–Skene: edges in blocks of tasks, by worker inside a block.

    No checks, no names, no objective of the prior, no intervals: two threads, each with its own counts.
    """
    if slug != "dawid-skene":
        raise SystemExit("the bare loop is for dawid-skene")
    from bare import fit

    return lambda frame: fit(
        frame["task"].to_numpy(), frame["worker"].to_numpy(), frame["label"].to_numpy(), K, iterations
    )


def measure(who: str, slug: str, n_labels: int, iterations: int) -> None:
    """In a process of its own: compile on a small table, load the large one, run, print one JSON line."""
    fit = {"crowdwise": ours, "crowd-kit": crowd_kit, "bare": bare_loop}[who](slug, iterations)
    compile_seconds = 0.0
    if who != "crowd-kit":
        small = table(50_000)
        started = time.perf_counter()
        fit(small)
        compile_seconds = time.perf_counter() - started
    frame = table(n_labels)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, processor = [], []
    for _ in range(1 if who == "crowd-kit" else RUNS):
        started, used = time.perf_counter(), time.process_time()
        fit(frame)
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {
        "seconds": seconds,
        "cpu_seconds": processor,
        "compile": compile_seconds,
        "extra_mb": (peak - base) / 1024,
        "peak_mb": peak / 1024,
    }
    print(json.dumps(found))


def in_fresh_process(who: str, slug: str, n_labels: int, iterations: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", who, slug, str(n_labels), str(iterations)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def put_together(*measured: dict[str, Any]) -> dict[str, float]:
    """One row of what several processes measured: the median of all runs, the most memory, the first compilation."""
    row = {key: median(run for each in measured for run in each[key]) for key in ("seconds", "cpu_seconds")}
    row["compile"] = measured[0]["compile"]
    return row | {key: max(each[key] for each in measured) for key in ("extra_mb", "peak_mb")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", nargs="?", choices=CASES)
    parser.add_argument("labels", nargs="?", type=float)
    parser.add_argument("--no-peer", action="store_true", help="leave crowd-kit out")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        who, slug, n_labels, iterations = arguments.measure
        measure(who, slug, int(n_labels), int(iterations))
        return
    rows = []
    print(machine())
    print(HEADINGS)
    for slug, sizes in CASES.items():
        if arguments.method not in (None, slug):
            continue
        for size in sizes if arguments.labels is None else (arguments.labels,):
            rows += one_case(slug, int(size), peer=not arguments.no_peer)
    # Last: a process that is started takes over the peak memory of the one that starts it.
    print(f"Two threads copy {copy_rate():.1f} GB/s, read and written.")
    if not arguments.no_peer:
        keep(rows)


def keep(rows: list[dict[str, object]]) -> None:
    """Write the rows to the results, in place of earlier ones of the same method and size."""
    done = {(row["method"], row["labels"]) for row in rows}
    earlier = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    rows = [row for row in earlier if (row["method"], row["labels"]) not in done] + rows
    rows.sort(key=lambda row: (list(CASES).index(row["method"]), row["labels"]))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


def one_case(slug: str, size: int, *, peer: bool) -> list[dict[str, object]]:
    iterations = 1 if slug == "glad" else ITERATIONS
    whom = ["crowdwise", *(["bare"] if slug == "dawid-skene" else []), *(["crowd-kit", "crowdwise"] if peer else [])]
    measured = [(who, in_fresh_process(who, slug, size, iterations)) for who in whom]
    found = {who: put_together(*(each for name, each in measured if name == who)) for who in dict.fromkeys(whom)}
    if peer:
        rate = (iterations + 1) * pass_bytes(size) / found["crowdwise"]["seconds"] / 1e9
        print(f"{slug:15}{size:>11,} labels: a pass moves {pass_bytes(size) / 1e6:.0f} MB, {rate:.1f} GB/s in all")
    rows = []
    for who, row in found.items():
        ratio = row["seconds"] / found["crowdwise"]["seconds"]
        print(
            f"{slug:15}{size:>11,} {who:>10} {row['seconds']:>9.3f} {ratio:>8.2f} {row['cpu_seconds']:>9.3f} "
            f"{row['peak_mb']:>8.0f} {row['extra_mb']:>9.0f} {row['compile']:>9.2f}",
            flush=True,
        )
        rows.append({"method": slug, "labels": size, "who": who, "ratio": ratio, **row})
    return rows


def copy_rate() -> float:
    """GB/s that two threads read and write in copying arrays that no cache holds."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    arrays = [(np.zeros(2**25), np.ones(2**25)) for _ in range(2)]
    best = float("inf")
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            started = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), arrays))
            best = min(best, time.perf_counter() - started)
    return 4 * 8 * 2**25 / best / 1e9


def pass_bytes(n_labels: int) -> float:
    """Bytes that one pass asks of memory or of the caches that are shared, were the rest kept beside the core."""
    from crowdwise.kernels.block_layout import count_block_tasks, count_lanes

    n_tasks = n_labels // LABELS_PER_TASK
    n_workers = max(n_tasks // 100, 10)
    size = count_block_tasks(n_labels, n_tasks, n_workers * K, K, count_lanes(n_labels, n_workers, K))
    return 2 * 6 * n_labels + -(-n_tasks // size) * 3 * 8 * n_workers * K**2


def machine() -> str:
    with Path("/proc/cpuinfo").open() as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
