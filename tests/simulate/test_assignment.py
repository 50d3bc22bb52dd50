from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.labels.errors import InputError
from crowdwise.simulate.assignment import (
    Assignment,
    assign,
    assign_at_random,
    assign_everyone,
    assign_regular,
    join_assignments,
)


def pairs(assignment: Assignment, n_workers: int) -> np.ndarray:
    return assignment.task.astype(np.int64) * n_workers + assignment.worker


def degrees(assignment: Assignment, n_tasks: int, n_workers: int) -> tuple[set[int], set[int]]:
    return (
        set(np.bincount(assignment.task, minlength=n_tasks).tolist()),
        set(np.bincount(assignment.worker, minlength=n_workers).tolist()),
    )


def test_everyone_holds_each_pair_once() -> None:
    assert np.array_equal(pairs(assign_everyone(7, 5), 5), np.arange(35))


@pytest.mark.parametrize(("n_workers", "per_task"), [(5, 1), (5, 5), (1000, 3), (40, 39)])
def test_at_random_gives_different_workers_to_each_task(n_workers: int, per_task: int) -> None:
    assignment = assign_at_random(300, n_workers, per_task, np.random.default_rng(1))
    assert degrees(assignment, 300, n_workers)[0] == {per_task}
    assert np.unique(pairs(assignment, n_workers)).size == 300 * per_task
    assert (np.diff(assignment.task) >= 0).all()


def test_at_random_chooses_every_set_of_workers_equally_often() -> None:
    # 10 sets of 3 out of 5 workers, 20,000 tasks: |z| < 4.5 for all ten fails by chance once in 15,000 seeds.
    assignment = assign_at_random(20_000, 5, 3, np.random.default_rng(2))
    sets = (1 << assignment.worker.reshape(-1, 3)).sum(axis=1)
    counts = np.unique(sets, return_counts=True)[1]
    assert counts.size == 10
    assert (np.abs(counts - 2000) / np.sqrt(20_000 * 0.1 * 0.9) < 4.5).all()


@given(st.integers(0, 2**32), st.data())
@settings(max_examples=60, deadline=None)
def test_regular_is_regular_and_has_no_double_edge(seed: int, data: st.DataObject) -> None:
    n_workers = data.draw(st.integers(1, 30))
    per_task = data.draw(st.integers(1, n_workers))
    n_tasks = data.draw(st.integers(1, 8)) * n_workers // np.gcd(n_workers, per_task)
    assignment = assign_regular(n_tasks, n_workers, per_task, np.random.default_rng(seed))
    assert degrees(assignment, n_tasks, n_workers) == ({per_task}, {n_tasks * per_task // n_workers})
    assert np.unique(pairs(assignment, n_workers)).size == n_tasks * per_task


def test_regular_of_the_paper() -> None:
    assignment = assign_regular(1000, 750, 3, np.random.default_rng(0))
    assert degrees(assignment, 1000, 750) == ({3}, {4})
    assert np.unique(pairs(assignment, 750)).size == 3000


def test_regular_reaches_every_graph_about_equally() -> None:
    # 2 tasks, 4 workers, 2 labels a task: 6 graphs. 6,000 draws; the switches' bias must stay under 10 %.
    rng = np.random.default_rng(3)
    seen = [int((1 << assign_regular(2, 4, 2, rng).worker[:2]).sum()) for _ in range(6000)]
    counts = np.unique(seen, return_counts=True)[1]
    assert counts.size == 6
    assert (np.abs(counts / 1000 - 1) < 0.1 + 4 * np.sqrt(1 / 1000)).all()


def test_what_cannot_be_assigned_is_said() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="labels_per_task is 6 but there are only 5 workers"):
        assign_at_random(10, 5, 6, rng)
    with pytest.raises(InputError, match=r"1000 tasks × 3 labels to 700 workers\. 750 workers with 4 tasks each"):
        assign_regular(1000, 700, 3, rng)
    with pytest.raises(InputError, match=r"10 tasks × 6 labels to 5 workers\. 6 workers with 10 tasks each"):
        assign_regular(10, 5, 6, rng)
    with pytest.raises(InputError, match=r"2 tasks × 1 labels to 900 workers\. 2 workers with 1 tasks each"):
        assign_regular(2, 900, 1, rng)
    with pytest.raises(InputError, match="labels_per_task is 0"):
        assign(10, 5, 0, rng)


def test_joined_keeps_all_edges() -> None:
    both = join_assignments(assign_everyone(2, 1), Assignment(np.array([1], np.int32), np.array([3], np.int32)))
    assert both.task.tolist() == [0, 1, 1]
    assert both.worker.tolist() == [0, 0, 3]
