"""A child that is forked while another thread loads or compiles can fit as well."""

from __future__ import annotations

import functools
import importlib._bootstrap
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from crowdwise.labels import CrowdLabels, fork_safety

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

FIRST_FIT = """
import os, signal, sys, threading, time
import crowdwise as cw

def fit():
    labels = cw.CrowdLabels.from_dense([["x", "x", "y"], ["y", "y", "y"], ["x", "x", "x"]])
    cw.DawidSkene().fit(labels)

other = threading.Thread(target=fit)
other.start()
time.sleep(float(sys.argv[1]))
child = os.fork()
if not child:
    signal.alarm(20)
    fit()
    os._exit(0)
other.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("delay", ["0.02", "0.25"])
def test_fork_during_a_first_fit(delay: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FIRST_FIT, delay],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def exit_code_of_child(work: Callable[[], object]) -> int:
    """Fork, work in the child, and give its exit code; a child that hangs is killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


def hold(lock: Any, seconds: float) -> None:
    """Hold a lock in another thread for a while."""
    taken = threading.Event()

    def hold_it() -> None:
        with lock:
            taken.set()
            time.sleep(seconds)

    threading.Thread(target=hold_it).start()
    taken.wait()


def test_fork_while_another_thread_compiles() -> None:
    lock = pytest.importorskip("numba.core.compiler_lock").global_compiler_lock
    hold(lock, 0.2)
    assert exit_code_of_child(lock.__enter__) == 0


def test_fork_while_another_thread_computes_a_property() -> None:
    labels = CrowdLabels.from_dense([["x", "y"], ["y", "y"]])
    for each in vars(CrowdLabels).values():
        if isinstance(each, functools.cached_property) and hasattr(each, "lock"):  # none from Python 3.12 on
            hold(each.lock, 0.2)
    assert exit_code_of_child(lambda: [getattr(labels, name) for name in CACHED]) == 0


CACHED = [name for name, each in vars(CrowdLabels).items() if isinstance(each, functools.cached_property)]


def test_fork_while_another_thread_holds_a_lock_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of learners, which train one at a time."""
    monkeypatch.setattr(fork_safety, "lock_of_a_test", threading.RLock(), raising=False)
    hold(fork_safety.lock_of_a_test, 0.2)  # type: ignore[attr-defined]
    assert exit_code_of_child(lambda: fork_safety.lock_of_a_test.__enter__()) == 0  # type: ignore[attr-defined]  # noqa: PLW0108


def test_fork_while_another_thread_imports_a_module_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    lock = importlib._bootstrap._get_module_lock("colorsys")  # type: ignore[attr-defined]
    taken, done = threading.Event(), threading.Event()

    def import_slowly() -> None:
        with importlib._bootstrap._ModuleLockManager("colorsys"):  # type: ignore[attr-defined]
            taken.set()
            time.sleep(0.1)
            done.set()

    threading.Thread(target=import_slowly).start()
    taken.wait()
    assert exit_code_of_child(lambda: __import__("colorsys")) == 0
    assert done.is_set()
    assert lock.owner is None


def test_fork_lets_arrow_set_itself_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be in Arrow's first function, and its locks cannot be seen: a call waits for them."""
    calls = []
    cast = pc.cast
    monkeypatch.setattr(pc, "cast", lambda *given: calls.append(given) or cast(*given))
    hold(threading.Lock(), 0.1)  # another thread
    assert exit_code_of_child(lambda: None) == 0
    assert calls


def test_import_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork goes on after a while, with no lock in hand."""
    monkeypatch.setattr(fork_safety, "LONGEST", 0.05)
    monkeypatch.setattr(fork_safety, "_others_import", lambda: True)
    hold(threading.Lock(), 0.2)  # another thread
    assert exit_code_of_child(lambda: __import__("colorsys")) == 0
    assert fork_safety._held == []
