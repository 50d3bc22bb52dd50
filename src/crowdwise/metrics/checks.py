"""What the metrics ask of their inputs, checked once, with errors that say what, where and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.parameter_checks import MOST
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "as_array",
    "check_choice",
    "check_confusions",
    "check_labels",
    "check_rows",
    "class_positions",
    "known_pairs",
    "posterior_rows",
]

UNKNOWN = -1
# A posterior normalised in float32 misses one by about 1e-7 a class; more than this is not rounding.
ROUNDING = 1e-4


def as_array(given: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """The same as an array; rows of unequal length and complex numbers are refused."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InputError(f"{what} must have rows of equal length.") from error
    if array.dtype.kind == "c":  # NumPy would leave out the imaginary part
        raise InputError(f"{what} holds complex numbers. Give real ones.")
    return array


def check_labels(labels: object, what: str = "labels") -> None:
    """Refuse what are no labels."""
    if not isinstance(labels, CrowdLabels):
        raise InputError(f"{what} are {quote(type(labels).__name__)}; give CrowdLabels, as crowdwise.read_labels does.")


def class_positions(given: npt.ArrayLike, what: str) -> IntArray:
    """Class positions as int64, with -1 where the class is unknown (given as -1, None, NaN or masked).

    >>> class_positions([2, None, 0, -1], "truth").tolist()
    [2, -1, 0, -1]
    """
    array = np.ma.filled(given, UNKNOWN) if isinstance(given, np.ma.MaskedArray) else as_array(given, what)
    if array.ndim != 1:
        raise InputError(f"{what} must be one-dimensional, one entry for each task; its shape is {array.shape}.")
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind == "O":
        array = _numbers(array, what)
    if array.dtype.kind not in "iufb":
        raise InputError(
            f"{what} must hold class positions (0, 1, …; -1 for unknown), not {quote(array[0].item())}. "
            "Turn names into positions with crowdwise.truth_codes(truth, labels) first."
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float64)  # 16 bits hold no number as large as the limit
        array = np.where(np.isnan(array), UNKNOWN, array)
        _refuse(array, array != np.floor(array), what, "class positions are whole numbers")
    _refuse(array, array < UNKNOWN, what, "class positions start at 0, and -1 stands for unknown")
    _refuse(array, array > MOST, what, f"there are no more classes than {MOST}")
    return array.astype(np.int64)


def known_pairs(truth: npt.ArrayLike, given: npt.ArrayLike, what: str) -> tuple[IntArray, IntArray]:
    """Truth and predicted classes of the tasks whose truth is known; those need a prediction each."""
    true, said = class_positions(truth, "truth"), class_positions(given, what)
    if true.size != said.size:
        raise InputError(
            f"truth has {true.size} entries and {what} has {said.size}; give both one entry for each task."
        )
    known = _check_any_known(true)
    missing = np.flatnonzero(known & (said < 0))
    if missing.size:
        raise InputError(
            f"{what} has no class where the truth is known: rows {listing(missing.tolist())}. "
            "Predict these tasks, or set their truth to -1 to leave them out."
        )
    return true[known], said[known]


def posterior_rows(truth: npt.ArrayLike, posterior: npt.ArrayLike) -> tuple[IntArray, FloatArray]:
    """Truth and probability rows of the tasks whose truth is known. Other rows are not looked at."""
    true = class_positions(truth, "truth")
    rows = as_array(posterior, "posterior")
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise InputError(
            f"posterior must be a matrix of numbers, tasks × classes; its shape is {rows.shape} and its type "
            f"{rows.dtype}."
        )
    if true.size != rows.shape[0]:
        raise InputError(
            f"truth has {true.size} entries and posterior has {rows.shape[0]} rows; give both one for each task."
        )
    known = _check_any_known(true)
    _refuse(true, true >= rows.shape[1], "truth", f"posterior has {rows.shape[1]} classes")
    return true[known], check_rows(rows[known], "posterior", np.flatnonzero(known))


def check_rows(rows: npt.NDArray[Any], what: str, names: IntArray | None = None) -> FloatArray:
    """Float64 rows, refused unless each is a probability distribution (up to rounding)."""
    try:
        array: FloatArray = rows.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must hold probabilities, which are numbers; its type is {rows.dtype}.") from error
    with np.errstate(invalid="ignore"):
        good = (array >= 0).all(axis=-1) & (np.abs(array.sum(axis=-1) - 1) <= ROUNDING)
    if not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0])
        place = at if names is None else (int(names[at[0]]), *at[1:])
        shown = ", ".join(f"{value:.4g}" for value in array[at][:5])
        raise InputError(
            f"{what} must hold probabilities that sum to one in each row; row "
            f"{', '.join(map(str, place))} holds {shown}{', …' if array.shape[-1] > 5 else ''} "
            f"(sum {array[at].sum():.6g}). Normalise it, or turn logits into probabilities first."
        )
    return array


def check_confusions(given: npt.ArrayLike, what: str) -> FloatArray:
    """Confusion matrices [worker, truth, label] as float64, or the error that names the wrong shape."""
    array = as_array(given, what)
    if array.ndim != 3 or array.shape[1] != array.shape[2] or array.dtype.kind not in "fiu":
        raise InputError(
            f"{what} must be numbers of shape (workers, classes, classes), [worker, truth, label]; "
            f"its shape is {array.shape} and its type {array.dtype}."
        )
    result: FloatArray = array.astype(np.float64, copy=False)
    return result


def check_choice(given: object, allowed: Sequence[str], what: str) -> None:
    """Refuse a choice that is not offered."""
    if not isinstance(given, str) or given not in allowed:
        raise InputError(f"{what} is {quote(given)}; it must be one of {', '.join(map(repr, allowed))}.")


def _check_any_known(true: IntArray) -> BoolArray:
    known: BoolArray = true >= 0
    if not known.any():
        raise InputError(
            f"No task has a known truth ({true.size} tasks given), so there is nothing to score. "
            "Give the truth of at least one task."
        )
    return known


def _numbers(array: npt.NDArray[Any], what: str) -> FloatArray:
    try:
        return np.array([np.nan if value is None else float(value) for value in array])
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{what} must hold class positions (0, 1, …; -1 or None for unknown): {quote(str(error))}. "
            "Turn names into positions with crowdwise.truth_codes(truth, labels) first."
        ) from error


def _refuse(array: npt.NDArray[Any], wrong: npt.NDArray[np.bool_], what: str, why: str) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        raise InputError(f"{what} holds {array[rows[0]].item()} at row {int(rows[0])}; {why}.")
