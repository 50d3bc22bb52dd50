"""Several files with the same columns, read as one table; a pattern such as days/*.csv stands for what it matches."""

from __future__ import annotations

import glob
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crowdwise.labels.byte_source import refuse_no_path
from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.errors import SHOWN, InputError, listing, quote
from crowdwise.labels.files import ANSWERS, file_source
from crowdwise.labels.source_location import JoinedPlace
from crowdwise.labels.vocabulary import as_text, plain_arrow_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["join_sources", "open_paths"]

WORKER = "worker"


def expand_paths(given: Sequence[str | Path]) -> list[str | Path]:
    """Paths with every pattern replaced by the files it matches, in alphabetical order; none may come twice."""
    paths = [path for each in given for path in _expand_pattern(each)]
    met = [_identify_file(path) for path in paths]
    twice = (
        [str(path) for place, path in enumerate(paths) if met[place] in met[:place]] if len(set(met)) < len(met) else []
    )
    if twice:
        raise InputError(f"{', '.join(map(repr, twice[:SHOWN]))} is given more than once. Give each file once.")
    return paths


def _identify_file(path: str | Path) -> Any:
    """Which file it is, however its path is written, and by whichever link."""
    if path == "-":
        return path
    try:
        about = Path(path).stat()
    except (OSError, ValueError):  # said when it is opened
        return str(path)
    return (about.st_dev, about.st_ino) if about.st_ino else str(Path(path).absolute())


def _expand_pattern(path: str | Path) -> list[str | Path]:
    text = str(refuse_no_path(path))
    if text == "-" or "\n" in text or not glob.has_magic(text) or _exists(path):
        return [path]
    found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 (a Path wants its fixed part apart)
    files: list[str | Path] = [name for name in found if not Path(name).is_dir()]
    if not files:
        raise InputError(f"No file matches {text!r}. Check the pattern; relative ones start in the folder here.")
    return files


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # a name that no file can have is said to be so when it is opened
        return True


def join_sources(paths: Sequence[str | Path], needs: str = ANSWERS, *, workers: Sequence[str] | None = None) -> Columns:
    """Open several files as one table, in the order given; with a column of workers, where it is said whose each is."""
    short = Counter(Path(path).name for path in paths)
    parts: list[Columns] = []
    for path in paths:
        part = file_source(path, needs)
        if not isinstance(part, Columns):
            raise InputError(
                f"{str(path)!r} is a mapping of mappings. Only tables with a row for each answer can be read "
                "together: give it alone."
            )
        if short[Path(path).name] > 1:  # two folders may hold files of one name
            part = replace(part, place=replace(part.place, origin=str(path)))
        if workers is not None:
            part = _add_worker(part, workers[len(parts)])
        parts.append(part)
        _refuse_other_columns(parts[0], part)
    place = JoinedPlace(
        f"{parts[0].place.origin} and {len(parts) - 1} more" if len(parts) > 1 else parts[0].place.origin,
        parts=[part.place for part in parts],
        sizes=[],
    )
    return _Joined(parts, place).columns()


def _add_worker(part: Columns, worker: str) -> Columns:
    """The same table with a column that says whose it is."""
    there = [name for name in candidates("worker", part.names) if name not in ("source", "model")]  # of tasks as well
    if there:
        raise InputError(
            f"{part.place.origin} has the column {quote(there[0])}, which says whose each answer is. Leave --worker "
            "out, or remove the column."
        )

    def column(name: str) -> pa.ChunkedArray:
        if name != WORKER:
            return part.column(name)
        n_rows = len(part.column(part.names[0]))
        return pa.chunked_array([pa.repeat(worker, n_rows)])

    return replace(part, names=[*part.names, WORKER], column=column, batches=None)


def _refuse_other_columns(first: Columns, other: Columns) -> None:
    lacking = [name for name in first.names if name not in other.names]
    more = [name for name in other.names if name not in first.names]
    if lacking or more:
        differs = [f"lacks {listing(lacking)}"] if lacking else []
        differs += [f"has {listing(more)} besides"] if more else []
        raise InputError(
            f"{other.place.origin} {' and '.join(differs)}, unlike {first.place.origin}. Files that are read together "
            "must have the same columns: rename or remove them, or read the files one by one."
        )


class _Joined:
    def __init__(self, parts: list[Columns], place: JoinedPlace) -> None:
        self.parts, self.place = parts, place

    def columns(self) -> Columns:
        # Text and numbers cannot be encoded batch by batch: what is text in one file may be numbers in another.
        in_batches = all(part.text and part.batches is not None for part in self.parts)
        return Columns(
            self.parts[0].names,
            self.column,
            place=self.place,
            text=any(part.text for part in self.parts),
            batches=self.batches if in_batches else None,
        )

    def column(self, name: str) -> pa.ChunkedArray:
        """Read one column of all files."""
        columns = [part.column(name) for part in self.parts]
        self.place.sizes[:] = [len(column) for column in columns]
        if len({column.type for column in columns}) == 1:
            return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
        for part, column in zip(self.parts, columns, strict=True):
            if pa.types.is_nested(column.type):
                raise InputError(f"{part.place.origin}: column {quote(name)} holds lists or records ({column.type}).")
        chunks = [plain_arrow_names(chunk) for column in columns for chunk in column.chunks if len(chunk)]
        if len({chunk.type for chunk in chunks}) > 1:
            chunks = [as_text(chunk) for chunk in chunks]
        return pa.chunked_array(chunks, chunks[0].type if chunks else pa.string())

    def batches(self, names: list[str]) -> Iterator[list[pa.Array]]:
        """Read several columns of all files, one file after the other."""
        self.place.sizes[:] = [0] * len(self.parts)
        for number, part in enumerate(self.parts):
            assert part.batches is not None  # noqa: S101 (see `columns`)
            for batch in part.batches(names):
                self.place.sizes[number] += len(batch[0])
                yield batch


def open_paths(given: str | Path | Sequence[str | Path], needs: str = ANSWERS) -> Columns | Mapping[Any, Any]:
    """Open one path or several: the columns, or the mapping if it is one file of nested JSON."""
    paths = expand_paths([given] if isinstance(given, str | Path) else given)
    return file_source(paths[0], needs) if len(paths) == 1 else join_sources(paths, needs)
