"""Integer codes of names: checked, mapped to a selection, and told apart when they repeat."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.vocabulary import as_vocabulary, positions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["as_mask", "check_codes", "draw_held_out", "duplicate_message", "map_to_selected_names", "smallest_int"]

MOST_NAMES = 2**31 - 1


def smallest_int(n: int) -> type[np.signedinteger[Any]]:
    """Find the smallest signed integer type that can index n things."""
    return np.int8 if n <= 2**7 else np.int16 if n <= 2**15 else np.int32


def check_codes(codes: Any, n: int, what: str) -> IntArray:
    """Codes as an array, refused if they are not positions among n names."""
    if np.ma.is_masked(codes):
        raise InputError(
            f"{what} has masked entries, which are no positions. Leave those rows out of task, worker and label."
        )
    try:
        array = np.asarray(codes)
    except ValueError as error:
        raise InputError(f"{what} must be one-dimensional: {quote(str(error))}.") from error
    if array.ndim != 1:
        raise InputError(f"{what} must be one-dimensional; it has shape {array.shape}.")
    if array.size == 0:
        return array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise InputError(f"{what} must hold integer positions; its type is {array.dtype}.")
    if n > MOST_NAMES:
        raise InputError(f"{n:,} {what} names are too many: {MOST_NAMES:,} is the limit.")
    wrong = np.flatnonzero((array < 0) | (array >= n))
    if wrong.size:
        raise InputError(
            f"{what} holds {int(array[wrong[0]])} at row {int(wrong[0])}; positions run from 0 to {n - 1}."
        )
    result: IntArray = array.copy()  # what the caller does with the array later is nothing to the labels
    return result


def as_mask(given: Any, n: int, what: str) -> BoolArray:
    """True or False for each of n things, as an array; anything else is refused."""
    try:
        mask = np.asarray(given)
    except ValueError as error:  # rows of unequal length
        raise InputError(f"{what} must be one-dimensional: True or False for each of the {n:,} {what}.") from error
    if mask.shape != (n,) or (mask.dtype.kind != "b" and n):
        raise InputError(
            f"{what} must be True or False for each of the {n:,} {what}; the shape given is {mask.shape} and the type "
            f"{mask.dtype}."
        )
    return mask.astype(np.bool_, copy=False)


def draw_held_out(n: int, held_out: Any, random_state: Any) -> BoolArray:
    """Which of n answers are held out (n,), at random: this share of them."""
    if not isinstance(held_out, Real) or not 0 < float(held_out) < 1:
        raise InputError(f"held_out is {quote(held_out)}; it must lie between 0 and 1, both excluded.")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool) or random_state < 0:
        raise InputError(f"random_state is {quote(random_state)}; it must be a whole number, 0 or more.")
    out = np.zeros(n, np.bool_)
    out[np.random.default_rng(int(random_state)).permutation(n)[: round(float(held_out) * n)]] = True
    return out


def map_to_selected_names(names: Sequence[Any] | None, known: pa.Array, what: str) -> tuple[IntArray, pa.Array]:
    """Map old positions to new ones (-1: dropped), and the new vocabulary in the user's order."""
    if names is None:
        return np.arange(len(known), dtype=np.int32), known
    wanted = as_vocabulary(names, what)
    found = positions(wanted, known)
    if (found < 0).any():
        strangers = [name for name, at in zip(wanted.to_pylist(), found, strict=True) if at < 0]
        raise InputError(f"There is no {what} named {listing(strangers)} in these labels.")
    mapping = np.full(len(known), -1, np.int32)
    mapping[found] = np.arange(found.size, dtype=np.int32)
    return mapping, known.take(pa.array(found))


REMEDY_FOR_DUPLICATES = (
    "Choose what to keep with on_duplicate: 'first', 'last', or 'all' to count each answer (on the command line "
    "--on-duplicate)."
)


def duplicate_message(
    tasks: list[Any],
    workers: list[Any],
    rows: IntArray,
    place: Callable[[int], str] | None,
    remedy: str = REMEDY_FOR_DUPLICATES,
) -> str:
    """Say which answers repeat earlier ones, and what can be done about it."""
    where = place or (lambda row: f"row {row}")
    shown = "; ".join(
        f"worker {quote(worker)} on task {quote(task)} ({where(int(row))})"
        for task, worker, row in zip(tasks, workers, rows[:5], strict=True)
    )
    more = f" and {rows.size - 5} more" if rows.size > 5 else ""
    return (
        f"Some answers repeat an earlier one of the same worker to the same task ({rows.size:,} in all): "
        f"{shown}{more}. {remedy}"
    )
