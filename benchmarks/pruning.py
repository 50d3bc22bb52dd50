"""Why EM without the covariance method's spammers misses Ibrahim et al. 2025: which EM it is, or who is left.

    python benchmarks/pruning.py

On the tutorial's three crowds (CROWDWISE_DATA), workers are left out in five ways, and the rest is fitted by EM of
Dawid–Skene's model with several starts and pseudo-counts; accuracy over the tasks with truth, ties to the first class.
The truth chooses the workers of one way and starts one EM: these explain, and are no methods.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import crowdwise as cw
from crowdwise.audit.covariance_spammers import find_covariance_spammers, recover_low_rank_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parent / "results" / "pruning.json"
REMOVED = {"bluebird": 22, "dog": 12, "web": 158}  # by the tutorial


def ways_to_prune(data: cw.datasets.Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Which workers (M,) are left out: nobody, ours, and as many as by the tutorial, worst first by three measures."""
    labels, truth = data.labels, data.truth_codes
    yield "nobody", np.zeros(labels.n_workers, bool)
    yield "the cluster of rows of V nearest 0", find_covariance_spammers(labels)
    known = truth[labels.task] >= 0
    right = np.bincount(labels.worker[known], (truth[labels.task] == labels.label)[known], labels.n_workers)
    number = np.bincount(labels.worker[known], minlength=labels.n_workers)
    for name, worth in (
        ("so many, the smallest rows of V", np.linalg.norm(recover_low_rank_rows(labels), axis=1)),
        ("so many, the fewest labels", labels.labels_per_worker),
        ("so many, the least accurate (by the truth)", right / np.maximum(number, 1)),
    ):
        out = np.zeros(labels.n_workers, bool)
        out[np.argsort(worth, kind="stable")[: REMOVED[data.name]]] = True
        yield name, out


def fits(labels: cw.CrowdLabels, truth: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The posterior (N, K) of every EM, and of the vote."""
    votes = cw.MajorityVote().fit(labels).posterior_
    yield "vote", votes
    classes = np.eye(labels.n_classes)
    for name, parameters in (
        ("EM", {}),
        ("EM, pseudo-count 0.1", {"smoothing": 0.1}),
        ("EM, pseudo-count 1", {"smoothing": 1.0}),
        ("EM from the vote's winners", {"init": classes[votes.argmax(axis=1)]}),
        ("EM from spectral", {"init": "spectral"}),
        ("EM from multi-spa", {"init": "multi-spa"}),
        ("EM from the truth", {"init": np.where(truth[:, None] >= 0, classes[truth], votes)}),
    ):
        yield name, cw.DawidSkene(max_iter=5000, **parameters).fit(labels).posterior_


def main() -> None:
    rows = []
    for name in REMOVED:
        data = cw.datasets.load(name)
        labels, truth = data.labels, data.truth_codes
        known = truth >= 0
        for way, out in ways_to_prune(data):
            left = labels.keep(~out[labels.worker])
            row = {"data": name, "left out": way, "workers": int(out.sum()), "labels": left.n_labels}
            row["tasks without labels"] = int((left.labels_per_task == 0).sum())
            for how, posterior in fits(left, truth):
                row[how] = round(float((posterior.argmax(axis=1) == truth)[known].mean()), 4)
            rows.append(row)
            print(json.dumps(row), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
