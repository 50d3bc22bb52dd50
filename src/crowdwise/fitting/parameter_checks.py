"""Checking constructor parameters, once, in `fit`."""

from __future__ import annotations

import math
import sys
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import FloatArray

__all__ = [
    "as_numbers",
    "check_choice",
    "check_climb",
    "check_count",
    "check_flag",
    "check_number",
    "check_shares",
]


LARGEST: Any = sys.float_info.max


def check_number(name: str, value: Any, *, low: float, high: float = math.inf, above: bool = False) -> None:
    """Refuse a parameter that is not a number from low (or above low) to high."""
    value = value.item() if isinstance(value, np.generic) else value  # a float32 would be compared as one
    number = isinstance(value, Real) and not isinstance(value, bool) and abs(value) <= LARGEST
    if not number or value < low or value > high or (above and value == low):
        start = f"above {low:g}" if above else f"{low:g} or more"
        end = "" if high == math.inf else f" and at most {high:g}"
        raise InputError(f"{name} is {quote(value)}; it must be a number, {start}{end}.")


def check_count(name: str, value: Any, *, low: int = 1, high: int | None = None) -> None:
    """Refuse a parameter that is not a whole number from low on (to high)."""
    if (
        not isinstance(value, Integral)
        or isinstance(value, bool)
        or value < low
        or (high is not None and int(value) > high)
    ):
        end = "" if high is None else f" and at most {high}"
        raise InputError(f"{name} is {quote(value)}; it must be a whole number, {low} or more{end}.")


def check_flag(name: str, value: Any) -> None:
    """Refuse a parameter that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {quote(value)}; it must be True or False.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a parameter that is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} is {quote(value)}; it must be one of {', '.join(map(repr, choices))}.")


def check_climb(max_iter: Any, tol: Any) -> None:
    """Refuse an impossible number of iterations or tolerance."""
    check_count("max_iter", max_iter)
    check_number("tol", tol, low=0)


def check_shares(name: str, given: FloatArray) -> None:
    """Refuse an array that does not hold probabilities along its last axis."""
    if not np.isfinite(given).all() or (given < 0).any() or not np.allclose(given.sum(axis=-1), 1, atol=1e-6):
        raise InputError(f"{name} must hold probabilities that sum to 1 along the last axis.")


def as_numbers(value: Any, what: str) -> FloatArray:
    """An array of floats, or an error that names what was given."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be an array of numbers with rows of equal length.") from error
