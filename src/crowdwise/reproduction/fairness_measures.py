"""What classifiers lose, and how unfair they are, that were trained on a consensus instead of the truth.

Ibrahim et al. 2025, "Taking bias into account": difference of accuracy, and of the demographic parity difference
|P(ŷ = 1 given group 1) − P(ŷ = 1 given group 0)|, of a random forest and a logistic regression on test tasks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from crowdwise.labels.errors import InputError
from crowdwise.metrics.with_truth import accuracy

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.types import IntArray
    from crowdwise.reproduction.measures import FittedModel

__all__ = ["FAIRNESS_MEASURES", "parity_difference"]

TREES = 100


def parity_difference(decided: IntArray, group: IntArray) -> float:
    """By how much class 1 is given to one group more often than to the other; 0 is fair."""
    return abs(float((decided[group == 1] == 1).mean()) - float((decided[group == 0] == 1).mean()))


def _train_forest(x: Any, y: Any) -> Any:
    return RandomForestClassifier(TREES, min_samples_leaf=5, random_state=0, n_jobs=1).fit(x, y)


def _train_logistic(x: Any, y: Any) -> Any:
    return LogisticRegression(max_iter=1000).fit(x, y)


@lru_cache(maxsize=2)  # both measures of a classifier read the same predictions
def _predictions(fitted: FittedModel, train: Callable[[Any, Any], Any]) -> tuple[IntArray, IntArray, IntArray]:
    """What a classifier says of the test tasks, trained on the consensus, and on the truth; and their groups."""
    problem = fitted.problem
    if problem.test is None or problem.test_group is None:
        raise InputError("There are no groups of test tasks: name the measure's settings.")
    said = fitted.model.posterior_.argmax(axis=1)
    found = [train(problem.x, labels).predict(problem.test[0]) for labels in (said, problem.truth)]
    return found[0], found[1], problem.test_group


def _accuracy_lost(train: Callable[[Any, Any], Any]) -> Callable[[FittedModel], float]:
    def measure(fitted: FittedModel) -> float:
        from_consensus, from_truth, _ = _predictions(fitted, train)
        _, truth = fitted.problem.test or (None, np.empty(0))
        return accuracy(truth, from_truth) - accuracy(truth, from_consensus)

    return measure


def _parity_gained(train: Callable[[Any, Any], Any]) -> Callable[[FittedModel], float]:
    def measure(fitted: FittedModel) -> float:
        from_consensus, from_truth, group = _predictions(fitted, train)
        return parity_difference(from_consensus, group) - parity_difference(from_truth, group)

    return measure


def _consensus_parity(fitted: FittedModel) -> float:
    """Of the consensus itself, on the tasks that the crowd has labelled."""
    if fitted.problem.group is None:
        raise InputError("There are no groups of tasks: name the measure's settings.")
    return parity_difference(fitted.model.posterior_.argmax(axis=1), fitted.problem.group)


FAIRNESS_MEASURES: dict[str, Callable[[FittedModel], float]] = {
    "forest_accuracy_lost": _accuracy_lost(_train_forest),
    "forest_parity_gained": _parity_gained(_train_forest),
    "logistic_accuracy_lost": _accuracy_lost(_train_logistic),
    "logistic_parity_gained": _parity_gained(_train_logistic),
    "consensus_parity": _consensus_parity,
}
