"""The league: every method and crowd-kit's on every data set with truth: accuracy, calibration, log loss, seconds.

    python benchmarks/accuracy.py                       # everything; takes a while
    python benchmarks/accuracy.py auto ck:GLAD          # these; the results of the others are kept
    python benchmarks/accuracy.py --limit 600           # seconds after which a fit is given up, 120 by default

The data sets are those of CROWDWISE_DATA. Default parameters; no truth is used by any method. Both sides get the same
table, repeated answers included. Ties: ours by rule, crowd-kit's as it does. Tasks that an aggregator leaves out count
as wrong. Methods that draw at random are averaged over seeds 0-4 where a fit takes less than `CHEAP` seconds, otherwise
seed 0 is used; each row says which. crowd-kit is left out, with a note, where it is not installed.

The fits run in a process of their own; one that takes too long ends it, and a new process goes on with the next.
Seconds are of the processor, all threads together, for one fit, compiled before the clock starts: other work on the
machine hardly enters.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import math
import platform
import resource
import signal
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import crowdwise as cw

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parent / "results" / "accuracy.json"
FOURTEEN = ["bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks"]
FOURTEEN += ["labelme", "music", "imagenet15n", "cifar10h"]
APART = ["cifar10n", "ner_crowd"]  # three workers; sequences
PEER = "ck:"
# GoldMajorityVote is told truths, so it is not in the league.
PEERS = ["MajorityVote", "Wawa", "ZeroBasedSkill", "DawidSkene", "OneCoinDawidSkene", "GLAD", "MACE", "MMSR", "KOS"]
CHEAP, SEEDS, LIMIT = 5.0, 5, 120.0


def ours(slug: str, data: cw.datasets.Dataset) -> dict[str, object]:
    """One row: fits with default parameters, or with several seeds where the method draws at random."""
    make = cw.method(slug).load()
    runs = []
    for seed in range(SEEDS if cw.method(slug).random else 1):
        model = make(random_state=seed) if cw.method(slug).random else make()
        started = time.process_time()
        model.fit(data.labels)
        seconds = time.process_time() - started
        runs.append((*scores(data, model._decide(model.posterior_), model.posterior_), seconds))
        if seconds > CHEAP:
            break
    accuracy, calibration, loss, seconds = np.mean(runs, axis=0)
    row = {"accuracy": accuracy, "calibration_error": calibration, "log_loss": loss, "seconds": seconds}
    return row | ({"seeds": len(runs)} if cw.method(slug).random else {})


def crowd_kit(name: str, data: cw.datasets.Dataset) -> dict[str, object]:
    """One row: an aggregator of crowd-kit, from the codes of the same labels."""
    import crowdkit.aggregation
    import pandas as pd

    labels = data.labels
    if name == "KOS" and labels.n_classes != 2:
        return {"note": "two classes only"}
    table = pd.DataFrame({"task": labels.task, "worker": labels.worker, "label": labels.label}).astype("int64")
    made = getattr(crowdkit.aggregation, name)
    home = sys.modules[made.__module__]
    if hasattr(home, "check_is_fitted"):  # it refuses crowd-kit's classes since scikit-learn 1.7; the methods are sound
        home.check_is_fitted = lambda *_, **__: None
    model = made()
    started = time.process_time()
    predicted = model.fit_predict(table)
    seconds = time.process_time() - started
    chosen = np.full(labels.n_tasks, -1)
    chosen[predicted.index.to_numpy(np.int64)] = predicted.to_numpy(np.int64)
    posterior = None
    if getattr(model, "probas_", None) is not None:
        found = model.probas_.fillna(0.0)
        posterior = np.full((labels.n_tasks, labels.n_classes), 1.0 / labels.n_classes)
        rows = np.zeros((len(found), labels.n_classes))
        rows[:, found.columns.to_numpy(np.int64)] = found.to_numpy(float)
        posterior[found.index.to_numpy(np.int64)] = rows / rows.sum(axis=1, keepdims=True)
    accuracy, calibration, loss = scores(data, chosen, posterior)
    return {"accuracy": accuracy, "calibration_error": calibration, "log_loss": loss, "seconds": seconds}


def scores(
    data: cw.datasets.Dataset, chosen: np.ndarray, posterior: np.ndarray | None
) -> tuple[float, float | None, float | None]:
    known = data.truth_codes >= 0
    accuracy = float(np.mean(chosen[known] == data.truth_codes[known]))
    if posterior is None:
        return accuracy, None, None
    calibration = cw.metrics.expected_calibration_error(data.truth_codes, posterior)
    return accuracy, calibration, cw.metrics.log_loss(data.truth_codes, posterior)


def one_row(who: str, data: cw.datasets.Dataset) -> dict[str, object]:
    try:
        row = crowd_kit(who.removeprefix(PEER), data) if who.startswith(PEER) else ours(who, data)
    except Exception as error:  # a crash is a result, too
        row = {"note": f"{type(error).__name__}: {str(error)[:120]}"}
    return {"data": data.name, "method": who, **row}


def measure(limit: float, jobs: list[str]) -> None:
    """In a process of its own: one JSON line for each job, "method/data set"."""
    warnings.simplefilter("ignore")
    load = functools.cache(cw.datasets.load)
    compiled = ""
    for job in jobs:
        who, name = job.split("/")
        own = not who.startswith(PEER)
        if own and who != compiled:
            for n_classes in (2, 3):
                crowd = cw.simulate.simulate("one-coin", n_tasks=60, n_workers=9, n_classes=n_classes, random_state=0)
                cw.method(who).load()().fit(crowd.labels)
        compiled = who
        data = load(name)
        allowed = time.process_time() + limit * (SEEDS if own and cw.method(who).random else 1)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(allowed), resource.RLIM_INFINITY))
        print(json.dumps(one_row(who, data)), flush=True)
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def in_turn(jobs: list[str], limit: float) -> Iterator[dict[str, object]]:
    """One row for each job; a fresh process takes over after each that was given up."""
    done = 0
    while done < len(jobs):
        command = [sys.executable, __file__, "--limit", str(limit), "--measure", *jobs[done:]]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            done += 1
            yield json.loads(line)
        errors = process.communicate()[1].strip().splitlines()
        if done < len(jobs):
            who, name = jobs[done].split("/")
            late = process.returncode == -signal.SIGXCPU
            why = f"given up after {limit:.0f} s" if late else (errors or ["the process died"])[-1][:200]
            done += 1
            yield {"data": name, "method": who, "note": why}


def versions() -> dict[str, str]:
    packages = ("crowdwise", "crowd-kit", "numpy", "numba", "pandas")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "of this folder" if package == "crowdwise" else "not installed"
    return found


def machine() -> str:
    with Path("/proc/cpuinfo").open() as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}"


def keep(rows: list[dict[str, object]]) -> None:
    """Write the rows to the results, in place of earlier ones of the same method and data set."""
    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    done = {(row["method"], row["data"]) for row in rows}
    known = {entry.slug for entry in cw.methods()} | {PEER + name for name in PEERS}
    earlier = [row for row in old.get("rows", []) if (row["method"], row["data"]) not in done]
    rows = sorted(
        (row for row in earlier + rows if row["method"] in known), key=lambda row: (row["method"], row["data"])
    )
    found = versions()
    if found["crowd-kit"] == "not installed":
        found["crowd-kit"] = old.get("versions", {}).get("crowd-kit", "not installed")
    RESULTS.parent.mkdir(exist_ok=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    head = json.dumps({"machine": machine(), "versions": found, "sets": FOURTEEN, "apart": APART}, indent=1)
    RESULTS.write_text(f'{head[:-2]},\n "rows": [\n  {lines}\n ]\n}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help=f"slugs, or {PEER}NAME for an aggregator of crowd-kit")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds after which a fit is given up")
    parser.add_argument("--sets", nargs="+", help="data sets; by default all that are at hand")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.limit, arguments.measure)
        return
    at_hand = cw.datasets.available()
    names = [name for name in arguments.sets or FOURTEEN + APART if name in at_hand]
    peers = [PEER + name for name in PEERS]
    if find_spec("crowdkit") is None:
        peers = []
        print("crowd-kit is not installed: only our own methods are run (pip install crowd-kit)")
    methods = arguments.methods or [entry.slug for entry in cw.methods()] + peers
    for row in in_turn([f"{who}/{name}" for who in methods for name in names], arguments.limit):
        value = f"{row['accuracy']:.4f}  {row['seconds']:8.2f} s" if "accuracy" in row else row["note"]
        print(f"{row['method']:24}{row['data']:14}{value}", flush=True)
        keep([row])


if __name__ == "__main__":
    main()
