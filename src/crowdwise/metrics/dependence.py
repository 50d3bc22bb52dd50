"""How far workers err together, where they should err one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.model import CrowdLabels

__all__ = ["error_correlation"]

DRAW = 5.0  # answers at the crowd's accuracy that count as a worker's own, for each class


def error_correlation(labels: CrowdLabels, posterior: npt.ArrayLike) -> float:
    """Mean correlation of two workers' errors on one task, given a consensus; about 0 where they err independently.

    The residual of a label is 1 or 0, for agreeing with the consensus or not, less the worker's accuracy on the class
    decided. The correlation is Σ of products of residuals over the pairs of labels of one task, over Σ of products of
    their standard deviations. With n labels of correlation ρ on a task, the evidence is that of n / (1 + (n - 1) ρ)
    independent ones (the design effect of survey statistics).

    Parameters
    ----------
    labels
        Who said what.
    posterior : array (n_tasks, n_classes)
        Probability of each class; its largest is the consensus.

    Notes
    -----
    Only what the labels show is found: errors that all workers share look like the truth. NaN where no task has two
    labels.

    Examples
    --------
    >>> from crowdwise.aggregate.dawid_skene import DawidSkene
    >>> from crowdwise.simulate import simulate
    >>> labels = simulate("one-coin", n_tasks=2000, n_workers=20, n_classes=2, labels_per_task=7, seed=0).labels
    >>> abs(error_correlation(labels, DawidSkene().fit(labels).posterior_)) < 0.02
    True
    """
    rows = np.asarray(posterior, np.float64)
    if rows.shape != (labels.n_tasks, labels.n_classes):
        raise InputError(f"posterior has shape {rows.shape}; these labels need {(labels.n_tasks, labels.n_classes)}.")
    decided = rows.argmax(axis=1)[labels.task]
    agrees = labels.label == decided
    cell = labels.worker.astype(np.int64) * labels.n_classes + decided
    size = labels.n_workers * labels.n_classes
    right, total = np.bincount(cell, agrees, size), np.bincount(cell, minlength=size)
    crowd = (np.bincount(decided, agrees, labels.n_classes) + 0.5) / (
        np.bincount(decided, minlength=labels.n_classes) + 1
    )
    accuracy = ((right + DRAW * np.tile(crowd, labels.n_workers)) / (total + DRAW))[cell]
    residual, spread = agrees - accuracy, np.sqrt(accuracy * (1 - accuracy))
    pairs = _pair_products(labels, spread)
    return float(_pair_products(labels, residual) / pairs) if pairs > 0 else float("nan")


def _pair_products(labels: CrowdLabels, values: npt.NDArray[np.float64]) -> float:
    """Σ of the products of values over ordered pairs of labels of one task."""
    sums = np.bincount(labels.task, values, labels.n_tasks)
    return float(sums @ sums - values @ values)
