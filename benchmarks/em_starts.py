"""Which EM of Dawid–Skene's model ends at Ibrahim et al. 2025's accuracies: .88 bluebird, .834 dog, .871 web.

    python benchmarks/em_starts.py             # a minute; CROWDWISE_DATA must hold the three

The tutorial's slide starts from the winners of the vote (ties go to the first class, as its votes do), divides the
counts of a worker by N_m, their number of labels, as it is printed there, and says nothing of matrices with zeros. Here
are that start and two others, zeros as four programs have them, pseudo-counts, and shares of the classes learnt or
equal; the accuracy after every iteration, ties to the first class. The truth only scores.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np

import crowdwise as cw

RESULTS = Path(__file__).parent / "results" / "em_starts.json"
PUBLISHED = {"bluebird": 0.88, "dog": 0.834, "web": 0.871}
ITERATIONS = 200
STARTS = ("shares of votes", "winners", "winners, counts by N_m")
# What the logarithm of a probability of 0 is: of the smallest number, so that the label rules a class out; of MATLAB's
# eps (Ibrahim et al. 2019's program); of 10⁻⁶ (Zhang et al. 2014's moments); 0, the label does not count (their EM).
ZEROS = {"ruled out": np.log(1e-300), "eps": np.log(2.0**-52), "1e-6": np.log(1e-6), "not counted": 0.0}
SMOOTHINGS = (0.1, 0.5, 1.0, 2.0, 5.0)


def count_answers(labels: cw.CrowdLabels, posterior: np.ndarray) -> np.ndarray:
    """Expected answers [worker, truth, label]."""
    counts = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
    for truth in range(labels.n_classes):
        np.add.at(counts[:, truth], (labels.worker, labels.label), posterior[labels.task, truth])
    return counts


def trace_accuracy(
    data: cw.datasets.Dataset, start: str, smoothing: float, zero: str, equal_shares: bool
) -> list[float]:
    """Accuracy after each iteration."""
    labels, known, size = data.labels, data.truth_codes >= 0, data.labels.n_classes
    votes = labels.vote_counts()
    winners = np.eye(size)[votes.argmax(axis=1)]
    posterior = votes / votes.sum(axis=1, keepdims=True) if start == STARTS[0] else winners
    found = []
    for iteration in range(ITERATIONS):
        counts, shares = count_answers(labels, posterior) + smoothing, posterior.mean(axis=0)
        total = counts.sum(axis=2, keepdims=True)
        if iteration == 0 and start == STARTS[2]:
            total = np.maximum(labels.labels_per_worker, 1)[:, None, None] + 0 * total
            shares = labels.class_shares
        rows = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
        logs = np.where(rows > 0, np.log(np.where(rows > 0, rows, 1)), ZEROS[zero])
        scores = (
            np.zeros((labels.n_tasks, size)) if equal_shares else np.tile(np.log(shares + 1e-300), (labels.n_tasks, 1))
        )
        np.add.at(scores, labels.task, logs[labels.worker, :, labels.label])
        posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        found.append(float((posterior.argmax(axis=1) == data.truth_codes)[known].mean()))
    return found


def main() -> None:
    rows = []
    plain = [(0.0, zero) for zero in ZEROS]
    for name, start, (smoothing, zero), equal in product(
        PUBLISHED, STARTS, plain + [(each, "ruled out") for each in SMOOTHINGS], (False, True)
    ):
        values = trace_accuracy(cw.datasets.load(name), start, smoothing, zero, equal)
        row = {"data": name, "start": start, "pseudo-count": smoothing}
        row |= {"zeros": zero if smoothing == 0 else "", "class shares": "equal" if equal else "learnt"}
        row |= {"after 10": round(values[9], 4), "end": round(values[-1], 4), "highest": round(max(values), 4)}
        row |= {"at iteration": int(np.argmax(values)) + 1, "published": PUBLISHED[name]}
        rows.append(row)
        print(json.dumps(row), flush=True)
    RESULTS.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
