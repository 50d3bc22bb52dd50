"""Checks of a simulation's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from crowdwise.fitting.parameter_checks import LARGEST, MOST, as_numbers, plain_number
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = [
    "Seed",
    "as_generator",
    "check_confusion",
    "check_count",
    "check_kind",
    "check_prior",
    "check_share",
    "check_sizes",
]

Seed: TypeAlias = "int | np.random.Generator"

MOST_ENTRIES = 2**59  # of 8 bytes: what NumPy can count
ROUNDING = 1e-9  # rows typed in by hand may miss one by this much


def as_generator(random_state: Seed) -> np.random.Generator:
    """Make a generator from a seed; a generator given is used, and moved on, as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InputError(
            f"random_state is {quote(random_state)}; it must be a whole number from 0, or a numpy Generator."
        )
    return np.random.default_rng(int(random_state))


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number that is at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not whole or not least <= value <= MOST:
        raise InputError(f"{name} is {quote(value)}; it must be a whole number, at least {least} and at most {MOST}.")
    return int(value)


def check_sizes(n_workers: int, n_classes: int) -> None:
    """Refuse a crowd whose confusion matrices no machine can hold."""
    if n_workers * n_classes**2 > MOST_ENTRIES:
        raise InputError(
            f"{n_workers:,} workers with {n_classes:,} classes are too many: their confusion matrices would have "
            f"{n_workers * n_classes**2:,} entries. Ask for fewer."
        )


def check_kind(value: Any, name: str, default: Any, *, several: bool = False) -> Any:
    """Return a value of the kind that the default is: a number (or `several`), a word, or a tuple of numbers."""
    if isinstance(default, str) and not isinstance(value, str):
        raise InputError(f"{name} is {quote(value)}; it must be a word, such as {default!r}.")
    if (several or isinstance(default, tuple)) and not np.isscalar(value):
        numbers = as_numbers(value, name)
        if numbers.ndim == 0:
            raise InputError(f"{name} is {quote(value)}; it must hold numbers.")
        if not (abs(numbers) <= LARGEST).all():  # NaN is no number either
            raise InputError(f"{name} is {quote(value)}; it must hold numbers.")
        return value
    if isinstance(default, float):
        number = plain_number(value, "float")
        if not isinstance(number, float) or not abs(number) <= LARGEST:
            raise InputError(f"{name} is {quote(value)}; it must be a number.")
        return number
    return value


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
    shares: FloatArray = as_numbers(prior, "prior").copy()
    possible = shares.shape == (n_classes,) and bool(((shares >= 0) & (shares <= 1 + ROUNDING)).all())
    if not possible:
        raise InputError(
            f"prior must hold {n_classes} shares from 0 to 1, one for each class, that sum to 1; it is {quote(prior)}."
        )
    if abs(shares.sum() - 1) > ROUNDING:
        raise InputError(
            f"prior must hold {n_classes} shares (one for each class) that are not negative and sum to 1; "
            f"it holds {shares.size} and they sum to {shares.sum():.6g}."
        )
    shares /= shares.sum()
    return shares


def check_confusion(confusion: Any) -> FloatArray:
    """Confusion matrices (workers, truth, label) whose rows are distributions."""
    matrices = as_numbers(confusion, "confusion")
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
