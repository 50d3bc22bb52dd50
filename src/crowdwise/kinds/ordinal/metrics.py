"""How near a consensus of grades is to a truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.ordinal.truth import align_true_grades

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.model import GradeModel
    from crowdwise.labels.types import IntArray

__all__ = ["mean_absolute_error", "quadratic_weighted_kappa", "score_grades"]


def mean_absolute_error(found: IntArray, true: IntArray) -> float:
    """Mean number of classes by which two columns of positions (n,) differ.

    >>> mean_absolute_error(np.array([0, 2, 3]), np.array([0, 1, 1]))
    1.0
    """
    return float(np.abs(np.asarray(found, np.float64) - np.asarray(true, np.float64)).mean())


def quadratic_weighted_kappa(found: IntArray, true: IntArray) -> float:
    """Agreement of two columns of positions (n,) beyond chance, where squared differences count (Cohen 1968).

    One less mean squared difference over that of the same grades paired at random; NaN if both are one class.

    >>> quadratic_weighted_kappa(np.array([0, 1, 2]), np.array([0, 1, 2]))
    1.0
    """
    one, other = np.asarray(found, np.float64), np.asarray(true, np.float64)
    chance = one.var() + other.var() + (one.mean() - other.mean()) ** 2
    return 1 - float(((one - other) ** 2).mean() / chance) if chance > 0 else float("nan")


def score_grades(model: GradeModel, truth: Any) -> dict[str, float]:
    """Mean absolute error, quadratic weighted kappa and accuracy of a fitted model, over tasks of known truth.

    Parameters
    ----------
    truth
        A mapping from task to grade, or a path or table with a column for the task and one for the grade.
    """
    true = align_true_grades(truth, model._names["tasks"], model._names["classes"])
    known = true >= 0
    found = model.decide()[known]
    return {
        "n_truths": int(known.sum()),
        "mean_absolute_error": mean_absolute_error(found, true[known]),
        "quadratic_weighted_kappa": quadratic_weighted_kappa(found, true[known]),
        "accuracy": float((found == true[known]).mean()),
    }
