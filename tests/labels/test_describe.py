"""What `describe` counts, and what it warns of."""

# ruff: noqa: E501  (tables of cases read best with a case a line)
from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crowdwise.labels import CrowdLabels, read_labels
from crowdwise.labels.describe import _components


def crowd(rows: list[tuple[Any, Any, Any]], **options: Any) -> CrowdLabels:
    task, worker, label = zip(*rows, strict=True)
    return CrowdLabels.from_arrays(list(task), list(worker), list(label), **options)


def test_counts() -> None:
    about = crowd([("a", 1, "x"), ("a", 2, "x"), ("a", 3, "y"), ("b", 1, "y")]).describe()
    assert (about.n_labels, about.n_tasks, about.n_workers, about.n_classes) == (4, 2, 3, 2)
    assert about.agreement == pytest.approx(1 / 3)
    assert about.class_shares == {"x": 0.5, "y": 0.5}
    assert (about.labels_per_task.min, about.labels_per_task.median, about.labels_per_task.max) == (1, 2.0, 3)
    assert about.tasks_with_one_label == 1
    assert json.loads(json.dumps(about.to_dict()))["labels_per_worker"]["mean"] == pytest.approx(4 / 3)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 2)), min_size=1))
def test_agreement_is_the_share_of_agreeing_pairs(rows: list[tuple[int, int, int]]) -> None:
    about = crowd(rows, classes=[0, 1, 2], on_duplicate="all").describe()
    pairs = [first[2] == second[2] for first, second in combinations(rows, 2) if first[0] == second[0]]
    assert about.agreement == (pytest.approx(np.mean(pairs)) if pairs else None)
    assert about.repeated_answers == len(rows) - len({row[:2] for row in rows})


CASES = {
    "always": ([(task, "same", "x") for task in range(25)] + [(task, "ann", "xy"[task % 2]) for task in range(25)],
               "1 worker always gave the same answer in 20 or more: 'same'"),
    "most": ([(task, "ann", "xy"[task % 2]) for task in range(9)] + [(0, "bob", "x"), (1, "cat", "x")], "'ann' gave 82% of all"),
    "single": ([("a", 1, "x"), ("b", 1, "y"), ("b", 2, "y")], "1 task with a single label (50%)"),
    "case": ([("a", "Ann", "x"), ("a", "ann", "y")], "may be one: 'Ann' and 'ann'. They are kept apart."),
    "apart": ([("a", 1, "x"), ("a", 2, "y"), ("b", 3, "x"), ("b", 4, "y")], "2 groups with no worker in common (tasks: 1, 1)"),
    "control": ([("a\x1b", 1, "x"), ("a\x1b", 2, "y")], r"line breaks or unseen characters: 'a\x1b'"),
    "no width": ([("a\u200b", 1, "x"), ("a\u200b", 2, "y")], r"unseen characters: 'a\u200b'"),
    "formula behind a blank": ([("a", "\xa0=cmd()", "x"), ("a", "b", "y")], r"spreadsheet formula: '\xa0=cmd()'"),
    "formula": ([("a", "=cmd()", "x"), ("a", "b", "y")], "begin like a spreadsheet formula: '=cmd()'"),
    "blanks": ([("a", " b", "x"), ("a", "c", "y")], "blanks at the beginning or end: ' b'"),
    "nan": ([("a", 1, "nan"), ("a", 2, "y")], "'nan' looks like a missing value"),
    "one worker": ([("a", 1, "x"), ("b", 1, "y")], "a single worker"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::crowdwise.labels.errors.InputWarning")  # which says the same of twins
@pytest.mark.parametrize("case", CASES)
def test_warnings(case: str) -> None:
    rows, said = CASES[case]
    about = crowd(rows).describe()
    assert any(said in warning for warning in about.warnings), about.warnings
    assert "What looks wrong" in str(about)
    assert "\x1b" not in str(about)


def test_unused_rare_and_repeated() -> None:
    rows = [(task, worker, "xy"[worker % 2]) for task in range(300) for worker in range(4)] + [
        (0, 9, "z"),
        (0, 0, "x"),
    ]
    warnings = " ".join(crowd(rows, classes=["x", "y", "z", "never"], on_duplicate="all").describe().warnings)
    assert "1 class never used: 'never'" in warnings
    assert "1 class hardly ever used: 'z'" in warnings
    assert "1 answer given again by the same worker" in warnings


def test_empty_tasks_and_workers() -> None:
    labels = CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], tasks=2, workers=3, classes=2)
    warnings = " ".join(labels.describe().warnings)
    assert "1 task without any label: 1" in warnings
    assert "1 worker without any label: 2" in warnings


def test_nothing_wrong_is_short() -> None:
    labels = read_labels({"task": [1, 1, 2, 2], "worker": [1, 2, 1, 2], "label": ["x", "y", "y", "y"]})
    assert str(labels.describe()).splitlines() == [
        "4 labels by 2 workers on 2 tasks, 2 classes",
        "  labels a task    2.0 on average, median 2, from 2 to 2",
        "  labels a worker  2.0 on average, median 2, from 2 to 2",
        "  agreement        50.0% of pairs agree",
        "  class shares     'y' 75.0%, 'x' 25.0%",
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1))
def test_groups_are_the_connected_components(pairs: list[tuple[int, int]]) -> None:
    task, worker = np.array(pairs).T
    labels = CrowdLabels.from_codes(task, worker, task * 0, tasks=16, workers=16, classes=2, on_duplicate="all")
    graph = coo_array((np.ones(len(pairs)), (task, worker + 16)), shape=(32, 32))
    part = connected_components(graph, directed=False)[1][np.unique(task)]
    assert _components(labels) == sorted(np.unique(part, return_counts=True)[1].tolist(), reverse=True)
