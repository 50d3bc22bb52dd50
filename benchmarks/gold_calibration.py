"""What gold answers do for confidence: calibration, accuracy and prediction sets, on tasks that are not in the gold.

    python benchmarks/gold_calibration.py                      # fourteen sets and five panels of judges, 20 draws
    python benchmarks/gold_calibration.py --processes 14       # one data set a process
    python benchmarks/gold_calibration.py --quick              # three draws
    python benchmarks/gold_calibration.py --method mean-field  # another label-only posterior
    python benchmarks/gold_calibration.py bluebird judges_lesion

The data sets are those of CROWDWISE_DATA. The label-only posterior (`--method`, by default auto) is fitted once a set,
without any truth. Each draw takes 20 and 50 gold tasks at random (100 on the panels of judges, whose reference is the
unique majority of the human answers), calibrates from them (`calibrate_from_gold`), and scores all other tasks with a
truth. `floor` is the calibration error that a perfectly calibrated posterior with these confidences would show on so
many tasks, by chance: no method can be expected below it. `coverage` is the share of tasks whose prediction set holds
the truth; `best judge` is the accuracy of the judge that was right most often on the gold.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import crowdwise as cw
from crowdwise.evaluate.gold_calibration import calibrate_from_gold
from crowdwise.evaluate.prediction_sets import conformal_threshold, sets_from_posterior
from crowdwise.metrics import expected_calibration_error

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels

RESULTS = Path(__file__).parent / "results" / "gold_calibration.json"
FOURTEEN = ["bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks"]
FOURTEEN += ["labelme", "music", "imagenet15n", "cifar10h"]
JUDGES = ["cebab_aspects", "cebab_stars", "framing", "lesion", "prompts10k"]
PANELS = [f"judges_{name}" for name in JUDGES]
COVERAGES = (0.9, 0.8)
REPEATS = 5  # truths drawn from the calibrated posterior for the floor


def load_panel(name: str) -> tuple[CrowdLabels, np.ndarray]:
    """The judges' labels, and the unique majority of the human answers (-1 where there is none)."""
    folder = Path(os.environ["CROWDWISE_DATA"]) / name
    with (folder / "judges.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    with (folder / "humans.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            answers[row["task"]][row["label"]] += 1
    truth = {}
    for task, counts in answers.items():
        most = counts.most_common(2)
        if len(most) == 1 or most[0][1] > most[1][1]:
            truth[task] = most[0][0]
    classes = sorted({row["label"] for row in rows} | set(truth.values()))
    columns = {role: [row[role] for row in rows] for role in ("task", "worker", "label")}
    labels = cw.read_labels(columns, classes=classes, on_duplicate="all")
    codes = [classes.index(truth[task]) if task in truth else -1 for task in labels.tasks.to_pylist()]
    return labels, np.array(codes)


def score(truth: np.ndarray, posterior: np.ndarray) -> dict[str, float]:
    """Accuracy, calibration error and log loss."""
    chances = np.maximum(posterior[np.arange(truth.size), truth], 1e-12)
    return {
        "accuracy": float((posterior.argmax(axis=1) == truth).mean()),
        "calibration_error": expected_calibration_error(truth, posterior),
        "log_loss": float(-np.log(chances).mean()),
    }


def floor(posterior: np.ndarray, rng: np.random.Generator) -> float:
    """Calibration error of the posterior against truths drawn from itself."""
    bounds = posterior.cumsum(axis=1)
    found = []
    for _ in range(REPEATS):
        drawn = (bounds < rng.random(len(posterior))[:, None] * bounds[:, -1:]).sum(axis=1)
        found.append(expected_calibration_error(drawn, posterior))
    return float(np.mean(found))


def best_judge(labels: CrowdLabels, truth: np.ndarray, gold: np.ndarray, rest: np.ndarray) -> float:
    """Accuracy on the rest of the worker who was right most often on the gold."""
    accuracies = []
    for worker in range(labels.n_workers):
        own = labels.worker == worker
        said = np.full(labels.n_tasks, -1)
        said[labels.task[own]] = labels.label[own]
        accuracies.append(((said[gold] == truth[gold]).mean(), (said[rest] == truth[rest]).mean()))
    return float(max(accuracies)[1])


def draw_once(
    labels: CrowdLabels, truth: np.ndarray, posterior: np.ndarray, n: int, seed: int, panel: bool
) -> dict[str, object]:
    """One draw of n gold tasks: everything measured on the others."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(truth >= 0))
    gold, rest = order[:n], order[n:]
    codes = np.full(labels.n_tasks, -1)
    codes[gold] = truth[gold]
    found = calibrate_from_gold(labels, posterior, codes)
    calibrated = found.posterior[rest]
    fine = calibrate_from_gold(labels, posterior, codes, draw_levels=False).posterior[rest]
    row: dict[str, object] = {
        "without": score(truth[rest], posterior[rest]),
        "with": score(truth[rest], calibrated) | {"floor": floor(calibrated, rng)},
        "with, no levels": score(truth[rest], fine) | {"floor": floor(fine, rng)},
    }
    for coverage in COVERAGES:
        sets = sets_from_posterior(calibrated, conformal_threshold(found.cross_fitted, found.truth, coverage))
        filled = sets.copy()
        filled[np.arange(rest.size), calibrated.argmax(axis=1)] = True
        row[f"sets {coverage}"] = {
            "coverage": float(sets[np.arange(rest.size), truth[rest]].mean()),
            "coverage_never_empty": float(filled[np.arange(rest.size), truth[rest]].mean()),
            "size": float(sets.sum(axis=1).mean()),
            "empty": float((~sets.any(axis=1)).mean()),
        }
    if panel:
        row["best judge"] = {"accuracy": best_judge(labels, truth, gold, rest)}
    return row


def average(rows: list[dict]) -> dict:
    """Means of rows of the same nested shape."""
    first = rows[0]
    return {
        key: average([row[key] for row in rows]) if isinstance(value, dict) else float(np.mean([r[key] for r in rows]))
        for key, value in first.items()
    }


def measure(job: tuple[str, str, int]) -> tuple[str, dict]:
    """All draws of one data set."""
    name, method, draws = job
    warnings.simplefilter("ignore")
    if name in PANELS:
        labels, truth = load_panel(name)
        sizes = (100,)
    else:
        data = cw.datasets.load(name)
        labels, truth = data.labels, data.truth_codes
        sizes = (20, 50)
    posterior = cw.method(method).load()().fit(labels).posterior_
    found: dict[str, object] = {"tasks": int((truth >= 0).sum())}
    for n in sizes:
        found[str(n)] = average([draw_once(labels, truth, posterior, n, seed, name in PANELS) for seed in range(draws)])
    return name, found


def show(results: dict[str, dict]) -> dict[str, dict]:
    """Print the rows and their means, which are returned."""
    means = {}
    for n in ("20", "50", "100"):
        rows = {name: found[n] for name, found in results.items() if n in found}
        if not rows:
            continue
        means[n] = average(list(rows.values()))
        print(f"\n{n} gold answers: accuracy, calibration error, log loss without → with; floor; coverage at .9 and .8")
        for name, row in {**rows, "mean": means[n]}.items():
            before, after = row["without"], row["with"]
            changes = "  ".join(f"{before[key]:.4f} → {after[key]:.4f}" for key in before)
            sets = "  ".join(
                f"{row[f'sets {each}']['coverage']:.3f} ({row[f'sets {each}']['coverage_never_empty']:.3f})"
                for each in COVERAGES
            )
            judge = f"  best judge {row['best judge']['accuracy']:.3f}" if "best judge" in row else ""
            fine = f"({row['with, no levels']['calibration_error']:.4f} without levels)"
            print(f"{name:22}{changes}  {after['floor']:.3f} {fine}  {sets}{judge}", flush=True)
    return means


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="data sets; all by default")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    draws = 3 if given.quick else 20
    jobs = [(name, given.method, draws) for name in given.names or [*FOURTEEN, *PANELS]]
    if given.processes > 1:
        with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
            results = dict(pool.imap_unordered(measure, jobs, chunksize=1))
    else:
        results = dict(map(measure, jobs))
    results = {name: results[name] for name, _, _ in jobs}
    means = show(results)
    if not given.quick:
        record = {"method": given.method, "draws": draws, "means": means, "sets": results}
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
