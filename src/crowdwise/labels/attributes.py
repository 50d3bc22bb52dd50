"""What is known of tasks or workers besides their labels: topic, source, gender, age, …, lined up with their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.encode import encode
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.read import open_source
from crowdwise.labels.vocabulary import plain_arrow_names, positions

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["Attribute", "locate_rows", "read_attributes", "usable_attributes"]

MOST_VALUES = 50  # more groups than this is free text or names, not groups
MOST_NUMBERS = 20  # more numbers than this is an age, a length or a time, not codes of groups
NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute: its name, its values in order, and which of them each task or worker has (-1 for unknown).

    `skipped` says why it makes no groups, if it makes none; it has no values then.
    """

    name: str
    values: tuple[Any, ...]
    code: IntArray
    skipped: str = ""


def read_attributes(source: Any, names: pa.Array, role: Literal["task", "worker"]) -> tuple[Attribute, ...]:
    """Read attributes and line them up with the names of tasks or workers.

    Parameters
    ----------
    source
        None for none; what this function gave; a mapping from name to value, or from name to {attribute: value}; or a
        path or table with a column for the task or worker, where every other column is an attribute. A missing value is
        an unknown one, as is that of a task or worker who is not mentioned; those who are not among `names` are left
        aside. A column of more than 50 values, more than 20 if they are numbers, or of lists makes no groups: the
        attribute says so in `skipped`.
    names
        Names of the tasks or workers.
    role
        Whose attributes they are.

    Examples
    --------
    >>> read_attributes({"ann": "old", "bob": "young", "eve": "old"}, pa.array(["bob", "cy", "ann"]), "worker")
    (Attribute(name='attribute', values=('old', 'young'), code=array([ 1, -1,  0]), skipped=''),)
    """
    if source is None:
        return ()
    if isinstance(source, tuple) and all(isinstance(each, Attribute) for each in source):
        return source
    needs = f"Attributes of {role}s need a column {role}, a column for each attribute, and a row for each {role}."
    columns = open_source(_as_columns(source, role), needs)
    if not isinstance(columns, Columns):
        raise InputError(f"Attributes of {role}s need a table with a column {quote(role)}, or a mapping from {role}.")
    keys = candidates(role, columns.names)
    if len(keys) != 1 or len(columns.names) < 2:
        raise InputError(
            f"{columns.place.origin}: attributes of {role}s need one column {quote(role)} and at least one other; the "
            f"columns are {listing(columns.names)}."
        )
    repeated_names = [name for name in dict.fromkeys(columns.names) if columns.names.count(name) > 1]
    if repeated_names:
        raise InputError(
            f"{columns.place.origin} has more than one column named {listing(repeated_names)}. Rename the columns so "
            "that each name occurs once."
        )
    table = columns.read_whole_columns(columns.names)
    if len({len(column) for column in table.values()}) > 1:
        sizes = ", ".join(f"{quote(name)} {len(column):,}" for name, column in table.items())
        raise InputError(f"The attributes must all have the same length; the rows are {sizes}.")
    place = locate_rows(columns, table[keys[0]], keys[0], names, role, "attributes")
    others = [name for name in columns.names if name != keys[0]]
    return tuple(_attribute(name, table[name], place, len(names)) for name in others)


def locate_rows(columns: Columns, column: pa.ChunkedArray, key: str, names: pa.Array, role: str, what: str) -> IntArray:
    """Position of each row of a table among `names`, -1 for others; every name has one row at most, and some match.

    Parameters
    ----------
    column, key
        The column of the tasks or workers, and what it is called.
    what
        What the table holds, for errors.
    """
    who = encode(column, role, name=key, place=columns.place, text=columns.text)
    if who.codes.size != len(who.names):
        repeated = who.names.take(pa.array(np.flatnonzero(np.bincount(who.codes) > 1))).to_pylist()
        raise InputError(
            f"{columns.place.origin} names {role} {listing(repeated)} more than once. Keep one row for each."
        )
    if not who.codes.size:
        raise InputError(f"{columns.place.origin} has columns but no rows. Give a row for each {role}.")
    place: IntArray = positions(who.names, names)[who.codes]
    if (place < 0).all():
        raise InputError(
            f"The {what} are about other {role}s ({listing(who.names.slice(0, 5).to_pylist())}, …) than the labels "
            f"({listing(names.slice(0, 5).to_pylist())}, …): no name matches. Use the same {role} names in both."
        )
    return place


def usable_attributes(attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
    """Those that make groups."""
    return tuple(attribute for attribute in attributes if not attribute.skipped)


def _attribute(name: str, column: pa.ChunkedArray, place: IntArray, size: int) -> Attribute:
    code = np.full(size, -1, np.int64)
    if pa.types.is_nested(column.type):
        return Attribute(str(name), (), code, "It holds lists or records. Give one value for each name.")
    try:
        array = plain_arrow_names(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    except pa.ArrowException:
        return Attribute(
            str(name), (), code, f"It holds {column.type}, which cannot be read as text. Convert it first."
        )
    if pa.types.is_string(array.type):  # an empty cell of a text file is a missing value
        array = pc.if_else(pc.equal(pc.utf8_trim_whitespace(array), ""), None, array)
    values = pc.unique(array.filter(pa.array(place >= 0))).drop_null()
    skipped = _explain_too_many_values(values)
    if skipped:
        return Attribute(str(name), (), code, skipped)
    values = values.take(pc.sort_indices(values))
    known = place >= 0
    code[place[known]] = pc.fill_null(pc.index_in(array, value_set=values), -1).to_numpy(zero_copy_only=False)[known]
    return Attribute(str(name), tuple(values.to_pylist()), code)


def _explain_too_many_values(values: pa.Array) -> str:
    """Why values make no groups, if they are too many; "" if they make some."""
    shown = f"{listing(values.slice(0, 3).to_pylist())}, …"
    if len(values) > MOST_NUMBERS and _are_numbers(values):
        return (
            f"It has {len(values):,} different numbers ({shown}): groups would be too small to compare. Put them into "
            "a few bands, such as under 30, 30 to 50 and over 50."
        )
    if len(values) > MOST_VALUES:
        return (
            f"It has {len(values):,} different values ({shown}), and groups are at most {MOST_VALUES}. Put the values "
            "into fewer groups, or leave the column out."
        )
    return ""


def _are_numbers(values: pa.Array) -> bool:
    if pa.types.is_integer(values.type):
        return True
    return bool(pa.types.is_string(values.type) and pc.all(pc.match_substring_regex(values, NUMBER)).as_py())


def _as_columns(source: Any, role: str) -> Any:
    """Turn a mapping from names into a table; anything else passes."""
    if not isinstance(source, Mapping) or candidates(role, [str(name) for name in source]):
        return source
    if not source:
        raise InputError(f"The attributes are empty. Give at least one {role} with a value.")
    nested = {name: value for name, value in source.items() if isinstance(value, Mapping)}
    if nested and len(nested) < len(source):
        raise InputError(f"Some {role}s have several attributes and some a single value. Give all the same way.")
    if not nested:
        bad = [name for name, value in source.items() if isinstance(value, list | tuple | set | dict | np.ndarray)]
        if bad:
            raise InputError(
                f"The attribute of {role} {listing(bad)} is a list. Give one value for each {role}, or a table with a "
                f"column {quote(role)}."
            )
        return {role: list(source), "attribute": list(source.values())}
    called = list(dict.fromkeys(name for values in nested.values() for name in values))
    return {role: list(nested)} | {name: [values.get(name) for values in nested.values()] for name in called}
