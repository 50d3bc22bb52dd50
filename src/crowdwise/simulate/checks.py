"""Checks of a simulation's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["Seed", "as_generator", "check_confusion", "check_count", "check_prior", "check_share"]

Seed: TypeAlias = "int | np.random.Generator"

ROUNDING = 1e-9  # rows typed in by hand may miss one by this much


def as_generator(seed: Seed) -> np.random.Generator:
    """Make a generator from a seed; a generator given is used, and moved on, as it is."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed is {quote(seed)}; it must be a whole number from 0, or a numpy Generator.")
    return np.random.default_rng(int(seed))


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {quote(value)}; it must be a whole number, at least {least}.")
    return int(value)


def check_share(value: Any, name: str) -> float:
    """Return a number in [0, 1]."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 <= number <= 1:
        raise InputError(f"{name} is {quote(value)}; it must be a number from 0 to 1.")
    return number


def check_prior(prior: Any, n_classes: int) -> FloatArray:
    """Class shares that sum to one; None stands for equal shares."""
    if prior is None:
        return np.full(n_classes, 1 / n_classes)
    shares: FloatArray = np.array(prior, np.float64)
    if shares.shape != (n_classes,) or not (shares >= 0).all() or abs(shares.sum() - 1) > ROUNDING:
        raise InputError(
            f"prior must hold {n_classes} shares (one for each class) that are not negative and sum to 1; "
            f"it holds {shares.size} and they sum to {shares.sum():.6g}."
        )
    shares /= shares.sum()
    return shares


def check_confusion(confusion: Any) -> FloatArray:
    """Confusion matrices (workers, truth, label) whose rows are distributions."""
    matrices = np.asarray(confusion, np.float64)
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.shape[1] < 2:
        raise InputError(f"confusion must have shape (workers, K, K) with K ≥ 2; it has {matrices.shape}.")
    wrong = ~(matrices >= 0).all(axis=2) | ~(np.abs(matrices.sum(axis=2) - 1) <= ROUNDING)
    if wrong.any():
        worker, truth = (int(at) for at in np.argwhere(wrong)[0])
        raise InputError(
            f"Row {truth} of worker {worker}'s confusion matrix is no distribution "
            f"({int(wrong.sum())} such rows in all). Rows must not be negative and must sum to 1."
        )
    return matrices
