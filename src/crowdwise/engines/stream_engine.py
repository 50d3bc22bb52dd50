"""Labels that do not fit in memory: sorted by task once, on the disk, then passes part by part.

A thread reads parts ahead while others run the compiled loops on those read. Neighbouring parts make a lane, which adds
them to one table in their order; then the lanes are added in theirs, so that neither threads nor memory change a bit.
Memory for P labels a part and T threads: (T + 2) × 7 P bytes of labels and (T + 5) × 8 M K² bytes of tables. T is
lowered where that is more than allowed.
"""

from __future__ import annotations

import itertools
import os
import queue
import re
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines.engines_on_disk import StoringEngine
from crowdwise.engines.label_store import ALIGNMENT
from crowdwise.engines.part_passes import FEW_LABELS, PassJob, add_results, run_lanes_here, run_part
from crowdwise.kernels.threads import n_threads
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from crowdwise.engines.label_store import LabelStore, Part
    from crowdwise.engines.protocol import Statistics

__all__ = ["ENGINE", "Stream", "parse_memory"]

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
MOST_MEMORY = 2**50  # DuckDB takes no larger number
LEAST_MEMORY = 2**28  # Python, Arrow and the loops alone take about this
SHARE_OF_FREE = 0.5  # of the memory that is free, where none is named
AHEAD = 2  # parts that are read before a thread is free for them
LANES = 8  # tables that the parts are added to: clearing and adding a table costs as much as thousands of labels


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
    return min(size, MOST_MEMORY)


class Stream(StoringEngine):
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
        Most labels of a part; by default as the size of the crowd suggests. Where it is given, parts are read anew in
        every pass, however few the labels.
    """

    def __init__(
        self, memory: str | int | None = None, scratch: str | Path | None = None, part_labels: int | None = None
    ) -> None:
        super().__init__(scratch, part_labels)
        self.memory = memory
        self._bytes = parse_memory(memory)

    def __repr__(self) -> str:
        return f"Stream(memory={self.memory!r}, scratch={None if self.scratch is None else str(self.scratch)!r})"

    def _store(self, source: Any, folder: Path, **options: Any) -> LabelStore:
        """Files sorted by task."""
        from crowdwise.engines.external_sort import sort_files

        return sort_files(source, folder, self._bytes, self.part_labels, **options)

    def _run(self, store: LabelStore, job: PassJob) -> Statistics:
        """A job on all parts: lanes of them run side by side, each adding to one table; then the lanes are added.

        Few labels are read once and stay in memory, unless the caller has said how to cut them into parts.
        """
        lanes = _cut_parts(store.parts)
        if not lanes:
            raise InputError("There are no labels to fit. Give at least one answer of one worker to one task.")
        few = self.part_labels is None and store.n_labels <= FEW_LABELS and self._has_room(store, len(lanes))
        try:
            return reduce(
                add_results, run_lanes_here(store, job, lanes) if few else self._read_lanes(store, job, lanes)
            )
        except MemoryError as error:
            raise InputError(
                f"Memory is out in a pass. The last finished iteration is kept in {str(store.folder)!r}: make more "
                "room for it, and run the same again to go on."
            ) from error

    def _read_lanes(self, store: LabelStore, job: PassJob, lanes: list[list[Part]]) -> Iterator[Statistics]:
        """What each lane adds, in order; parts are read ahead, into as little memory as the threads need."""
        threads = min(self._count_threads(store), len(lanes))
        pending: deque[Future[Statistics | None]] = deque()

        def wait_for_next() -> Iterator[Statistics]:
            found = pending.popleft().result()
            if found is not None:  # else another lane failed, whose error is to come
                yield found

        with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(threads) as pool:
            run = _LanePass(store, job, threads + AHEAD, reader)
            try:
                for lane in lanes:
                    pending.append(pool.submit(run.add_parts, lane))
                    if len(pending) > threads:
                        yield from wait_for_next()
                while pending:
                    yield from wait_for_next()
            except BaseException:
                run.stop()
                for each in pending:
                    each.cancel()
                raise

    def _has_room(self, store: LabelStore, n_tables: int) -> bool:
        """Whether the memory holds all labels and these tables at once, beside those of the method."""
        table = 8 * store.n_workers * store.n_classes**2
        return sum(each.n_bytes for each in store.parts) + (n_tables + 5) * table <= self._bytes - LEAST_MEMORY

    def _count_threads(self, store: LabelStore) -> int:
        """Threads that the cores and the memory allow."""
        labels = 7 * max((each.n_labels for each in store.parts), default=0)
        table = 8 * store.n_workers * store.n_classes**2
        room = self._bytes - LEAST_MEMORY - AHEAD * labels - 5 * table
        return max(1, min(n_threads(), len(store.parts), room // (labels + table + 1)))


ENGINE = Stream()


class _LanePass:
    """One pass over the parts of a store, which a thread reads into buffers ahead of those that work on them."""

    def __init__(self, store: LabelStore, job: PassJob, n_buffers: int, reader: ThreadPoolExecutor) -> None:
        self.store, self.job, self.reader, self.failed = store, job, reader, False
        self.buffers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        largest = max((part.n_bytes for part in store.parts), default=0)
        # One piece of memory, given in large pages by the operating system: small ones cost as much as reading.
        for buffer in np.empty((min(n_buffers, len(store.parts)), -(-largest // ALIGNMENT) * ALIGNMENT), np.uint8):
            self.buffers.put(buffer)

    def add_parts(self, lane: list[Part]) -> Statistics | None:
        """The sum over the parts of a lane, of which one is read while another is worked on; None if another failed."""
        found: Statistics | None = None
        coming = deque([self.reader.submit(self._read, lane[0])])
        try:
            for part, after in zip(lane, [*lane[1:], None], strict=True):
                if after is not None:
                    coming.append(self.reader.submit(self._read, after))
                buffer, blocks = coming.popleft().result()
                try:
                    if blocks is None:
                        return None
                    found = run_part(blocks, self.job, self.store.rows_of(part), found)
                finally:
                    self.buffers.put(buffer)
        except BaseException:
            self.failed = True
            raise
        finally:
            for each in coming:  # what was read in vain
                each.add_done_callback(self._give_back)
        return found

    def stop(self) -> None:
        """Let nothing more be read; a reader that waits for room would wait for ever."""
        self.failed = True
        for _ in self.store.parts:
            self.buffers.put(np.empty(0, np.uint8))

    def _read(self, part: Part) -> tuple[Any, Any]:
        buffer = self.buffers.get()
        try:
            return buffer, None if self.failed else self.store.read_blocks(part, buffer)
        except BaseException:
            self.buffers.put(buffer)
            raise

    def _give_back(self, given: Future[tuple[Any, Any]]) -> None:
        if given.exception() is None:
            self.buffers.put(given.result()[0])


def _cut_parts(parts: list[Part]) -> list[list[Part]]:
    """Neighbouring parts in lanes, a like number of labels in each; the parts alone decide."""
    done = np.cumsum([0, *(part.n_labels for part in parts)])
    ends = np.searchsorted(done, np.arange(1, LANES) * (done[-1] / LANES)).tolist()
    cuts = [0, *ends, len(parts)]
    return [parts[first:last] for first, last in itertools.pairwise(cuts) if first < last]
