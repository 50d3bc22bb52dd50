"""What an audit is given is checked before any long work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.audit import audit as room
from crowdwise.audit.bias import find_bias
from crowdwise.labels import InputError

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels


def labels_with(classes: list[Any], n_tasks: int) -> CrowdLabels:
    """Two workers, tasks in turn of each class."""
    task = np.repeat(np.arange(n_tasks), 2)
    label = np.array(classes, dtype=object)[task % len(classes)]
    return cw.read_labels({"task": task, "worker": np.tile([0, 1], n_tasks), "label": label.tolist()})


def test_labels_that_are_values_are_refused() -> None:
    task = np.repeat(np.arange(100), 2)
    table = {"task": task, "worker": np.tile([0, 1], 100), "label": task % 40}
    with pytest.raises(InputError, match="40 distinct numbers among 200 labels: these look like values"):
        cw.audit_crowd(table)


AGES = {"worker": list(range(60)), "age": list(range(20, 80)), "sex": ["f", "m"] * 30}


def test_an_attribute_of_many_values_is_skipped_with_a_note() -> None:
    crowd = cw.simulate.simulate("spammers", n_tasks=60, n_workers=60, n_classes=2, share=0.1, random_state=0).labels
    remarks = {task: f"remark {task}" for task in range(60)}
    found = cw.audit_crowd(
        crowd, worker_attributes=AGES, task_attributes={"task": list(remarks), "text": list(remarks.values())}
    )
    skipped = {screen.kind: screen.skipped for screen in found.screens if screen.skipped}
    assert "60 different numbers (20, 21, 22, …)" in skipped["worker attribute 'age'"]
    assert "into a few bands" in skipped["worker attribute 'age'"]
    assert "60 different values" in skipped["task attribute 'text'"]
    assert "bias" in {screen.kind for screen in found.screens}  # the other attribute is asked about all the same
    assert "bias" not in skipped
    assert "disparity" not in {screen.kind for screen in found.screens}


@pytest.mark.usefixtures("no_size")
def test_attributes_that_all_make_no_groups_leave_the_rest_of_the_audit() -> None:
    crowd = cw.simulate.simulate("spammers", n_tasks=60, n_workers=60, n_classes=2, share=0.1, random_state=0).labels
    found = cw.audit_crowd(crowd, worker_attributes={name: AGES[name] for name in ("worker", "age")})
    kinds = [screen.kind for screen in found.screens]
    assert "bias" not in kinds
    assert kinds == [*[screen.kind for screen in cw.audit_crowd(crowd).screens], "worker attribute 'age'"]
    screen = find_bias(crowd, worker_attributes={name: AGES[name] for name in ("worker", "age")})
    assert "No attribute makes groups" in screen.skipped


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"truth": {0: "elk"}}, r"classes that the labels do not have \('a', 'b'\): 'elk'"),
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
    crowd = cw.simulate.simulate("spammers", n_tasks=60, n_workers=6, n_classes=2, share=0.2, random_state=0)
    truth, groups = tmp_path / "truth.csv", tmp_path / "groups.csv"
    truth.write_text("task,label\n" + "".join(f"{task},{int(label)}\n" for task, label in enumerate(crowd.truth)))
    groups.write_text("task,half\n" + "".join(f"{task},{task % 2}\n" for task in range(60)))
    with truth.open("rb") as first, groups.open("rb") as second:
        found = cw.audit_crowd(crowd.labels, truth=first, task_attributes=second)
    assert {screen.kind for screen in found.screens} >= {"bias", "disparity", "mislabel"}
    assert found.truth is not None
    assert len(found.truth.tasks) == 60


def test_truths_of_a_class_that_nobody_said_are_left_out_with_a_note() -> None:
    crowd = cw.simulate.simulate("one-coin", n_tasks=60, n_workers=6, n_classes=2, labels_per_task=3, random_state=0)
    truth = dict(enumerate(crowd.truth.tolist())) | {3: 7}
    audit = cw.audit_crowd(crowd.labels, truth=truth, method="majority-vote")
    assert audit.truth is not None
    assert len(audit.truth.tasks) == 59
    (note,) = [screen.skipped for screen in audit.screens if screen.kind == "truth"]
    assert note == "1 truth left out: of a class that nobody said, 7."
    with pytest.raises(InputError, match="classes that the labels do not have"):
        cw.audit_crowd(crowd.labels, truth={0: 7}, method="majority-vote")
