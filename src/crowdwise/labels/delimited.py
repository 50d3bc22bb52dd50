"""CSV and its relatives: the delimiter is found, names stay text, an error knows its line."""

from __future__ import annotations

import csv
import io
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv

from crowdwise.labels.columns import ROLES, Columns, candidates
from crowdwise.labels.errors import SHOWN, InputError, listing, quote
from crowdwise.labels.source_location import Place, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.byte_source import Blob

__all__ = ["delimited_columns"]

DELIMITERS = (",", ";", "\t", "|")
SAMPLED = 50
BLOCK = 1 << 22  # bytes at a time


def delimited_columns(blob: Blob, head: bytes) -> Columns:
    """Columns of a delimited text file, as strings; only those asked for are read."""
    if not head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip():
        raise InputError(
            f"{blob.name}, line 1 is blank. Begin the file with its header line, such as task,worker,label."
        )
    text = _Delimited(blob, *_dialect(blob, head))
    text.refuse_open_quote()
    return Columns(text.header, text.column, place=Place(blob.name, "line", text.line), text=True, batches=text.batches)


class _Delimited:
    def __init__(self, blob: Blob, delimiter: str, header: list[str]) -> None:
        self.blob, self.delimiter, self.header = blob, delimiter, header

    def column(self, name: str) -> pa.ChunkedArray:
        """Read one column whole."""
        return pa.chunked_array([chunk for (chunk,) in self.batches([name])], pa.string())

    def batches(self, names: list[str]) -> Iterator[list[pa.Array]]:
        """Read several columns, some megabytes at a time."""
        # Names by position: a header may repeat names that nobody asked for.
        places = [str(self.header.index(name)) for name in names]
        try:
            yield from (
                batch.columns
                for batch in pacsv.open_csv(
                    self.blob.open_for_arrow(),
                    read_options=pacsv.ReadOptions(
                        column_names=[str(place) for place in range(len(self.header))],
                        skip_rows_after_names=1,
                        block_size=BLOCK,
                    ),
                    parse_options=pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    convert_options=pacsv.ConvertOptions(
                        include_columns=places, column_types=dict.fromkeys(places, pa.string())
                    ),
                )
            )
        except (pa.ArrowException, OSError) as error:
            raise self.explain_arrow_error(error) from error

    def refuse_open_quote(self) -> None:
        """Refuse a quote that is never closed: it would swallow the rows after it without a word."""
        quotes = sum(block.count(b'"') for block in self.blob.blocks())
        if quotes % 2 == 0:
            return
        begin = max((number for number, _ in self.records()), default=1)
        raise InputError(
            f"{self.blob.name}, line {begin}: a double quote is opened and never closed. Close it, or write a quote "
            'that belongs to a name as "" inside quotes.'
        )

    def explain_arrow_error(self, error: Exception) -> InputError:
        """Find the lines that Arrow stumbled over."""
        if self.blob.gz:
            self.blob.all()  # says so if the compressed data are damaged
        for number, line in enumerate(self.blob.lines(), 1):
            try:
                line.decode()
            except UnicodeDecodeError as wrong:
                return _not_utf8_error(self.blob.name, number, line[wrong.start])
        width = len(self.header)
        ragged = ((number, len(record)) for number, record in self.records() if record and len(record) != width)
        found = list(islice(ragged, SHOWN))
        if found:
            shown = ", ".join(f"line {number} has {fields}" for number, fields in found)
            return InputError(
                f"{self.blob.name}: the header has {format_count(width, 'field')}, but {shown}. Quote a field "
                f"that contains {quote(self.delimiter)} or a line break, and give every row the same fields."
            )
        if "straddl" in str(error):
            return InputError(
                f"{self.blob.name} has a row of more than {BLOCK >> 20} MB: probably a quote that is never closed. "
                "Mend that row."
            )
        return InputError(f"{self.blob.name} cannot be read as a table: {str(error).splitlines()[0]}")

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Read records as Python does, with the line they begin on: slow, for errors only."""
        with io.TextIOWrapper(self.blob.stream(), encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text, delimiter=self.delimiter)
            begin = 1
            try:
                for record in reader:
                    yield begin, record
                    begin = reader.line_num + 1
            except csv.Error:  # a field beyond csv's limit: what came before stands
                return

    @cached_property
    def has_one_record_per_line(self) -> bool:
        """Whether record after record stands on line after line: no quotes, no blank lines."""
        return all(line.strip() and b'"' not in line and b"\r" not in line[:-2] for line in self.blob.lines())

    def line(self, row: int) -> int:
        """Find the line on which the n-th record after the header begins."""
        if self.has_one_record_per_line:
            return row + 2
        records = (number for number, record in self.records() if record)
        return next(islice(records, row + 1, None), row + 2)


def _not_utf8_error(name: str, line: int, byte: int) -> InputError:
    return InputError(
        f"{name}, line {line}: byte 0x{byte:02x} is not UTF-8. Save the file as UTF-8 "
        "(it may be Latin-1 or Windows-1252 now)."
    )


def _dialect(blob: Blob, head: bytes) -> tuple[str, list[str]]:
    """Find the delimiter that makes the most sense of the first records, and the header."""
    whole = len(head) < 1 << 16
    sample = head if whole else head[: head.rfind(b"\n") + 1] or head
    try:
        text = sample.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = sample[: error.start].count(b"\n") + 1
        raise _not_utf8_error(blob.name, number, sample[error.start]) from error
    best: tuple[tuple[int, float, int], str, list[str]] | None = None
    for delimiter in DELIMITERS:
        try:
            rows = [
                row for row in islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), SAMPLED) if row
            ]
        except csv.Error:
            continue
        if not rows:
            continue
        header = [name.strip() for name in rows[0]]
        width = len(header)
        known = sum(bool(candidates(role, header)) for role in ROLES) if width > 1 else 0
        even = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0
        # ">" keeps the earlier delimiter on a tie: a comma before the rest.
        score = (known, even, width)
        if best is None or score > best[0]:
            best = (score, delimiter, header)
    if best is None:
        raise InputError(f"{blob.name} cannot be read as a table. Give CSV, TSV, JSON lines, Parquet or Arrow.")
    if all(not name for name in best[2]):
        raise InputError(f"{blob.name}, line 1: the header is empty. Name the columns: {listing(ROLES)}.")
    return best[1], best[2]
