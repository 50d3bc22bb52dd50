"""Names of labels on the disk, under the checks that names in memory pass; these see distinct names and no rows.

Names of workers and classes are checked all together. Those of tasks, which may be too many for memory, are checked by
parts: two that differ only in blanks are found where they are in one part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.engines.label_store import say_disk_errors
from crowdwise.labels.arrow_columns import as_plain_array
from crowdwise.labels.column_checks import (
    check_blanks,
    refuse_header_row,
    refuse_infinite,
    refuse_nul_bytes,
    unreadable_values_error,
    warn_of_restored_characters,
)
from crowdwise.labels.columns import ROLES, Columns
from crowdwise.labels.encode import Encoded, encode, settle_classes
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.similar_names import warn_of_similar_names
from crowdwise.labels.source_location import Place
from crowdwise.labels.table_output import restore_names
from crowdwise.labels.vocabulary import as_text, plain_arrow_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from crowdwise.labels.types import IntArray

__all__ = [
    "TEXT_ROWS",
    "Anywhere",
    "check_names",
    "name_tasks",
    "note_similar_names",
    "order_classes",
    "order_names",
    "plain_names",
    "refuse_scale",
    "write_rows",
]

TEXT_ROWS = "text.parquet"  # in the folder, while it is sorted
TASKS_LOOKED_AT = 2**20  # for names that are probably one


def refuse_scale(kind: pa.DataType, name: str, path: object) -> None:
    """Refuse a dictionary whose order is meant, and with it classes that no row uses: names alone are read here."""
    if pa.types.is_dictionary(kind) and kind.ordered:
        raise InputError(
            f"Column {quote(name)} of {quote(str(path))} is a scale (an ordered dictionary), whose order is not read "
            "from the disk. Declare the classes in their order with classes= (on the command line --classes)."
        )


class Anywhere(Place):
    """A file of which a row is not known: errors name the file alone."""

    def __call__(self, row: int) -> str:  # noqa: ARG002
        """The file."""
        return self.origin

    def name_rows(self, rows: Iterable[int]) -> str:  # noqa: ARG002
        """The file."""
        return self.origin


def check_names(given: pa.Array, role: str, column: str, place: Place, *, text: bool = False) -> Encoded:
    """Distinct values of a column of workers or labels as names, and which name each has."""
    return encode(pa.chunked_array([as_plain_array(given)]), role, name=column, place=place, text=text)


def order_names(found: Encoded) -> tuple[IntArray, pa.Array]:
    """Names in their order, and which each of the values given has."""
    order = pc.sort_indices(found.names).to_numpy()
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return place[found.codes], found.names.take(pa.array(order))


def order_classes(found: Encoded, classes: Sequence[Any] | None, place: Place) -> tuple[IntArray, pa.Array]:
    """Classes in the order declared, or in that of their names, and which each of the values given has."""
    mapping, names = settle_classes(found, classes, place)
    return mapping[found.codes], names


def name_tasks(tasks: pa.Array, column: str, place: Place, *, text: bool = False) -> pa.Array:
    """The distinct tasks of a part by the names that they have in memory; whole numbers are names already."""
    if pa.types.is_integer(tasks.type):
        return tasks
    # Decimals of which all in this part are whole are written as the others are.
    names = tasks.cast(pa.string()) if pa.types.is_decimal(tasks.type) else plain_names(tasks, column, place)
    names = as_text(names)
    called, rows = f"column {quote(column)}", np.arange(len(names))
    if text:
        written, names = names, restore_names(names)
        warn_of_restored_characters(written, names, called, place)
    check_blanks(rows, names, "task", called, place)
    refuse_nul_bytes(rows, names, called, place)
    return names


def plain_names(values: pa.Array, column: str, place: Place) -> pa.Array:
    """Values as names, whole numbers or text; numbers that are not finite, and bytes that are no text, are refused."""
    called = f"column {quote(column)}"
    if pa.types.is_floating(values.type):
        refuse_infinite(np.arange(len(values)), values, called, place)
    try:
        names = plain_arrow_names(values)
        names.validate(full=True)
    except pa.ArrowException as error:
        raise unreadable_values_error(values.type, called, place) from error
    return names


def note_similar_names(tasks: pa.Array, workers: pa.Array, classes: pa.Array, *, declared: bool) -> None:
    """Warn of names that are probably one; of tasks, the first are looked at."""
    names = {"Tasks": tasks[:TASKS_LOOKED_AT], "Workers": workers}
    warn_of_similar_names(names if declared else {**names, "Classes": classes})


def write_rows(columns: Columns, names: Sequence[str], folder: Path) -> Path:
    """The three columns of text files, as the package reads them, in a Parquet file."""
    assert columns.batches is not None  # noqa: S101 (all text files have them)
    target = folder / TEXT_ROWS
    schema = pa.schema([(role, pa.string()) for role in ROLES])
    with say_disk_errors(folder), pq.ParquetWriter(target, schema, compression="zstd", compression_level=1) as writer:
        for batch in columns.batches(list(names)):
            _refuse_headers(batch, names, columns.place.origin)
            writer.write_batch(pa.RecordBatch.from_arrays(batch, schema=schema))
    return target


def _refuse_headers(batch: Sequence[pa.Array], names: Sequence[str], origin: str) -> None:
    """Refuse rows that hold the names of the columns, in whatever order."""
    wanted = pa.array([name.lower() for name in names])
    likely = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(batch[2])), value_set=wanted)
    if pc.any(likely).as_py():
        rows = [each.filter(likely) for each in batch]
        refuse_header_row([Encoded(np.arange(len(each)), each) for each in rows], names, Anywhere(origin))
