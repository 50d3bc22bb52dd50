"""What the tasks show: the text or the picture of each, from a table beside the labels.

Pictures are local files. They are put into the page as data, up to a size, and only where their first bytes are those
of a PNG, JPEG, GIF or WebP file: a table that names any other file cannot carry its contents into a page. An address
on the network is shown as text; nothing is ever requested.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.attributes import locate_rows
from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.read import open_source
from crowdwise.labels.regular_files import open_regular_file
from crowdwise.labels.vocabulary import as_vocabulary, positions
from crowdwise.report.display_names import display_name, escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import IntArray

__all__ = ["PictureBudget", "TaskItem", "TaskItems", "read_items"]

TEXT, PICTURES = "text", ("image", "picture", "url", "path")
SHORT = 160  # letters of a text that are shown at once
LONG = 4_000  # letters that are kept
MOST_BYTES = 300_000  # of one picture
ALL_BYTES = 12_000_000  # of all pictures of a page
REMOTE = re.compile(r"^[a-z][a-z0-9+.-]+:", re.IGNORECASE)  # one letter is a drive of Windows
KINDS = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
)


class TaskItem(NamedTuple):
    """What one task shows.

    Attributes
    ----------
    short
        Its text on one line, cut; or the name of a picture that is not shown, and why.
    whole
        Its text with its line breaks; "" where `short` is all of it.
    picture
        A data URI; "" where there is none.
    """

    short: str = ""
    whole: str = ""
    picture: str = ""


NOTHING = TaskItem()


@dataclass(frozen=True, eq=False)
class TaskItems:
    """The items of a crowd's tasks.

    Attributes
    ----------
    tasks
        Names of the crowd's tasks.
    row : (N,)
        Row of each task in the table, -1 where it has none.
    text, picture
        Columns of the table; None where it has no such column.
    folder
        Where relative paths begin.
    """

    tasks: pa.Array
    row: IntArray
    text: pa.Array | None
    picture: pa.Array | None
    folder: Path

    def describe(self, place: int) -> str:
        """Text of the task at this position, or else the name of its picture; "" where it has neither."""
        found = [self._read_cell(column, place) for column in (self.text, self.picture)]
        return next((each for each in found if each), "")

    def describe_named(self, names: Sequence[Any]) -> list[str]:
        """The same of tasks by name."""
        return [self.describe(at) if at >= 0 else "" for at in self._task_positions(names)]

    def make_items_by_name(self, names: Sequence[Any], room: PictureBudget) -> list[TaskItem]:
        """Items of tasks by name, their pictures within what room a page has."""
        return [self.show(at, room) if at >= 0 else NOTHING for at in self._task_positions(names)]

    def show(self, place: int, room: PictureBudget) -> TaskItem:
        """Item of the task at this position."""
        text, path = self._read_cell(self.text, place), self._read_cell(self.picture, place)
        picture, why = ("", "") if not path else self._embed_picture(path, place, room)
        if not text:
            return TaskItem(f"{display_name(path, SHORT)}{why}" if path and not picture else "", "", picture)
        line = " ".join(text.split())
        if len(line) <= SHORT and not why:
            return TaskItem(display_name(line, SHORT), "", picture)
        whole = "\n".join(escape_unprintable(part) for part in text[:LONG].splitlines()) + (
            "…" if len(text) > LONG else ""
        )
        return TaskItem(
            display_name(line, SHORT), f"{whole}\n{display_name(path, SHORT)}{why}" if why else whole, picture
        )

    def _task_positions(self, names: Sequence[Any]) -> list[int]:
        return positions(as_vocabulary(list(names), "task"), self.tasks).tolist() if names else []

    def _read_cell(self, column: pa.Array | None, place: int) -> str:
        row = int(self.row[place])
        return "" if column is None or row < 0 else (column[row].as_py() or "").strip()

    def _embed_picture(self, path: str, place: int, room: PictureBudget) -> tuple[str, str]:
        """A picture as a data URI, or why it is not shown."""
        if REMOTE.match(path):
            return "", " (not on this machine, and not asked for)"
        file = self.folder / path
        try:
            with open_regular_file(file) as stream:
                content = stream.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            task = quote(self.tasks[place].as_py())
            missing = isinstance(error, FileNotFoundError)
            why = "there is no such file" if missing else str(getattr(error, "strerror", None) or error).rstrip(".")
            raise InputError(
                f"The picture {quote(path)} of task {task} cannot be read: {why}. Paths in the table of items begin "
                f"where the table is, in {quote(str(self.folder))}."
            ) from error
        kind = next((kind for kind, magic in KINDS if magic.match(content)), None)
        if kind is None:
            return "", " (not shown: no PNG, JPEG, GIF or WebP)"
        if len(content) > MOST_BYTES:
            return "", f" (not shown: larger than {MOST_BYTES // 1000} kB)"
        if not room.take(len(content)):
            return "", " (not shown: the pictures before it fill the page)"
        return f"data:{kind};base64,{base64.b64encode(content).decode()}", ""


class PictureBudget:
    """How many bytes of pictures a page still takes."""

    def __init__(self, left: int = ALL_BYTES) -> None:
        self.left = left

    def take(self, size: int) -> bool:
        """Take room for a picture, if there is enough."""
        if size > self.left:
            return False
        self.left -= size
        return True


def read_items(source: Any, tasks: pa.Array) -> TaskItems:
    """Read a table of items and line it up with the names of tasks.

    Parameters
    ----------
    source
        A path or table as for `read_labels`, with a column for the task, and `text`, or the path of a picture in
        `image`, `picture`, `path` or `url`, or both. What `read_items` gave passes.
    tasks
        Names of the crowd's tasks; rows of other tasks are left aside.

    Examples
    --------
    >>> items = read_items({"task": ["t2"], "text": ["Is this spam?"]}, pa.array(["t1", "t2"]))
    >>> items.describe_named(["t2", "t1"])
    ['Is this spam?', '']
    """
    if isinstance(source, TaskItems):
        return source
    needs = f"Items need a table with a column 'task' and a column {_describe_wanted_columns()}."
    columns = open_source(source, needs)
    if not isinstance(columns, Columns):
        raise InputError(needs)
    text = _find_column((TEXT,), columns.names)
    picture = _find_column(PICTURES, [name for name in columns.names if name.casefold() != "task"])
    shows = [name for name in (text, picture) if name is not None]
    keys = candidates("task", columns.names, set(shows)) or candidates("task", columns.names)
    if keys == [picture]:  # tasks are named by their pictures
        picture, shows = None, [name for name in shows if name != picture]
    if len(keys) != 1 or not shows or keys[0] in shows:
        raise InputError(
            f"{columns.place.origin}: items need one column 'task' and a column {_describe_wanted_columns()}; the "
            f"columns are {listing(columns.names)}."
        )
    table = columns.read_whole_columns([keys[0], *shows])
    place = locate_rows(columns, table[keys[0]], keys[0], tasks, "task", "items")
    row = np.full(len(tasks), -1, np.int64)
    row[place[place >= 0]] = np.flatnonzero(place >= 0)
    beside = isinstance(source, str | Path) and str(source) != "-"
    return TaskItems(
        tasks,
        row,
        None if text is None else _text_column(table[text], text, columns),
        None if picture is None else _text_column(table[picture], picture, columns),
        Path(source).resolve().parent if beside else Path.cwd(),
    )


def _describe_wanted_columns() -> str:
    return f"{quote(TEXT)}, or one with the paths of pictures ({', '.join(map(quote, PICTURES))})"


def _find_column(wanted: Sequence[str], names: list[str]) -> str | None:
    """The first of these columns that is there, whatever its case."""
    there = {name.casefold(): name for name in reversed(names)}
    return next((there[each] for each in wanted if each in there), None)


def _text_column(column: pa.ChunkedArray, name: str, columns: Columns) -> pa.Array:
    try:
        return pc.cast(column, pa.string()).combine_chunks()
    except pa.ArrowException as error:
        raise InputError(
            f"{columns.place.origin}: column {quote(name)} does not hold text. Give the text, or the path of a "
            "picture, of each task."
        ) from error
