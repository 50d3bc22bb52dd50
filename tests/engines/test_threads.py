"""Lanes over threads: after a fork, in several Python threads at once, and with a setting that stays where it was."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.kernels.threads import VARIABLE, n_threads, run_lanes, use_threads

PATIENCE = 120  # seconds until a child that hangs is given up


@pytest.fixture(scope="module")
def laned() -> cw.CrowdLabels:
    """Enough labels for several lanes, so that threads are really used."""
    return cw.simulate.simulate_crowd(
        n_tasks=15_000, n_workers=40, n_classes=3, labels_per_task=6, random_state=0
    ).labels


def fitted(labels: cw.CrowdLabels) -> Any:
    return cw.DawidSkene(max_iter=3, tol=0.0).fit(labels).posterior_


def _fit_and_tell(labels: cw.CrowdLabels, pipe: Any) -> None:
    with use_threads(2):
        pipe.send(fitted(labels).sum(axis=0))
    pipe.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_fits_too(laned: cw.CrowdLabels) -> None:
    """The parent's threads do not live on in a child; it must start its own instead of waiting for them."""
    with use_threads(2):
        expected = fitted(laned).sum(axis=0)
    assert any(thread.name.startswith("crowdwise") for thread in threading.enumerate())
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_fit_and_tell, args=(laned, sender))
    with warnings.catch_warnings():  # Python 3.12 warns of a fork while threads live: that is what is tried here
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sender.close()
    try:
        assert receiver.poll(PATIENCE), "the forked child hangs"
        np.testing.assert_array_equal(receiver.recv(), expected)
        child.join(PATIENCE)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()


def test_fits_in_several_threads_at_once(laned: cw.CrowdLabels) -> None:
    crowds = [laned, laned.keep(laned.task % 2 == 0), laned.keep(laned.worker < 30), laned]
    with use_threads(3):
        alone = [fitted(crowd) for crowd in crowds]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(fitted, crowds))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_lane_is_run_once() -> None:
    for threads in (1, 2, 7):
        seen: list[int] = []
        with use_threads(threads):
            run_lanes(seen.append, 23)
        assert sorted(seen) == list(range(23))


def test_a_fault_in_a_lane_is_raised() -> None:
    def fails(lane: int) -> None:
        if lane == 3:
            raise ZeroDivisionError

    for threads in (1, 4):
        with use_threads(threads), pytest.raises(ZeroDivisionError):
            run_lanes(fails, 8)


def test_after_a_fault_no_lane_is_begun_and_none_still_runs() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def fails(lane: int) -> None:
        begun.append(lane)
        if lane == 1:
            raise ZeroDivisionError
        time.sleep(0.05)
        ended.append(lane)

    with use_threads(3), pytest.raises(ZeroDivisionError):
        run_lanes(fails, 50)
    assert sorted(begun) == sorted([*ended, 1])
    assert len(begun) < 50


def test_lanes_inside_lanes_wait_for_nobody() -> None:
    """Every thread is in an outer lane, so that no other is free for an inner one."""
    seen: list[tuple[int, int]] = []
    with use_threads(2):
        run_lanes(lambda outer: run_lanes(lambda inner: seen.append((outer, inner)), 5), 6)
    assert sorted(seen) == [(outer, inner) for outer in range(6) for inner in range(5)]


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert n_threads() >= 1
    monkeypatch.setenv(VARIABLE, "3")
    assert n_threads() == 3
    with use_threads(2):
        assert n_threads() == 2
        with use_threads(5):
            assert n_threads() == 5
        assert n_threads() == 2
    assert n_threads() == 3
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(cw.InputError, match=r"CROWDWISE_THREADS is .*; it must be a whole number, 1 or more"):
            n_threads()
    with (
        pytest.raises(cw.InputError, match="use_threads was given 0; it must be a whole number, 1 or more"),
        use_threads(0),
    ):
        pass


def test_settings_of_two_threads_do_not_mix() -> None:
    """Blocks that overlap in time, left in the order they were entered, leave nothing behind."""
    before = n_threads()
    entered, left = threading.Event(), threading.Event()
    found: list[int] = []

    def other() -> None:
        with use_threads(before + 2):
            entered.set()
            assert left.wait(PATIENCE)
            found.append(n_threads())

    thread = threading.Thread(target=other)
    with use_threads(before + 1):
        thread.start()
        assert entered.wait(PATIENCE)
        found.append(n_threads())
    left.set()
    thread.join()
    assert found == [before + 1, before + 2]
    assert n_threads() == before
