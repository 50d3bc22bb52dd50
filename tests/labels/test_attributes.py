"""Attributes of tasks and workers: every way to give them, and what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

from crowdwise.labels.attributes import read_attributes, usable_attributes
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

NAMES = pa.array(["ann", "bob", "cy"])
TABLE: dict[str, list[Any]] = {"worker": ["cy", "ann", "stranger"], "age": [30, 20, 99], "sex": ["f", None, "m"]}


def test_none() -> None:
    assert read_attributes(None, NAMES, "worker") == ()


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pa.table], ids=["dict", "pandas", "arrow"])
def test_tables_are_lined_up_by_name(make: Any) -> None:
    age, sex = read_attributes(make(TABLE), NAMES, "worker")
    assert (age.name, age.values, age.code.tolist()) == ("age", (20, 30), [0, -1, 1])
    assert (sex.name, sex.values, sex.code.tolist()) == ("sex", ("f",), [-1, -1, 0])


def test_files_whose_empty_cells_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "workers.csv"
    path.write_text("worker,sex\nann,f\nbob,\ncy,m\n", encoding="utf-8")
    (sex,) = read_attributes(path, NAMES, "worker")
    assert (sex.values, sex.code.tolist()) == (("f", "m"), [0, -1, 1])


def test_mappings() -> None:
    (one,) = read_attributes({"bob": True, "ann": False}, NAMES, "worker")
    assert (one.values, one.code.tolist()) == (("false", "true"), [0, 1, -1])
    a, b = read_attributes({"bob": {"a": 1, "b": "x"}, "cy": {"a": 2}}, NAMES, "worker")
    assert (a.code.tolist(), b.code.tolist()) == ([-1, 0, 1], [-1, 0, -1])


def test_names_that_are_numbers() -> None:
    (one,) = read_attributes({1: "x", 0: "y"}, pa.array([0, 1]), "task")
    assert one.code.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"dan": 1}, "no name matches"),
        ({"worker": ["ann", "ann"], "sex": ["f", "m"]}, "names worker 'ann' more than once"),
        ({"worker": ["ann"]}, "at least one other"),
        ({"ann": [1, 2]}, "is a list"),
        ({"ann": {"a": 1}, "bob": 2}, "Give all the same way"),
        ({}, "empty"),
        (pa.table({"age": [1]}), "one column 'worker'"),
    ],
)
def test_refused(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_attributes(source, NAMES, "worker")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (list(range(60)), r"60 different numbers \(0, 1, 2, …\).*bands"),
        ([f"{each}.5" for each in range(21)], "21 different numbers"),
        ([f"text {each}" for each in range(60)], "60 different values"),
        ([[each] for each in range(60)], "lists or records"),
    ],
)
def test_values_that_make_no_groups_are_skipped(values: list[Any], message: str) -> None:
    names = pa.array(range(len(values)))
    table = {"task": list(range(len(values))), "length": values, "half": ["a", "b", "a"] * (len(values) // 3)}
    length, half = read_attributes(table, names, "task")
    assert re.search(message, length.skipped)
    assert (length.values, set(length.code.tolist())) == ((), {-1})
    assert (half.values, half.skipped) == (("a", "b"), "")
    assert usable_attributes((length, half)) == (half,)


@pytest.mark.parametrize("values", [list(range(20)), [f"country {each}" for each in range(50)]])
def test_as_many_values_may_be_groups(values: list[Any]) -> None:
    (attribute,) = read_attributes(
        {"task": list(range(len(values))), "x": values}, pa.array(range(len(values))), "task"
    )
    assert (attribute.skipped, len(attribute.values)) == ("", len(values))
