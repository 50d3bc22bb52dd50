"""What is refused in a column of names, and what is noted: each check says which rows, and what to do."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import SHOWN, InputError, InputWarning, listing
from crowdwise.labels.source_location import Place, format_count
from crowdwise.labels.unseen_characters import UNSEEN
from crowdwise.labels.unseen_in_columns import drop_unseen, has_unusual_letters, text_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.encode import Encoded
    from crowdwise.labels.types import IntArray

__all__ = [
    "check_blanks",
    "refuse_class_twins",
    "refuse_header_row",
    "refuse_infinite",
    "refuse_missing",
    "refuse_nested",
    "refuse_nul_bytes",
    "warn_of_lost_digits",
    "warn_of_restored_characters",
]

WHOLE_UP_TO = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}  # all whole numbers are told apart


def refuse_nested(kind: pa.DataType, called: str, place: Place) -> None:
    """Refuse columns of lists or records."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind):
        raise InputError(
            f"{place.origin}: {called} holds lists or records ({kind}). Each row must hold one name: "
            "one row for each answer."
        )


def unreadable_values_error(kind: pa.DataType, called: str, place: Place) -> InputError:
    """Make the error for values that Arrow cannot write as text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_fixed_size_binary(kind):  # what objects of Python's become in a polars table
        return InputError(
            f"{place.origin}: {called} holds objects, or bytes of a fixed width, which are not read as names. Convert "
            "them to text first."
        )
    text = pa.types.is_large_string(kind) or pa.types.is_string(kind) or "binary" in str(kind)
    reason = "that are not text in UTF-8" if text else f"of the type {kind}, which are not read as names"
    return InputError(f"{place.origin}: {called} holds values {reason}. Convert them to text first.")


def refuse_missing(rows: IntArray, called: str, place: Place) -> None:
    """Refuse rows without a value."""
    raise InputError(
        f"{called} has {format_count(rows.size, 'missing value')}: {place.name_rows(rows.tolist())}. Every row "
        "needs a value in this column: fill in what is missing, or remove those rows."
    )


def refuse_infinite(codes: IntArray, names: pa.Array, called: str, place: Place) -> None:
    """Refuse numbers that are not finite."""
    wrong = np.flatnonzero(~np.isfinite(names.to_numpy(zero_copy_only=False)))
    rows = np.flatnonzero(np.isin(codes, wrong)).tolist()
    if rows:
        raise InputError(
            f"{called} holds numbers that are not finite (nan, inf): {place.name_rows(rows)}. Remove those rows."
        )
    if wrong.size:
        raise _unused_category_error(names, wrong, called, place)


def _unused_category_error(names: pa.Array, wrong: IntArray, called: str, place: Place) -> InputError:
    """Make the error for categories of a scale that no row uses, and that could not be the name of a class."""
    shown = listing(names.take(pa.array(wrong)).to_pylist())
    return InputError(
        f"{place.origin}: {called} has categories that no row uses and that are no names: {shown}. Remove them "
        "(pandas: .cat.remove_unused_categories())."
    )


def warn_of_lost_digits(names: pa.Array, kind: pa.DataType, called: str, place: Place) -> None:
    """Say so where whole numbers came as floating point and are beyond what it tells apart."""
    if kind not in WHOLE_UP_TO or not pa.types.is_integer(names.type) or not len(names):
        return
    values = names.to_numpy(zero_copy_only=False)
    large = values[np.abs(values) >= WHOLE_UP_TO[kind]]
    if large.size:
        warnings.warn(
            f"{place.origin}: {called} holds large whole numbers ({listing(large.tolist())}) as floating point, "
            "which does not keep all their digits: several names may have become one. Read the column as text or as "
            "integers.",
            InputWarning,
            stacklevel=2,
        )


def warn_of_restored_characters(written: pa.Array, names: pa.Array, called: str, place: Place) -> None:
    """Say so where apostrophes and unseen characters, as they are written out in CSV, were read as they were before."""
    if names is written:
        return
    bare = names.filter(pc.and_(pc.starts_with(written, "'"), pc.invert(pc.starts_with(names, "'"))))
    if len(bare):
        warnings.warn(
            f"{place.origin}: {called} holds {format_count(len(bare), 'name')} with an apostrophe before what a "
            "spreadsheet takes for a formula, as Crowdwise writes them in CSV: "
            f"{listing(bare.slice(0, SHOWN).to_pylist())}. They are read without it.",
            InputWarning,
            stacklevel=2,
        )
    was_seen = pc.invert(pc.match_substring_regex(written, UNSEEN))
    restored = names.filter(pc.and_(pc.match_substring_regex(names, UNSEEN), was_seen))
    if len(restored):
        warnings.warn(
            f"{place.origin}: {called} holds {format_count(len(restored), 'name')} with an unseen character written "
            f"out, as Crowdwise writes them in CSV: {listing(restored.slice(0, SHOWN).to_pylist())}. The character "
            "itself is read. If the letters are meant, double the backslash.",
            InputWarning,
            stacklevel=2,
        )


def refuse_nul_bytes(codes: IntArray, names: pa.Array, called: str, place: Place) -> None:
    """Refuse a byte at which NumPy, terminals and other programs cut a name."""
    if b"\0" not in text_bytes(names):
        return
    wrong = np.flatnonzero(pc.match_substring(names, "\0").to_numpy(zero_copy_only=False))
    rows = np.flatnonzero(np.isin(codes, wrong))
    if not rows.size:
        raise _unused_category_error(names, wrong, called, place)
    raise InputError(
        f"{called} holds names with a NUL byte: {place.name_rows(rows.tolist())}. Clean them: other programs cut a "
        "name there."
    )


def refuse_header_row(columns: Sequence[Encoded], names: Sequence[str], place: Place) -> None:
    """Refuse a row of text that holds the names of the columns: the rows after it may have another order.

    Rows that repeat the header exactly are left out by the reader of text files.
    """
    wanted = _header_keys(pa.array(names))
    rows = np.arange(columns[0].codes.size)
    for column in reversed(columns):  # the labels first, of which few are different
        if not pa.types.is_string(column.names.type):
            return
        hits = pc.is_in(_header_keys(column.names), value_set=wanted).to_numpy(zero_copy_only=False)
        rows = rows[hits[column.codes[rows]]] if hits.any() else rows[:0]
        if not rows.size:
            return
    for row in rows.tolist():
        found = [column.names[int(column.codes[row])].as_py() for column in columns]
        if sorted(_header_keys(pa.array(found)).to_pylist()) == sorted(wanted.to_pylist()):
            raise InputError(
                f"{place(row)} holds the names of the columns ({listing(found)}), as if files with other columns were "
                "put together. Give the files one by one, which are joined by the names of their columns, or remove "
                "that row."
            )


def _header_keys(names: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim(names, "\ufeff \t"))


def check_blanks(codes: IntArray, names: pa.Array, what: str, called: str, place: Place) -> None:
    """Refuse empty names, and names of tasks or workers that blanks alone tell apart."""
    trimmed = pc.utf8_trim_whitespace(names)
    if has_unusual_letters(names):  # a name of which nothing is seen is empty
        trimmed = pc.if_else(pc.equal(pc.utf8_trim_whitespace(drop_unseen(names)), ""), "", trimmed)
    changed = np.flatnonzero(pc.not_equal(trimmed, names).to_numpy(zero_copy_only=False))
    empty = pc.index(trimmed, "").as_py()
    if empty >= 0:
        blank = np.flatnonzero(pc.equal(trimmed, "").to_numpy(zero_copy_only=False))
        rows = np.flatnonzero(np.isin(codes, blank))
        if not rows.size:
            raise _unused_category_error(names, blank, called, place)
        refuse_missing(rows, called, place)
    if what == "label" or changed.size == 0:  # classes have a stricter check, once it is known who declares them
        return
    counts = pc.value_counts(trimmed.take(pa.array(changed)))
    cores = counts.field("values")
    twin = pc.or_(pc.greater(counts.field("counts"), 1), pc.is_in(cores, value_set=names))
    if pc.any(twin).as_py():
        core = cores.filter(twin)[0]
        pair = np.flatnonzero(pc.equal(trimmed, core).to_numpy(zero_copy_only=False))
        raise _twins_error(codes, names, pair, f"{what} names that differ only in blanks", place, f"Clean {called}.")


def refuse_class_twins(label: Encoded, place: Place) -> None:
    """Refuse classes that differ only in case or blanks: declared ones are not asked."""
    if not pa.types.is_string(label.names.type):
        return
    seen: dict[str, int] = {}
    for position, name in enumerate(label.names.to_pylist()):
        other = seen.setdefault(name.strip().casefold(), position)
        if other != position:
            remedy = "Clean the label column, or declare both with classes= (on the command line --classes)."
            pair = np.array([other, position])
            raise _twins_error(
                label.codes, label.names, pair, "class names that differ only in case or blanks", place, remedy
            )


def _twins_error(codes: IntArray, names: pa.Array, pair: IntArray, fault: str, place: Place, remedy: str) -> InputError:
    rows = [int(np.argmax(codes == code)) for code in pair[:5]]
    shown = listing(names.take(pa.array(pair)).to_pylist())
    return InputError(f"{fault}: {shown} ({place.name_rows(rows)}). They are probably one. {remedy}")
