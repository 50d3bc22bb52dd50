"""Which tasks follow one another, from names, mappings and tables; and the rule of BIO tags."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import crowdwise as cw
from crowdwise.labels.bio_tags import allowed_followers, parse_tag
from crowdwise.labels.errors import InputError
from crowdwise.labels.sequences import read_sequences, rule_for_new_tasks

if TYPE_CHECKING:
    from pathlib import Path

TASKS = ["w3", "w1", "x1", "w2"]
PAIRS = {"w1": ("s", 1), "w2": ("s", 2), "w3": ("s", 30), "x1": ("t", 0)}
ROWS = {"task": list(PAIRS), "sequence": ["s", "s", "s", "t"], "position": [1, 2, 30, 0]}


def sentences(source: Any, tasks: Any) -> list[list[Any]]:
    found = read_sequences(source, tasks)
    assert sorted(found.order.tolist()) == list(range(len(tasks)))
    cuts = found.ptr.tolist()
    return [[tasks[task] for task in found.order[begin:end]] for begin, end in itertools.pairwise(cuts)]


def test_alone() -> None:
    assert sentences(None, TASKS) == [["w3"], ["w1"], ["x1"], ["w2"]]
    assert sentences("names", ["1.5", "a_1", "-3", "_4"]) == [["1.5"], ["a_1"], ["-3"], ["_4"]]


@pytest.mark.parametrize("tasks", [TASKS, [30, 1, 2], ["1.5", "1.6", "-3", "_4"]])
def test_names_of_which_none_fits_are_refused_when_a_model_is_fitted(tasks: list[Any]) -> None:
    with pytest.raises(InputError, match=r"no task name ends in a separator .*task, sequence, position"):
        read_sequences("names", tasks)
    assert sentences(rule_for_new_tasks("names"), tasks) == [[task] for task in tasks]


def test_names() -> None:
    tasks = ["12_10", "title", "12_9", "a:0", "12/3", "a:1", "doc-1_2", "doc-1_1", "é#5"]
    assert sentences("names", tasks) == [
        ["12_9", "12_10"],
        ["title"],
        ["a:0", "a:1"],
        ["12/3"],
        ["doc-1_1", "doc-1_2"],
        ["é#5"],
    ]


@pytest.mark.parametrize("source", [PAIRS, ROWS, pd.DataFrame(ROWS), PAIRS | {"unasked": ("s", 7)}])
def test_tables_and_mappings(source: Any) -> None:
    assert sentences(source, TASKS) == [["w1", "w2", "w3"], ["x1"]]


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sequences.csv"
    file.write_text("position,task,sequence\n1,7,s\n0,8,s\n0,9,t\n")
    assert sentences(str(file), [7, 8, 9]) == [[8, 7], [9]]


def test_before() -> None:
    assert read_sequences(PAIRS, TASKS).before().tolist() == [3, -1, -1, 1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"w1": ("s", 1)}, "the table lacks the tasks 'w3', 'x1', 'w2'. Give every task"),
        ({"w1": ("s", 1), "w2": "s"}, r"from task to \(sequence, position\); it does not for 'w2'"),
        ({}, "it does not for no task"),
        (PAIRS | {"w2": ("s", 1)}, "the tasks 'w1', 'w2' have the same position in one sequence"),
        (PAIRS | {"w2": ("s", "second")}, "positions must be whole numbers; these are"),
        ({"task": ["w1"], "position": [1]}, "does not for 'task', 'position'"),
        (pd.DataFrame({"task": ["w1"], "position": [1]}), "has no column 'sequence'; it has 'task', 'position'"),
        (pd.DataFrame({name: [*values, values[0]] for name, values in ROWS.items()}), "holds 'w1' more than once"),
        ([[1, 2]], "not a table"),
        (7, "not something labels can be read from"),
        ("no such file.csv", "no such file.csv"),
    ],
)
def test_bad_sequences(source: Any, message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        read_sequences(source, TASKS)


def test_two_names_at_one_position() -> None:
    with pytest.raises(cw.InputError, match="'a_1', 'a_01' have the same position"):
        read_sequences("names", ["a_1", "a_01"])


def test_tags() -> None:
    assert parse_tag("B-PER-2") == ("B", "PER-2")
    assert parse_tag("B-") is None
    assert parse_tag(3) is None
    for classes in (["B", "O"], ["B", "I"], ["B", "I", "O", "x"], [0, 1], ["yes", "no"]):
        assert allowed_followers(classes) is None
    rule = allowed_followers(["O", "B-x", "I-x", "I-y", "B-y"])
    assert rule is not None
    assert rule[:, 2].tolist() == [False, True, True, False, False, False]  # what may come before I-x
    assert rule[:, [0, 1, 4]].all()
