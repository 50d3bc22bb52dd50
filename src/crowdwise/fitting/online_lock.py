"""One call at a time: what several threads may use together."""

from __future__ import annotations

import copy
import functools
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

__all__ = ["Locked", "hold_lock"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Locked")
LONGEST = 30.0  # seconds that a fork waits for a call in another thread
EVERY: weakref.WeakSet[Any] = weakref.WeakSet()


class Locked:
    """Base of an object with a lock of its own, which copies and pickles do not share."""

    lock: Any

    def __init__(self) -> None:
        self.lock = threading.RLock()
        EVERY.add(self)

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            return {name: value for name, value in vars(self).items() if name != "lock"}

    def __copy__(self) -> Self:
        """A copy that shares nothing: what grows in one would be lost to the other."""
        return copy.deepcopy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()
        EVERY.add(self)


def hold_lock(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method, done whole before another thread's call of such a method begins."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **keywords: P.kwargs) -> R:
        with self.lock, np.errstate(under="ignore"):  # see `underflow`
            return method(self, *args, **keywords)

    return call


class _Fork:
    """A fork copies locks, but not the threads that hold them: it waits for their calls to end, and holds the locks."""

    held: ClassVar[list[Any]] = []

    @classmethod
    def wait(cls) -> None:
        cls.held = [each for each in list(EVERY) if each.lock.acquire(timeout=LONGEST)]

    @classmethod
    def go_on(cls) -> None:
        for each in cls.held:
            each.lock.release()
        cls.held = []

    @classmethod
    def renew(cls) -> None:
        for each in list(EVERY):
            each.lock = threading.RLock()
        cls.held = []


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_Fork.wait, after_in_parent=_Fork.go_on, after_in_child=_Fork.renew)
