"""Drawing the truth from class shares and labels from confusion matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.engine_choice import choose_engine
from crowdwise.labels.errors import InputError
from crowdwise.labels.integer_codes import smallest_int
from crowdwise.metrics.checks import as_array
from crowdwise.simulate.checks import check_count, check_prior

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.simulate.assignment import Assignment

__all__ = ["cumulate_rows", "draw_from_rows", "draw_labels", "draw_truth"]

CHUNK = 2**20  # edges drawn at one time


def draw_truth(
    n_tasks: int, n_classes: int, rng: np.random.Generator, *, prior: Any = None, truth: Any = None
) -> tuple[IntArray, FloatArray]:
    """Draw the truth of each task; return it with the prior it comes from.

    Parameters
    ----------
    prior
        Class shares; equal ones by default.
    truth
        The classes of real tasks (of MNIST's images, say) as positions, used as they are: `n_tasks` and
        `prior` are then not looked at, and the prior returned is the shares that the truth has.
    """
    n_classes = check_count(n_classes, "n_classes", 2)
    if truth is None:
        shares = check_prior(prior, n_classes)
        cumulative = cumulate_rows(shares)
        codes = np.empty(check_count(n_tasks, "n_tasks"), np.int32)
        for start in range(0, codes.size, CHUNK):
            part = codes[start : start + CHUNK]
            part[:] = np.searchsorted(cumulative, rng.random(part.size), side="right")
        return codes, shares
    given = as_array(truth, "truth")
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise InputError(f"truth must be one whole number a task; it has shape {given.shape} and type {given.dtype}.")
    if given.min() < 0 or given.max() >= n_classes:
        raise InputError(
            f"truth must hold positions from 0 to {n_classes - 1}; it reaches from {given.min()} to {given.max()}."
        )
    return given.astype(np.int32), np.bincount(given, minlength=n_classes) / given.size


def draw_labels(assignment: Assignment, truth: IntArray, confusion: FloatArray, rng: np.random.Generator) -> IntArray:
    """One label for each edge: worker w on a task of true class k draws from `confusion[w, k]`."""
    cumulative = cumulate_rows(confusion)
    label = np.empty(assignment.task.size, smallest_int(confusion.shape[2]))
    for start in range(0, label.size, CHUNK):
        edges = slice(start, start + CHUNK)
        given = truth[assignment.task[edges]]
        _pick(cumulative, assignment.worker[edges], given, rng.random(given.size), label[edges])
    return label


def draw_from_rows(row: IntArray, given: IntArray, confusion: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw from `confusion[row[e], given[e]]` for each e."""
    label = np.empty(row.size, smallest_int(confusion.shape[2]))
    _pick(cumulate_rows(confusion), row, given, rng.random(row.size), label)
    return label


def cumulate_rows(rows: FloatArray) -> FloatArray:
    """Sum the rows up to sums that end in exactly one, so that a class of probability zero is never drawn."""
    sums = np.cumsum(rows, axis=-1)
    sums /= sums[..., -1:].copy()
    return sums


def _pick(cumulative: FloatArray, worker: IntArray, given: IntArray, uniform: FloatArray, label: IntArray) -> None:
    """Write the class in whose part of `cumulative[worker, given]` each number falls."""
    if choose_engine(label.size, cumulative.shape[2]) == "numba":
        from crowdwise.kernels.compiled.simulated_labels import draw_by_inverse_cdf

        draw_by_inverse_cdf(cumulative, worker, given, uniform, label)
    else:
        label[:] = (cumulative[worker, given, :-1] <= uniform[:, None]).sum(axis=1)
