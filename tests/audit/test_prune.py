"""Pruning: never silently, never everyone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from crowdwise.audit.finding_types import Finding
from crowdwise.audit.pruning import prune
from crowdwise.labels import read_labels
from crowdwise.labels.errors import InputError

TABLE = {"task": [1, 1, 1, 2, 2], "worker": ["ann", "bob", "cy", "ann", "bob"], "label": ["x", "y", "x", "x", "y"]}


def finding(*names, kind="spammer", about="worker", verdict="guesses"):
    return Finding(kind, about, names, 1.0, verdict, "", 0.01, "", "")


def test_labels_of_the_named_go_and_are_listed():
    labels = read_labels(TABLE)
    left, table = prune(
        labels, [finding("bob"), finding("cy", "bob", kind="colluders", about="workers", verdict="agree")]
    )
    assert table.to_pylist() == [
        {"worker": "bob", "n_labels": 2, "why": "spammer: guesses; colluders: agree"},
        {"worker": "cy", "n_labels": 1, "why": "colluders: agree"},
    ]
    assert left.n_labels == 2
    assert left.workers.to_pylist() == ["ann", "bob", "cy"]
    assert np.unique(left.worker).tolist() == [0]
    assert labels.n_labels == 5


def test_of_those_who_answer_as_one_the_busiest_stays():
    labels = read_labels(TABLE)
    together = finding("cy", "bob", "ann", kind="dependent workers", about="workers", verdict="err together")
    left, table = prune(labels, [together])
    assert table.column("worker").to_pylist() == ["ann", "cy"]
    assert np.unique(left.worker).tolist() == [1]
    _, table = prune(labels, [finding("cy", "bob", kind="dependent workers", about="workers"), finding("bob")])
    assert table.column("worker").to_pylist() == ["bob", "cy"]


def test_findings_that_name_no_worker_change_nothing():
    labels = read_labels(TABLE)
    left, table = prune(labels, [finding("bob", kind="mislabel", about="task"), finding("x", about="class")])
    assert left.n_labels == 5
    assert table.num_rows == 0
    assert table.column_names == ["worker", "n_labels", "why"]


def test_the_table_is_of_the_kind_that_came_in():
    _, table = prune(read_labels(pd.DataFrame(TABLE)), [finding("cy")])
    assert isinstance(table, pd.DataFrame)
    assert table["why"].tolist() == ["spammer: guesses"]


def test_everyone_is_never_removed_and_strangers_are_named():
    labels = read_labels(TABLE)
    with pytest.raises(InputError, match="flag all 3 workers who have labels: nothing would be left"):
        prune(labels, [finding("ann"), finding("bob", "cy", about="workers")])
    with pytest.raises(InputError, match="not in these labels: 'dan'"):
        prune(labels, [finding("dan")])


@pytest.mark.parametrize(("labels", "findings"), [(None, "1"), (None, 1), (None, [1]), (1, [])])
def test_what_are_no_findings_or_labels_is_refused(labels, findings):
    with pytest.raises(InputError, match=r"findings are .*; give a list|labels are 'int'"):
        prune(labels or read_labels(TABLE), findings)
