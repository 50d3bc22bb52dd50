"""Sets of classes as cells of a table: lists, JSON lists, or names with | or ; between them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.kinds.answer_table import cast_to_text
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.similar_names import warn_of_similar_names
from crowdwise.labels.vocabulary import as_vocabulary, parse_integers, positions, union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.kinds.answer_table import AnswerTable
    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["ReadSets", "as_rows_of_truth", "read_sets", "write_sets"]

SEPARATORS = ("|", ";")
MOST_CLASSES = 1000


class ReadSets(NamedTuple):
    """Sets (n, K), the names of the K classes, and whether no cell holds more than one class."""

    member: BoolArray
    classes: pa.Array
    single: bool


def read_sets(table: AnswerTable, role: str, classes: pa.Array | None, *, more: bool = False) -> ReadSets:
    """A column of sets; classes are those given, with `more` also others, or all that are named, in their own order."""
    code, cells = _split_cells(table, role)
    names = [name for cell in cells for name in cell]
    if more and classes is not None and names:
        classes = union([classes, _in_order(names)])
    if classes is None:
        if not names:
            raise InputError(
                f"Column {quote(table.names[role])} names no class: all sets are empty. Name the classes (classes=…, "
                "on the command line --classes)."
            )
        classes = _in_order(names)
        warn_of_similar_names({"Classes": classes})
    if len(classes) > MOST_CLASSES:
        raise InputError(f"There are {len(classes):,} classes, more than {MOST_CLASSES:,}. Join rare ones first.")
    there = positions(pa.array(names, pa.string()), classes)
    if (there < 0).any():
        strange = list(dict.fromkeys(name for name, place in zip(names, there, strict=True) if place < 0))
        raise InputError(
            f"Column {quote(table.names[role])} holds {listing(strange[:5])}, which is none of the classes "
            f"{listing(classes.to_pylist()[:20])}. Name all classes, or remove it."
        )
    distinct = np.zeros((len(cells), len(classes)), np.bool_)
    sizes = [len(cell) for cell in cells]
    distinct[np.repeat(np.arange(len(cells)), sizes), there] = True
    return ReadSets(distinct[code], classes, max(sizes, default=0) <= 1)


def write_sets(member: BoolArray, classes: pa.Array) -> pa.Array:
    """Sets as text: names with | between them, or JSON lists where a name could not be told from that.

    >>> write_sets(np.array([[True, True], [False, False]]), pa.array(["cat", "dog"])).to_pylist()
    ['cat|dog', '']
    """
    names = [str(name) for name in classes.to_pylist()]
    plain = not any(sign in name for name in names for sign in (*SEPARATORS, "[", '"')) and all(
        name == name.strip() for name in names
    )
    written = []
    for row in member:
        held = [names[place] for place in np.flatnonzero(row)]
        written.append("|".join(held) if plain else json.dumps(held, ensure_ascii=False))
    return pa.array(written, pa.string())


def as_rows_of_truth(truth: dict[Any, Any]) -> dict[str, list[Any]]:
    """A mapping from task to set (a list, a set, or text) as a table of task and labels."""
    sets = [json.dumps([str(name) for name in _sorted(held)]) if isinstance(held, list | tuple | set | frozenset)
            else held for held in truth.values()]  # fmt: skip
    return {"task": list(truth), "labels": sets}


def _sorted(held: Any) -> list[Any]:
    return sorted(held, key=str)


def _split_cells(table: AnswerTable, role: str) -> tuple[IntArray, list[list[str]]]:
    """The distinct cells of a column, split, and which of them each row is."""
    column, name = table.columns[role], table.names[role]
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        rows = column.to_pylist()
        if any(isinstance(each, list | dict) for row in rows for each in row or ()):
            raise InputError(f"Column {quote(name)} holds lists within lists. Give lists of names.")
        return np.arange(len(rows)), [_clean(row or ()) for row in rows]
    if pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type):
        raise InputError(
            f"Column {quote(name)} holds {column.type}. Give lists of names, or names with | between them."
        )
    text = pc.fill_null(cast_to_text(column, name), "").combine_chunks()
    encoded = (text if isinstance(text, pa.Array) else pa.concat_arrays(text.chunks)).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    plain = [cell for cell in distinct if not cell.lstrip().startswith("[")]
    signs = [each for each in SEPARATORS if any(each in cell for cell in plain)]
    if len(signs) > 1:
        shown = listing([next(cell for cell in plain if each in cell) for each in signs])
        raise InputError(
            f"Column {quote(name)} has | between names and ; as well ({shown}). Use one of them throughout, or give "
            "JSON lists where a name holds the other."
        )
    sign = signs[0] if signs else None
    code: IntArray = encoded.indices.to_numpy(zero_copy_only=False)
    return code, [_split(cell, sign, name) for cell in distinct]


def _split(cell: str, sign: str | None, name: str) -> list[str]:
    if not cell.lstrip().startswith("["):
        return _clean(cell.split(sign) if sign is not None else [cell])
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"Column {quote(name)} holds {quote(cell)}, which begins like a JSON list and is none. Mend it."
        ) from error
    if any(isinstance(each, list | dict) for each in found):
        raise InputError(f"Column {quote(name)} holds {quote(cell)}, lists within lists. Give lists of names.")
    return _clean(found)


def _clean(names: Sequence[Any]) -> list[str]:
    """Names without blanks around them, each once; empty ones are none."""
    return list(dict.fromkeys(text for each in names if each is not None and (text := str(each).strip())))


def _in_order(names: list[str]) -> pa.Array:
    """All names, each once: numbers by size, others as texts; whatever the order of rows."""
    found = parse_integers(as_vocabulary(sorted(set(names)), "class"))
    return found.take(pc.sort_indices(found))
