"""Labels that do not fit in memory: sorted by task once, on the disk, then passes part by part.

A thread reads parts ahead while others run the compiled loops on those read; what parts add is added in their order, so
that neither threads nor memory change a bit. Memory for P labels a part and T threads: (T + 2) × 7 P bytes of labels
and (T + 5) × 8 M K² bytes of tables. T is lowered where that is more than allowed.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import tempfile
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines.label_store import LabelStore, count_part_labels, finish_store, write_part
from crowdwise.engines.part_passes import PartPasses, PassJob, add_results, run_part
from crowdwise.engines.stored_labels import StoredLabels
from crowdwise.kernels.threads import n_threads
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from concurrent.futures import Future

    from crowdwise.engines.label_store import Part
    from crowdwise.engines.protocol import Statistics
    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["ENGINE", "Stream", "parse_memory", "store_labels"]

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
LEAST_MEMORY = 2**28  # Python, Arrow and the loops alone take about this
SHARE_OF_FREE = 0.5  # of the memory that is free, where none is named
AHEAD = 2  # parts that are read before a thread is free for them


def parse_memory(given: str | int | None) -> int:
    """Bytes from a number or words such as 2GB or 512 MiB; half of what is free where None.

    >>> parse_memory("2GB"), parse_memory("1.5 GiB")
    (2000000000, 1610612736)
    """
    if given is None:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**32
        return max(int(SHARE_OF_FREE * free), LEAST_MEMORY)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(given), re.IGNORECASE)
    if found is None or isinstance(given, bool):
        raise InputError(f"memory is {quote(given)}; give bytes, or a size such as 2GB or 512MiB.")
    size = int(float(found[1]) * UNITS[(found[2] or "").lower()])
    if size < LEAST_MEMORY:
        raise InputError(f"memory is {quote(given)}; it must be at least 256MiB, which the program itself needs.")
    return size


class Stream:
    """Passes over labels on the disk: `DawidSkene(engine=Stream(memory="2GB")).fit("big.parquet")`.

    Parameters
    ----------
    memory
        Most memory to use, such as "2GB"; half of what is free where it is left out. The operating system's cache of
        files comes on top, and gives way when others need room.
    scratch
        Folder for the sorted labels, the posterior and checkpoints: about 15 bytes a label, 8 K bytes a task, and while
        sorting as much as the labels themselves. It is kept, so that a fit that was stopped goes on; without one, a
        folder that is removed in the end.
    part_labels
        Most labels of a part; by default as the size of the crowd suggests.
    """

    def __init__(
        self, memory: str | int | None = None, scratch: str | Path | None = None, part_labels: int | None = None
    ) -> None:
        self.memory, self.scratch, self.part_labels = memory, scratch, part_labels
        self._bytes = parse_memory(memory)

    def __repr__(self) -> str:
        return f"Stream(memory={self.memory!r}, scratch={None if self.scratch is None else str(self.scratch)!r})"

    def __deepcopy__(self, _: Any) -> Stream:
        return self  # nothing of it changes

    def read(self, source: Any, **options: Any) -> StoredLabels:
        """Sort a file, or files, of labels by task; see `read_labels` for the options. Labels in memory are stored."""
        from crowdwise.engines.external_sort import sort_files
        from crowdwise.labels.crowd_labels import CrowdLabels

        if isinstance(source, StoredLabels):
            return source
        folder = make_scratch(self.scratch)
        if isinstance(source, CrowdLabels):
            store = store_labels(source, folder, self.part_labels)
        else:
            store = sort_files(source, folder, self._bytes, self.part_labels, **options)
        return self._keep(store, folder)

    def lay_out(self, labels: CrowdLabels, n_states: int | None) -> LabelStore:  # noqa: ARG002
        """The labels in the parts of a store."""
        folder = make_scratch(None)
        store = store_labels(labels, folder, self.part_labels)
        weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
        return store

    def make_passes(self, layout: LabelStore) -> PartPasses:
        """Passes over the parts."""
        return PartPasses(layout, self._run)

    def _keep(self, store: LabelStore, folder: Path) -> StoredLabels:
        labels = StoredLabels(store, self.make_passes)
        if self.scratch is None:
            weakref.finalize(labels, shutil.rmtree, folder, ignore_errors=True)
        return labels

    def _run(self, store: LabelStore, job: PassJob) -> Statistics:
        """A job on all parts, results added in their order."""
        threads = self._count_threads(store)
        largest = max((part.n_bytes for part in store.parts), default=0)
        buffers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(min(threads + AHEAD, len(store.parts))):
            buffers.put(np.empty(largest, np.uint8))
        failed = False

        def read(part: Part) -> tuple[Any, Any]:
            buffer = buffers.get()
            try:
                return buffer, None if failed else store.read_blocks(part, buffer)
            except BaseException:
                buffers.put(buffer)
                raise

        def work(part: Part, given: Future[tuple[Any, Any]]) -> Statistics:
            buffer, blocks = given.result()
            try:
                found: Statistics = run_part(blocks, job, store.rows_of(part))
                return found
            finally:
                buffers.put(buffer)

        total: Statistics | None = None
        pending: deque[Future[Statistics]] = deque()
        with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(threads) as pool:
            try:
                for part in store.parts:
                    pending.append(pool.submit(work, part, reader.submit(read, part)))
                    if len(pending) > threads:
                        found = pending.popleft().result()
                        total = found if total is None else add_results(total, found)
                while pending:
                    found = pending.popleft().result()
                    total = found if total is None else add_results(total, found)
            except BaseException as error:
                failed = True
                for each in pending:
                    each.cancel()
                for _ in store.parts:  # a reader that waits for room would wait for ever
                    buffers.put(np.empty(0, np.uint8))
                if isinstance(error, MemoryError):
                    raise InputError(
                        f"Memory is out in a pass. The last finished iteration is kept in {str(store.folder)!r}: make "
                        "more room for it, and run the same again to go on."
                    ) from error
                raise
        if total is None:
            raise InputError("There are no labels to fit. Give at least one answer of one worker to one task.")
        return total

    def _count_threads(self, store: LabelStore) -> int:
        """Threads that the cores and the memory allow."""
        labels = 7 * max((each.n_labels for each in store.parts), default=0)
        table = 8 * store.n_workers * store.n_classes**2
        room = self._bytes - LEAST_MEMORY - AHEAD * labels - 5 * table
        return max(1, min(n_threads(), len(store.parts), room // (labels + table + 1)))


ENGINE = Stream()


def make_scratch(folder: str | Path | None) -> Path:
    """The folder named, made where it is not there; or a new one that is the caller's to remove."""
    try:
        if folder is None:
            return Path(tempfile.mkdtemp(prefix="crowdwise-"))
        Path(folder).mkdir(parents=True, exist_ok=True)
        return Path(folder)
    except OSError as error:
        raise InputError(f"Cannot make the scratch folder {quote(str(folder))}: {error.strerror}.") from error


def store_labels(labels: CrowdLabels, folder: Path, part_labels: int | None) -> LabelStore:
    """Labels that are in memory, as a store."""
    most = part_labels or count_part_labels(labels.n_workers, labels.n_classes)
    parts: list[Part] = []
    first = 0
    while first < labels.n_tasks:
        last = int(np.searchsorted(labels.task_ptr, labels.task_ptr[first] + most, "right")) - 1
        last = min(max(last, first + 1), labels.n_tasks)
        parts.append(write_part(folder, len(parts), cut_tasks(labels, first, last), first))
        first = last
    finish_store(folder, parts, labels.workers, labels.classes, labels.count_answers().astype(np.int64), {})
    return LabelStore(folder)


def cut_tasks(labels: CrowdLabels, first: int, last: int) -> CrowdLabels:
    """The labels of the tasks from first to before last, with all workers and classes."""
    start, end = labels.task_ptr[first], labels.task_ptr[last]
    return type(labels)(
        labels.task[start:end] - np.int32(first),
        labels.worker[start:end],
        labels.label[start:end],
        labels.task_ptr[first : last + 1] - start,
        labels.tasks[first:last],
        labels.workers,
        labels.classes,
    )
