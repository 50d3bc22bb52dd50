"""Max-margin majority vote (Tian & Zhu 2015) with c chosen by held-out labels, on bluebird.

    python benchmarks/held_out_cost.py             # some minutes; CROWDWISE_DATA must hold bluebird

For each c of the paper's 2⁻⁸ … 2⁰, M3V is fitted to four fifths of the labels, five times over; each worker's matrix is
counted against the classes that it decides on, drawn towards the crowd's, and gives the hidden labels a probability.
The c with the highest mean logarithm, over three cuts of the labels, is chosen; the truth only scores.

The decided classes are used, not the shares exp(-2c max(0, ζ)): those are the nearer to uniform the smaller c is, so
that they would choose the largest c whoever is right.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

import crowdwise as cw
from crowdwise.evaluate.held_out import estimate_answer_table, split_into_folds, standard_error_over_tasks

RESULTS = Path(__file__).parent / "results" / "held_out_cost.json"
COSTS = [2.0**power for power in range(-8, 1)]
FOLDS, CUTS = 5, 3


def score_held_out(labels: cw.CrowdLabels, cost: float, cut: int) -> np.ndarray:
    """Log-probability of each label (n_labels,) where it is hidden."""
    found = np.empty(labels.n_labels)
    for part in split_into_folds(labels, FOLDS, cut):
        model = cw.MaxMarginMajorityVote(inference="m3v", cost=cost).fit(part.kept)
        decided = np.eye(labels.n_classes)[model.posterior_.argmax(axis=1)]
        table = estimate_answer_table(part.kept, decided)
        chance = np.einsum("es,esl->el", decided[part.held.task], table[part.held.worker])
        found[part.hidden] = np.log(chance[np.arange(part.held.n_labels), part.held.label])
    return found


def main() -> None:
    warnings.simplefilter("ignore")  # M3V creeps on where c is small
    data = cw.datasets.load("bluebird")
    scores, rows = [], []
    for cost in COSTS:
        scores.append(np.mean([score_held_out(data.labels, cost, cut) for cut in range(CUTS)], axis=0))
        model = cw.MaxMarginMajorityVote(inference="m3v", cost=cost).fit(data.labels)
        accuracy = float((model.posterior_.argmax(axis=1) == data.truth_codes).mean())
        rows.append({"c": cost, "held-out log-probability": round(float(scores[-1].mean()), 5), "accuracy": accuracy})
    best = int(np.argmax([score.mean() for score in scores]))
    for row, score in zip(rows, scores, strict=True):
        row["accuracy"] = round(row["accuracy"], 4)
        row["behind the chosen"] = round(float((scores[best] - score).mean()), 5)
        row["standard error"] = round(standard_error_over_tasks(data.labels.task, scores[best] - score), 5)
        row["chosen"] = row is rows[best]
        print(json.dumps(row))
    RESULTS.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
