"""How many of the bad workers planted in real crowds an audit finds: those who always say the same, guess or copy.

    python benchmarks/planted_workers.py --processes 16               # 14 sets × 4 kinds × 3 shares × 20 seeds
    python benchmarks/planted_workers.py --quick                      # the small sets, 2 seeds
    python benchmarks/planted_workers.py --sets web sp --seeds 5      # some of it

Into each set come workers of one kind, until they have given 1, 5 or 20 % of all labels. Each has as many labels as a
worker of the set drawn at random, but at least 50 (and at most what the share leaves, where that is 50 or more).

| kind | answers |
|---|---|
| constant | always one class, drawn for each worker from the classes that at least 1 % of the labels name |
| uniform | guesses, all classes alike |
| by shares | guesses classes as often as the set's labels name them |
| copier | what another worker with 50 labels or more said, on all of that worker's tasks |

A copier is found if flagged in a group with that worker, or with another copy of them; the others if flagged at all.

"Flagged alone" is a finding that names the worker ("spammer", "opposite"); a group is one of "dependent workers" or
"colluders". What is run is `crowdwise.audit.audit.screen_workers`, the part of `audit_crowd` that makes these findings,
at its level. A set without a worker of 50 labels has nobody to copy, and says so. The same runs count the
set's own workers who are flagged only because others were planted (`drawn in`).

Figures are per planted worker, over all seeds. No truth is read.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crowdwise.audit.audit import screen_workers
from crowdwise.datasets import load
from crowdwise.labels import CrowdLabels

RESULTS = Path(__file__).parent / "results" / "planted_workers.json"
SETS = (
    *("bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us"),
    *("adult2", "fact_eval", "ducks", "labelme", "music", "imagenet15n", "cifar10h"),
)
QUICK = ("bluebird", "dog", "web", "rte", "temp", "zencrowd_us", "ducks", "labelme", "music", "imagenet15n")
KINDS = ("constant", "uniform", "by shares", "copier")
SHARES = (0.01, 0.05, 0.2)
FEWEST = 50  # labels of a planted worker
LEAST_SHARE = 0.01  # of the labels that name a class, for a constant worker to name it


class Planted(NamedTuple):
    """A planted worker: name, who was copied (or None), how many labels, and the class if it is always the same."""

    name: str
    source: Any
    n_labels: int
    always: int | None


def plant(
    labels: CrowdLabels, kind: str, share: float, rng: np.random.Generator
) -> tuple[CrowdLabels, list[Planted]] | None:
    """The labels with planted workers; None where there is nobody to copy."""
    target = max(FEWEST, round(share / (1 - share) * labels.n_labels))
    own = labels.labels_per_worker
    names = labels.workers.to_pylist()
    answered = np.flatnonzero(labels.labels_per_task)
    usual = np.flatnonzero(labels.class_shares >= LEAST_SHARE)
    busy = own[own >= FEWEST]
    most = max(target, int(busy.min())) if busy.size else 0  # a copy must not be more than the share leaves
    sources = rng.permutation(np.flatnonzero((own >= FEWEST) & (own <= most)))
    if kind == "copier" and not sources.size:
        return None
    edges, planted, total = [], [], 0
    while total < target:
        number, always, source = len(planted), None, None
        if kind == "copier":
            source = int(sources[number % sources.size])
            mine = labels.worker == source
            task, label = labels.task[mine], labels.label[mine]
        else:
            size = int(min(max(rng.choice(own[own > 0]), FEWEST), max(target - total, FEWEST), answered.size))
            task = rng.choice(answered, size, replace=False)
            if kind == "constant":
                always = int(rng.choice(usual))
                label = np.full(size, always)
            elif kind == "uniform":
                label = rng.integers(0, labels.n_classes, size)
            else:
                label = rng.choice(labels.n_classes, size, p=labels.class_shares)
        edges.append((task, np.full(task.size, labels.n_workers + number), label))
        planted.append(Planted(f"planted {number}", None if source is None else names[source], int(task.size), always))
        total += task.size
    task, worker, label = (
        np.concatenate([old, *new])
        for old, new in zip((labels.task, labels.worker, labels.label), zip(*edges, strict=True), strict=True)
    )
    every = CrowdLabels.from_codes(
        task, worker, label, tasks=labels.tasks, workers=[*map(str, names), *(each.name for each in planted)],
        classes=labels.classes, on_duplicate="all",
    )  # fmt: skip
    return every, planted


def found_among(planted: list[Planted], findings: list[Any]) -> list[bool]:
    """Whether each planted worker is found, in the sense of the table above."""
    alone = {finding.names[0] for finding in findings if finding.about == "worker"}
    groups = [set(finding.names) for finding in findings if finding.about == "workers"]
    found = []
    for each in planted:
        mine = [group for group in groups if each.name in group]
        if each.source is None:
            found.append(each.name in alone or bool(mine))
        else:
            kin = {str(each.source)} | {other.name for other in planted if other.source == each.source} - {each.name}
            found.append(any(group & kin for group in mine))
    return found


def run(job: tuple[str, str, float, int]) -> dict[str, Any]:
    """One set, kind, share and seed."""
    name, kind, share, seed = job
    labels = load(name).labels
    began = time.perf_counter()
    made = plant(labels, kind, share, np.random.default_rng([seed, KINDS.index(kind), round(100 * share)]))
    row: dict[str, Any] = {"set": name, "kind": kind, "share": share, "seed": seed}
    if made is None:
        return row | {"skipped": f"no worker has {FEWEST} labels to copy"}
    crowd, planted = made
    screens = screen_workers(crowd, random_state=seed)
    findings = [finding for screen in screens for finding in screen.findings]
    found = found_among(planted, findings)
    accused = {str(who) for finding in findings for who in finding.names}
    ours = {each.name for each in planted} | {str(each.source) for each in planted}
    most = int(labels.class_shares.argmax())
    return row | {
        "planted": len(planted),
        "found": sum(found),
        "missed": [[each.n_labels, each.always == most] for each, hit in zip(planted, found, strict=True) if not hit],
        "of_largest_class": sum(each.always == most for each in planted),
        "accused": sorted(accused - ours),
        "seconds": round(time.perf_counter() - began, 2),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Sensitivity by set and kind × share; None where nobody could be planted."""
    sums: dict[tuple[str, str, float], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        cell = sums[row["set"], row["kind"], row["share"]]
        cell[0] += row.get("found", 0)
        cell[1] += row.get("planted", 0)
    table: dict[str, dict[str, float | None]] = defaultdict(dict)
    for (name, kind, share), (found, planted) in sums.items():
        table[name][f"{kind} {share:.0%}"] = round(found / planted, 3) if planted else None
    return dict(table)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", nargs="+", default=None, choices=SETS)
    options.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    options.add_argument("--seeds", type=int, default=None)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--out", type=Path, default=None, help="a JSON file; benchmarks/results/ for the full run")
    chosen = options.parse_args()
    sets = chosen.sets or (QUICK if chosen.quick else SETS)
    seeds = chosen.seeds or (2 if chosen.quick else 20)
    jobs = list(product(sets, chosen.kinds, chosen.shares, range(seeds)))
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # of each process, which reads it when it starts
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        rows = list(pool.imap(run, jobs))
    table = summary(rows)
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    print("set".ljust(12), *(column.rjust(14) for column in columns))
    for name, row in table.items():
        cells = ("-" if row.get(column) is None else f"{row[column]:.3f}" for column in columns)
        print(name.ljust(12), *(cell.rjust(14) for cell in cells))
    known = [value for row in table.values() for value in row.values() if value is not None]
    print(f"{sum(value >= 0.95 for value in known)} of {len(known)} cells reach .95; the least is {min(known):.3f}")
    full = sets == SETS and seeds >= 20 and chosen.kinds == list(KINDS)
    out = chosen.out or (RESULTS if full else None)
    if out is not None:
        out.write_text(json.dumps({"python": platform.python_version(), "table": table, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
