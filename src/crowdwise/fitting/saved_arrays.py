"""What a class saves of a fitted model, array by array, and the check that an array is such a one.

A class declares its arrays once, as `saved` or in a `FittedArray`. `save` writes them, `load` refuses whatever is not
as declared, and a contract test compares the declarations with what every method saves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ANSWER_HASHES",
    "CROSS_FITTED_GOLD",
    "MOST_LABELS",
    "ROUNDING",
    "SHARED",
    "SMALLEST",
    "SavedArray",
    "check_values",
    "match_shapes",
]

LARGEST = 1e100  # sums and products of saved numbers must not overflow
SMALLEST = 1e-100  # of numbers above 0: the digamma function of a smaller one overflows
LENGTH = re.compile(r"(?P<size>[A-Z]|\d+)(?:\+(?P<more>\d+))?(?:\*(?P<times>[A-Z]))?")
ROUNDING = 1e-6
MOST_LABELS = 2**31  # of a task or a worker: their sums must not overflow


@dataclass(frozen=True)
class SavedArray:
    """One array that a class saves with a fitted model.

    Attributes
    ----------
    name
        As in the file: "posterior", "worker_columns/weight", "extra/steps".
    shape
        Lengths of the axes: N tasks, M workers, K classes, a number, or another letter for a size that is free but the
        same in all arrays of the class; "M K", "K+1 K", "M K*S K". The first mention of a free size is a bare letter.
    low, high
        Smallest and largest value.
    codes
        The values are whole numbers from `low` to below this size ("N", "M", "K" or a number).
    integer
        Whether they are saved as int64; otherwise as float64.
    sums_to_one
        Along the last axis.
    logarithms
        The values are logarithms of probabilities: of these a sum along the last axis is above 0 and at most 1.
    missing
        Whether a value may be not a number.
    together
        Where the array is not always saved: name of the set of arrays that are saved all or none.
    """

    name: str
    shape: str
    low: float = -LARGEST
    high: float = LARGEST
    codes: str = ""
    integer: bool = False
    sums_to_one: bool = False
    logarithms: bool = False
    missing: bool = False
    together: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """As it is saved."""
        return np.dtype(np.int64 if self.integer else np.float64)


SHARED = (
    SavedArray("posterior", "N K", low=0, high=1 + ROUNDING, sums_to_one=True),
    SavedArray("prior", "K", low=0, high=1 + ROUNDING, sums_to_one=True),
    SavedArray("confusion", "M K K", low=0, high=1 + ROUNDING, sums_to_one=True),
    SavedArray("skill", "M", low=0, high=1 + ROUNDING),
    SavedArray("skill_beta", "M 2", low=SMALLEST),
    # One value for each iteration. Nothing is computed from them: a climb may begin where the likelihood is 0.
    SavedArray("log_likelihood", "L", low=-np.inf, missing=True),
    SavedArray("objective", "O", low=-np.inf, missing=True),
    SavedArray("labels_per_task", "N", low=0, high=MOST_LABELS, integer=True),
    SavedArray("labels_per_worker", "M", low=0, high=MOST_LABELS, integer=True),
    SavedArray("label_shares", "K", low=0, high=1 + ROUNDING, sums_to_one=True),
)
# What a model was told and says of it without the truth, once `calibration` or `predict_sets` has been asked for.
CROSS_FITTED_GOLD = (
    SavedArray("extra/gold_tasks", "G", low=0, codes="N", integer=True, together="gold"),
    SavedArray("extra/gold_truth", "G", low=0, codes="K", integer=True, together="gold"),
    SavedArray("extra/gold_cross_fitted", "G K", low=0, high=1 + ROUNDING, sums_to_one=True, together="gold"),
)
# By which a task of the fit is known again, where a prediction is not the posterior of the fit.
ANSWER_HASHES = SavedArray("extra/answer_hashes", "N", integer=True, together="hashes")


def match_shapes(
    declared: Iterable[SavedArray], found: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
) -> dict[str, int]:
    """Sizes N, M, K and the free ones, if `found`, shapes and types by name, are those of the declared arrays."""
    expected = {each.name: each for each in declared}
    _refuse_other_names(expected, set(found))
    sizes: dict[str, int] = {}
    for name, array in expected.items():
        if name not in found:
            continue
        shape, dtype = found[name]
        lengths = array.shape.split()
        if len(lengths) == len(shape):
            for length, value in zip(lengths, shape, strict=True):
                if length.isalpha():
                    sizes.setdefault(length, value)
        if dtype != array.dtype or shape != tuple(_length(each, sizes) for each in lengths):
            known = {each: _length(each, sizes) for each in lengths}
            wanted = ", ".join(f"{each} = {length}" if length >= 0 else each for each, length in known.items())
            raise InputError(
                f"{name} has type {dtype} and shape {shape}; it should have {array.dtype} and {wanted or 'one number'}"
            )
    return sizes


def _refuse_other_names(expected: Mapping[str, SavedArray], found: set[str]) -> None:
    sets: dict[str, set[str]] = {}
    for name, array in expected.items():
        sets.setdefault(array.together, set()).add(name)
    lacking = sets.pop("", set()) - found
    for names in sets.values():
        lacking |= names - found if names & found else set()
    if lacking:
        raise InputError(f"the arrays {', '.join(sorted(lacking))} are missing")
    strange = found - set(expected)
    if strange:
        raise InputError(f"there is an array {min(strange)!r}, which this method does not save")


def _length(text: str, sizes: Mapping[str, int]) -> int:
    parts = LENGTH.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is no length of an axis")
    size = parts["size"]
    length = int(size) if size.isdigit() else sizes.get(size, -1)
    return (length + int(parts["more"] or 0)) * (sizes.get(parts["times"], -1) if parts["times"] else 1)


def check_values(array: SavedArray, values: np.ndarray[Any, Any], sizes: Mapping[str, int]) -> None:
    """Refuse values that the declaration rules out."""
    if not values.size:
        return
    known = values[~np.isnan(values)] if array.missing else values
    high = array.high if not array.codes else _length(array.codes, sizes) - 1
    # A comparison with what is not a number is false.
    if known.size and not (array.low <= known.min() and known.max() <= high):
        raise InputError(f"{array.name} holds values from {known.min():g} to {known.max():g}, outside {_range(array)}")
    if array.codes and not (values == np.floor(values)).all():
        raise InputError(f"{array.name} holds values that are no whole numbers")
    if array.sums_to_one and not np.allclose(values.sum(axis=-1), 1, atol=ROUNDING):
        raise InputError(f"{array.name} does not sum to 1 along its last axis")
    if array.logarithms:
        total = np.exp(values).sum(axis=-1)
        if not (total > 0).all() or not (total <= 1 + ROUNDING).all():
            raise InputError(f"{array.name} does not hold logarithms of probabilities")


def _range(array: SavedArray) -> str:
    return f"{array.low:g} … {f'{array.codes} - 1' if array.codes else f'{array.high:g}'}"
