"""Krippendorff's alpha, from the coincidence matrix of the vote counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from crowdwise.labels.errors import InputError
from crowdwise.metrics.checks import check_choice
from crowdwise.metrics.votes import class_names_as_numbers, class_numbers, vote_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.types import FloatArray
    from crowdwise.metrics.votes import Votes

__all__ = ["coincidences", "krippendorff_alpha"]


def coincidences(votes: Votes) -> FloatArray:
    """Coincidence matrix (n_classes, n_classes): pairs of answers within tasks, each task's divided by n - 1.

    Tasks with fewer than two answers have no pairs and are dropped. Sums to the number of answers left.

    Examples
    --------
    >>> coincidences([[2, 1], [0, 1]]).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    counts = vote_matrix(votes)
    n = np.asarray(counts.sum(axis=1), np.float64)
    share = np.divide(1, n - 1, out=np.zeros_like(n), where=n > 1)
    from scipy.sparse import diags_array

    every = (counts.T @ (diags_array(share) @ counts)).toarray()
    itself = np.asarray(counts.T @ share, np.float64)  # an answer is not a pair with itself
    result: FloatArray = every - np.diag(itself)
    return result


def krippendorff_alpha(
    votes: Votes,
    *,
    level: Literal["nominal", "ordinal", "interval", "ratio"] = "nominal",
    values: npt.ArrayLike | None = None,
) -> float:
    """Krippendorff's alpha: 1 - observed / expected disagreement, for any number of raters and gaps.

    Parameters
    ----------
    votes
        `CrowdLabels`, or vote counts (n_tasks, n_classes). Tasks with one answer are dropped. An answer
        that a worker gives twice counts as two answers.
    level
        What the classes are. "nominal": names. "ordinal": ranks; "interval": numbers whose differences count;
        "ratio": numbers from zero up, whose differences count relative to their sum.
    values : array (n_classes,), optional
        The number of each class. By default the classes' names if all are numbers; if not, "ordinal" takes
        the order of the classes, and "interval" and "ratio" ask for values.

    Returns
    -------
    float
        At most 1; 0 is chance. NaN if no task has two answers, or all answers in such tasks are equal.

    References
    ----------
    Krippendorff. Computing Krippendorff's alpha-reliability. University of Pennsylvania, 2011.

    Examples
    --------
    >>> round(krippendorff_alpha([[3, 0], [2, 1], [0, 3]]), 4)
    0.6
    """
    check_choice(level, ("nominal", "ordinal", "interval", "ratio"), "level")
    together = coincidences(votes)
    margin = together.sum(axis=1)
    n_classes, total = margin.size, float(margin.sum())
    if level == "nominal":
        distance = 1 - np.eye(n_classes)
    elif level == "ordinal":
        place = _order(votes, values, n_classes)
        rank = np.empty(n_classes)
        rank[place] = np.cumsum(margin[place]) - margin[place] / 2
        distance = np.subtract.outer(rank, rank) ** 2
    else:
        numbers = class_numbers(votes, values, n_classes, f"level={level!r}")
        distance = np.subtract.outer(numbers, numbers) ** 2
        if level == "ratio":
            if (numbers < 0).any():
                raise InputError(
                    f"level='ratio' needs numbers from zero up; a class stands for {numbers.min():g}. "
                    "Use level='interval'."
                )
            both = np.add.outer(numbers, numbers) ** 2
            distance = np.divide(distance, both, out=np.zeros_like(both), where=both > 0)
    expected = float(margin @ distance @ margin)
    if total < 2 or expected <= 0:
        return float("nan")
    return 1 - (total - 1) * float((together * distance).sum()) / expected


def _order(votes: Votes, values: npt.ArrayLike | None, n_classes: int) -> npt.NDArray[np.intp]:
    """Positions of the classes from the lowest to the highest."""
    if values is None and class_names_as_numbers(votes) is None:
        return np.arange(n_classes)
    numbers = class_numbers(votes, values, n_classes, "level='ordinal'")
    if np.unique(numbers).size < n_classes:
        raise InputError("level='ordinal' needs classes that can be ranked; two of them have the same value.")
    return np.argsort(numbers)
