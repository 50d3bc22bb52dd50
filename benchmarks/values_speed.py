"""The normal model of values against Dawid–Skene on as many labels: seconds for the same number of iterations.

    python benchmarks/values_speed.py [--answers 1e7] [--iterations 20] [--classes 4]

Five answers a task, tasks/100 workers, all cores. Both fits are warm: loops are compiled before the clock starts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.aggregate import DawidSkene
from crowdwise.kinds.values import GaussianValues, Values
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels

PER_TASK = 5


def draw(n_answers: int, n_classes: int) -> tuple[CrowdLabels, Values]:
    """As many labels as values, by the same workers of the same tasks."""
    n_tasks = n_answers // PER_TASK
    labels = simulate(
        "dawid-skene", n_tasks=n_tasks, n_workers=n_tasks // 100, n_classes=n_classes, labels_per_task=PER_TASK,
        random_state=0,
    ).labels  # fmt: skip
    generator = np.random.default_rng(0)
    true, error = generator.normal(50, 20, n_tasks), generator.uniform(5, 30, labels.n_workers)
    said = true[labels.task] + error[labels.worker] * generator.normal(size=labels.n_labels)
    values = Values.from_codes(
        labels.task, labels.worker, said, tasks=n_tasks, workers=labels.n_workers, on_duplicate="all"
    )
    return labels, values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=float, default=1e7)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--classes", type=int, default=4)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = {
        "dawid-skene": lambda n: DawidSkene(max_iter=n, tol=0.0),
        "gaussian": lambda n: GaussianValues(strength=4.0, max_iter=n, tol=0.0),
    }
    small = dict(zip(methods, draw(200_000, given.classes), strict=True))
    large = dict(zip(methods, draw(int(given.answers), given.classes), strict=True))
    seconds = {}
    for name, make in methods.items():
        make(2).fit(small[name])
        started = time.perf_counter()
        fitted = make(given.iterations).fit(large[name])
        seconds[name] = time.perf_counter() - started
        print(f"{name}: {seconds[name]:.2f} s for {fitted.n_iter_} iterations")
    print(f"gaussian takes {seconds['gaussian'] / seconds['dawid-skene']:.2f} times as long as dawid-skene")


if __name__ == "__main__":
    main()
