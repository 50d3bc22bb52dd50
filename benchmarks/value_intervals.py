"""How often intervals of the consensus of values hold the truth, on simulated crowds, and how far off the consensus is.

    python benchmarks/value_intervals.py [--seeds 20] [--methods gaussian,moments,mean]

Each cell is the share of 90 % intervals that hold the true value, and the root mean square error.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from crowdwise.fitting.em import StillImproving
from crowdwise.kinds import kind, simulate_values

SPARSE = {"n_tasks": 150, "n_workers": 50, "answers_per_task": 3}
FEW = {"n_tasks": 60, "n_workers": 60, "answers_per_task": 5}
LINES = {"scale": 0.3, "bias": 10.0}
SETTINGS = {
    "5 answers a task, 25 a worker": {},
    "10 answers a task, 50 a worker": {"answers_per_task": 10},
    "3 answers a task, 9 a worker": SPARSE,
    "5 answers a task, 5 a worker": FEW,
    "5 and 25, bias": {"bias": 10.0},
    "5 and 25, scale and bias": LINES,
    "10 and 50, scale and bias": {"answers_per_task": 10, **LINES},
    "3 and 9, scale and bias": {**SPARSE, **LINES},
    "5 and 5, scale and bias": {**FEW, **LINES},
    "10 workers, 30 tasks": {"n_tasks": 30, "n_workers": 10, "scale": 0.2, "bias": 5.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", default="gaussian,student-t,moments,mean,standardised-mean")
    given = parser.parse_args()
    values = kind("values")
    slugs = given.methods.split(",")
    print(f"{'':32}" + "".join(f"{slug:>20}" for slug in slugs))
    for name, setting in SETTINGS.items():
        cells = []
        for slug in slugs:
            scores = []
            for seed in range(given.seeds):
                crowd = simulate_values(random_state=seed, **setting)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", StillImproving)
                    scores.append(values.score(values.method(slug).load()().fit(crowd.answers), crowd.truth))
            cover, error = (np.mean([each[key] for each in scores]) for key in ("coverage", "root_mean_square_error"))
            cells.append(f"{cover:>12.3f} {error:7.2f}")
        print(f"{name:32}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
