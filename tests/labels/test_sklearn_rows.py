"""Labels as scikit-learn's y."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from crowdwise.labels import CrowdLabels, InputError

LABELS = CrowdLabels.from_codes([0, 0, 1, 3], [0, 1, 1, 0], [0, 1, 1, 0], tasks=4, workers=2, classes=2)


def test_rows_are_chosen_as_numpy_chooses() -> None:
    labels = LABELS
    rows = labels.as_rows(range(4))
    assert len(rows) == 4
    assert rows.shape == (4,)
    assert repr(rows) == "LabelRows: 4 rows with 4 labels"
    for key in ([3, 0, 0], slice(1, 3), np.array([True, False, True, False]), [-1], ([2, 1], ...), []):
        chosen = rows[key].labels
        wanted = np.arange(4)[key]
        assert chosen.n_tasks == len(wanted)
        assert (chosen.n_workers, chosen.n_classes) == (2, 2)
        for place, row in enumerate(wanted):
            mine, theirs = chosen.task == place, labels.task == row
            np.testing.assert_array_equal(chosen.worker[mine], labels.worker[theirs])
            np.testing.assert_array_equal(chosen.label[mine], labels.label[theirs])
    with pytest.raises(IndexError):
        rows[[4]]


def test_rows_have_the_order_of_the_names_given() -> None:
    named = CrowdLabels.from_arrays(task=["b", "a", "a"], worker=["x", "x", "y"], label=["no", "yes", "no"])
    rows = named.as_rows(["c", "a", "b"]).labels
    assert rows.tasks.to_pylist() == [0, 1, 2]
    assert rows.labels_per_task.tolist() == [0, 2, 1]
    assert rows.classes.take(rows.label[rows.task == 2]).to_pylist() == ["no"]


def test_a_split_keeps_rows_and_labels_together() -> None:
    rows = LABELS.as_rows(range(4))
    train, test, first, second = train_test_split(np.arange(4), rows, test_size=2, random_state=0)
    for chosen, part in ((train, first), (test, second)):
        np.testing.assert_array_equal(part.labels.labels_per_task, LABELS.labels_per_task[chosen])


def test_tasks_without_a_row_are_refused() -> None:
    with pytest.raises(InputError, match="1 of 4 tasks are not among the rows: 3"):
        LABELS.as_rows(range(3))
