"""A progress bar for fits that take a while, on a terminal and nowhere else."""

from __future__ import annotations

import contextlib
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["show_progress", "show_progress_of"]

_silent: ContextVar[bool] = ContextVar("silent", default=False)  # set where fits run inside a longer piece of work
PATIENCE = 0.7  # seconds before a bar appears: what is over sooner needs none


@contextlib.contextmanager
def show_progress(
    name: str, total: int, unit: str = "iterations", value: str = "objective"
) -> Iterator[Callable[[float], None]]:
    """Give a function to call after each iteration with the objective's value.

    Nothing is drawn unless standard error is a terminal and the work has lasted a moment; the bar
    disappears when done.
    """
    with _make_bar(name, total, f"of at most {{task.total:.0f}} {unit}, {value} {{task.fields[value]:.6g}}") as advance:
        yield advance


@contextlib.contextmanager
def show_progress_of(name: str, total: int, unit: str) -> Iterator[Callable[[], None]]:
    """Give a function to call after each of so many pieces of work; fits inside draw no bars of their own."""
    with _make_bar(name, total, f"of {{task.total:.0f}} {unit}") as advance:
        before = _silent.set(True)
        try:
            yield lambda: advance(0.0)
        finally:
            _silent.reset(before)


@contextlib.contextmanager
def _make_bar(name: str, total: int, words: str) -> Iterator[Callable[[float], None]]:
    started, bar, count = time.monotonic(), None, 0
    silent = _silent.get() or not sys.stderr.isatty()

    def advance(value: float) -> None:
        nonlocal bar, count
        count += 1
        if bar is None and not silent and time.monotonic() - started > PATIENCE:
            bar = _Bar(name, total, words)
        if bar is not None:
            bar.show(count, value)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.close()


class _Bar:
    def __init__(self, name: str, total: int, words: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(f"{{task.completed:.0f}} {words}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(name, total=total, value=float("nan"))
        self._bar.start()

    def show(self, count: int, value: float) -> None:
        self._bar.update(self._task, completed=count, value=value)

    def close(self) -> None:
        self._bar.stop()
