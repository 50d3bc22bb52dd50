"""Matrices as learnt against refined ones: which are nearer to the truth, and which serve skills and labels better.

Learners that find matrices by small steps (trace, coupled-ce, geo-f, geo-w) give both, `confusion_` and
`refined_confusion_`. Crowds of Tanno et al. 2019 label scikit-learn's digits, or classes in a cloud of points, every
task by all or by one; the labels choose the epoch. Scored are the error of the matrices, that of the skills they imply,
and, on test tasks that the same crowd has labelled, what features and labels together say: accuracy and log-loss.

    python benchmarks/refined_matrices.py            # four minutes on a core; writes results/refined_matrices.json
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.metrics.with_truth import accuracy, confusion_error, log_loss
from crowdwise.registry import learner
from crowdwise.simulate.crowds import simulate

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

OUT = Path(__file__).parent / "results" / "refined_matrices.json"
LEARNERS = ("trace", "coupled-ce", "geo-f", "geo-w")
CROWDS = ("pairwise-flippers", "hammer-spammers")
SEEDS = 2
TEST = 400  # tasks
WORKERS, SKILL = 5, 0.5


def digits(rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    x, truth = load_digits(return_X_y=True)
    order = rng.permutation(truth.size)
    return x[order], truth[order]


def cloud(rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Six classes whose points overlap: no classifier is right more than about 85 % of the time."""
    truth = rng.integers(6, size=1600)
    return rng.normal(size=(6, 8))[truth] * 1.5 + rng.normal(size=(1600, 8)), truth


def run(slug: str, data: str, crowd: str, per_task: int, seed: int) -> dict[str, Any]:
    """Errors of both kinds of matrices in one fit."""
    x, truth = {"digits": digits, "cloud": cloud}[data](np.random.default_rng(seed))
    drawn = simulate(crowd, truth=truth, n_workers=WORKERS, skill=SKILL, labels_per_task=per_task, random_state=seed)
    labels = drawn.labels
    model = learner(slug).make(network="mlp", epochs=40, random_state=seed, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x[TEST:], cut(labels, TEST, truth.size))
    fresh = cut(labels, 0, TEST)
    shares = np.bincount(truth, minlength=labels.n_classes) / truth.size
    true_skill = np.einsum("wkk,k->w", drawn.confusion, shares)
    found: dict[str, Any] = {"learner": slug, "data": data, "crowd": crowd, "labels_per_task": per_task, "seed": seed}
    found["classifier"] = accuracy(truth[:TEST], model.predict_proba(x[:TEST]).argmax(axis=1))
    for kind, matrices in (("own", model.confusion_.copy()), ("refined", model.refined_confusion_.copy())):
        model.extra_["refined_confusion"] = matrices  # what labels are read by
        posterior = model.predict_proba(x[:TEST], fresh)
        found[kind] = {
            "confusion_error": 100 * confusion_error(drawn.confusion, matrices),
            "skill_error": float(np.abs(np.einsum("wkk,k->w", matrices, shares) - true_skill).mean()),
            "accuracy": accuracy(truth[:TEST], posterior.argmax(axis=1)),
            "log_loss": log_loss(truth[:TEST], posterior),
        }
    return found


def cut(labels: CrowdLabels, first: int, end: int) -> CrowdLabels:
    """The labels of some tasks, named by their row, from 0."""
    kept = labels.keep((labels.task >= first) & (labels.task < end))
    return CrowdLabels.from_codes(
        kept.task - first, kept.worker, kept.label, tasks=end - first, workers=labels.workers, classes=labels.classes
    )


def main() -> None:
    rows = [
        run(slug, data, crowd, per_task, seed)
        for data in ("digits", "cloud")
        for crowd in CROWDS
        for per_task in (WORKERS, 1)
        for slug in LEARNERS
        for seed in range(SEEDS)
    ]
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for score in ("confusion_error", "skill_error", "accuracy", "log_loss"):
        own, refined = (np.array([row[kind][score] for row in rows]) for kind in ("own", "refined"))
        ahead = (refined > own if score == "accuracy" else refined < own).sum()
        print(f"{score}: own {own.mean():.4f}, refined {refined.mean():.4f}; refined ahead in {ahead} of {len(rows)}")


if __name__ == "__main__":
    main()
