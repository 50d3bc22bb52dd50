"""Labels on disk in parts, as the compiled loops read them: a folder that passes go through part by part.

| file | what is in it |
|---|---|
| `store.json` | sizes, the parts, checksums of all files, and of which source they were made; written last |
| `part-N.blocks` | a run of tasks with all of their labels, laid out by `kernels.block_layout`, 7 bytes a label |
| `tasks.*`, `workers.*`, `classes.*` | names: text and where each ends, or integers; mapped, not read |
| `answers.npy` | answers of each worker by label (M, K) |
| `labels_per_task.i4` | number of labels of each task |
| `part-N.blocks.tasks` | names of a part's tasks, until the store is finished |

Parts hold about as many labels as the data alone decide, so that sums over them are made in the same order wherever
and however often they run. A file is checked against its checksum when a process first reads it, and a part later only
for having been changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
import weakref
import zlib
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.engines.part_blocks import are_sound, view_blocks
from crowdwise.kernels.block_layout import lay_out_blocks
from crowdwise.labels.atomic_output import replace_file
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.regular_files import open_regular_file
from crowdwise.labels.vocabulary import plain_arrow_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crowdwise.kernels.block_layout import Blocks
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "LabelStore",
    "Part",
    "count_lane_part_labels",
    "count_part_labels",
    "fingerprint_files",
    "finish_store",
    "say_disk_errors",
    "write_part",
]

FORMAT = 2
COUNTS = "labels_per_task.i4"
ALIGNMENT = 64  # bytes; arrays of a part begin at multiples
LEAST_PART, MOST_PART = 2**22, 2**26  # labels of a part
LEAST_SENT = 2**23  # of a part that a cluster is asked for, which takes some milliseconds
FEW_PARTS, MANY_PARTS = 8, 32  # that a cluster, and threads, can share; the least sizes give way to it
TINY_PART = 2**18  # labels that are not worth a part, however few there are
LABELS_A_ROW = 16  # of a part for each row of the workers' tables: clearing and adding these is small beside the pass
# Size and time of the parts that this process has checked, by their files and when their store was made.
_checked: dict[tuple[Path, int], tuple[int, int]] = {}


@dataclass(frozen=True)
class Part:
    """A run of tasks: the file, the first task and the number of tasks and labels, checksum and places of arrays."""

    file: str
    first: int
    n_tasks: int
    n_labels: int
    checksum: int
    arrays: dict[str, tuple[str, int, int]]  # dtype, length, offset
    numbers: dict[str, int]
    n_bytes: int


def count_part_labels(n_labels: int, n_workers: int, n_classes: int) -> int:
    """Most labels of a part that has a table of its own, which the sizes of the crowd decide."""
    least = np.clip(-(-n_labels // FEW_PARTS), TINY_PART, LEAST_SENT)
    return int(np.clip(LABELS_A_ROW * n_workers * n_classes, least, MOST_PART))


def count_lane_part_labels(n_labels: int, n_workers: int, n_classes: int) -> int:
    """The same of a part that shares its table with others: so few that threads have parts enough to share."""
    by_table = int(np.clip(LABELS_A_ROW * n_workers * n_classes, LEAST_PART, MOST_PART))
    return min(by_table, max(-(-n_labels // MANY_PARTS), TINY_PART))


@contextlib.contextmanager
def say_disk_errors(folder: Path) -> Iterator[None]:
    """Errors of the disk as one sentence; what was finished before stays."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(
            f"Writing in the scratch folder {str(folder)!r} failed: {reason}. What was finished is kept there; free "
            "some space, or name another folder (scratch=, on the command line --scratch)."
        ) from error


# ---- making one -------------------------------------------------------------------------------------------------


def write_part(folder: Path, number: int, labels: CrowdLabels, first: int = 0) -> Part:
    """Lay the labels of a run of tasks out, in one lane, and write them as a part, whole or not at all."""
    values = lay_out_blocks(labels, one_lane=True)._asdict()
    arrays = {name: np.ascontiguousarray(each) for name, each in values.items() if isinstance(each, np.ndarray)}
    places, offset, checksum, name = {}, 0, 0, f"part-{number:05}.blocks"
    with say_disk_errors(folder), (folder / f"{name}.draft-{os.getpid()}").open("wb") as file:
        for field, array in arrays.items():
            places[field] = (array.dtype.str, array.size, offset)
            for data in (array.data.cast("B") if array.size else b"", b"\0" * (-array.nbytes % ALIGNMENT)):
                file.write(data)
                checksum = zlib.crc32(data, checksum)
            offset = file.tell()
    facts = pa.record_batch(
        {"task": plain_arrow_names(labels.tasks), "n_labels": pa.array(labels.labels_per_task, pa.int32())}
    )
    with say_disk_errors(folder):
        with pa.OSFile(f"{file.name}.tasks", "wb") as out, pa.ipc.new_file(out, facts.schema) as writer:
            writer.write_batch(facts)
        Path(f"{file.name}.tasks").replace(folder / f"{name}.tasks")
        Path(file.name).replace(folder / name)
    numbers = {field: int(each) for field, each in values.items() if field not in arrays}
    return Part(name, first, labels.n_tasks, labels.n_labels, checksum, places, numbers, offset)


def write_names(folder: Path, name: str, batches: Iterable[pa.Array], *, text: bool) -> None:
    """Names as raw Arrow buffers: integers, or text and where each ends."""
    with say_disk_errors(folder), (folder / f"{name}.data").open("wb") as data:
        if not text:
            for each in batches:
                data.write(np.ascontiguousarray(each.to_numpy(), np.int64).data)
            return
        with (folder / f"{name}.ends").open("wb") as ends:
            ends.write(np.zeros(1, np.int64).data)
            for each in batches:
                plain = each.cast(pa.large_string())
                _, offsets, content = plain.buffers()
                places = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
                ends.write((places[1:] - places[0] + data.tell()).data)
                if content is not None:
                    data.write(memoryview(content)[places[0] : places[-1]])


def finish_store(
    folder: Path, parts: Sequence[Part], workers: pa.Array, classes: pa.Array, answers: IntArray, source: dict[str, Any]
) -> None:
    """Write what stands beside the parts, and last the file that makes a folder a store.

    Names of tasks, which may be too many for memory, are joined from the files that `write_part` left, one at a time.
    """

    def read_tasks(column: str) -> Iterator[pa.Array]:
        for part in parts:
            with pa.ipc.open_file(pa.memory_map(str(folder / f"{part.file}.tasks"))) as held:
                yield held.get_batch(0).column(column)

    first = next(read_tasks("task"))
    text = {"tasks": _is_text(first), "workers": _is_text(workers), "classes": _is_text(classes)}
    batches = {"tasks": read_tasks("task"), "workers": iter([workers]), "classes": iter([classes])}
    for what, each in batches.items():
        write_names(folder, what, each, text=text[what])
    with say_disk_errors(folder):
        with (folder / COUNTS).open("wb") as file:
            for counts in read_tasks("n_labels"):
                file.write(np.ascontiguousarray(counts.to_numpy(), np.int32).data)
        np.save(folder / "answers.npy", answers)
    facts: dict[str, Any] = {"format": FORMAT, "source": source, "parts": [asdict(each) for each in parts]}
    beside = [
        "answers.npy",
        COUNTS,
        *(f"{what}.data" for what in text),
        *(f"{what}.ends" for what in text if text[what]),
    ]
    facts["checksums"] = {name: compute_checksum(folder / name) for name in beside}
    facts["text"] = [what for what, is_text in text.items() if is_text]
    with replace_file(folder / "store.json") as draft:
        draft.write_text(json.dumps(facts))
    for part in parts:
        (folder / f"{part.file}.tasks").unlink(missing_ok=True)


def compute_checksum(path: Path) -> int:
    """CRC of a file's content, which is read part by part."""
    checksum = 0
    with open_regular_file(path) as file:
        while data := file.read(2**22):
            checksum = zlib.crc32(data, checksum)
    return checksum


def _is_text(names: pa.Array) -> bool:
    return bool(pa.types.is_string(names.type) or pa.types.is_large_string(names.type))


# ---- reading one ------------------------------------------------------------------------------------------------


class LabelStore:
    """A finished folder of labels in parts."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()
        try:
            with open_regular_file(self.folder / "store.json") as file:
                self.made = os.fstat(file.fileno()).st_mtime_ns  # labels that are sorted anew are another store
                facts = json.load(file)
            if facts["format"] != FORMAT:
                raise InputError("it was written by another version")
            self.source: dict[str, Any] = facts["source"]
            self.parts = [Part(**each) for each in facts["parts"]]
            self.text: list[str] = facts["text"]
            self.checksums: dict[str, int] = dict(facts["checksums"])
            self._check("answers.npy")
            self.answers: IntArray = np.load(self.folder / "answers.npy", allow_pickle=False)
        except (OSError, KeyError, TypeError, ValueError, EOFError) as error:
            reason = str(error).removesuffix(".")
            raise InputError(f"{str(folder)!r} holds no labels that can be used: {reason}. Delete it.") from error
        self.n_tasks = sum(each.n_tasks for each in self.parts)
        self.n_labels = sum(each.n_labels for each in self.parts)
        sound = self.answers.ndim == 2 and self.answers.dtype == np.int64 and self.answers.min(initial=0) >= 0
        if not sound or self.answers.sum() != self.n_labels:
            raise InputError(_say_damaged(self.folder / "answers.npy"))
        self.n_workers, self.n_classes = (int(each) for each in self.answers.shape)
        self._held: dict[str, Blocks] = {}

    def __reduce__(self) -> tuple[type[LabelStore], tuple[Path]]:
        return LabelStore, (self.folder,)

    @cached_property
    def tasks(self) -> pa.Array:
        """Names of the tasks."""
        return self._map_names("tasks", self.n_tasks)

    @cached_property
    def workers(self) -> pa.Array:
        """Names of the workers."""
        return self._map_names("workers", self.n_workers)

    @cached_property
    def classes(self) -> pa.Array:
        """Names of the classes."""
        return self._map_names("classes", self.n_classes)

    @cached_property
    def labels_per_task(self) -> IntArray:
        """Number of labels of each task, mapped from the disk."""
        path = self.folder / COUNTS
        self._check(COUNTS)
        with _say_read_errors(path):
            counts = np.memmap(path, np.int32, "r", shape=(self.n_tasks,))
        if counts.sum(dtype=np.int64) != self.n_labels:
            raise InputError(_say_damaged(path))
        return counts

    def rows_of(self, part: Part) -> slice:
        """The tasks of a part, among all."""
        return slice(part.first, part.first + part.n_tasks)

    def read_blocks(self, part: Part, buffer: IntArray | None = None) -> Blocks:
        """The labels of a part: in a buffer of bytes, or mapped where there is none."""
        path, state = self.folder / part.file, self._look_at(part)
        known = (path, self.made) in _checked
        try:
            if buffer is None:
                data: Any = np.memmap(path, np.uint8, "c")  # loops are compiled for arrays that can be written
            else:
                with path.open("rb", buffering=0) as file:
                    data = buffer[: part.n_bytes]
                    for at in range(0, data.size, 2**24):
                        file.readinto(data[at : at + 2**24].data)
        except OSError as error:
            raise InputError(_say_unreadable(path, error)) from error
        if not known and zlib.crc32(data) != part.checksum:
            raise InputError(f"{str(path)!r} is damaged: its checksum is another. Delete its folder, and run again.")
        try:
            blocks = view_blocks(data, part)
            if not known and not are_sound(blocks, part, self.n_workers, self.n_classes):
                raise InputError(_say_damaged(path))
        except (TypeError, ValueError) as error:
            raise InputError(_say_damaged(path)) from error
        _checked[path, self.made] = state
        return blocks

    def hold_blocks(self, part: Part) -> Blocks:
        """The labels of a part, kept in memory for the next pass."""
        if part.file in self._held:
            self._look_at(part)
        else:
            self._held[part.file] = self.read_blocks(part, np.empty(part.n_bytes, np.uint8))
        return self._held[part.file]

    def _look_at(self, part: Part) -> tuple[int, int]:
        """Size and time of a part's file, which must be those that it had when this process first read it."""
        path = self.folder / part.file
        try:
            about = path.stat()
        except OSError as error:
            raise InputError(_say_unreadable(path, error)) from error
        state = about.st_size, about.st_mtime_ns
        known = _checked.get((path, self.made), state)
        if not stat.S_ISREG(about.st_mode) or about.st_size != part.n_bytes or known != state:
            raise InputError(_say_changed(path))
        return state

    def read_labels(self, part: Part) -> CrowdLabels:
        """The labels of a part in memory, its tasks counted from 0; workers and classes are all."""
        blocks = self.read_blocks(part)
        task = np.repeat(np.arange(blocks.n_blocks) * blocks.size, np.diff(blocks.ptr)) + blocks.slot
        return CrowdLabels.from_codes(
            task,
            blocks.row // self.n_classes,
            np.array(blocks.label),
            tasks=part.n_tasks,
            workers=self.n_workers,
            classes=self.n_classes,
            on_duplicate="all",
        )

    def allocate(self, n_states: int) -> FloatArray:
        """Rows for each task (N, S) on the disk, which last as long as someone holds them.

        The room is taken at once: a disk that is full says so here, and not in the middle of a pass.
        """
        size = 8 * self.n_tasks * n_states
        with say_disk_errors(self.folder):
            free = shutil.disk_usage(self.folder).free
            if free < size:
                raise InputError(
                    f"The posterior needs {size / 1e9:.1f} GB in {str(self.folder)!r}, where {free / 1e9:.1f} GB are "
                    "free. Nothing was lost: free some space, and run again."
                )
            with tempfile.NamedTemporaryFile(prefix="rows-", suffix=".f8", dir=self.folder, delete=False) as file:
                if hasattr(os, "posix_fallocate"):
                    try:
                        os.posix_fallocate(file.fileno(), 0, max(size, 8))
                    except OSError:
                        Path(file.name).unlink()
                        raise
                else:
                    file.truncate(max(size, 8))
        rows = np.memmap(file.name, np.float64, "r+", shape=(self.n_tasks, n_states))
        weakref.finalize(rows, Path(file.name).unlink, missing_ok=True)
        return rows

    def _check(self, name: str) -> None:
        """Refuse a file beside the parts that is not the one that was written."""
        path = self.folder / name
        with _say_read_errors(path):
            if compute_checksum(path) != self.checksums.get(name):
                raise InputError(_say_damaged(path))

    def _map_names(self, what: str, length: int) -> pa.Array:
        path = self.folder / f"{what}.data"
        self._check(path.name)
        if what in self.text:
            self._check(f"{what}.ends")
        with _say_read_errors(path):
            data = pa.memory_map(str(path)).read_buffer()
            if what not in self.text:
                if data.size != 8 * length:
                    raise InputError(_say_damaged(path))
                return pa.Array.from_buffers(pa.int64(), length, [None, data])
            ends = pa.memory_map(str(self.folder / f"{what}.ends")).read_buffer()
            if ends.size != 8 * (length + 1) or np.frombuffer(ends, np.int64)[-1] != data.size:
                raise InputError(_say_damaged(path))
            names = pa.Array.from_buffers(pa.large_string(), length, [None, ends, data])
            if data.size >= 2**28:
                return names
            # Text below 2 GiB is what all of the package knows; large_string is for more.
            names.validate(full=True)
            return names.cast(pa.string())


@contextlib.contextmanager
def _say_read_errors(path: Path) -> Iterator[None]:
    """A file that is missing, cut short or changed, as one sentence."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: Arrow's, and NumPy's of a file that is too short
        raise InputError(_say_damaged(path)) from error


def _say_unreadable(path: Path, error: OSError) -> str:
    return f"Cannot read {str(path)!r}: {error}. Delete its folder, and run again."


def _say_damaged(path: Path) -> str:
    return f"{str(path)!r} is damaged, or missing. Delete its folder, and run again."


def _say_changed(path: Path) -> str:
    return f"{str(path)!r} was changed between two passes. Nothing was written; delete its folder, and run again."


def fingerprint_files(paths: Sequence[Any]) -> list[list[Any]]:
    """What tells whether files are the same later: name, size and times of each.

    The time of the last change of the file itself as well: that of its content can be set, and archives set it alike.
    """
    try:
        found = [(str(path), Path(path).stat()) for path in paths]
        return [[name, about.st_size, about.st_mtime_ns, about.st_ctime_ns] for name, about in found]
    except OSError as error:
        raise InputError(f"Cannot read {quote(str(error.filename))}: {error.strerror}.") from error
