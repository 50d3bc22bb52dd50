"""Test accuracy of every learner on real crowds with features: LabelMe and Music. No truth is used in any fit.

    python benchmarks/learning.py [--data labelme music] [--methods SLUG ...] [--seeds 5] [--processes 2]

The best epoch is chosen by the labels of held-out tasks. `consensus` is the accuracy on the training tasks of features
and labels together; `labels only` is that of the best of four aggregators, which see no features. Writes
benchmarks/results/learning.json, from which docs/learning.md has its table. Only what is asked for is measured again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw

RESULTS = Path(__file__).parent / "results" / "learning.json"
DATA = ("labelme", "music")
# Table 2 of Cao et al. 2019 have Adam at 1e-4 on LabelMe; everything else is as it comes.
PUBLISHED = {("labelme", "max-mig"): {"learning_rate": 1e-4, "epochs": 100}}
LABELS_ONLY = ("majority-vote", "dawid-skene", "ebcc", "auto")


def folder(name: str) -> Path:
    return Path(os.environ["CROWDWISE_DATA"]) / name


def read(name: str) -> tuple[Any, dict[str, Any], Any, Any]:
    """Labels, features, names of the training rows, and the names of the classes that the truth's numbers stand for."""
    features = dict(np.load(folder(name) / "features.npz", allow_pickle=False))
    labels = cw.read_labels(folder(name) / "labels.csv")
    classes = features.get("classes", np.arange(features["y_train"].max() + 1))
    return labels, features, features.get("id_train"), classes


def run(job: tuple[str, str, int]) -> dict[str, Any]:
    import torch

    name, slug, seed = job
    torch.set_num_threads(1)
    labels, features, tasks, classes = read(name)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = (
            cw.learner(slug)
            .make(random_state=seed, **PUBLISHED.get((name, slug), {}))
            .fit(features["X_train"], labels, tasks=tasks)
        )
    truth = classes[features["y_train"]]
    return {
        "data": name,
        "method": slug,
        "seed": seed,
        "accuracy": model.score(features["X_test"], classes[features["y_test"]]),
        "consensus": float(
            np.mean(model.predict(features["X_train"], labels, tasks=tasks).astype(str) == truth.astype(str))
        ),
        "epoch": model.best_epoch_,
        "seconds": time.perf_counter() - started,
    }


def labels_only(name: str) -> dict[str, float]:
    labels, features, tasks, classes = read(name)
    truth = dict(zip([str(t) for t in (tasks if tasks is not None else range(len(features["y_train"])))],
                     classes[features["y_train"]].astype(str), strict=True))  # fmt: skip
    found = {}
    for slug in LABELS_ONLY:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = cw.method(slug).load()().fit(labels)
        right = [truth[str(t)] == str(said) for t, said in zip(model.tasks_.tolist(), model.predict(), strict=True)]
        found[slug] = float(np.mean(right))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--methods", nargs="+", default=[entry.slug for entry in cw.learners() if not entry.needs])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": [], "labels_only": {}}
    only = before["labels_only"] | {name: labels_only(name) for name in asked.data}
    jobs = [(name, slug, seed) for name in asked.data for slug in asked.methods for seed in range(asked.seeds)]
    rows = [row for row in before["rows"] if (row["data"], row["method"], row["seed"]) not in jobs]
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for row in pool.imap_unordered(run, jobs):
            rows.append(row)
            print(row, flush=True)
    rows.sort(key=lambda row: (row["data"], row["method"], row["seed"]))
    RESULTS.write_text(json.dumps({"labels_only": only, "rows": rows}, indent=1) + "\n")
    for name in asked.data:
        print(f"\n{name}: labels only {only[name]}")
        for slug in asked.methods:
            mine = [row for row in rows if row["data"] == name and row["method"] == slug]
            test, both = (np.array([row[key] for row in mine]) for key in ("accuracy", "consensus"))
            print(f"  {slug:20s} {test.mean():.4f} ± {test.std():.4f}   consensus {both.mean():.4f} ± {both.std():.4f}")


if __name__ == "__main__":
    main()
