"""Sums of a value per label over workers, or over workers and the label given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["answer_sums", "worker_sums"]


def worker_sums(labels: CrowdLabels, values: npt.NDArray[Any]) -> FloatArray:
    """Σ of `values` (S,) over each worker's labels, (M,)."""
    sums: FloatArray = np.bincount(labels.worker, weights=values, minlength=labels.n_workers).astype(np.float64)
    return sums


def answer_sums(labels: CrowdLabels, values: npt.NDArray[Any] | None = None) -> FloatArray:
    """Σ of `values` (S,), or the number of labels, for each worker and label given, (M, K)."""
    cells = labels.worker.astype(np.int64) * labels.n_classes + labels.label
    sums = np.bincount(cells, weights=values, minlength=labels.n_workers * labels.n_classes)
    return sums.reshape(labels.n_workers, labels.n_classes).astype(np.float64)
