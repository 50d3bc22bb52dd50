"""How often the classes from low to high hold the true grade, and how sure and how right the consensus is, by method.

    python benchmarks/grade_intervals.py [--seeds 100]

On crowds of `simulate_grades`: its default (5 answers a task, 25 a worker), and more answers a task. Each cell: the
share of 90 % intervals that hold the truth, the mean confidence, and the share of the labels that are right.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from crowdwise.fitting.em import StillImproving
from crowdwise.kinds import kind, simulate_grades
from crowdwise.kinds.ordinal.model import quantile_class

SETTINGS = {"5 answers a task": {}, "10 answers a task": {"answers_per_task": 10}, "all 20": {"answers_per_task": 20}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    seeds = range(parser.parse_args().seeds)
    print(f"{'':18}" + "".join(f"{name:>26}" for name in SETTINGS))
    for method in kind("ordinal").methods():
        cells = []
        for setting in SETTINGS.values():
            rows = []
            for seed in seeds:
                crowd = simulate_grades(random_state=seed, **setting)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", StillImproving)
                    model = method.load()().fit(crowd.answers)
                low, high = (quantile_class(model.posterior_, share) for share in (0.05, 0.95))
                label = model.decide()
                sure = model.posterior_[np.arange(label.size), label]
                holds = (low <= crowd.grade) & (crowd.grade <= high)
                rows.append((holds.mean(), sure.mean(), (label == crowd.grade).mean()))
            cells.append("{:>14.2f} {:5.2f} {:5.2f}".format(*np.mean(rows, axis=0)))
        print(f"{method.slug:18}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
