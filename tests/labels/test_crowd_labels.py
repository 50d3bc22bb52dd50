"""`CrowdLabels`: order, parts and sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.labels import CrowdLabels, InputError, read_labels
from crowdwise.labels.sorting import (
    earlier_edge_of_each_repeat,
    find_repeated_edges,
    group_by,
    group_offsets,
    sort_by_task,
)

LABELS = CrowdLabels.from_arrays(
    task=["b", "a", "b", "c"], worker=["zoe", "zoe", "bob", "bob"], label=["x", "y", "y", "x"]
)


def edges(labels: CrowdLabels) -> set[tuple[Any, Any, Any]]:
    return {tuple(row.values()) for row in labels.to_table().to_pylist()}


def test_sorted_by_task_with_offsets() -> None:
    assert LABELS.task.tolist() == [0, 0, 1, 2]
    assert LABELS.task_ptr.tolist() == [0, 2, 3, 4]
    assert LABELS.label.dtype == np.int8
    assert LABELS.by_worker.edge.tolist() == [0, 2, 1, 3]
    with pytest.raises(ValueError, match="read-only"):
        LABELS.task[0] = 1


def test_select_keeps_the_order_given() -> None:
    part = LABELS.select(tasks=["c", "b"], workers=["bob"])
    assert part.tasks.to_pylist() == ["c", "b"]
    assert edges(part) == {("c", "bob", "x"), ("b", "bob", "y")}
    with pytest.raises(InputError, match=r"no task named 'q'"):
        LABELS.select(tasks=["q"])


def test_split_and_concat() -> None:
    fit, held = LABELS.split(0.5, random_state=3)
    assert fit.n_labels == held.n_labels == 2
    assert not edges(fit) & edges(held)
    both = CrowdLabels.concat([fit, held])
    assert edges(both) == edges(LABELS)
    assert edges(LABELS.split(0.5, random_state=3)[1]) == edges(held)
    with pytest.raises(InputError, match="held_out is 1"):
        LABELS.split(1)
    with pytest.raises(InputError, match="repeat an earlier one"):
        CrowdLabels.concat([LABELS, LABELS])
    assert CrowdLabels.concat([LABELS, LABELS], on_duplicate="all").n_labels == 8


def test_codes_are_checked() -> None:
    for codes, said in (
        ([0, 2], "holds 2 at row 1"),
        ([0.0, 1.0], "integer positions"),
        ([[0]], "one-dimensional"),
    ):
        with pytest.raises(InputError, match=said):
            CrowdLabels.from_codes(codes, [0, 0], [0, 1], tasks=2, workers=1, classes=2)
    with pytest.raises(InputError, match="same length"):
        CrowdLabels.from_codes([0, 1], [0], [0, 1], tasks=2, workers=1, classes=2)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 2000), st.integers(0, 3000), st.integers(0, 2**32 - 1))
def test_sorting_by_task_is_stable(n_tasks: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    task, worker = rng.integers(0, n_tasks, size).astype(np.int32), np.arange(size, dtype=np.int32)
    label = rng.integers(0, 9, size).astype(np.int8)
    offsets = group_offsets(task, n_tasks)
    order = np.argsort(task, kind="stable")
    assert group_by(task, offsets).tolist() == order.tolist()
    *found, ends = sort_by_task(task, worker, label, n_tasks)
    assert ends.tolist() == offsets.tolist()
    for result, column in zip(found, (task, worker, label), strict=True):
        assert result.tolist() == column[order].tolist()


def test_repeats_point_to_the_last_earlier_answer() -> None:
    task_ptr, worker = np.array([0, 4, 6]), np.array([1, 0, 1, 1, 1, 0], np.int32)
    later, earlier = find_repeated_edges(task_ptr, worker, 2)
    assert (later.tolist(), earlier.tolist()) == ([2, 3], [0, 2])
    assert earlier_edge_of_each_repeat(task_ptr, worker, 2).tolist() == [-1, -1, 0, 2, -1, -1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: read_labels(LABELS.to_table(), classes=5), "class names are 5; give a list"),
        (lambda: LABELS.select(tasks=5), "task names are 5; give a list"),
        (lambda: LABELS.split(0.5, random_state=-1), "random_state is -1"),
        (lambda: LABELS.split(0.5, random_state="x"), "random_state is 'x'"),
        (lambda: LABELS.split("x"), "held_out is 'x'"),
        (lambda: LABELS.keep([True]), "True or False for each of the 4 labels"),
        (lambda: LABELS.keep([0, 1, 1, 0]), "True or False for each of the 4 labels"),
        (lambda: LABELS.keep([[1, 2], [1]]), "True or False for each of the 4 labels"),
        (lambda: LABELS.keep_tasks([True]), "True or False for each of the 3 tasks"),
        (lambda: CrowdLabels.concat([1]), "concat was given 1. Give it a list of CrowdLabels"),
        (lambda: CrowdLabels.concat(1), "concat was given 1. Give it a list of CrowdLabels"),
        (lambda: LABELS.with_kind("zz"), "kind is 'zz'; it must be one of 'pyarrow', 'pandas', 'polars'"),
    ],
)
def test_strange_argument_is_refused(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_a_list_of_truth_values_keeps_labels() -> None:
    assert edges(LABELS.keep([True, False, False, False])) == edges(LABELS.keep(np.arange(4) == 0))
    assert LABELS.keep_tasks([True, False, True]).tasks.to_pylist() == ["b", "c"]


@pytest.mark.parametrize(
    "sizes", [{"tasks": 10**12}, {"workers": -1}, {"classes": True}, {"classes": np.int64(1 << 40)}]
)
def test_numbers_of_names_that_cannot_be(sizes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(sizes))} is .*; it must be names, or their number"):
        CrowdLabels.from_codes([0], [0], [0], **{"tasks": 1, "workers": 1, "classes": 2, **sizes})


def test_a_sparse_matrix_is_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InputError, match="does not say whether its zeros are answers"):
        CrowdLabels.from_dense(sparse.eye(3))
