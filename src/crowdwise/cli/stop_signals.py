"""Signals that ask a command to end: it discards what it was writing, says so in one line, and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Stopped", "explain_stop", "raise_on_stop_signals"]

NAMES = ("SIGTERM", "SIGHUP")  # Ctrl-C is Python's KeyboardInterrupt
AGAIN = 0.05  # seconds after which a signal that Python dropped is sent once more


class Stopped(SystemExit):
    """The command was asked to end before it was done: a message in one line, and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code: int = code


def explain_stop(stopped: BaseException, message: str) -> Stopped:
    """The same end, by Ctrl-C or a signal, with a message that says what is kept and how to go on."""
    return Stopped(message, stopped.code if isinstance(stopped, Stopped) else 128 + signal.SIGINT)


@contextlib.contextmanager
def raise_on_stop_signals() -> Iterator[None]:
    """Raise `Stopped` where a signal would end the process on the spot, and leave drafts behind.

    Signals that someone else handles, or ignores as `nohup` does, are left alone.
    """
    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    own = os.getpid()

    def stop(number: int, _frame: Any) -> None:
        if os.getpid() != own:  # a process that was forked since ends as it would have
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        for each in ours:  # a second one shall not stop the tidying up
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(f"Stopped by {signal.Signals(number).name}, before all was done.", 128 + number)

    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread handle signals
        ours = []
    for number in ours:
        signal.signal(number, stop)
    show_dropped = sys.unraisablehook

    def send_again(dropped: Any) -> None:
        """In a callback of compiled code, or while an object is removed, Python drops whatever is raised."""
        number = int(signal.SIGINT)
        if issubclass(dropped.exc_type, Stopped):
            number = dropped.exc_value.code - 128
            signal.signal(number, stop)
        elif not issubclass(dropped.exc_type, KeyboardInterrupt):
            show_dropped(dropped)
            return
        later = threading.Timer(AGAIN, os.kill, (own, number))
        later.daemon = True
        later.start()

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = show_dropped
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
