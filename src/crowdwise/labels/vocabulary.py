"""Vocabularies: the user's own names, in the user's own order, as immutable Arrow arrays."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.unseen_in_columns import drop_unseen, has_unusual_letters, text_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.labels.types import IntArray

__all__ = [
    "as_text",
    "as_vocabulary",
    "drop_sign_of_zero",
    "parse_integers",
    "plain_arrow_names",
    "positions",
    "refuse_complex",
    "refuse_endless",
    "same_names",
    "union",
]

NESTED = (list, tuple, dict, set, frozenset)
DEEPEST = 16  # lists within lists, of a column that is told apart as such further on
MOST_FOLLOWED = 1000
MOST_CLASSES = 10_000_000  # more have no posterior that fits a memory, and a count has no end


def as_vocabulary(names: Iterable[Any] | pa.Array, what: str) -> pa.Array:
    """Names as an Arrow array of integers or strings, refusing empty and repeated ones.

    Parameters
    ----------
    names
        Any iterable of names, or an Arrow array.
    what
        What is being named ("task", "worker", "class"), for the error.
    """
    array = names if isinstance(names, pa.Array) else _from_python(names, what)
    try:
        array = plain_arrow_names(array)
    except pa.ArrowException as error:  # lists, records, bytes that are no text
        raise InputError(
            f"The {what} names cannot be read as text ({array.type}). Give text or whole numbers."
        ) from error
    if array.null_count:
        raise InputError(f"A {what} name is missing (position {_first_null(array)}). Give every {what} a name.")
    if pa.types.is_string(array.type):
        seen = drop_unseen(array) if has_unusual_letters(array) else array
        if pc.any(pc.equal(pc.utf8_trim_whitespace(seen), "")).as_py():
            raise InputError(f"A {what} name is empty. Give every {what} a name.")
        if b"\0" in text_bytes(array) and pc.any(pc.match_substring(array, "\0")).as_py():
            raise InputError(f"A {what} name holds a NUL byte. Clean it: other programs cut a name there.")
    counts = pc.value_counts(array)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise InputError(f"The {what} names repeat {listing(repeated.to_pylist())}. Name each {what} once.")
    return array


def plain_arrow_names(array: pa.Array) -> pa.Array:
    """Reduce the many Arrow types of names to two: int64 and string (dates, floats and the like as text)."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain_arrow_names(array.dictionary_decode())
    if pa.types.is_int64(kind) or pa.types.is_string(kind):
        return array
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        try:  # 1.0, 2.0: integers that met a missing value on the way
            return array.cast(pa.int64())
        except pa.ArrowInvalid:  # fractions, and integers beyond 64 bits
            pass
    return drop_sign_of_zero(array).cast(pa.string())


def drop_sign_of_zero(array: pa.Array) -> pa.Array:
    """Numbers with -0.0 as 0.0, which equals it; also whole columns.

    >>> drop_sign_of_zero(pa.array([0.5, -0.0])).to_pylist()
    [0.5, 0.0]
    """
    if pa.types.is_float16(array.type):  # which cannot be added
        array = array.cast(pa.float32())
    return pc.add(array, pa.scalar(0.0, array.type)) if pa.types.is_floating(array.type) else array


def parse_integers(array: pa.Array) -> pa.Array:
    """Turn names read from text into integers if, and only if, every one is written as a plain integer.

    >>> parse_integers(pa.array(["2", "10"])).to_pylist()
    [2, 10]
    >>> parse_integers(pa.array(["007", "8"])).to_pylist()
    ['007', '8']
    """
    if not pa.types.is_string(array.type) or len(array) == 0:
        return array
    if not pc.all(pc.match_substring_regex(array, r"^(0|-?[1-9][0-9]{0,17})$")).as_py():
        return array
    return array.cast(pa.int64())


def as_text(array: pa.Array) -> pa.Array:
    """Names as strings, so that 1 and "1" meet."""
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def positions(names: pa.Array, vocabulary: pa.Array) -> IntArray:
    """Where each name stands in the vocabulary, -1 for a stranger; 1 and "1" are the same name."""
    names, vocabulary = plain_arrow_names(names), plain_arrow_names(vocabulary)
    if names.type != vocabulary.type:
        names, vocabulary = as_text(names), as_text(vocabulary)
    found = pc.index_in(names, value_set=vocabulary)
    result: IntArray = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    return result


def same_names(first: pa.Array, second: pa.Array) -> bool:
    """Whether two vocabularies hold the same names in the same order."""
    return len(first) == len(second) and bool(as_text(first).equals(as_text(second)))


def union(vocabularies: Iterable[pa.Array]) -> pa.Array:
    """All names, each once, in order of first appearance."""
    parts = list(vocabularies)
    if len({part.type for part in parts}) > 1:
        parts = [as_text(part) for part in parts]
    return pc.unique(pa.concat_arrays(parts))


def _from_python(names: Iterable[Any], what: str) -> pa.Array:
    try:
        most = MOST_CLASSES + 1 if what == "class" else None
        values = list(islice(names.tolist() if isinstance(names, np.ndarray) else names, most))
    except TypeError as error:
        raise InputError(f"The {what} names are {quote(names)}; give a list of names.") from error
    if len(values) == most:
        raise InputError(f"There are more than {MOST_CLASSES:,} class names, or no end to them. Give a list of names.")
    refuse_nested(values, f"The {what} names hold")
    if len({type(value) for value in values}) > 1 and any(isinstance(value, str) for value in values):
        values = [None if _is_missing(value) else _name_text(value, what) for value in values]
    try:
        return pa.array(values, from_pandas=True)  # NaN is no name
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        TypeError,
        UnicodeEncodeError,
    ):
        pass
    try:
        return pa.array([None if value is None else _name_text(value, what) for value in values])
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"The {what} names cannot be read: {quote(str(error))}.") from error


def refuse_nested(values: list[Any], words: str) -> None:
    """Refuse lists among names; Arrow ends the process where a list is within itself."""
    nested = [value for value in values if isinstance(value, NESTED)]
    if nested:
        kind = type(nested[0]).__name__
        raise InputError(f"{words} {quote(nested[0])}, a {kind}. Give plain names, text or numbers.")


def _name_text(value: Any, what: str) -> str:
    refuse_complex(value, f"The {what} name {quote(value)}")
    return str(value)


def refuse_complex(value: Any, words: str) -> None:
    """Refuse a complex number among names: its text is no name that anyone gave."""
    if isinstance(value, complex | np.complexfloating):
        raise InputError(f"{words} is a complex number. Give text or real numbers.")


def refuse_endless(values: Iterable[Any], words: str) -> None:
    """Refuse a column in which lists or dicts are within themselves, or very deep."""
    level = [value for value in values if isinstance(value, NESTED)]
    for _ in range(DEEPEST):
        inner = [each for value in level for each in (value.values() if isinstance(value, dict) else value)]
        level = [each for each in inner if isinstance(each, NESTED)][:MOST_FOLLOWED]
        if not level:
            return
    raise InputError(f"{words} lists within lists, more than {DEEPEST} deep. Give plain names, text or numbers.")


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _first_null(array: pa.Array) -> int:
    return int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
