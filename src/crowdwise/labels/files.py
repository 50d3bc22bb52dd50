"""Columns of a file: what it is is told by its content, so that a wrong extension does no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crowdwise.labels.arrow_columns import as_plain_array, as_plain_column, find_column
from crowdwise.labels.byte_source import Blob, open_blob
from crowdwise.labels.columns import Columns
from crowdwise.labels.delimited import delimited_columns, nul_byte_error
from crowdwise.labels.errors import InputError
from crowdwise.labels.json_reader import json_source
from crowdwise.labels.source_location import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ANSWERS", "file_source"]

BATCH = 1 << 17  # rows at a time
ANSWERS = "Labels need a header line and a row for each answer."

PICKLE = "a pickle, which is never read: it may run anything. Write the table as Parquet or CSV"
# The first bytes of formats that we know and do not read, and what to do about each.
FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook, cut short or no export that is known. Copy it again, unpack "
    "it, or save the sheet as CSV",
    b"PK\x05\x06": "a zip archive with nothing in it. Export it again",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook. Save the sheet as CSV",
    b"FEA1": "a Feather file of version 1. Write it again as Parquet or Feather version 2",
    b"BZh": "compressed with bzip2. Unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd. Unpack it, or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz. Unpack it, or compress it with gzip",
    b"SQLite format 3": "an SQLite database. Export the table as CSV or Parquet",
    b"\x93NUMPY": "a NumPy array. Load it and give it to CrowdLabels.from_dense or from_arrays",
    b"Obj\x01": "an Avro file. Write it again as Parquet",
    b"\x80\x04\x95": PICKLE,
    b"\x80\x05\x95": PICKLE,
    b"%PDF": "a PDF document. Export the table as CSV",
    b"\xff\xd8\xff": "a picture. Give the table of its labels (task, worker, label)",
    b"\x89PNG": "a picture. Give the table of its labels (task, worker, label)",
}
ARRAYS = (
    "an archive of NumPy arrays, such as features or pictures. Give the table of their labels (task, worker, label)"
)


def file_source(source: Any, needs: str = ANSWERS) -> Columns | Mapping[Any, Any]:
    """Open a path, standard input ("-") or a stream: its columns, or the mapping if it is nested JSON.

    What the file `needs` to hold is said where it is empty.
    """
    blob = open_blob(source)
    head = blob.head()
    if head.startswith(b"PAR1"):
        return _parquet(blob)
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _arrow(blob, stream=not head.startswith(b"ARROW1"))
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise InputError(f"{blob.name} is {ARRAYS if _is_npz(head) else what}.")
    _check_text(blob, head, needs)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return json_source(blob)
    return delimited_columns(blob, head)


def _is_npz(head: bytes) -> bool:
    """Whether a zip archive begins with an array of NumPy's, as npz files do."""
    return head.startswith(b"PK\x03\x04") and len(head) > 30 and head[30 : 30 + head[26]].endswith(b".npy")


def _check_text(blob: Blob, head: bytes, needs: str) -> None:
    if not head.removeprefix(b"\xef\xbb\xbf").strip():
        raise InputError(f"{blob.name} is empty. {needs}")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head[:64].count(b"\0") * 4 > len(head[:64]):
        raise InputError(f"{blob.name} looks like UTF-16. Save it as UTF-8.")
    if b"\0" in head:
        raise nul_byte_error(blob.name, head[: head.index(b"\0")].count(b"\n") + 1)


def _parquet(blob: Blob) -> Columns:
    import pyarrow.parquet as pq

    def damage_error(error: Exception) -> InputError:
        return InputError(
            f"{blob.name} begins like a Parquet file, but is damaged or cut short ({_first_line(error)}). "
            "Copy or write it again."
        )

    def column(name: str) -> pa.ChunkedArray:
        try:
            file = pq.ParquetFile(blob.open_for_random_access())
            return as_plain_column(find_column(file.read([name]), name))
        except (pa.ArrowException, OSError) as error:
            raise damage_error(error) from error

    def batches(names: list[str]) -> Iterator[list[pa.Array]]:
        try:
            for batch in pq.ParquetFile(blob.open_for_random_access()).iter_batches(BATCH, columns=names):
                yield [as_plain_array(batch.column(name)) for name in names]
        except (pa.ArrowException, OSError) as error:
            raise damage_error(error) from error

    try:
        names = list(pq.ParquetFile(blob.open_for_random_access()).schema_arrow.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damage_error(error) from error
    return Columns(names, column, place=Place(blob.name), batches=batches)


def _arrow(blob: Blob, *, stream: bool) -> Columns:
    def damage_error(error: Exception) -> InputError:
        return InputError(
            f"{blob.name} begins like an Arrow file, but is damaged or cut short ({_first_line(error)}). "
            "Copy or write it again."
        )

    def column(name: str) -> pa.ChunkedArray:
        found = find_column(table, name)
        try:
            found.validate(full=True)  # compiled code follows its offsets and codes, which Arrow does not check itself
        except pa.ArrowException as error:
            raise damage_error(error) from error
        return as_plain_column(found)

    try:
        source = blob.open_for_arrow() if stream else blob.open_for_random_access()
        table = (pa.ipc.open_stream(source) if stream else pa.ipc.open_file(source)).read_all()
        names, more = list(table.column_names), stream and bool(source.read(1))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damage_error(error) from error
    if more:  # of which Arrow says nothing
        raise InputError(
            f"{blob.name} holds more after the end of its Arrow stream, as if files were put together. Give the files "
            "one by one."
        )
    return Columns(names, column, place=Place(blob.name))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
