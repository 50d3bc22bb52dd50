"""The exponential, the counting sorts, and the search for repeated answers, against NumPy and plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from crowdwise.kernels.compiled.exponential import UNDERFLOW, exp_of_cells, exp_of_nonpositive
from crowdwise.labels import sorting
from crowdwise.labels.engine_choice import use_engine
from crowdwise.labels.sorting import (
    codes_by_first_appearance,
    earlier_edge_of_each_repeat,
    find_repeated_edges,
    group_by,
    group_offsets,
    sort_by_task,
)


@njit
def exponentials(values: Any) -> Any:
    out = np.empty_like(values)
    for place in range(values.size):
        out[place] = exp_of_nonpositive(values[place])
    return out


@njit
def exponentials_of_cells(values: Any) -> Any:
    out = np.empty_like(values)
    for place in range(values.size):
        out[place] = exp_of_cells(values[place])
    return out


def units_apart(found: Any, expected: Any) -> Any:
    """Distance in units in the last place; both positive."""
    return np.abs(found.view(np.int64) - expected.view(np.int64))


def test_exponential_is_within_two_units_of_numpy() -> None:
    generator = np.random.default_rng(0)
    multiples = -np.arange(1, 1021) * np.log(2)
    values = np.concatenate([
        [0.0, -0.0, UNDERFLOW],
        -np.logspace(-320, 2.8, 20_000),
        generator.uniform(UNDERFLOW, 0, 200_000),
        generator.uniform(-1, 0, 200_000),
        multiples, np.nextafter(multiples, 0), np.nextafter(multiples, -np.inf), multiples + np.log(2) / 2,
    ])  # fmt: skip
    assert units_apart(exponentials(values), np.exp(values)).max() <= 2
    assert units_apart(exponentials_of_cells(values), np.exp(values)).max() <= 2


def test_exponential_at_the_ends() -> None:
    values = np.array([0.0, np.nextafter(UNDERFLOW, -np.inf), -745.0, -1e300, -np.inf])
    assert exponentials(values).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert exponentials_of_cells(values).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


@settings(max_examples=100, deadline=None)
@given(n_groups=st.integers(1, 3000), size=st.integers(0, 500), seed=st.integers(0, 2**32 - 1))
def test_counting_sorts_are_the_stable_sort(n_groups: int, size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    keys = generator.integers(0, n_groups, size).astype(np.int32)
    assert_sorted_as_numpy_does(keys, n_groups, generator)


@pytest.mark.parametrize("n_groups", [255, 256, 257, 2**16 - 1, 2**16, 2**16 + 1, 300_001])
def test_counting_sorts_with_many_groups(n_groups: int) -> None:
    generator = np.random.default_rng(n_groups)
    keys = np.append(generator.integers(0, n_groups, 50_000), [n_groups - 1, 0]).astype(np.int32)
    assert_sorted_as_numpy_does(keys, n_groups, generator)


def assert_sorted_as_numpy_does(keys: Any, n_groups: int, generator: np.random.Generator) -> None:
    order = np.argsort(keys, kind="stable")
    offsets = group_offsets(keys, n_groups)
    np.testing.assert_array_equal(offsets, np.searchsorted(keys[order], np.arange(n_groups + 1)))
    np.testing.assert_array_equal(group_by(keys, offsets), order)
    worker = generator.integers(0, 2**31 - 1, keys.size).astype(np.int32)
    label = generator.integers(0, 2**15, keys.size).astype(np.int16)
    *found, ends = sort_by_task(keys, worker, label, n_groups)
    for each, expected in zip(found, (keys, worker, label), strict=True):
        np.testing.assert_array_equal(each, expected[order])
        assert each.dtype == expected.dtype
    np.testing.assert_array_equal(ends, offsets)


@pytest.mark.parametrize("n_tasks", [1, 200, 256, 257, 40_000])
def test_edges_are_sorted_alike_by_any_number_of_lanes(n_tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "LANE_ROWS", 7_000)
    generator = np.random.default_rng(n_tasks)
    task = generator.integers(0, n_tasks, 60_001).astype(np.int32)
    task[task == n_tasks // 2] = 0  # a task without labels
    edge = np.arange(task.size, dtype=np.int32)
    order = np.argsort(task, kind="stable")
    with use_engine("numba"):
        *found, offsets = sort_by_task(task, edge, (edge % 100).astype(np.int8), n_tasks)
        again = sort_by_task(*found, n_tasks)
    for each, expected in zip(found, (task[order], order, order % 100), strict=True):
        np.testing.assert_array_equal(each, expected)
    np.testing.assert_array_equal(offsets, np.searchsorted(found[0], np.arange(n_tasks + 1)))
    assert all(one is other for one, other in zip(again, found, strict=False)), "sorted edges are not copied"
    np.testing.assert_array_equal(again[3], offsets)


def test_repeats_are_found_in_every_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "LANE_ROWS", 1_000)
    generator = np.random.default_rng(0)
    task, worker = np.sort(generator.integers(0, 900, 9_001)).astype(np.int32), generator.integers(0, 40, 9_001)
    offsets = group_offsets(task, 900)
    expected = find_repeated_edges(offsets, worker, 40)
    with use_engine("numba"):
        found = find_repeated_edges(offsets, worker, 40)
    assert found[0].size > 100
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=100, deadline=None)
@given(n_tasks=st.integers(1, 20), n_workers=st.integers(1, 8), size=st.integers(0, 80), seed=st.integers(0, 2**32 - 1))
def test_repeats_are_found(n_tasks: int, n_workers: int, size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    task = np.sort(generator.integers(0, n_tasks, size)).astype(np.int32)
    worker = generator.integers(0, n_workers, size).astype(np.int32)
    last: dict[tuple[int, int], int] = {}
    expected = np.full(size, -1)
    for edge, pair in enumerate(zip(task.tolist(), worker.tolist(), strict=True)):
        expected[edge] = last.get(pair, -1)
        last[pair] = edge
    offsets = group_offsets(task, n_tasks)
    np.testing.assert_array_equal(earlier_edge_of_each_repeat(offsets, worker, n_workers), expected)
    later, earlier = find_repeated_edges(offsets, worker, n_workers)
    np.testing.assert_array_equal(later, np.flatnonzero(expected >= 0))
    np.testing.assert_array_equal(earlier, expected[expected >= 0])


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(-7, 40), max_size=60))
def test_codes_by_first_appearance(values: list[int]) -> None:
    codes, seen = codes_by_first_appearance(np.array(values, np.int64), -7, 48)
    assert seen.tolist() == list(dict.fromkeys(values))
    assert [int(seen[code]) for code in codes] == values
