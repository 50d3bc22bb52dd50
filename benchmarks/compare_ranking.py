"""Whether `compare` ranks methods as the truth does, says so when it cannot, and has rank intervals that hold.

    python benchmarks/compare_ranking.py                     # real sets and simulated crowds; hours on one core
    python benchmarks/compare_ranking.py --processes 16      # one thread each
    python benchmarks/compare_ranking.py --quick             # small sets, one seed of the smallest crowds

Real sets are those of CROWDWISE_DATA with a truth; simulated crowds those of `compare_crowds.py`, each of which keeps
or breaks one assumption. On each, `METHODS` are compared by held-out labels and by the truth, and `auto`, the default,
is fitted once. No truth is used by any fit or choice. Reported for each kind of crowd:

- Spearman's rank correlation of held-out score and accuracy;
- accuracy of the method that is best by held-out labels, of the one that is best by the truth, of `auto`, and of what
  `compare` recommends (the best by held-out labels where it is alone and there is no caution, else `auto`);
- how often a caution was printed;
- how often the best by held-out labels is worse than the best by truth beyond chance ("misled").

Check: how often the caution appears in many more crowds, of which nothing else is measured. Rank intervals: for crowds
with the same workers and new tasks, how often the interval of a method holds its rank by the mean score over all draws.
Writes results/compare_ranking.json; `python docs/make.py` then makes the tables of docs/choosing.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import crowdwise as cw
from compare_crowds import CLASSES, CROWDS, SHAPES, simulate_assumption
from crowdwise.evaluate.independence_check import check_independence

RESULTS = Path(__file__).parent / "results" / "compare_ranking.json"
METHODS = ["majority-vote", "weighted-majority-vote", "bwa", "one-coin", "zencrowd", "glad", "dawid-skene", "mace"]
METHODS += ["mean-field", "bcc", "cbcc", "ebcc", "minimax-entropy"]
CHEAP = ["majority-vote", "weighted-majority-vote", "one-coin", "dawid-skene", "mean-field", "mace"]
SMALL = ["bluebird", "temp", "rte", "ducks", "labelme", "music", "dog"]
SETS = [*SMALL, "zencrowd_us", "web", "sp", "imagenet15n", "cifar10h", "adult2", "fact_eval"]
CHECKED = 10_000  # seeds of the crowds that are only checked begin here: those that the limit was chosen on are others
SLOW = {"minimax-entropy": ("imagenet15n", "cifar10h", "adult2", "fact_eval")}  # left out there: hours


def measure(labels: cw.CrowdLabels, truth: Any, methods: list[str]) -> dict[str, Any]:
    """One comparison, and what it leads to."""
    started = time.perf_counter()
    names, classes = labels.tasks.to_pylist(), labels.classes.to_pylist()
    known = {names[task]: classes[truth[task]] for task in np.flatnonzero(truth >= 0)}
    found = cw.compare(labels, methods, truth=known)
    model = cw.Auto().fit(labels)
    scored = [row for row in found.standings if not row.note]
    accuracy = {row.method: row.accuracy for row in scored}
    accuracy["auto"] = cw.metrics.accuracy(truth, model.posterior_.argmax(axis=1))
    without_truth = found.best if not (found.tied_with_best or found.cautions) else "auto"
    return {
        "spearman": float(spearmanr([row.held_out for row in scored], [row.accuracy for row in scored]).statistic),
        "held_out_best": accuracy[found.best],
        "truth_best": max(row.accuracy for row in scored),
        "auto": accuracy["auto"],
        "recommended": accuracy[without_truth],
        "alone": not found.tied_with_best,
        "misled": found.contradicted_by_truth,
        "pairs": found.independence.pairs if found.independence else None,
        "tasks": found.independence.tasks if found.independence else None,
        "caution": bool(found.independence and found.independence.failed_check),
        "seconds": time.perf_counter() - started,
        "methods": [
            {key: getattr(row, key) for key in ("method", "held_out", "rank_low", "rank_high", "accuracy")}
            for row in scored
        ],
    }


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    if job["part"] == "real":
        data = cw.datasets.load(job["name"])
        methods = [slug for slug in METHODS if job["name"] not in SLOW.get(slug, ())]
        return job | measure(data.labels, data.truth_codes, methods)
    shape, n_classes, seed = job["shape"], job["classes"], job["seed"]
    if job["part"] == "check":
        found = check_independence(simulate_assumption(job["name"], *shape, n_classes, CHECKED + seed)[0])
        return job | {"pairs": found.pairs, "tasks": found.tasks, "caution": found.failed_check is not None}
    if job["part"] == "simulated":
        return job | measure(*simulate_assumption(job["name"], *shape, n_classes, seed), METHODS)
    scores, low, high = [], [], []
    for draw in range(job["draws"]):
        labels, _ = simulate_assumption(job["name"], *shape, n_classes, seed, tasks_seed=draw)
        rows = {row.method: row for row in cw.compare(labels, CHEAP, random_state=draw).standings}
        scores.append([rows[slug].held_out for slug in CHEAP])
        low.append([rows[slug].rank_low for slug in CHEAP])
        high.append([rows[slug].rank_high for slug in CHEAP])
    rank = np.argsort(np.argsort(-np.mean(scores, axis=0))) + 1
    held = (np.array(low) <= rank) & (rank <= np.array(high))
    width = np.mean(np.array(high) - np.array(low) + 1)
    return job | {"coverage": float(held.mean()), "mean_width": float(width), "methods": len(CHEAP)}


def list_jobs(sets: list[str], quick: bool, seeds: int) -> list[dict[str, Any]]:
    at_hand = cw.datasets.available()
    jobs = [{"part": "real", "name": name} for name in sets if name in at_hand]
    shapes, classes = (SHAPES[:1], CLASSES[-1:]) if quick else (SHAPES, CLASSES)
    jobs += [
        {"part": "simulated", "name": name, "shape": shape, "classes": n_classes, "seed": seed}
        for seed in range(seeds)
        for shape in shapes
        for n_classes in classes
        for name in CROWDS
    ]
    jobs += [
        {"part": "check", "name": name, "shape": shape, "classes": n_classes, "seed": seed}
        for seed in range(10 * seeds)
        for shape in shapes
        for n_classes in (2, 4, 8)
        for name in CROWDS
    ]
    jobs += [
        {"part": "coverage", "name": name, "shape": shape, "classes": 3, "seed": seed, "draws": 30}
        for name in ("independent", "families")
        for shape in shapes
        for seed in range(1 if quick else 3)
    ]
    return jobs


def mean_of(rows: list[dict[str, Any]], key: str) -> float:
    return float(np.nanmean([row[key] for row in rows]))


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each kind of crowd, and one for each real set."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["part"] in ("real", "simulated"):
            groups[row["part"], row["name"]].append(row)
            groups[row["part"], "all"].append(row)
    keys = ("spearman", "held_out_best", "truth_best", "auto", "recommended")
    shares = ("alone", "misled", "caution")
    return [
        {"part": part, "name": name, "crowds": len(group)} | {key: mean_of(group, key) for key in (*keys, *shares)}
        for (part, name), group in groups.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small sets and crowds only")
    parser.add_argument("--seeds", type=int, help="of the simulated crowds (10; quick: 1)")
    parser.add_argument("--sets", nargs="+", help="real sets, in place of the usual ones")
    parser.add_argument("--part", choices=["real", "simulated", "check", "coverage"], nargs="+", help="only these")
    arguments = parser.parse_args()
    sets = arguments.sets or (SMALL if arguments.quick else SETS)
    jobs = list_jobs(sets, arguments.quick, arguments.seeds or (1 if arguments.quick else 10))
    jobs = [job for job in jobs if not arguments.part or job["part"] in arguments.part]
    for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "CROWDWISE_THREADS"):
        os.environ[variable] = "1"  # of the processes that are started
    rows = []
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for row in pool.imap_unordered(run_job, jobs):
            rows.append(row)
            figures = {key: row[key] for key in ("spearman", "held_out_best", "auto", "pairs", "tasks", "coverage")
                       if row.get(key) is not None}  # fmt: skip
            where = [row["part"], row["name"], *(str(row[key]) for key in ("shape", "classes", "seed") if key in row)]
            print(*where, *(f"{key} {value:.3f}" for key, value in figures.items()), flush=True)
            keep(rows)
    for line in summarise(rows):
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in line.items()})


def key_of(row: dict[str, Any]) -> str:
    return json.dumps([row["part"], row["name"], row.get("shape"), row.get("classes"), row.get("seed")])


def keep(rows: list[dict[str, Any]]) -> None:
    """Write what was measured, in place of earlier rows of the same crowds."""
    old = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    every = {key_of(row): row for row in [*old, *rows]}
    ordered = [every[key] for key in sorted(every)]
    lines = ",\n  ".join(json.dumps(row) for row in ordered)
    head = json.dumps({"summary": summarise(ordered)}, indent=1)
    RESULTS.write_text(f'{head[:-2]},\n "rows": [\n  {lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
