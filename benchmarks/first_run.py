"""Seconds until the first result: each command in a process of its own, on a machine that has compiled nothing yet.

python benchmarks/first_run.py                                       # bluebird, 4,212 labels
python benchmarks/first_run.py --peer-python /tmp/peer/bin/python    # where crowd-kit is installed elsewhere

Every command runs with an empty folder for compiled loops (first) and again with what that left (second); crowd-kit
runs as a script that reads the same file. The best of three rounds, in which all take turns, so that a busy machine is
busy for all. Writes benchmarks/results/first_run.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "first_run.json"
# Seconds of a command, at most, as a multiple of those of crowd-kit.
BARS = {"majority-vote": 1.0, "dawid-skene": 1.0, "auto": 2.0, "audit": 3.0}
PEER = """
import sys

import pandas as pd
from crowdkit.aggregation import {method}

answers = pd.read_csv(sys.argv[1])
answers.columns = ["task", "worker", "label"]
print({method}({options}).fit_predict(answers).value_counts())
"""
PEERS = {"crowd-kit MajorityVote": ("MajorityVote", ""), "crowd-kit DawidSkene": ("DawidSkene", "n_iter=100")}
# Which script a command is held against: the first methods against the same, the others against Dawid and Skene.
AGAINST = {"majority-vote": "crowd-kit MajorityVote"}


def commands(labels: Path, peer_python: str) -> dict[str, list[str]]:
    """Words of every command."""
    crowdwise = [sys.executable, "-m", "crowdwise"]
    found = {
        method: [*crowdwise, "aggregate", str(labels), "--method", method]
        for method in ("majority-vote", "dawid-skene", "auto")
    }
    found["audit"] = [*crowdwise, "audit", str(labels)]
    for name, (method, options) in PEERS.items():
        found[name] = [peer_python, "-c", PEER.format(method=method, options=options), str(labels)]
    return found


def seconds_of(words: list[str], cache: str) -> float:
    """Wall time of one process."""
    start = time.perf_counter()
    done = subprocess.run(words, env={**os.environ, "NUMBA_CACHE_DIR": cache}, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])} failed:\n{done.stderr.decode()[-2000:]}")
    return time.perf_counter() - start


def measured(every: dict[str, list[str]], rounds: int) -> dict[str, dict[str, float]]:
    """Best of all rounds: the first run of each command, and the second."""
    best = {name: {"first": float("inf"), "second": float("inf")} for name in every}
    for _ in range(rounds):
        for name, words in every.items():
            with tempfile.TemporaryDirectory() as cache:
                for run in ("first", "second"):
                    best[name][run] = min(best[name][run], seconds_of(words, cache))
    return best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("CROWDWISE_DATA", "data"))
    options.add_argument("--labels", type=Path, default=folder / "bluebird" / "labels.csv")
    options.add_argument("--peer-python", default=sys.executable, help="a Python that has crowd-kit")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    best = measured(commands(chosen.labels, chosen.peer_python), chosen.rounds)
    rows = []
    for name, seconds in best.items():
        row: dict[str, object] = {"command": name, **{run: round(value, 3) for run, value in seconds.items()}}
        if name in BARS:
            peer = best[AGAINST.get(name, "crowd-kit DawidSkene")]
            row |= {f"{run} ratio": round(seconds[run] / peer[run], 2) for run in seconds} | {"bar": BARS[name]}
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    about = {"labels": f"{chosen.labels.parent.name}/{chosen.labels.name}", "rounds": chosen.rounds, **machine}
    RESULTS.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    met = all(row["bar"] >= max(row["first ratio"], row["second ratio"]) for row in rows if "bar" in row)  # type: ignore[type-var,operator]
    print("All bars are met." if met else "Not all bars are met.")


if __name__ == "__main__":
    main()
