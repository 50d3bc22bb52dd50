"""Lanes of work over threads: same lanes, same sums, whatever the number of threads.

A kernel releases the GIL and works on one lane; lanes are cut by the data alone and their results are added
in lane order, so one thread and sixty give the same bits. Plain threads rather than a parallel runtime: fits
may run inside each other's threads and after a fork.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crowdwise.labels.types import IntArray

__all__ = ["map_lanes", "n_threads", "run_lanes", "use_threads"]

VARIABLE = "CROWDWISE_THREADS"
_chosen: ContextVar[int | None] = ContextVar("threads", default=None)  # each Python thread has its own


def n_threads() -> int:
    """Threads that kernels use: `use_threads`, else $CROWDWISE_THREADS, else the cores this process may use."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not wanted.isdecimal() or int(wanted) < 1:
        raise InputError(f"{VARIABLE} is {wanted!r}; it must be a whole number, 1 or more.")
    return int(wanted)


@contextlib.contextmanager
def use_threads(number: int) -> Iterator[None]:
    """Use this many threads for fits inside a `with` block; the results do not depend on it."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InputError(f"use_threads was given {quote(number)}; it must be a whole number, 1 or more.")
    before = _chosen.set(number)
    try:
        yield
    finally:
        _chosen.reset(before)


def run_lanes(work: Callable[[int], None], n_lanes: int) -> None:
    """Call `work(lane)` for every lane, several at a time; the calling thread works as well.

    Whoever is free takes the next lane. Nobody waits to be woken for the first one, which matters where a pass takes
    milliseconds, and lanes that call this in turn are done even if all other threads are busy.
    """
    n_helpers = min(n_threads(), n_lanes) - 1
    lanes = iter(range(n_lanes))

    def work_through_lanes() -> None:
        try:
            for lane in lanes:
                work(lane)
        finally:
            for _ in lanes:  # after an error in one of them, the lanes that nobody has begun are left
                pass

    if n_helpers < 1:
        work_through_lanes()
        return
    pool = _thread_pool(n_threads() - 1, os.getpid())
    helpers = [pool.submit(work_through_lanes) for _ in range(n_helpers)]
    try:
        work_through_lanes()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)  # they write where the caller will read
    for helper in begun:
        helper.result()


def map_lanes(work: Callable[[int, int], Any], edges: IntArray) -> list[Any]:
    """What `work(first, last)` returns for every lane, in lane order; lane n ends where lane n + 1 begins."""
    found: list[Any] = [None] * (edges.size - 1)

    def one_lane(lane: int) -> None:
        found[lane] = work(edges[lane], edges[lane + 1])

    run_lanes(one_lane, len(found))
    return found


@lru_cache(maxsize=4)
def _thread_pool(n_helpers: int, _process: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them for every pass costs more than a small pass. A forked child starts its own."""
    return ThreadPoolExecutor(n_helpers, thread_name_prefix="crowdwise")
