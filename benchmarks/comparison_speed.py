"""Seconds of the methods for comparisons, and how many times crowd-kit's NoisyBradleyTerry takes on the same data.

    python benchmarks/comparison_speed.py [--peer]

A simulated crowd of 1,000,000 comparisons of 100,000 items by 10,000 workers; with --peer (crowd-kit must be installed)
also 20,000 comparisons of 2,000 items by 200 workers, of which NoisyBradleyTerry makes 10 iterations. Dawid-Skene on as
many labels of two classes is there for scale.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np

import crowdwise as cw
from crowdwise.kinds import simulate_comparisons
from crowdwise.kinds.comparisons import BradleyTerry, CrowdBt, WorkerSlope


def seconds(work) -> float:
    """Of the quicker of two runs."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", action="store_true")
    peer = parser.parse_args().peer
    for n_items, n_workers in ((2_000, 200), (100_000, 10_000)):
        crowd = simulate_comparisons(n_items, n_workers, answers_per_worker=100, ties=0.0, bias=0.0)
        answers = crowd.answers
        found = {
            method.slug: seconds(partial(method().fit, answers)) for method in (BradleyTerry, CrowdBt, WorkerSlope)
        }
        labels = cw.CrowdLabels.from_arrays(answers.left, answers.worker, answers.outcome, on_duplicate="all")
        found["dawid-skene"] = seconds(partial(cw.DawidSkene().fit, labels))
        if peer and n_items <= 2_000:
            import pandas as pd
            from crowdkit.aggregation import NoisyBradleyTerry

            table = pd.DataFrame({"worker": answers.worker, "left": answers.left, "right": answers.right})
            table["label"] = np.where(answers.outcome > 0, table["left"], table["right"])
            found["crowd-kit, 10 iterations"] = seconds(partial(NoisyBradleyTerry(n_iter=10).fit, table))
        for name, each in found.items():
            print(f"{answers.n_answers:9,} comparisons  {name:25s} {each:8.2f} s")


if __name__ == "__main__":
    main()
