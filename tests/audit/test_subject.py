"""What an audit is given is checked before any long work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.audit import audit as room
from crowdwise.audit.subject import refuse_numbers
from crowdwise.labels import InputError

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels


def labels_with(classes: list[Any], n_tasks: int) -> CrowdLabels:
    """Two workers, tasks in turn of each class."""
    task = np.repeat(np.arange(n_tasks), 2)
    label = np.array(classes, dtype=object)[task % len(classes)]
    return cw.read_labels({"task": task, "worker": np.tile([0, 1], n_tasks), "label": label.tolist()})


def test_numbers_as_many_as_tasks_are_refused() -> None:
    with pytest.raises(InputError, match=r"numbers, not classes: 40 of them, from -3 to 36, for 100 tasks"):
        cw.audit_crowd(labels_with(list(range(-3, 37)), 100))
    with pytest.raises(InputError, match=r"15 of them, from 0\.5 to 7\.5"):
        refuse_numbers(labels_with([str(each / 2) for each in range(1, 16)], 30))


@pytest.mark.parametrize(
    ("classes", "n_tasks"),
    [
        (list(range(10)), 12),  # a scale, or digits
        (list(range(40)), 200),  # codes of classes, each with tasks of its own
        ([f"c{each}" for each in range(40)], 100),
    ],
)
def test_classes_are_not_taken_for_numbers(classes: list[Any], n_tasks: int) -> None:
    refuse_numbers(labels_with(classes, n_tasks))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"truth": {0: "elk"}}, "classes that the labels do not have: 'elk'"),
        ({"truth": {99: "a"}}, "about other tasks"),
        ({"worker_attributes": {99: "old"}}, "other workers"),
        ({"task_attributes": {99: "old"}}, "other tasks"),
        ({"trusted": [99]}, "not in these labels: 99"),
        ({"time": [1.0]}, "one number or date for each"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_work(
    given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(room, "fit_method", never)
    with pytest.raises(InputError, match=message):
        cw.audit_crowd(labels_with(["a", "b"], 4), **given)


def test_a_stream_is_read_once(tmp_path: Any) -> None:
    """Several tests ask for the truth and the attributes; a stream gives them but once."""
    crowd = cw.simulate.simulate("spammers", n_tasks=60, n_workers=6, n_classes=2, share=0.2, seed=0)
    truth, groups = tmp_path / "truth.csv", tmp_path / "groups.csv"
    truth.write_text("task,label\n" + "".join(f"{task},{int(label)}\n" for task, label in enumerate(crowd.truth)))
    groups.write_text("task,half\n" + "".join(f"{task},{task % 2}\n" for task in range(60)))
    with truth.open("rb") as first, groups.open("rb") as second:
        found = cw.audit_crowd(crowd.labels, truth=first, task_attributes=second)
    assert {screen.kind for screen in found.screens} >= {"bias", "disparity", "mislabel"}
    assert found.truth is not None
    assert len(found.truth.tasks) == 60
