"""Networks that know their workers against the same networks that do not, where answers are no classes.

    python benchmarks/answer_learning.py [--seeds 5] [--parts comparisons,values,ordinal]

Handwritten digits are items or tasks, and how large a digit is, the truth: 1,200 images to learn from, 597 new ones to
predict. Mean and standard deviation over the seeds. No truth is used in any fit; settings are the same for all.

- comparisons: 40 workers, 100 pairs each, three in ten of them adversaries; share of all pairs of new images that are
  ordered rightly.
- values: 30 workers, two answers an image, with scales (about 1, standard deviation 0.3), biases (15, where digits are
  10 apart) and noise (3 to 60) of their own; root mean square error on new images.
- ordinal: five grades, 30 workers from guessing to sharp, two answers an image; mean absolute error on new images.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.datasets import load_digits

import crowdwise as cw
from crowdwise.kinds import Grades, Values, simulate_comparisons, simulate_grades, simulate_values

if TYPE_CHECKING:
    from collections.abc import Iterator

X, DIGIT = load_digits(return_X_y=True)
N = 1200


def compare_items(train: Any, test: Any, seed: int) -> Iterator[tuple[str, float]]:
    """Share of the pairs of new items that are ordered rightly."""
    scores = 0.5 * (DIGIT[train] - 4.5)
    crowd = simulate_comparisons(
        N, 40, answers_per_worker=100, adversaries=0.3, ties=0.0, scores=scores, random_state=seed
    )
    for reliability in ("none", "slope", "quality"):
        model = cw.ScoringNetwork(reliability=reliability, epochs=20, device="cpu", random_state=seed)
        yield f"reliability={reliability}", model.fit(X[train], crowd.answers).score(X[test], DIGIT[test])


def predict_values(train: Any, test: Any, seed: int) -> Iterator[tuple[str, float]]:
    """Root mean square error on new tasks."""
    truth = 10.0 * DIGIT
    crowd = simulate_values(
        N, 30, answers_per_task=2, error=(3.0, 60.0), scale=0.3, bias=15.0, values=truth[train], random_state=seed
    )
    answers = crowd.answers
    mean = np.bincount(answers.task, answers.value[:, 0]) / answers.answers_per_task
    means = Values.from_codes(np.arange(N), np.zeros(N, int), mean, tasks=N, workers=1)
    shared: dict[str, Any] = {"epochs": 40, "device": "cpu", "random_state": seed}
    for name, model, given in (
        ("network on plain means", cw.CrowdLayerRegression(layer="none", **shared), means),
        ("crowd-layer-regression", cw.CrowdLayerRegression(**shared), answers),
        ("gaussian-em", cw.GaussianEm(**shared), answers),
    ):
        model.fit(X[train], given)
        yield name, float(np.sqrt(((model.predict(X[test]) - truth[test]) ** 2).mean()))


def predict_grades(train: Any, test: Any, seed: int) -> Iterator[tuple[str, float]]:
    """Mean absolute error on new tasks."""
    score = (DIGIT - 4.5) / 2.87
    truth = (score[:, None] > ndtri(np.arange(1, 5) / 5)).sum(axis=1)
    crowd = simulate_grades(
        N, 30, answers_per_task=2, slope=(0.0, 8.0), bias=0.4, scores=score[train], random_state=seed
    )
    answers = crowd.answers
    votes = np.zeros((N, 5))
    np.add.at(votes, (answers.task, answers.grade), 1)
    vote = (votes + 0.1 * np.random.default_rng(seed).random(votes.shape)).argmax(axis=1)  # ties by chance
    plain = Grades.from_codes(np.arange(N), np.zeros(N, int), vote, tasks=N, workers=1, classes=5)
    for name, given in (("network on the majority vote", plain), ("graded-network", answers)):
        model = cw.GradedNetwork(epochs=40, device="cpu", random_state=seed).fit(X[train], given)
        yield name, -model.score(X[test], truth[test])


PARTS = {"comparisons": compare_items, "values": predict_values, "ordinal": predict_grades}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", default=",".join(PARTS))
    given = parser.parse_args()
    for part in given.parts.split(","):
        found: dict[str, list[float]] = {}
        for seed in range(given.seeds):
            order = np.random.default_rng(seed).permutation(len(X))
            for name, value in PARTS[part](order[:N], order[N:], seed):
                found.setdefault(name, []).append(value)
        for name, values in found.items():
            print(f"{part:12} {name:30} {np.mean(values):8.3f} ± {np.std(values, ddof=1):.3f}", flush=True)


if __name__ == "__main__":
    main()
