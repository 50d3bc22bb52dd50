"""Small crowds of every kind with features, for tests of learners whose answers are no classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.kinds import simulate_comparisons, simulate_grades, simulate_similarities, simulate_values

SETTINGS: dict[str, Any] = {"network": "linear", "epochs": 3, "batch_size": 32, "learning_rate": 0.03, "device": "cpu"}


@dataclass(frozen=True)
class Featured:
    """Features, answers about their rows, and the truth of the rows as `score` takes it."""

    X: Any
    answers: Any
    truth: Any


def featured(kind: str, n: int = 60, *, seed: int = 0) -> Featured:
    """A crowd whose truth is linear in three features."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    line = X @ np.array([0.8, -0.5, 0.3])
    if kind == "values":
        crowd: Any = simulate_values(n, 8, bias=5.0, error=(3.0, 8.0), values=50 + 20 * line, random_state=seed)
        return Featured(X, crowd.answers, crowd.value)
    if kind == "ordinal":
        crowd = simulate_grades(n, 8, slope=(3.0, 8.0), scores=line, random_state=seed)
        return Featured(X, crowd.answers, crowd.grade)
    if kind == "comparisons":
        crowd = simulate_comparisons(n, 8, answers_per_worker=40, scores=3 * line, random_state=seed)
        return Featured(X, crowd.answers, crowd.score)
    if kind == "similarity":
        crowd = simulate_similarities(n_workers=8, share=0.6, cluster=X.argmax(axis=1), random_state=seed)
        return Featured(X, crowd.answers, crowd.cluster)
    raise NotImplementedError(f"Give learners of {kind} a crowd with features here.")
