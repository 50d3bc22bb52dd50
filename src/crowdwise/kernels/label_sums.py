"""Sums over labels: of a value over workers, or over workers and the label given; of products over anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["outer_sums", "outer_sums_with_zeros", "sum_named_class", "worker_answer_sums", "worker_sums"]


def worker_sums(labels: CrowdLabels, values: npt.NDArray[Any]) -> FloatArray:
    """Σ of `values` (S,) over each worker's labels, (M,)."""
    sums: FloatArray = np.bincount(labels.worker, weights=values, minlength=labels.n_workers).astype(np.float64)
    return sums


def sum_named_class(
    labels: CrowdLabels, rows: FloatArray, change: Callable[[FloatArray], FloatArray] | None = None
) -> FloatArray:
    """Σ over each worker's labels of what `rows` (N, K) say of the class that the label names, (M,).

    Parameters
    ----------
    change
        What to make of rows first, part by part where labels are on the disk.
    """
    sums = np.zeros(labels.n_workers)
    for tasks, part in labels.iterate_parts():
        values = rows[tasks] if change is None else change(rows[tasks])
        sums += worker_sums(part, values[part.task, part.label])
    return sums


def worker_answer_sums(labels: CrowdLabels, values: npt.NDArray[Any] | None = None) -> FloatArray:
    """Σ of `values` (S,), or the number of labels, for each worker and label given, (M, K)."""
    if values is None:
        return labels.count_answers()
    cells = labels.worker.astype(np.int64) * labels.n_classes + labels.label
    sums = np.bincount(cells, weights=values, minlength=labels.n_workers * labels.n_classes)
    return sums.reshape(labels.n_workers, labels.n_classes).astype(np.float64)


def outer_sums(left: FloatArray, right: FloatArray, unit: IntArray, n_units: int) -> FloatArray:
    """Σ left_e rightᵀ_e over the edges of each unit: (n_units, K, L)."""
    found = np.zeros((n_units, left.shape[1], right.shape[1]))
    if choose_engine(left.shape[0], right.shape[1]) == "numpy":
        for i, j in np.ndindex(found.shape[1:]):
            found[:, i, j] = np.bincount(unit, left[:, i] * right[:, j], n_units)
        return found
    from crowdwise.kernels.compiled.label_sums import add_outer

    add_outer(np.ascontiguousarray(left), np.ascontiguousarray(right), np.asarray(unit, np.int64), found)
    return found


def outer_sums_with_zeros(left: FloatArray, right: FloatArray, unit: IntArray, n_units: int) -> FloatArray:
    """The same, quicker where most entries of `right` are 0."""
    return np.moveaxis(outer_sums(right, left, unit, n_units), 1, 2).copy()
