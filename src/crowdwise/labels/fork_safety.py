"""A process that is forked while another of its threads makes its first fit must not leave the child waiting.

A fork copies locks, but not the threads that hold them. Those of importing modules, of compiling loops and of what
Arrow sets up in its first call are held for up to seconds in the first fit of a process, so a fork waits until they are
free, and holds them itself until the child has its own. Locks of this package's modules and properties are new in the
child.
"""

from __future__ import annotations

import _imp  # the lock that every import takes first; its public name went with the module imp
import concurrent.futures.thread  # noqa: F401 - see register_fork_hooks
import importlib._bootstrap
import logging  # noqa: F401
import os
import sys
import threading
import time
from functools import cached_property
from typing import Any

__all__ = ["register_fork_hooks"]

LONGEST = 30.0  # seconds that a fork waits: compiling takes ten; then another thread's import probably never ends
PAUSE = 0.002
RLOCK = type(threading.RLock())
# Whose imports are waited for: what crowdwise loads. An application's own modules may take for ever.
LOADED = {
    *sys.stdlib_module_names,
    *(
        "crowdwise",
        "numpy",
        "scipy",
        "pyarrow",
        "narwhals",
        "pandas",
        "polars",
        "numba",
        "llvmlite",
        "sklearn",
        "joblib",
    ),
    *("threadpoolctl", "torch", "lightning", "safetensors", "PIL", "rich", "typer"),
}
_held: list[Any] = []  # what gives back each lock that the forking thread holds


def register_fork_hooks() -> None:
    """Make forks of this process wait for what other threads load, where processes can fork.

    Hooks run in the reverse of the order in which they were registered. Those of `logging` and `concurrent.futures`
    take locks that an import may need, so that these modules are imported first.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_start_child)


def _hold_locks() -> None:
    if threading.active_count() == 1:
        return
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        if _set_up_arrow() and _take_compiler_lock():
            _imp.acquire_lock()  # no import begins from here on
            _held.append(_imp.release_lock)
            if not _others_import():
                return
        _release_locks()
        time.sleep(PAUSE)


def _release_locks() -> None:
    while _held:
        _held.pop()()


def _start_child() -> None:
    _release_locks()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "crowdwise":
            for attribute, each in list(vars(module).items()):
                if isinstance(each, type):
                    _renew_property_locks(each)
                elif isinstance(each, RLOCK):
                    setattr(module, attribute, threading.RLock())


def _renew_property_locks(cls: type[Any]) -> None:
    """New locks for cached properties; from Python 3.12 on they have none."""
    for each in vars(cls).values():
        if isinstance(each, cached_property) and hasattr(each, "lock"):
            each.lock = threading.RLock()


def _others_import() -> bool:
    """Whether another thread is importing something that crowdwise loads."""
    own = threading.get_ident()
    for name, reference in list(getattr(importlib._bootstrap, "_module_locks", {}).items()):
        if name.partition(".")[0] in LOADED and getattr(reference(), "owner", None) not in (None, own):
            return True
    return False


def _set_up_arrow() -> bool:
    """Let Arrow do now what it does once: another thread may be at it, under locks that only Arrow knows.

    With its first array it looks for pandas, with its first function it makes its tables and its tracer. False where
    Arrow itself is still being imported.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is None:
        return True
    if _others_import():
        return False
    empty = arrow.array((), arrow.int8())
    if "pyarrow.compute" in sys.modules:
        arrow.compute.cast(empty, arrow.int16())
    return True


def _take_compiler_lock() -> bool:
    """Take numba's lock unless another thread has it: waiting for it could be waiting for oneself."""
    module = sys.modules.get("numba.core.compiler_lock")
    lock = getattr(getattr(module, "global_compiler_lock", None), "_lock", None)
    if lock is None:
        return True
    if lock.acquire(blocking=False):
        _held.append(lock.release)
        return True
    return False
