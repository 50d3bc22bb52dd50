"""Votes of each task as a sparse tasks × classes matrix, made from edges, and numbers for classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.metrics.checks import as_array

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_array

    from crowdwise.labels.types import FloatArray

__all__ = ["Votes", "agreeing_pairs", "class_names_as_numbers", "class_numbers", "vote_matrix"]

Votes: TypeAlias = "CrowdLabels | npt.ArrayLike"


def vote_matrix(votes: Votes) -> csr_array[np.float64, tuple[int, int]]:
    """Answers for each class, tasks × classes, one stored entry for each class that a task's labels name.

    Parameters
    ----------
    votes
        `CrowdLabels`, or a table of counts (n_tasks, n_classes) as the papers print them.

    Examples
    --------
    >>> labels = CrowdLabels.from_codes([0, 0, 0], [0, 1, 2], [1, 1, 0], tasks=2, workers=3, classes=2)
    >>> vote_matrix(labels).toarray().tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    from scipy.sparse import csr_array

    if isinstance(votes, CrowdLabels):
        edges = (np.ones(votes.n_labels), votes.label.astype(np.int64), votes.task_ptr.copy())
        matrix: csr_array[np.float64, tuple[int, int]]
        matrix = csr_array(edges, (votes.n_tasks, votes.n_classes), dtype=np.float64)
        matrix.sum_duplicates()
        return matrix
    counts = as_array(votes, "votes")
    if counts.ndim != 2 or counts.dtype.kind not in "iuf":
        raise InputError(
            "Give CrowdLabels, or a table of vote counts, tasks × classes; this has shape "
            f"{counts.shape} and type {counts.dtype}."
        )
    wrong = np.flatnonzero(((counts < 0) | (counts != np.floor(counts))).any(axis=1))
    if wrong.size:
        raise InputError(f"Vote counts must be whole numbers from 0 up; rows {listing(wrong.tolist())} hold others.")
    return csr_array(counts.astype(np.float64))


def agreeing_pairs(votes: csr_array[np.float64, tuple[int, int]]) -> tuple[FloatArray, FloatArray]:
    """Ordered pairs of answers of each task that agree, and all its ordered pairs."""
    n = np.asarray(votes.sum(axis=1), np.float64)
    row = np.repeat(np.arange(n.size), np.diff(votes.indptr))
    agree = np.bincount(row, votes.data * (votes.data - 1), minlength=n.size)
    return agree.astype(np.float64), n * (n - 1)


def class_names_as_numbers(votes: Votes) -> FloatArray | None:
    """Read the classes' names as numbers, if all of them are.

    >>> labels = CrowdLabels.from_codes([0], [0], [0], tasks=1, workers=1, classes=["0.5", "2"])
    >>> class_names_as_numbers(labels).tolist()
    [0.5, 2.0]
    """
    if not isinstance(votes, CrowdLabels):
        return None
    try:
        numbers = np.array([float(str(name)) for name in votes.classes.to_pylist()])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def class_numbers(votes: Votes, values: npt.ArrayLike | None, n_classes: int, why: str) -> FloatArray:
    """Give each class its number: from `values`, or its name if every name is a number."""
    if values is None:
        numbers = class_names_as_numbers(votes)
        if numbers is None:
            named = f" ({listing(votes.classes.to_pylist())})" if isinstance(votes, CrowdLabels) else ""
            raise InputError(
                f"{why} needs a number for each class, and the classes{named} are not numbers. "
                "Give them in `values`, one for each class in order."
            )
        return numbers
    array = as_array(values, "values")
    if array.shape != (n_classes,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InputError(f"values must be one finite number for each of the {n_classes} classes; got {quote(values)}.")
    return array.astype(np.float64)
