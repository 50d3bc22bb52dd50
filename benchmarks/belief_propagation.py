"""Belief propagation against mean field on the crowds of 004, figures 2 and 3, and exact against sampled integrals.

    python benchmarks/belief_propagation.py [SEEDS]

1,000 tasks, 750 workers, a random (3, 4)-regular graph, two classes, one coin a worker; 50 seeds. Log score is
the mean log-probability given to the truth (higher is better), with the standard error of the paired difference.
Mean field is equations 16 and 27-29 of 004, under the same prior, from the prior's own expectations.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import digamma, softmax

import crowdwise as cw
from crowdwise.simulate.coins import one_coin

RESULTS = Path(__file__).parent / "results" / "belief_propagation.json"
SETTINGS: list[tuple[str, tuple[float, float], tuple[float, float], int]] = [
    *(
        (f"true prior, α₁ = {first}", (first, first / 2), (first, first / 2), 0)
        for first in (0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
    ),
    *((f"one spammer, prior Dir(2, {second})", (2.0, 1.0), (2.0, second), 1) for second in (0.8, 1.0, 1.2, 1.4, 1.6)),
    *((f"{count} spammers, prior Dir(2, 1.4)", (2.0, 1.0), (2.0, 1.4), count) for count in (1, 2, 3, 4, 5)),
]


def mean_field(labels: Any, alpha: tuple[float, float], n_iter: int = 500) -> Any:
    """Posterior of 004's mean field with a one-coin prior and uniform classes; two classes."""
    n_tasks, n_classes = labels.n_tasks, labels.n_classes
    right, wrong = np.zeros(labels.n_workers), np.zeros(labels.n_workers)
    posterior = np.full((n_tasks, n_classes), 1 / n_classes)
    for _ in range(n_iter):
        bonus = digamma(alpha[0] + right) - digamma(alpha[1] + wrong)
        logits = np.zeros((n_tasks, n_classes))
        np.add.at(logits, (labels.task, labels.label), bonus[labels.worker])
        before, posterior = posterior, softmax(logits, axis=1)
        if np.abs(posterior - before).max() < 1e-8:
            break
        right = np.bincount(labels.worker, posterior[labels.task, labels.label], minlength=labels.n_workers)
        wrong = labels.labels_per_worker - right
    return posterior


def score(posterior: Any, truth: Any) -> tuple[float, float]:
    """Mean log-probability of the truth, and accuracy."""
    said = posterior[np.arange(truth.size), truth]
    return float(np.log(np.maximum(said, 1e-300)).mean()), float((posterior.argmax(axis=1) == truth).mean())


def compare(truth_alpha: Any, alpha: Any, n_spammers: int, seeds: int) -> dict[str, float]:
    """Both methods on the same crowds."""
    rows = []
    for seed in range(seeds):
        crowd = one_coin(alpha=truth_alpha, n_spammers=n_spammers, seed=seed)
        model = cw.BeliefPropagation(alpha=alpha, damping=0.3, max_iter=500).fit(crowd.labels)
        rows.append([*score(model.posterior_, crowd.truth), *score(mean_field(crowd.labels, alpha), crowd.truth)])
    found = np.array(rows)
    gain = found[:, 0] - found[:, 2]
    names = ("log_score", "accuracy", "mean_field_log_score", "mean_field_accuracy")
    result = dict(zip(names, found.mean(axis=0).tolist(), strict=True))
    return result | {"gain": float(gain.mean()), "gain_error": float(gain.std(ddof=1) / np.sqrt(seeds)), "seeds": seeds}


def exact_and_sampled(seeds: int) -> dict[str, float]:
    """The exact one-coin integral against 400 sampled coins: posteriors, and seconds of both in one run."""
    distances, noise, seconds = [], [], [0.0, 0.0]
    for seed in range(seeds):
        labels = one_coin(seed=seed).labels
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
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    cw.BeliefPropagation().fit(one_coin(n_tasks=8, n_workers=6, seed=0).labels)  # compiling is apart
    rows = []
    print(f"{'setting':34}{'log score':>11}{'mean field':>12}{'gain':>9}{'±':>8}{'accuracy':>10}{'mean field':>12}")
    for name, truth_alpha, alpha, n_spammers in SETTINGS:
        row = compare(truth_alpha, alpha, n_spammers, seeds)
        rows.append({"setting": name} | row)
        print(
            f"{name:34}{row['log_score']:>11.4f}{row['mean_field_log_score']:>12.4f}{row['gain']:>9.4f}"
            f"{row['gain_error']:>8.4f}{row['accuracy']:>10.4f}{row['mean_field_accuracy']:>12.4f}",
            flush=True,
        )
    exact = exact_and_sampled(min(seeds, 10))
    print(
        f"exact and sampled posteriors differ by {exact['distance']:.4f} on average, two samples by "
        f"{exact['distance_between_samples']:.4f}; exact is {exact['times_faster']:.0f} times faster"
    )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"settings": rows, "exact": exact}, indent=1) + "\n")


if __name__ == "__main__":
    main()
