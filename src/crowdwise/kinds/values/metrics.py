"""How near a consensus of values is to a truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.values.truth import align_true_values

if TYPE_CHECKING:
    from crowdwise.kinds.values.model import ValueModel
    from crowdwise.labels.types import FloatArray

__all__ = ["pearson", "score_values"]


def pearson(first: FloatArray, second: FloatArray) -> float:
    """Correlation of two columns (n,); NaN where one of them does not vary."""
    a, b = first - first.mean(), second - second.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else float("nan")


def score_values(model: ValueModel, truth: Any, level: float = 0.9) -> dict[str, float]:
    """Correlation, errors and coverage of the intervals of a fitted model, over tasks of known truth.

    Parameters
    ----------
    truth
        A mapping from task to value, or a path or table with a column for the task and one for the value.
    """
    true = align_true_values(truth, model._names["tasks"], model.coordinates)
    known = np.isfinite(true).all(axis=1)
    value, low, high = model.value_[known], *(each[known] for each in model._value_interval(level))
    error = value - true[known]
    return {
        "n_truths": int(known.sum()),
        "pearson": float(np.mean([pearson(*pair) for pair in zip(value.T, true[known].T, strict=True)])),
        "mean_absolute_error": float(np.abs(error).mean()),
        "root_mean_square_error": float(np.sqrt((error**2).mean())),
        "coverage": float(((low <= true[known]) & (true[known] <= high)).mean()),
    }
