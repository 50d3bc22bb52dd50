"""Names that are probably one are noted, and kept apart."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.similar_names import find_twins
from crowdwise.labels.times import read_timed_labels

if TYPE_CHECKING:
    from pathlib import Path

COMPOSED, DECOMPOSED = "Jos\u00e9", "Jose\u0301"


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        ([COMPOSED, "bob", DECOMPOSED], [(COMPOSED, DECOMPOSED)]),
        (["Ann", "bob", "ann", "ANN"], [("Ann", "ann")]),
        (["1", "2", "1.0", "02"], [("1", "1.0"), ("2", "02")]),
        (["-1", "1"], []),
        (["10", "1"], []),
        (["0", "00", "0.0"], [("0", "00")]),
        (["\uff21nn", "Ann"], [("\uff21nn", "Ann")]),  # a letter of full width
        (["ann", " ann"], [("ann", " ann")]),
        (["ann", "ann\ufe0f"], [("ann", "ann\ufe0f")]),  # a mark of how a letter is drawn
        ([".5", "0.50"], [(".5", "0.50")]),
        (["\u0661\u0662", "12"], [("\u0661\u0662", "12")]),  # digits of Arabic
        (["\u22121", "-1"], [("\u22121", "-1")]),  # the minus of typesetters
        (["2162e2", "216200"], []),  # hexadecimal, in names of tasks
        (["ann", "bob"], []),
        ([1, 2], []),
        ([], []),
    ],
)
def test_twins_are_found(names: list[Any], pairs: list[tuple[str, str]]) -> None:
    assert find_twins(pa.array(names, None if names else pa.string())) == pairs


@pytest.mark.parametrize(
    ("one", "other"),
    [("1e3", "1000"), ("1.5E-1", "0.15"), (".5e1", "5"), ("1 000", "1000"), ("1'000", "1,000"), ("True", "1")],
)
def test_twins_among_classes(one: str, other: str) -> None:
    assert find_twins(pa.array(["1e4", one, other]), classes=True) == [(one, other)]
    assert find_twins(pa.array(["1e4", "2 000", one]), classes=True) == []


@pytest.mark.parametrize(
    ("role", "said"),
    [("task", "Tasks whose names"), ("worker", "Workers whose names"), ("label", "Classes whose names")],
)
def test_every_role_is_looked_at_once(role: str, said: str) -> None:
    table = {"task": ["s", "t"], "worker": ["ann", "bob"], "label": ["x", "y"]}
    table[role] = [DECOMPOSED, COMPOSED]
    for read in (read_labels, lambda source: read_timed_labels(source).labels):
        with pytest.warns(InputWarning, match=said) as heard:
            labels = read(table)
        assert len(heard) == 1
        assert r"'Jose\u0301' and 'Jos\xe9'. They are kept apart." in str(heard[0].message)
        assert (labels.n_tasks, labels.n_workers, labels.n_classes) == (2, 2, 2)
        assert any(said in each for each in labels.describe().warnings)


def test_five_pairs_are_named_and_the_rest_counted() -> None:
    names = [f"{name}{number}" for number in range(7) for name in "aA"]
    with pytest.warns(InputWarning, match=r"'a0' and 'A0'; .*'a4' and 'A4' and 2 more\."):
        read_labels({"task": names, "worker": ["w"] * 14, "label": list("xy") * 7})


def test_declared_classes_are_meant() -> None:
    table = {"task": [1, 2], "worker": [1, 1], "label": [COMPOSED, DECOMPOSED]}
    assert read_labels(table, classes=[COMPOSED, DECOMPOSED]).n_classes == 2


def test_a_fit_warns_once() -> None:
    table = {"task": [1, 1, 2, 2], "worker": ["Ann", "ann"] * 2, "label": ["x", "y", "y", "y"]}
    with pytest.warns(InputWarning) as heard:
        cw.MajorityVote().fit(table)
    assert len(heard) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputWarning):
            read_labels(table)


@pytest.mark.parametrize("suffix", ["dict", "jsonl", "json"])
def test_names_of_several_types_that_meet_are_said(suffix: str, tmp_path: Path) -> None:
    rows = [
        {"task": task, "worker": worker, "label": label}
        for task, worker, label in zip("abc", [1, "1", "two"], ["x", "y", "y"], strict=True)
    ]
    source: Any = {name: [row[name] for row in rows] for name in rows[0]}
    if suffix != "dict":
        source = tmp_path / f"l.{suffix}"
        source.write_text(json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows)))
    with pytest.warns(InputWarning, match="column 'worker' holds names of several types.*: 1 and '1'"):
        assert read_labels(source).n_workers == 2


def test_a_number_written_in_two_ways_is_noted() -> None:
    table = {"task": ["a", "b", "c"], "worker": [1, "1.0", 2], "label": ["x", "y", "y"]}
    with pytest.warns(InputWarning, match="Workers whose names differ .*'1' and '1.0'"):
        assert read_labels(table).n_workers == 3


def test_names_of_several_types_that_do_not_meet_pass() -> None:
    assert read_labels({"task": ["a", "b"], "worker": [1, "two"], "label": ["x", "y"]}).n_workers == 2


def test_blanks_stay_an_error() -> None:
    with pytest.raises(InputError, match="differ only in blanks"):
        read_labels({"task": ["a", "b"], "worker": ["ann", "ann "], "label": ["x", "y"]})


@pytest.mark.parametrize(
    "names",
    [
        ["ann", "ann\u200b"],
        ["ann", "\ufeffann"],
        ["ann", "an\u00adn"],
        ["ann", "a\u202enn"],
        ["ann", "ann\u3164"],
        ["ann lee", "ann\u00a0lee"],
        ["ann lee", "ann  lee"],
        ["ann", "ann\x1b"],
        ["-0", "0.0"],
        ["1,234", "1234"],
        ["0,5", "0.50"],
    ],
)
def test_names_that_look_alike_or_mean_one_value(names: list[str]) -> None:
    (pair,) = find_twins(pa.array(names))
    assert pair == tuple(names)
    with pytest.warns(InputWarning, match="Workers whose names differ only in .* may be one"):
        labels = cw.CrowdLabels.from_arrays(["a", "b"], names, ["x", "y"])
    (note,) = (each for each in labels.describe().warnings if "may be one" in each)
    assert note.isprintable()
    assert labels.n_workers == 2


@pytest.mark.parametrize("names", [["1,234", "1.234"], ["0,5", "05"], ["1,2", "12"], ["true", "1"]])
def test_names_that_do_not(names: list[str]) -> None:
    assert not find_twins(pa.array(names))


@pytest.mark.parametrize("label", [[True, 1, False, 0], ["True", "1", "0", "false"]])
def test_truth_values_beside_numbers_are_noted(label: list[Any]) -> None:
    table = {"task": ["a", "a", "b", "b"], "worker": [1, 2, 1, 2], "label": label}
    with pytest.warns(InputWarning, match="Classes whose names differ only in .* the way a value is written"):
        assert read_labels(table).n_classes == 4


def test_numbers_that_a_spreadsheet_shortened_are_noted() -> None:
    table = {"task": ["1.23E+15", "4E+12"], "worker": ["ann", "bob"], "label": ["x", "y"]}
    with pytest.warns(InputWarning, match=r"Tasks whose names look like long numbers .*'1\.23E\+15', '4E\+12'"):
        read_labels(table)


def test_a_matrix_warns_as_a_table_does() -> None:
    with pytest.warns(InputWarning, match="Classes whose names differ only in"):
        cw.CrowdLabels.from_dense([[COMPOSED, DECOMPOSED], ["x", "y"]])
