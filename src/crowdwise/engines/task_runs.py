"""Labels sorted by task in little memory: rows go to files by the hash of the task, and each file is sorted by itself.

A file holds about the labels of one part, so that what a sort takes does not grow with the data. A row is sorted as one
integer, (place of the task × M + worker) × K + label, which holds for 2⁶³ and leaves no order of rows to remember.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.engines.label_store import LEAST_PART, say_disk_errors
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError
from crowdwise.labels.integer_codes import duplicate_message, smallest_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from crowdwise.labels.types import IntArray

__all__ = ["Run", "count_buckets", "cut_run", "labels_of_run", "sort_buckets", "sort_rows", "write_buckets"]

ROOM = 1.1  # buckets for each part's labels: their sizes differ, and one above a part's size would be cut in two


class Run(NamedTuple):
    """Whole tasks in order: their names, where the labels of each begin, and worker and label codes."""

    tasks: pa.Array
    ptr: IntArray
    worker: IntArray
    label: IntArray


def count_buckets(n_labels: int, part_labels: int) -> int:
    """Files to sort one by one, each with fewer labels than a part may have; small parts share one."""
    most = max(part_labels, LEAST_PART)
    return 1 if n_labels <= most else int(-(-ROOM * n_labels // most))


def write_buckets(batches: Iterable[pa.RecordBatch], folder: Path, n_buckets: int) -> list[Path]:
    """Rows (task, worker, label, bucket), all but the task as codes, each in the file of its bucket."""
    files = [folder / f"bucket-{number:05}.arrow" for number in range(n_buckets)]
    writers: list[pa.ipc.RecordBatchStreamWriter] = []
    with say_disk_errors(folder), contextlib.ExitStack() as opened:
        for batch in batches:
            if not writers:
                sinks = [opened.enter_context(pa.OSFile(str(file), "wb")) for file in files]
                schema = batch.schema.remove(3)
                writers = [opened.enter_context(pa.ipc.new_stream(sink, schema)) for sink in sinks]
            _write_rows(batch, writers)
    return files if writers else []


def sort_buckets(files: Iterable[Path], sizes: tuple[int, int]) -> Iterator[Run]:
    """The run of one file after another; a file that has been read is removed."""
    for file in files:
        with pa.memory_map(str(file)) as held, pa.ipc.open_stream(held) as rows:
            table = rows.read_all()
        file.unlink()  # its pages stay for as long as they are mapped
        if table.num_rows:
            yield sort_rows(table, sizes)
        del table


def _write_rows(batch: pa.RecordBatch, writers: list[pa.ipc.RecordBatchStreamWriter]) -> None:
    bucket = batch.column(3).to_numpy()
    rows = batch.select([0, 1, 2])
    if len(writers) > 1:
        rows = rows.take(pa.array(np.argsort(bucket, kind="stable")))
    starts = np.concatenate(([0], np.cumsum(np.bincount(bucket, minlength=len(writers)))))
    for number in np.flatnonzero(np.diff(starts)).tolist():
        writers[number].write_batch(rows.slice(starts[number], starts[number + 1] - starts[number]))


def sort_rows(rows: pa.Table, sizes: tuple[int, int]) -> Run:
    """Rows (task, worker, label), of which worker and label are codes, sorted by all three."""
    n_workers, n_classes = sizes
    coded = rows.column(0).dictionary_encode()
    names = coded.chunk(0).dictionary
    if coded.num_chunks > 1:  # the last chunk knows all names
        names = coded.chunk(coded.num_chunks - 1).dictionary
    order = pc.sort_indices(names)
    place = np.empty(len(names), np.int64)
    place[order.to_numpy()] = np.arange(len(names))
    keys = np.concatenate([place[chunk.indices.to_numpy()] for chunk in coded.chunks])
    for column, size in ((1, n_workers), (2, n_classes)):
        keys *= size
        keys += rows.column(column).to_numpy()
    del coded, place
    keys.sort()
    label = (keys % n_classes).astype(smallest_int(n_classes))
    keys //= n_classes
    worker = (keys % n_workers).astype(np.int32)
    keys //= n_workers
    ptr = np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=len(names)))))
    return Run(names.take(order), ptr, worker, label)


def cut_run(run: Run, most: int) -> Iterator[Run]:
    """The run in pieces of whole tasks with at most so many labels; only a task that has more by itself is longer."""
    first = 0
    while first < len(run.tasks):
        last = int(np.searchsorted(run.ptr, run.ptr[first] + most, "right")) - 1
        last = max(last, first + 1)
        start, end = run.ptr[first], run.ptr[last]
        ptr = run.ptr[first : last + 1] - start
        yield Run(run.tasks[first:last], ptr, run.worker[start:end], run.label[start:end])
        first = last


def labels_of_run(run: Run, workers: pa.Array, classes: pa.Array, on_duplicate: str) -> CrowdLabels:
    """A run as labels, its tasks counted from 0; a second answer of a worker to a task is refused unless all count."""
    task = np.repeat(np.arange(len(run.tasks), dtype=np.int32), np.diff(run.ptr))
    if on_duplicate == "error":
        again = np.flatnonzero((task[1:] == task[:-1]) & (run.worker[1:] == run.worker[:-1])) + 1
        if again.size:
            first = pa.array(again[:5])
            tasks, by = run.tasks.take(pa.array(task[again[:5]])), workers.take(pa.array(run.worker).take(first))
            remedy = "Count each answer with on_duplicate='all' (on the command line --on-duplicate all)."
            place = "sorted by task"
            raise InputError(duplicate_message(tasks.to_pylist(), by.to_pylist(), again, lambda _: place, remedy))
    return CrowdLabels(task, run.worker, run.label, run.ptr, run.tasks, workers, classes)
