"""How well clusters are found from answers whether two items are the same, on simulated crowds, and how long it takes.

    python benchmarks/similarity.py [--seeds 3] [--methods belief-propagation,mean-field] [--large] [--digits]

Each cell is the adjusted Rand index, the mean confidence less the share of items that are in the right cluster, and the
share of 90 % intervals of sensitivities and specificities that hold the truth. `--large` times a million answers about
20,000 items of ten clusters by 1,000 workers; `--digits` is the network on scikit-learn's digits, from 1 % of pairs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from crowdwise.fitting.em import StillImproving
from crowdwise.kinds import kind, simulate_similarities
from crowdwise.kinds.similarity import adjusted_rand

SETTINGS: dict[str, dict[str, Any]] = {
    "5 clusters, 5 % of pairs": {"share": 0.05},
    "5 clusters, 3 %": {"share": 0.03},
    "5 clusters, 2 %": {"share": 0.02},
    "5 clusters, 1 %, four answers each": {"share": 0.01, "answers_per_pair": 4},
    "5 %, 30 % adversaries": {"share": 0.05, "adversaries": 0.3},
}


def share_in_right_cluster(found: Any, true: Any) -> float:
    """Share of the items in a cluster that stands for theirs, each for one."""
    table = np.zeros((found.max() + 1, true.max() + 1))
    np.add.at(table, (found, true), 1)
    return float(table[linear_sum_assignment(-table)].sum() / found.size)


def coverage(model: Any, crowd: Any) -> float:
    """Share of the intervals of workers that hold the truth."""
    workers, inside = model.workers(), []
    for name in ("sensitivity", "specificity"):
        true = getattr(crowd, name)
        inside.append((workers[f"{name}_low"].to_numpy() <= true) & (true <= workers[f"{name}_high"].to_numpy()))
    return float(np.mean(inside))


def measure(slug: str, crowd: Any, **parameters: Any) -> tuple[float, float, float, float]:
    """Adjusted Rand index, confidence less what is right, coverage, seconds."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)
        model: Any = kind("similarity").method(slug).load()(**parameters).fit(crowd.answers)
    seconds = time.perf_counter() - started
    right = share_in_right_cluster(model.cluster_, crowd.cluster)
    return (
        adjusted_rand(model.cluster_, crowd.cluster),
        float(model.confidence_.mean()) - right,
        coverage(model, crowd),
        seconds,
    )


def measure_digits(seeds: int) -> None:
    from sklearn.datasets import load_digits

    import crowdwise as cw

    X, digit = load_digits(return_X_y=True)
    for seed in range(seeds):
        crowd = simulate_similarities(cluster=digit, n_workers=30, share=0.01, random_state=seed)
        model = cw.SimilarityNetwork(random_state=seed, device="cpu").fit(X / 16, crowd.answers)
        print(f"digits, seed {seed}: {model.score(X / 16, digit):.3f} by features, "
              f"{adjusted_rand(model.cluster_, digit):.3f} with answers", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default="belief-propagation,mean-field,correlation-clustering,components")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--digits", action="store_true")
    given = parser.parse_args()
    if given.digits:
        return measure_digits(given.seeds)
    if given.large:
        crowd = simulate_similarities(20_000, 1_000, n_clusters=10, share=0.005)
        for slug in given.methods.split(","):
            known = {"n_clusters": 10} if slug in ("belief-propagation", "mean-field") else {}
            print(slug, "{:.3f} {:+.3f} {:.2f}, {:.1f} s".format(*measure(slug, crowd, **known)), flush=True)
        return None
    for name, setting in SETTINGS.items():
        for slug in given.methods.split(","):
            found = [
                measure(slug, simulate_similarities(1000, 50, n_clusters=5, random_state=seed, **setting))
                for seed in range(given.seeds)
            ]
            print(f"{name:36}{slug:24}" + "{:.3f} {:+.3f} {:.2f}, {:.1f} s".format(*np.mean(found, axis=0)), flush=True)
    return None


if __name__ == "__main__":
    main()
