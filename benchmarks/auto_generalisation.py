"""`auto` on crowds that its constant was not chosen on: leave one set out.

    python benchmarks/auto_generalisation.py [--processes 2] [--quick]

γ, how far the posterior is tempered (`evaluate.likelihood_tempering`), is chosen anew for every set: the γ of the grid
with the smallest mean calibration error over all *other* real sets, the other sets with fewer labels (weight one half)
and simulated crowds (one half). A set's figures are then those of this γ. So they say what a user may expect on data
that nobody has tuned on, as far as γ goes: the shortlist, its priors and the form of tempering were chosen by people
who had seen all of these sets.

Also: whether the stated interval of the number of wrong answers holds it, on the real sets and on 40 simulated crowds
(independent, dependent, misled on a tenth of the tasks); with all of a set's tasks that have a truth. And the simulated
spammers of the README. Reads real sets from CROWDWISE_DATA; writes results/auto_generalisation.json.
"""

from __future__ import annotations

import argparse
import json
import warnings
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import crowdwise as cw
from crowds import FEWER, KINDS, LEAGUE, MORE, load_crowd
from crowdwise.evaluate.auto_members import MANY, SHORTLIST, weigh_members
from crowdwise.evaluate.likelihood_tempering import (
    EXPONENT,
    temper_posterior,
    wrong_count_interval,
    wrong_count_moments,
)
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.kernels import NO_GOLD, use_threads

RESULTS = Path(__file__).parent / "results" / "auto_generalisation.json"
GRID = [0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7]
SIMULATED = [f"{kind}/{seed}" for kind in KINDS for seed in range(4)]
COUNTED = [f"{kind}/{seed}" for kind in ("independent", "dependent", "misled") for seed in range(100, 114)][:40]
README = "readme"
LEVEL = 0.9


def examine(name: str) -> dict[str, object]:
    """Accuracy, calibration error and log loss for every γ; and the interval of the number of wrong answers."""
    warnings.simplefilter("ignore")
    if name == README:
        crowd = cw.simulate.simulate("spammers", random_state=0)
        labels, truth = crowd.labels, crowd.truth
    else:
        labels, truth = load_crowd(name)
    known = (truth >= 0) & (labels.labels_per_task > 0)
    nothing = PriorKnowledge(NO_GOLD, None, None)
    with use_threads(1):
        weights, _ = weigh_members(labels, nothing, 0)
        fits = [
            (weights[place], SHORTLIST[place].fit(labels, nothing, 0, labels.n_labels > MANY).posterior_[known])
            for place in np.flatnonzero(weights)
        ]
    answered = labels.labels_per_task[known]

    def posterior(exponent: float) -> np.ndarray:
        return sum(weight * temper_posterior(q, answered, exponent=exponent) for weight, q in fits)

    scores = {f"{exponent:g}": score(truth[known], posterior(exponent)) for exponent in GRID}
    decided = posterior(EXPONENT)
    moments = wrong_count_moments(decided, posterior(0.0))
    low, high = wrong_count_interval(moments, LEVEL, labels.n_classes)
    votes = labels.vote_counts()[known] + labels.class_shares / 2
    return {
        "crowd": name,
        "n_truth": int(known.sum()),
        "scores": scores,
        "majority_vote": float(np.mean(votes.argmax(axis=1) == truth[known])),
        "wrong": int((decided.argmax(axis=1) != truth[known]).sum()),
        "expected": [float(moments[0, 1]), low, high],
        "weights": {SHORTLIST[place].name: round(float(weights[place]), 3) for place in np.flatnonzero(weights)},
    }


def score(truth: np.ndarray, posterior: np.ndarray) -> list[float]:
    predicted = posterior.argmax(axis=1)
    return [
        float(np.mean(predicted == truth)),
        float(cw.metrics.expected_calibration_error(truth, posterior)),
        float(cw.metrics.log_loss(truth, posterior)),
    ]


def choose(rows: dict[str, dict], without: str) -> str:
    """The γ with the smallest mean calibration error on the crowds that have nothing to do with `without`."""
    groups = [
        ([name for name in LEAGUE + MORE if name in rows and name != without], 1.0),
        ([name for name in FEWER if name in rows and name.partition("@")[0] != without], 0.5),
        ([name for name in SIMULATED if name in rows], 0.5),
    ]

    def loss(exponent: str) -> float:
        return sum(
            weight * np.mean([rows[name]["scores"][exponent][1] for name in names]) for names, weight in groups if names
        )

    return min((f"{exponent:g}" for exponent in GRID), key=loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="four small sets and four simulated crowds; not written")
    arguments = parser.parse_args()
    names = LEAGUE + MORE + FEWER + SIMULATED + COUNTED + [README]
    if arguments.quick:
        names = ["bluebird", "dog", "rte", "temp", "dog@3", "few/0", "misled/0", "independent/100", "misled/101"]
    rows = {}
    with get_context("spawn").Pool(arguments.processes) as pool:
        for row in pool.imap_unordered(examine, names, chunksize=1):
            rows[row["crowd"]] = row
            accuracy, calibration, loss = row["scores"][f"{EXPONENT:g}"]
            print(
                f"{row['crowd']:22} accuracy {accuracy:.3f} calibration {calibration:.3f} log loss {loss:.3f}",
                flush=True,
            )
    left_out = {name: choose(rows, name) for name in LEAGUE if name in rows}
    table = np.array([rows[name]["scores"][exponent] for name, exponent in left_out.items()])
    print("\nleft out               γ     accuracy  calibration  log loss  vote")
    for (name, exponent), line in zip(left_out.items(), table, strict=True):
        print(f"{name:22} {exponent:5} " + "  ".join(f"{value:9.3f}" for value in (*line, rows[name]["majority_vote"])))
    print("mean                        ", "  ".join(f"{value:9.3f}" for value in table.mean(axis=0)))
    judged = [name for name in LEAGUE + COUNTED if name in rows]
    held = [rows[name]["expected"][1] <= rows[name]["wrong"] <= rows[name]["expected"][2] for name in judged]
    print(f"wrong answers inside the stated interval: {sum(held)} of {len(held)}")
    summary = {
        "accuracy": table[:, 0].mean(),
        "calibration_error": table[:, 1].mean(),
        "log_loss": table[:, 2].mean(),
        "interval_holds": [int(sum(held)), len(held)],
        "chosen": left_out,
    }
    if not arguments.quick:
        ordered = [rows[name] for name in names]
        RESULTS.write_text(json.dumps({"summary": summary, "level": LEVEL, "rows": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
