"""Checking constructor parameters, once, in `fit`."""

from __future__ import annotations

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
    "check_inner_share",
    "check_number",
    "check_random_state",
    "check_shares",
    "plain_number",
]

# Limits of parameters that have none of their own. The square of the largest, summed over any crowd, is a number, and
# what a fit makes of them, sums and quotients, lies within the limits of saved arrays (`saved_arrays`), ten powers of
# ten further out; what lies beyond is no setting that anyone means.
LARGEST: Any = 1e90
SMALLEST: Any = 1e-90
MOST = 2**31 - 1


def plain_number(value: Any, kind: str) -> Any:
    """A number as Python's own, for a parameter of this kind ("int", "float", …); anything else as it is.

    NumPy's small integers overflow where they are multiplied, fractions make arrays of objects, and so do whole numbers
    too large for 64 bits. A whole number that is given for a float becomes one.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        whole = int(value)
        return float(whole) if kind.startswith("float") and abs(whole) <= LARGEST else whole
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, Real) and not isinstance(value, float) and abs(value) <= LARGEST:
        return float(value)
    return value


def check_number(name: str, value: Any, *, low: float, high: float = LARGEST, above: bool = False) -> None:
    """Refuse a parameter that is not a number from low (or above low) to high."""
    value = plain_number(value, "float")  # a float32 would be compared as one
    number = isinstance(value, int | float) and not isinstance(value, bool)
    tiny = number and above and 0 < value < SMALLEST  # its reciprocal is no number that one can reckon with
    if not number or tiny or not low <= value <= high or (above and value == low):
        start = f"above {low:g}" if above else f"{low:g} or more"
        least = f" (at least {SMALLEST:g})" if tiny else ""
        end = "" if high == LARGEST and not (number and value > high) else f" and at most {high:g}"
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
        given = int(value) if whole else value  # as it was written, 0 and not 0.0
        raise InputError(f"{name} is {quote(given)}; it must be a number, {start}{least}{end}.")


def check_count(name: str, value: Any, *, low: int = 1, high: int | None = MOST) -> None:
    """Refuse a parameter that is not a whole number from low on (to high)."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and int(value) > high):
        end = "" if high is None or (high == MOST and not (whole and value > high)) else f" and at most {high}"
        raise InputError(f"{name} is {quote(value)}; it must be a whole number, {low} or more{end}.")


def check_optional_count(name: str, value: Any, *, low: int = 1, high: int | None = MOST) -> None:
    """The same of a parameter that may be None."""
    if value is not None:
        check_count(name, value, low=low, high=high)


def check_random_state(value: Any) -> None:
    """Refuse what is no whole number from 0 on, of up to 128 bits as NumPy draws its own seeds."""
    check_count("random_state", value, low=0, high=None)
    if int(value) >= 2**128:
        raise InputError("random_state is too large; it must be a whole number below 2**128.")


def check_inner_share(name: str, value: Any) -> float:
    """Return a number between 0 and 1, both excluded, and not so near to 1 that the rest is lost in rounding."""
    number = plain_number(value, "float")
    if not isinstance(number, float) or not SMALLEST <= number <= 1 - 1e-9:
        # 1 - 1e-10 does lie between them.
        end = " and at most 0.999999999" if isinstance(number, float) and 0 < number < 1 else ""
        raise InputError(f"{name} is {quote(value)}; it must lie between 0 and 1, both excluded{end}.")
    return number


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
    # Numbers from 0 to 1 first: the sum of others might not be a number.
    if not ((given >= 0) & (given <= 1 + 1e-5)).all() or not np.allclose(given.sum(axis=-1), 1, atol=1e-6):
        raise InputError(f"{name} must hold probabilities that sum to 1 along the last axis.")


def as_numbers(value: Any, what: str) -> FloatArray:
    """An array of floats, or an error that names what was given."""
    if np.ma.is_masked(value):
        raise InputError(f"{what} has masked entries. Give a number for each.")
    try:
        array = np.asarray(value)
        if array.dtype.kind != "c":  # NumPy would leave out the imaginary part
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what} must be an array of numbers with rows of equal length.") from error
    raise InputError(f"{what} holds complex numbers. Give real ones.")
