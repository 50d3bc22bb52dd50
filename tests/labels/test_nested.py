"""A mapping of mappings: which level is the workers, and a question where that cannot be told."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.errors import UnclearInputError
from crowdwise.labels.nested import infer_outer
from crowdwise.labels.times import read_timed_labels

if TYPE_CHECKING:
    from pathlib import Path


def grid(outer: list[Any], inner: list[Any]) -> dict[Any, dict[Any, str]]:
    return {one: {other: "xy"[(i + j) % 2] for j, other in enumerate(inner)} for i, one in enumerate(outer)}


def numbered(prefix: str, size: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(size)]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (numbered("annotator_", 3), numbered("", 5), "workers"),
        (numbered("Worker ", 40), numbered("", 4), "workers"),  # the name says more than the number
        (["gpt-4o", "claude-3-opus", "Llama-3-70B"], numbered("", 3), "workers"),
        (["ann", "bob", "cy"], numbered("item-", 3), "workers"),
        (["ann", "bob", "cy"], numbered("img", 2), "workers"),
        (["ann", "bob"], [f"p{n}.png" for n in range(2)], "workers"),
        (["ann", "bob"], numbered("", 6), "workers"),
        (["doctor_1", "doctor_2"], numbered("", 3), "workers"),  # no document
        (numbered("", 9), ["ann", "bob", "cy"], "tasks"),
        (numbered("question_", 3), numbered("", 9), "tasks"),
        (numbered("t", 2), ["ann", "bob"], "tasks"),
        (["a", "b"], ["judge A", "judge B"], "tasks"),
        (["a", "b"], ["ann", "bob"], None),
        (["a"], ["ann", "bob", "cy", "dee"], None),
        (numbered("", 20), numbered("", 1000), None),  # 20 tasks of a survey, or 20 workers
        (["a", "b"], ["c", "d", "e", "f", "g", "h"], None),
        (numbered("task", 3), numbered("item", 3), None),
        (["brown", "crow"], ["rowan", "browning"], None),  # no rows
    ],
)
def test_the_outer_level_is_told(outer: list[Any], inner: list[Any], expected: str | None) -> None:
    assert infer_outer(outer, inner) == expected


@pytest.mark.parametrize("file", [False, True])
@pytest.mark.parametrize("indent", [None, 2])
def test_workers_outside_are_turned_round_and_said(file: bool, indent: int | None, tmp_path: Path) -> None:
    source: Any = grid(["annotator_1", "annotator_2"], ["7", "8", "9"])
    if file:
        (tmp_path / "l.json").write_text(json.dumps(source, indent=indent))
        source = tmp_path / "l.json"
    with pytest.warns(InputWarning, match=r"taken for 2 workers, .* for 3 tasks.*outer='tasks'"):
        labels = read_labels(source)
    assert (labels.n_tasks, labels.n_workers) == (3, 2)
    assert labels.workers.to_pylist() == ["annotator_1", "annotator_2"]
    assert labels.tasks.to_pylist() == ([7, 8, 9] if file else ["7", "8", "9"])
    assert labels.classes.take(labels.label.tolist()).to_pylist() == list("xyyxxy")


def test_what_cannot_be_told_is_asked(tmp_path: Path) -> None:
    source = grid(["a", "b"], ["ann", "bob", "cy"])
    (tmp_path / "l.json").write_text(json.dumps(source))
    for each in (source, tmp_path / "l.json"):
        with pytest.raises(
            UnclearInputError, match=r"Outer names, 2: 'a', 'b'\. Inner names, 3: .*outer='workers'"
        ) as caught:
            read_labels(each)
        assert [words for _, words in caught.value.choices] == [("--outer", "tasks"), ("--outer", "workers")]
        assert read_labels(each, outer="tasks").tasks.to_pylist() == ["a", "b"]
        assert read_labels(each, outer="workers").workers.to_pylist() == ["a", "b"]
        assert read_timed_labels(each, outer="workers").labels.n_tasks == 3


def test_a_worker_who_skipped_a_task_is_no_error() -> None:
    labels = read_labels({"worker 1": {"x": 0, "y": 1}, "worker 2": {"y": 1}}, outer="workers")
    assert labels.labels_per_task.tolist() == [1, 2]


def test_records_by_name_are_refused() -> None:
    records = {f"t{n}": {"worker": "ann", "label": "x", "comment": "no"} for n in range(3)}
    with pytest.raises(InputError, match=r"fields of records.*Give a list of records"):
        read_labels(records)
    assert read_labels(records, outer="tasks").workers.to_pylist() == ["worker", "label", "comment"]


def test_a_question_can_be_sent_between_processes() -> None:
    with pytest.raises(UnclearInputError) as caught:
        read_labels(grid(["a", "b"], ["c", "d"]))
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (str(again), again.choices) == (str(caught.value), caught.value.choices)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InputError, match="outer is 'items'; it must be"):
        read_labels({"a": {"b": 1}}, outer="items")  # type: ignore[arg-type]
