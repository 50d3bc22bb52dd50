"""Rows of a Parquet or Arrow file one by one, as `JsonRecords` gives those of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crowdwise.labels.columns import Columns
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.files import file_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.byte_source import Blob

__all__ = ["TableRecords", "is_binary_table"]

MAGIC = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")


def is_binary_table(head: bytes) -> bool:
    """Whether a file that begins so is Parquet or Arrow."""
    return head.startswith(MAGIC)


class TableRecords:
    """The rows of a table as records; `number` and `where` name the one that was read last."""

    def __init__(self, blob: Blob) -> None:
        self.blob, self.number = blob, 0
        self.worker: str | None = None  # whose file it is, where the user said so

    @property
    def where(self) -> str:
        """The file and the row read last."""
        return f"{self.blob.name}, row {self.number}"

    def _damage_error(self, error: Exception) -> InputError:
        return InputError(f"{self.blob.name} is damaged ({quote(str(error))}). Copy or write it again.")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give every row."""
        self.number = 0
        try:
            table = file_source(self.blob)
        except UnicodeDecodeError as error:  # of the names of columns
            raise self._damage_error(error) from error
        if not isinstance(table, Columns):
            raise InputError(f"{self.blob.name} is no table. Write it again as Parquet.")
        names = list(dict.fromkeys(table.names))
        if len(names) < len(table.names):
            raise InputError(f"{self.blob.name} has two columns of one name. Rename one.")
        batches = [[table.column(name) for name in names]] if table.batches is None else table.batches(names)
        for batch in batches:
            try:
                columns = [column.to_pylist() for column in batch]
            except (UnicodeDecodeError, pa.ArrowException, OverflowError, ValueError) as error:
                raise self._damage_error(error) from error
            for row in zip(*columns, strict=True):
                self.number += 1
                yield dict(zip(names, row, strict=True))
