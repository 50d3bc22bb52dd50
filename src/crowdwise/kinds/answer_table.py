"""A table of answers: columns found by their names, encoded or read as numbers or texts, and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.formats.open_export import find_export
from crowdwise.kinds.answers import LARGEST_VALUE
from crowdwise.labels.columns import Columns, candidates, choose_roles
from crowdwise.labels.encode import Encoded, encode
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.read import open_source
from crowdwise.labels.similar_names import warn_of_similar_names
from crowdwise.labels.vocabulary import positions, union

if TYPE_CHECKING:
    from crowdwise.labels.source_location import Place
    from crowdwise.labels.types import BoolArray, Duplicates, FloatArray, IntArray, TableKind

__all__ = [
    "AnswerTable",
    "PairOptions",
    "TaskOptions",
    "cast_to_text",
    "open_columns",
    "open_table",
    "open_task_table",
    "place_known",
]

NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?\s*$"


class AnswerOptions(TypedDict, total=False):
    """How a table of answers is read: the column of the workers, and what to do with a second answer."""

    worker: str | None
    on_duplicate: Duplicates


class TaskOptions(AnswerOptions, total=False):
    """How a table of answers to tasks is read: the column of the tasks besides."""

    task: str | None


class PairOptions(AnswerOptions, total=False):
    """How a table of answers about two items is read: their columns besides."""

    left: str | None
    right: str | None


@dataclass(frozen=True)
class AnswerTable:
    """The columns of a table of answers by their roles ("task", "worker", "value", …).

    Attributes
    ----------
    columns
        The column of each role; an optional role that the table does not have is absent.
    names
        What the columns are called in the table.
    place
        Names a row in an error.
    text
        Whether the table is text, so that names that are all plain integers are meant as integers.
    table_kind
        The kind of table that results should go out in.
    """

    columns: dict[str, pa.ChunkedArray]
    names: dict[str, str]
    place: Place
    text: bool
    table_kind: TableKind

    def __contains__(self, role: str) -> bool:
        return role in self.columns

    def encode(self, role: str) -> Encoded:
        """A column of names as positions in its vocabulary, in order of first appearance."""
        return encode(self.columns[role], role, name=self.names[role], place=self.place, text=self.text)

    def encode_task_answers(self) -> dict[str, Any]:
        """The columns `task` and `worker` as positions, their vocabularies, and the kind of table for results."""
        tasks = self.encode("task")
        warn_of_similar_names({"Tasks": tasks.names})
        return {"task": tasks.codes.astype(np.int32), "tasks": tasks.names, **self.encode_workers()}

    def encode_workers(self) -> dict[str, Any]:
        """The column `worker` as positions, its vocabulary, and the kind of table for results."""
        workers = self.encode("worker")
        warn_of_similar_names({"Workers": workers.names})
        codes = workers.codes.astype(np.int32)
        return {"worker": codes, "workers": workers.names, "table_kind": self.table_kind}

    def encode_together(self, first: str, second: str) -> tuple[IntArray, IntArray, pa.Array]:
        """Two columns that name things of one sort, as positions in one vocabulary."""
        one, other = self.encode(first), self.encode(second)
        names = union([one.names, other.names])
        warn_of_similar_names({"Items": names})
        left, right = (positions(each.names, names)[each.codes].astype(np.int32) for each in (one, other))
        return left, right, names

    def find_names(self, role: str, names: pa.Array, noun: str) -> tuple[Encoded, IntArray]:
        """A column of names, and the position of each row's among others (-1: not there); refused if none is there."""
        encoded = self.encode(role)
        return encoded, place_known(encoded.names, names, noun)[encoded.codes]

    def align_known(self, role: str, names: pa.Array, known: Any, unknown: Any, what: str) -> Any:
        """What rows say of each name (N,), `unknown` where none does; a contradiction is refused."""
        encoded, there = self.find_names(role, names, "item")
        found = np.full(len(names), unknown)
        found[there[there >= 0]] = known[there >= 0]
        again = (there >= 0) & (found[np.maximum(there, 0)] != known)
        if again.any():
            every = encoded.names.to_pylist()
            shown = listing(dict.fromkeys(every[code] for code in encoded.codes[again]))
            raise InputError(f"The truth contradicts itself about item {shown}. Keep one {what} for each item.")
        return found

    def read_numbers(self, role: str, *, may_be_empty: bool = False) -> FloatArray:
        """A column of finite numbers (n,); words, missing values and infinities are refused with their rows.

        Where cells may be empty, those are NaN.
        """
        column, name = self.columns[role], self.names[role]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_boolean(column.type) or pa.types.is_temporal(column.type) or pa.types.is_nested(column.type):
            raise InputError(
                f"{self.place.origin}: column {quote(name)} holds {column.type} in place of numbers. Give numbers."
            )
        empty = np.zeros(len(column), np.bool_)
        if may_be_empty:
            empty = _find_empty(column)
            if empty.all():
                return np.full(len(column), np.nan)
            column = pa.chunked_array(
                [pc.if_else(pa.array(empty), column[int(np.argmin(empty))], column.combine_chunks())]
            )
        self._refuse(column.is_null(), role, "nothing", "Remove those rows, or fill them in.")
        if not any(
            is_kind(column.type) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        ):
            text = cast_to_text(column, name)
            words = pc.invert(pc.match_substring_regex(text, NUMBER))
            shown = listing(pc.unique(text.filter(words)).to_pylist())
            self._refuse(words, role, f"{shown} in place of numbers", "Remove those rows, or give numbers.")
            column = pc.replace_substring_regex(pc.utf8_trim_whitespace(text), r"^\+", "")
        values: FloatArray = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
        # A comparison with what is not a number is false.
        what = f"no finite numbers up to {LARGEST_VALUE:g}"
        self._refuse(~(np.abs(values) <= LARGEST_VALUE), role, what, "Remove those rows, or mend them.")
        return np.where(empty, np.nan, values + 0.0)  # -0.0 is 0.0

    def read_texts(self, role: str) -> pa.Array:
        """A column of texts (n,); missing and empty ones are refused with their rows."""
        column = self.columns[role]
        if pa.types.is_nested(column.type):
            raise InputError(
                f"{self.place.origin}: column {quote(self.names[role])} holds {column.type} in place of texts."
            )
        text = cast_to_text(column, self.names[role])
        empty = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(text), ""), True)
        self._refuse(empty, role, "no text", "Remove those rows, or fill them in.")
        return pa.concat_arrays(text.chunks)

    def _refuse(self, wrong: pa.ChunkedArray | BoolArray, role: str, what: str, remedy: str) -> None:
        mask = wrong.to_numpy() if isinstance(wrong, pa.ChunkedArray) else wrong
        if mask.any():
            rows = self.place.name_rows(np.flatnonzero(mask).tolist())
            raise InputError(f"Column {quote(self.names[role])} holds {what} ({rows}). {remedy}")


def cast_to_text(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The cells as text; NaN is a missing cell, as in tables of pandas, and bytes that are no text are refused."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.fill_null(pc.is_nan(column.cast(pa.float64())), False), None, column)
    try:
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise InputError(f"Column {quote(name)} holds bytes that are no UTF-8 text. Give text.") from error


def _find_empty(column: pa.ChunkedArray) -> BoolArray:
    """Which cells hold nothing: no value, blank text, or a NaN."""
    found = column.is_null()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        found = pc.or_(found, pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True))
    if pa.types.is_floating(column.type):
        found = column.is_null(nan_is_null=True)
    mask: BoolArray = found.to_numpy()
    return mask


def open_columns(source: Any, needs: str) -> Columns:
    """The columns of a tool's export, or of whatever else holds a table with named columns."""
    if isinstance(source, Columns):
        return source
    held, export = find_export(source)
    if export is None:
        columns = open_source(held, needs)
        if not isinstance(columns, Columns):
            raise InputError(f"This is no table with named columns. {needs}")
        return columns
    if export is not source:
        export.warn_of_left_out()
    return export.to_columns()


def open_table(
    source: Any, needs: str, given: dict[str, str | None], optional: dict[str, str | None] | None = None
) -> AnswerTable:
    """Open a table and find the column of each role: the one that the user named, or one with a usual name.

    Parameters
    ----------
    needs
        A sentence that says which columns there must be, for errors.
    given
        Roles that there must be, and the columns that the user named for them, None where not.
    optional
        Roles that there may be besides.
    """
    columns = open_columns(source, needs)
    there = {
        role: name for role, name in (optional or {}).items() if name is not None or candidates(role, columns.names)
    }
    roles = given | there
    absent = [role for role, name in given.items() if name is None and not candidates(role, columns.names)]
    if absent:
        raise InputError(
            f"{columns.place.origin} has no column for {', '.join(absent)}; its columns are {listing(columns.names)}. "
            f"{needs}"
        )
    try:
        found = choose_roles(columns.names, columns.place.origin, roles)
    except InputError as error:
        raise InputError(f"{error} {needs}") from error
    names = dict(zip(roles, found, strict=True))
    read = columns.read_whole_columns(list(names.values()))
    sizes = {role: len(read[name]) for role, name in names.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{role} {size:,}" for role, size in sizes.items())
        raise InputError(f"The columns must have the same length; they have: {shown}.")
    if not next(iter(sizes.values())):
        raise InputError(f"{columns.place.origin} has columns but no rows. Give a row for each answer.")
    return AnswerTable(
        {role: read[name] for role, name in names.items()}, names, columns.place, columns.text, columns.kind
    )


def open_task_table(
    source: Any,
    needs: str,
    options: TaskOptions,
    said: dict[str, str | None],
    optional: dict[str, str | None] | None = None,
) -> AnswerTable:
    """Open a table of answers to tasks, with these columns besides task and worker: as `open_table`."""
    given = {"task": options.get("task"), "worker": options.get("worker")}
    return open_table(source, needs, given | said, optional)


def place_known(names: pa.Array, others: pa.Array, noun: str) -> IntArray:
    """Positions (n,) of the names of a truth among those of answers, -1 for others; refused where all are others."""
    there = positions(names, others)
    if (there < 0).all():
        raise InputError(
            f"The truth is about other {noun}s ({listing(names.to_pylist()[:5])}, …) than the answers "
            f"({listing(others.slice(0, 5).to_pylist())}, …): no name matches. Use the same {noun} names in both."
        )
    return there
