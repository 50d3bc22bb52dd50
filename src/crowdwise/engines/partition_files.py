"""Parquet files cut by task into the parts of a store, piece by piece: what a cluster's workers run.

Three rounds, of which every call reads files and writes files whole, so that any may be run again where a worker is
lost: `find_names` of a piece (row groups of a file), `split_piece` by the hash of the task, `join_part` of what all
pieces have of one part. Names of workers and classes are joined into one dictionary that all read; names of tasks stay
with their part, which is a dictionary spread over the parts.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.engines.external_sort import import_duckdb, query
from crowdwise.engines.label_store import Part, say_disk_errors, write_part
from crowdwise.engines.names_on_disk import Anywhere, name_tasks, plain_names, refuse_scale
from crowdwise.engines.task_runs import labels_of_run, sort_rows
from crowdwise.labels.arrow_columns import as_plain_column
from crowdwise.labels.column_checks import refuse_nested
from crowdwise.labels.columns import ROLES, Named, choose_columns
from crowdwise.labels.encode import encode
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.numeric_values import refuse_numeric_values
from crowdwise.labels.source_location import Place
from crowdwise.labels.vocabulary import as_text, plain_arrow_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import IntArray

__all__ = [
    "JoinedPart",
    "Piece",
    "find_names",
    "join_names",
    "join_part",
    "list_pieces",
    "refuse_partly_whole",
    "split_piece",
]

PIECE_ROWS = 2**22  # rows of a piece, about: row groups are never cut


class Piece(NamedTuple):
    """Some row groups of a file, and the columns that hold task, worker and label."""

    path: str
    groups: tuple[int, ...]
    columns: tuple[str, str, str]
    first: int  # row of the file

    @property
    def place(self) -> Place:
        """Names its rows."""
        return Place(self.path, number=lambda row: row + self.first)


class JoinedPart(NamedTuple):
    """A part, and its answers (M, K) as positions and counts."""

    part: Part
    cells: IntArray
    counts: IntArray


def list_pieces(path: str, named: Named, rows: int = PIECE_ROWS, *, scale: bool = True) -> list[Piece]:
    """The pieces of a file, from its footer alone; where a `scale` is not taken, classes with an order are refused."""
    with _open(path) as file:
        columns = choose_columns(list(file.schema_arrow.names), path, *named)
        if not scale:
            refuse_scale(file.schema_arrow.field(columns[2]).type, columns[2], path)
        pieces: list[Piece] = []
        groups: list[int] = []
        held = first = 0
        for group in range(file.num_row_groups):
            groups.append(group)
            held += file.metadata.row_group(group).num_rows
            if held >= rows or group == file.num_row_groups - 1:
                if held:
                    pieces.append(Piece(path, tuple(groups), columns, first))
                first += held
                groups, held = [], 0
    return pieces


def find_names(piece: Piece) -> tuple[pa.Array, pa.Array, int, tuple[bool | None, ...]]:
    """Names of the workers and classes of a piece, its number of labels, and which columns are whole decimals."""
    table = _read_piece(piece)
    names = dict(zip(ROLES, piece.columns, strict=True))
    workers, labels = (
        encode(table[role], role, name=names[role], place=piece.place).names for role in ("worker", "label")
    )
    return workers, labels, table.num_rows, tuple(_is_whole(table[role]) for role in ROLES)


def refuse_partly_whole(pieces: Sequence[Piece], whole: Sequence[tuple[bool | None, ...]]) -> None:
    """Refuse decimals that are whole in some pieces and not in others: one name would be written in two ways."""
    for column, found in zip(pieces[0].columns, zip(*whole, strict=True), strict=True):
        if len(set(found)) > 1:
            raise InputError(
                f"Column {quote(column)} holds decimals that are whole in some row groups, or no decimals in some "
                "files. Write the column as text, or as floating point."
            )


def _is_whole(column: pa.ChunkedArray) -> bool | None:
    """Whether decimals are whole numbers; None if they are no decimals."""
    return pa.types.is_integer(plain_arrow_names(_join_chunks(column)).type) if _is_decimal(column) else None


def _is_decimal(column: pa.ChunkedArray) -> bool:
    """Whether a column, maybe by a dictionary, is of decimals."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_decimal(kind))


def join_names(names: Sequence[pa.Array]) -> pa.Array:
    """All names, sorted; as text where they are text anywhere."""
    plain = [plain_arrow_names(each) for each in names]
    if any(each.type != plain[0].type for each in plain):
        plain = [as_text(each) for each in plain]
    every = pc.unique(pa.chunked_array(plain))
    return every.take(pc.sort_indices(every))


def split_piece(piece: Piece, number: int, folder: str, n_parts: int) -> dict[int, int]:
    """Write a piece's labels as codes, one row group for each part; returns which group holds which part."""
    place = Path(folder)
    table = _read_piece(piece)
    codes = {}
    for role, what in (("worker", "workers"), ("label", "classes")):
        with pa.ipc.open_file(pa.memory_map(str(place / f"{what}.names"))) as held:
            known = held.read_all()["name"].combine_chunks()
        known = known.chunk(0) if isinstance(known, pa.ChunkedArray) else known
        names = plain_arrow_names(_join_chunks(table[role]))
        codes[role] = pc.index_in(names if names.type == known.type else as_text(names), value_set=known)
    tasks = plain_names(_join_chunks(table["task"]), piece.columns[0], piece.place)
    with import_duckdb().connect(":memory:") as database:
        database.register("given", pa.table({"task": tasks, **codes}))
        # As text, so that a task has one hash whether its file has numbers or text.
        part = f"hash(CAST(task AS VARCHAR)) % {n_parts}"
        rows = query(database, f"SELECT *, CAST({part} AS INTEGER) AS part FROM given ORDER BY part").read_all()
    parts = rows["part"].to_numpy()
    starts = np.searchsorted(parts, np.arange(n_parts + 1))
    found: dict[int, int] = {}
    draft, target = place / f"piece-{number:05}.draft-{os.getpid()}", place / f"piece-{number:05}.parquet"
    with say_disk_errors(place):
        with pq.ParquetWriter(draft, rows.schema.remove(3), compression="zstd", compression_level=1) as writer:
            for part_number in np.flatnonzero(np.diff(starts)).tolist():
                first, last = int(starts[part_number]), int(starts[part_number + 1])
                writer.write_table(rows.slice(first, last - first).drop_columns(["part"]), row_group_size=last - first)
                found[part_number] = len(found)
        draft.replace(target)
    return found


def join_part(
    number: int,
    groups: dict[int, int],
    folder: str,
    sizes: tuple[int, int],
    on_duplicate: str,
    as_text_tasks: bool,
    asked: tuple[str, pa.Array | None],
) -> JoinedPart | None:
    """What all pieces have of one part, sorted by task, as a part of the store; None where no piece has any.

    `asked` is the column of the tasks, and the classes where it is to be asked whether they are values.
    """
    place, tables = Path(folder), []
    for piece, group in groups.items():
        table = pq.ParquetFile(place / f"piece-{piece:05}.parquet").read_row_group(group)
        tables.append(table.set_column(0, "task", as_text(table["task"])) if as_text_tasks else table)
    if not tables:
        return None
    run = sort_rows(pa.concat_tables(tables), sizes)
    column, classes = asked
    run = run._replace(tasks=name_tasks(run.tasks, column, Anywhere("the files")))
    names = pa.array(np.arange(sizes[0])), pa.array(np.arange(sizes[1]))
    labels = labels_of_run(run, *names, on_duplicate)
    if classes is not None:
        refuse_numeric_values(replace(labels, classes=classes))
    part = write_part(place, number, labels)
    cells, counts = np.unique(run.worker.astype(np.int64) * sizes[1] + run.label, return_counts=True)
    return JoinedPart(part, cells, counts)


def _read_piece(piece: Piece) -> pa.Table:
    with _open(piece.path) as file:
        try:
            table = file.read_row_groups(list(piece.groups), columns=list(piece.columns)).select(list(piece.columns))
        except (OSError, pa.ArrowException) as error:
            groups = f"{piece.groups[0]} to {piece.groups[-1]}"
            text = " ".join(str(error).split())
            raise InputError(
                f"{str(piece.path)!r} is damaged in row groups {groups}: {text}. Write the file anew, or leave it out."
            ) from None
    for column in piece.columns:
        refuse_nested(table[column].type, f"column {quote(column)}", piece.place)
    table = pa.table([as_plain_column(table[column]) for column in piece.columns], names=list(ROLES))
    for role in ROLES:
        if table[role].null_count:
            raise InputError(
                f"{str(piece.path)!r} has no {role} in {table[role].null_count:,} of {table.num_rows:,} rows. Fill "
                "them in, or leave the rows out."
            )
    return table


def _join_chunks(column: pa.ChunkedArray) -> pa.Array:
    joined = column.unify_dictionaries().combine_chunks() if pa.types.is_dictionary(column.type) else column
    joined = joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def _open(path: str) -> pq.ParquetFile:
    """A Parquet file, here or where an address such as s3://… leads."""
    from pyarrow import fs

    try:
        if "://" in path:
            system, place = fs.FileSystem.from_uri(path)
            return pq.ParquetFile(place, filesystem=system)
        return pq.ParquetFile(path)
    except UnicodeDecodeError as error:
        raise InputError(f"Cannot read {path!r}: names of its columns are no text. Copy or write it again.") from error
    except (OSError, pa.ArrowException) as error:
        text = " ".join(str(error).split())
        raise InputError(
            f"Cannot read {path!r} as Parquet ({text.rstrip('.')}). Copy or write it again; for other files than "
            "Parquet use the engine 'stream'."
        ) from None
