"""Belief propagation with the exact worker integral of one-coin priors against Kim et al.'s (2022) sampled one.

    python benchmarks/belief_propagation.py [SEEDS]

1,000 tasks, 750 workers, a random (3, 4)-regular graph, two classes, one coin a worker, 400 samples: how far the
posteriors are apart, and how much faster the exact one is. Belief propagation against mean field is in the tables
`belief-inference` and `belief-figure-1` to `-6`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import crowdwise as cw
from crowdwise.simulate.coins import one_coin

RESULTS = Path(__file__).parent / "results" / "belief_propagation.json"


def exact_and_sampled(seeds: int) -> dict[str, float]:
    """The exact one-coin integral against 400 sampled coins: posteriors, and seconds of both in one run."""
    distances, noise, seconds = [], [], [0.0, 0.0]
    for seed in range(seeds):
        labels = one_coin(random_state=seed).labels
        sampled = []
        for draw in (0, 1):
            accuracy = np.random.default_rng([seed, draw]).beta(2, 1, 400)[:, None, None]
            coins = accuracy * np.eye(2) + (1 - accuracy) * (1 - np.eye(2))
            started = time.perf_counter()
            sampled.append(cw.BeliefPropagation(prior=coins).fit(labels).posterior_)
            seconds[1] += (time.perf_counter() - started) / 2
        started = time.perf_counter()
        exact = cw.BeliefPropagation().fit(labels).posterior_
        seconds[0] += time.perf_counter() - started
        distances.append(np.mean([np.abs(exact - one).mean() for one in sampled]))
        noise.append(np.abs(sampled[0] - sampled[1]).mean())
    return {
        "distance": float(np.mean(distances)),
        "distance_between_samples": float(np.mean(noise)),
        "exact_seconds": seconds[0] / seeds,
        "sampled_seconds": seconds[1] / seeds,
        "times_faster": seconds[1] / seconds[0],
    }


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    cw.BeliefPropagation().fit(one_coin(n_tasks=8, n_workers=6, random_state=0).labels)  # compiling is apart
    exact = exact_and_sampled(seeds)
    print(
        f"exact and sampled posteriors differ by {exact['distance']:.4f} on average, two samples by "
        f"{exact['distance_between_samples']:.4f}; exact is {exact['times_faster']:.0f} times faster"
    )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(exact, indent=1) + "\n")


if __name__ == "__main__":
    main()
