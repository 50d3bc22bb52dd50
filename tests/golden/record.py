"""Results of every method, learner and audit, stored by one version of the package and compared by another.

    python tests/golden/record.py store FOLDER        # before a change that may alter no result
    python tests/golden/record.py compare FOLDER      # after it: the largest difference of each case

Aggregators run on eight real sets (cut to some thousand labels) and four simulated crowds, learners on two small
problems, audits on six sets. Compare on the same machine, with the same engine (`CROWDWISE_ENGINE=numba`): numbers are
then equal to 1e-12, those of learners to 1e-6, and words are the same to the letter.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from crowdwise import datasets
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

REAL = {
    "bluebird": 108,
    "dog": 400,
    "rte": 400,
    "temp": 462,
    "web": 600,
    "labelme": 1000,
    "adult2": 300,
    "zencrowd_us": 300,
}  # tasks kept of each
SIMULATED: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("dawid-skene", {"n_tasks": 300, "n_workers": 20, "n_classes": 3, "labels_per_task": 5, "skill": 0.7}),
    "spammers": ("spammers", {"n_tasks": 300, "n_workers": 15, "n_classes": 3, "share": 0.3}),
    "sparse": ("dawid-skene", {"n_tasks": 400, "n_workers": 60, "n_classes": 5, "labels_per_task": 3, "skill": 0.6}),
    "binary": ("dawid-skene", {"n_tasks": 500, "n_workers": 12, "n_classes": 2, "labels_per_task": 6, "skill": 0.75}),
}
AUDITED = ("bluebird", "temp", "labelme", "web", "plain", "spammers")
FITTED = ("posterior_", "prior_", "confusion_", "skill_", "objective_", "log_likelihood_", "n_iter_")
TOLERANCE = {"learner": 1e-6}


def take_tasks(labels: CrowdLabels, n_tasks: int) -> CrowdLabels:
    """The labels of the first tasks."""
    kept = labels.task < n_tasks
    return CrowdLabels.from_codes(
        labels.task[kept],
        labels.worker[kept],
        labels.label[kept],
        tasks=labels.tasks[: min(n_tasks, labels.n_tasks)],
        workers=labels.workers,
        classes=labels.classes,
        on_duplicate="all",
    )


def make_crowd(name: str) -> tuple[CrowdLabels, dict[Any, Any] | None]:
    """Labels of a crowd, and the truth of a simulated one."""
    if name in REAL:
        return take_tasks(datasets.load(name).labels, REAL[name]), None
    simulator, settings = SIMULATED[name]
    crowd = simulate(simulator, random_state=7, **settings)
    return crowd.labels, dict(enumerate(crowd.truth.tolist()))


def name_of(learner: Any) -> str:
    """The slug under which a learner was recorded: that which it had before, where it was renamed."""
    return getattr(learner, "former_slug", "") or learner.slug


def list_cases() -> list[tuple[str, str, str]]:
    """Every case: what it is, the slug and the crowd."""
    every = [("aggregator", entry.slug, crowd) for entry in cw.methods() for crowd in (*REAL, *SIMULATED)]
    every += [("learner", name_of(entry), problem) for entry in cw.learners() for problem in ("three", "two")]
    return [*every, *(("audit", "audit", crowd) for crowd in AUDITED)]


def run_aggregator(slug: str, crowd: str) -> dict[str, Any]:
    """Fitted arrays and the tables of a method."""
    model = cw.method(slug).load()().fit(make_crowd(crowd)[0])
    out = {name: np.asarray(getattr(model, name)) for name in FITTED if getattr(model, name, None) is not None}
    for table in (model.consensus(), model.workers()):
        for name in table.column_names:
            column = table[name].to_numpy()
            out[f"{name}/{len(column)}"] = column if column.dtype.kind in "fiub" else column.astype(str)
    return out


def run_learner(slug: str, problem: str) -> dict[str, Any]:
    """Predictions of a learner after three epochs with a linear network."""
    n_classes = {"two": 2, "three": 3}[problem]
    crowd = simulate("dawid-skene", n_tasks=60, n_workers=5, n_classes=n_classes, labels_per_task=3, random_state=2)
    X = np.random.default_rng(3).normal(size=(60, 6)).astype(np.float32)
    X[:, :n_classes] += 2 * np.eye(n_classes, dtype=np.float32)[crowd.truth]
    entry = cw.learner(slug)
    settings: dict[str, Any] = {"network": "linear", "epochs": 3, "batch_size": 16, "device": "cpu"}
    if entry.needs == "confusion":
        settings["confusion"] = 0.9 * crowd.confusion + 0.1 / n_classes
    if entry.needs == "sequences":
        settings["sequences"] = {row: (row // 4, row % 4) for row in range(60)}
    model = entry.make(**settings).fit(X, crowd.labels)
    out = {"probabilities": model.predict_proba(X), "with_labels": model.predict_proba(X, crowd.labels)}
    return out | {name: np.asarray(getattr(model, name)) for name in ("confusion_", "skill_") if hasattr(model, name)}


def run_audit(_: str, crowd: str) -> dict[str, Any]:
    """Findings of an audit, with words and numbers, and the effective size."""
    labels, truth = make_crowd(crowd)
    found = cw.audit_crowd(labels, truth=truth)
    out: dict[str, Any] = {"posterior_": found.model.posterior_}
    for number, finding in enumerate(found.findings):
        out[f"words/{number}"] = np.array([finding.kind, str(finding.names), finding.verdict, finding.advice])
        out[f"numbers/{number}"] = np.array([finding.score, finding.p_value])
    if found.effective is not None:
        values = {key: value for key, value in vars(found.effective).items() if isinstance(value, float | int)}
        out["effective"] = np.array(list(values.values()), float)
    return out


RUNS = {"aggregator": run_aggregator, "learner": run_learner, "audit": run_audit}


def run_case(case: tuple[str, str, str]) -> tuple[tuple[str, str, str], dict[str, Any]]:
    """The results of a case, or the error that it ends with."""
    warnings.simplefilter("ignore")
    what, slug, crowd = case
    try:
        return case, RUNS[what](slug, crowd)
    except Exception as error:
        return case, {"error": np.array([f"{type(error).__name__}: {error}"])}


def compute_difference(before: np.ndarray, after: np.ndarray) -> float:
    """The largest difference, relative where numbers exceed one; infinite where shapes or words differ."""
    if before.shape != after.shape:
        return float("inf")
    if before.dtype.kind not in "fiub" or after.dtype.kind not in "fiub":
        return 0.0 if (before.astype(str) == after.astype(str)).all() else float("inf")
    one, other = before.astype(float), after.astype(float)
    if not (np.isnan(one) == np.isnan(other)).all():
        return float("inf")
    same = (one == other) | np.isnan(one)
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other) / np.maximum(np.abs(one), 1.0))
    return float(apart.max(initial=0.0))


def file_of(folder: Path, case: tuple[str, str, str]) -> Path:
    """Where the results of a case are stored."""
    return folder / ("_".join(case) + ".npz")


def main() -> None:
    """Store or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("store", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    cases = [case for case in list_cases() if given.only in "_".join(case)]
    began, worst, failed = time.perf_counter(), dict.fromkeys(RUNS, 0.0), []
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for case, results in pool.imap_unordered(run_case, cases):
            path = file_of(given.folder, case)
            if "error" in results:
                sys.stdout.write(f"{' '.join(case)}: {results['error'][0]}\n")
            if given.action == "store":
                np.savez(path, **results)
                continue
            with np.load(path) as stored:
                keys = sorted(set(stored.files) | set(results))
                differences = {
                    key: compute_difference(stored[key], np.asarray(results[key]))
                    if key in stored.files and key in results
                    else float("inf")
                    for key in keys
                }
            key = max(differences, key=differences.__getitem__)
            worst[case[0]] = max(worst[case[0]], differences[key])
            if differences[key] > TOLERANCE.get(case[0], 1e-12):
                failed.append((*case, key, differences[key]))
                sys.stdout.write(f"{' '.join(case)}: {key} differs by {differences[key]:.2e}\n")
    seconds = time.perf_counter() - began
    sys.stdout.write(
        json.dumps({"cases": len(cases), "worst": worst, "differ": len(failed), "s": round(seconds)}) + "\n"
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
