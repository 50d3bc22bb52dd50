"""One call at a time: what several threads may use together."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Locked", "locked"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Locked")


class Locked:
    """Base of an object with a lock of its own, which copies and pickles do not share."""

    lock: Any

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()


def locked(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method, done whole before another thread's call of such a method begins."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **keywords: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **keywords)

    return call
