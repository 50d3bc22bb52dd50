"""The files of an export: one file, several, a folder or a zip archive, each opened when it is asked for."""

from __future__ import annotations

import os
import warnings
import zipfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from crowdwise.formats.json_records import JsonRecords
from crowdwise.formats.table_records import TableRecords, is_binary_table
from crowdwise.formats.zip_entries import read_entry
from crowdwise.labels.byte_source import MOST_TIMES, SMALL, Blob, open_blob
from crowdwise.labels.delimited import delimited_columns
from crowdwise.labels.errors import InputError, InputWarning, listing, quote
from crowdwise.labels.several_files import expand_paths
from crowdwise.labels.unseen_characters import escape_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from crowdwise.labels.columns import Columns

__all__ = ["ExportFile", "ExportFiles", "open_files", "open_files_of_workers"]

ZIP = b"PK\x03\x04"
MOST_FILES = 200_000  # of a folder: more are no export, but the root of a disk given by mistake
LARGEST_FIRST_RECORD = 1 << 24  # characters that are parsed to recognise a format


@dataclass(frozen=True)
class ExportFile:
    """One file of an export.

    Attributes
    ----------
    path
        Where it stands in the folder or archive, with / between; its name where it was given by itself.
    open
        Opens it.
    worker
        Whose answers it holds, where the user said so.
    """

    path: PurePosixPath
    open: Callable[[], Blob]
    worker: str | None = None

    @cached_property
    def blob(self) -> Blob:
        """The bytes, opened once."""
        return self.open()

    def has_suffix(self, suffix: str) -> bool:
        """Whether the name ends so, in capitals or not, also with .gz after it."""
        return self.path.name.casefold().removesuffix(".gz").endswith(suffix)

    def name_without(self, suffix: str) -> str:
        """The name without this ending."""
        name = self.path.name
        kept = len(name.casefold().removesuffix(".gz").removesuffix(suffix))
        return name[:kept]

    def records(self) -> JsonRecords | TableRecords:
        """The records of JSON, or the rows of Parquet or Arrow, one by one."""
        if not self.blob.head():
            words = f"{self.blob.name} is empty, and left out. If answers are missing, export or copy it again."
            warnings.warn(words, InputWarning, stacklevel=2)
        return TableRecords(self.blob) if is_binary_table(self.blob.head()) else JsonRecords(self.blob)

    def only_record(self) -> Any:
        """The one record of a file that must not hold another; None if it is empty."""
        records = iter(self.records())
        first = next(records, None)
        if next(records, None) is not None:
            raise InputError(f"{self.blob.name} holds more than one document. Give each in a file of its own.")
        return first


@dataclass(frozen=True)
class ExportFiles:
    """All files of an export."""

    origin: str  # what the user gave, for errors
    files: tuple[ExportFile, ...]  # the files in the order of their paths, or as they were given
    is_bundle: bool = False  # they come from a folder or an archive
    archive: Blob | None = None  # the archive itself, where they come from one

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the first file, blanks before them left out."""
        return self.files[0].blob.head().removeprefix(b"\xef\xbb\xbf").lstrip() if self.files else b""

    @cached_property
    def first_record(self) -> Mapping[str, Any]:
        """The first record of the first file, if it is JSON, Parquet or Arrow; empty if not, or if it is no object."""
        if self.head[:1] not in (b"{", b"[") and not is_binary_table(self.head):
            return {}
        try:
            blob = self.files[0].blob
            records = TableRecords(blob) if is_binary_table(self.head) else JsonRecords(blob, LARGEST_FIRST_RECORD)
            first = next(iter(records), None)
        except InputError:  # said by the reader of whatever this is
            return {}
        return first if isinstance(first, dict) else {}

    @cached_property
    def table(self) -> Columns | None:
        """The first file as a table to recognise it by, if it is CSV or TSV; its reader warns of what is doubtful."""
        head = self.files[0].blob.head() if self.files else b""
        if not self.head or self.head[:1] in (b"{", b"[", b"<") or b"\0" in head:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            try:
                return delimited_columns(self.files[0].blob, head)
            except InputError:
                return None

    @property
    def column_names(self) -> list[str]:
        """Columns of the first file, if it is CSV or TSV."""
        return [] if self.table is None else self.table.names

    def rows(self) -> Iterator[tuple[dict[str, str], str]]:
        """Every row of every CSV or TSV file, and where it stands; all must have the columns of the first."""
        for file in self.files:
            table = delimited_columns(file.blob, file.blob.head())
            lacking = [name for name in self.column_names if name not in table.names]
            if lacking:
                raise InputError(
                    f"{table.place.origin} lacks the columns {listing(lacking)} of {self.files[0].path}. Give exports "
                    "of one project."
                )
            names = list(dict.fromkeys(table.names))
            batches = [[table.column(name) for name in names]] if table.batches is None else table.batches(names)
            number = 0
            for batch in batches:
                for row in zip(*(column.to_pylist() for column in batch), strict=True):
                    cells = {name: "" if cell is None else str(cell) for name, cell in zip(names, row, strict=True)}
                    yield cells, f"{table.place.origin}, row {number + 1}"
                    number += 1

    def records(self) -> Iterator[tuple[Mapping[str, Any], JsonRecords | TableRecords]]:
        """Every record of every file, and where it stands; one that is no object is refused."""
        for file in self.files:
            records = file.records()
            records.worker = file.worker
            for record in records:
                if not isinstance(record, dict):
                    raise InputError(f"{records.where} holds {quote(record)}, not an object. Export the file again.")
                yield record, records


def open_files(source: str | Path | Blob | Sequence[str | Path]) -> ExportFiles:
    """The files that a path, a pattern, a folder, an archive or several of these stand for."""
    if isinstance(source, Blob):
        if source.head().startswith(ZIP):
            return ExportFiles(source.name, _list_archive(source), is_bundle=True, archive=source)
        return ExportFiles(source.name, (ExportFile(PurePosixPath(source.name), lambda: source),))
    paths = expand_paths([source] if isinstance(source, str | Path) else source)
    if len(paths) == 1 and _is_folder(paths[0]):
        folder = Path(paths[0])
        files = _list_folder(folder)
        if any(file.path.name == "dataset_info.json" for file in files):  # of Hugging Face, with its notes beside it
            files = tuple(file for file in files if file.path.suffix in (".arrow", ".parquet"))
        return ExportFiles(escape_letters(folder.name), files, is_bundle=True)
    if len(paths) == 1:
        return open_files(open_blob(paths[0]))
    above = os.path.commonpath([Path(path).absolute().parent for path in paths])
    named = tuple(ExportFile(PurePosixPath(*_relative(path, above)), _opener(path)) for path in paths)
    return ExportFiles(f"{escape_letters(named[0].path.name)} and {len(named) - 1} more", named)


def _is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except OSError as error:  # a name that no file can have, such as a whole table
        raise InputError(f"Cannot read {quote(str(path))}: {error.strerror}.") from error


def open_files_of_workers(paths: Sequence[str | Path], workers: Sequence[str]) -> ExportFiles:
    """The files of each path (a file, an archive or a folder) as those of the worker who is named for it."""
    expand_paths(paths)  # none may come twice
    files = [
        replace(file, worker=worker)
        for path, worker in zip(paths, workers, strict=True)
        for file in open_files(path).files
    ]
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return ExportFiles(f"{escape_letters(Path(paths[0]).name)}{more}", tuple(files))


def _relative(path: str | Path, above: str) -> tuple[str, ...]:
    return Path(path).absolute().relative_to(above).parts


def _opener(path: str | Path) -> Callable[[], Blob]:
    return lambda: open_blob(path)


def _list_folder(folder: Path) -> tuple[ExportFile, ...]:
    found = []
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith((".", "__MACOSX")) for part in inside.parts):
            found.append(ExportFile(PurePosixPath(*inside.parts), _opener(path)))
        if len(found) > MOST_FILES:
            raise InputError(f"{quote(str(folder))} holds more than {MOST_FILES:,} files. Give that of one export.")
    return tuple(sorted(found, key=lambda each: each.path))


def _list_archive(blob: Blob) -> tuple[ExportFile, ...]:
    """The files of a zip archive; refused if it would unpack outside of its folder, or into far more than it is."""
    try:
        with blob.stream() as stream, zipfile.ZipFile(stream) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        if not blob.name.endswith(".zip"):  # an Excel workbook, perhaps: said by whoever knows
            return ()
        raise InputError(
            f"{blob.name} is a damaged zip archive, or cut short ({quote(str(error))}). Export it again."
        ) from error
    for entry in entries:
        path = PurePosixPath(entry.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in (path.parts or ("",))[0]:
            raise InputError(
                f"{blob.name} holds {quote(entry.filename)}, a file outside of the archive's own folder, as no export "
                "does. Do not unpack it."
            )
        if entry.flag_bits & 1:
            raise InputError(f"{blob.name}: {quote(entry.filename)} is encrypted. Unpack it, and give the folder.")
    limit = max(SMALL, MOST_TIMES * sum(entry.compress_size for entry in entries))
    if sum(entry.file_size for entry in entries) > limit:
        raise InputError(
            f"{blob.name} holds more than {MOST_TIMES} times its size once unpacked, as no export does. If it is one, "
            "unpack it, and give the folder."
        )
    found = [
        ExportFile(PurePosixPath(entry.filename.replace("\\", "/")), _entry_opener(blob, entry))
        for entry in entries
        if not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(entry.filename).parts)
    ]
    return tuple(sorted(found, key=lambda each: each.path))


def _entry_opener(blob: Blob, entry: zipfile.ZipInfo) -> Callable[[], Blob]:
    def open_entry() -> Blob:
        name = f"{blob.name}/{escape_letters(entry.filename)}"
        try:
            data = read_entry(blob, entry)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise InputError(f"{name} is damaged in the archive ({quote(str(error))}). Export it again.") from error
        return Blob(name, None, data, gz=False)

    return open_entry
