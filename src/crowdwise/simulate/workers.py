"""Populations of workers: functions that return confusion matrices `[worker, truth, label]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError
from crowdwise.simulate.checks import check_count, check_kind, check_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import FloatArray

__all__ = [
    "class_wise_confusion",
    "constant_confusion",
    "draw_dirichlet_rows",
    "draw_flipper_confusion",
    "draw_skilled_confusion",
    "hammer_confusion",
    "pseudo_counts",
    "symmetric_confusion",
    "unrelated_confusion",
]


def symmetric_confusion(skill: Any, n_classes: int) -> FloatArray:
    """One coin a worker: right with probability `skill[w]`, else each other class equally likely.

    >>> symmetric_confusion([0.8], 3)[0].round(2).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    """
    right = np.asarray(skill, np.float64)
    rows = np.repeat(((1 - right) / (n_classes - 1))[:, None, None], n_classes, axis=1)
    matrices = np.repeat(rows, n_classes, axis=2)
    diagonal = np.arange(n_classes)
    matrices[:, diagonal, diagonal] = right[:, None]
    return matrices


def class_wise_confusion(skills: Sequence[Sequence[float]]) -> FloatArray:
    """One skill for each worker and true class, errors spread equally over the other classes."""
    right = np.asarray(skills, np.float64)
    n_classes = right.shape[1]
    matrices = np.repeat(((1 - right) / (n_classes - 1))[:, :, None], n_classes, axis=2)
    diagonal = np.arange(n_classes)
    matrices[:, diagonal, diagonal] = right
    return matrices


def hammer_confusion(chance: Any, n_classes: int) -> FloatArray:
    """Right with probability `chance[w]`, otherwise a label uniform over *all* classes (Tanno et al. 2019 section 3.1).

    The diagonal is therefore `chance + (1 - chance) / n_classes`.
    """
    right = np.asarray(chance, np.float64)[:, None, None]
    return right * np.eye(n_classes) + (1 - right) / n_classes


def draw_flipper_confusion(skill: Any, n_classes: int, rng: np.random.Generator) -> FloatArray:
    """Right with probability `skill[w]`, otherwise one fixed wrong class for each true class.

    The target is uniform over the other classes, for each worker and class apart (Tanno et al. 2019 section 3.1).
    """
    right = np.asarray(skill, np.float64)
    classes = np.arange(n_classes)
    step = rng.integers(1, n_classes, size=(right.size, n_classes))
    target = (classes + step) % n_classes
    matrices = np.zeros((right.size, n_classes, n_classes))
    matrices[:, classes, classes] = right[:, None]
    matrices[np.arange(right.size)[:, None], classes, target] = (1 - right)[:, None]
    return matrices


def unrelated_confusion(labels: FloatArray) -> FloatArray:
    """Zero-capacity workers (Ibrahim et al. 2025): label l has probability `labels[w, l]`, whatever the truth."""
    return np.repeat(labels[:, None, :], labels.shape[1], axis=1)


def constant_confusion(n_workers: int, n_classes: int, label: int = 0) -> FloatArray:
    """Workers who always give the same label."""
    return unrelated_confusion(np.tile(np.eye(n_classes)[label], (n_workers, 1)))


def pseudo_counts(right: float, wrong: float, n_classes: int) -> FloatArray:
    """Dirichlet parameters of K rows with diagonal Beta(right, wrong): K-1 classes share `wrong`."""
    counts = np.full((n_classes, n_classes), wrong / (n_classes - 1))
    np.fill_diagonal(counts, right)
    return counts


def draw_dirichlet_rows(counts: Any, n_workers: int, rng: np.random.Generator) -> FloatArray:
    """Workers whose row k is drawn from Dirichlet(`counts[k]`), rows and workers independent."""
    parameters = np.asarray(counts, np.float64)
    if parameters.ndim != 2 or parameters.shape[0] != parameters.shape[1] or not (parameters > 0).all():
        raise InputError(
            "Dirichlet pseudo-counts must be a K×K matrix of positive numbers (rows: truth, columns: label); "
            f"they have shape {parameters.shape}."
        )
    n_classes = parameters.shape[0]
    matrices = np.empty((n_workers, n_classes, n_classes))
    for truth in range(n_classes):
        matrices[:, truth] = rng.dirichlet(parameters[truth], n_workers)
    return matrices


def draw_skilled_confusion(
    n_workers: int, n_classes: int, rng: np.random.Generator, *, skill: float, concentration: float
) -> FloatArray:
    """Dirichlet rows of a wanted mean: `skill` on the diagonal, the rest equal off it.

    `concentration` is the sum of the pseudo-counts of a row: the larger, the more alike the workers.
    """
    n_workers = check_count(n_workers, "n_workers", 0)
    right, concentration = check_share(skill, "skill"), check_kind(concentration, "concentration", 10.0)
    if not 0 < right < 1 or not concentration > 0:
        raise InputError(
            f"skill ({skill}) must lie between 0 and 1, both excluded, and concentration ({concentration}) "
            "must be positive: they are the mean and the size of Dirichlet pseudo-counts."
        )
    counts = pseudo_counts(concentration * right, concentration * (1 - right), n_classes)
    return draw_dirichlet_rows(counts, n_workers, rng)
