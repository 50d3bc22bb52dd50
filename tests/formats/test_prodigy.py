"""Exports of Prodigy: the answer is the label, never the label that was asked about."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pytest

from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.times import read_timed_labels

if TYPE_CHECKING:
    from pathlib import Path


def answer(text: int, who: str, said: str, label: str = "SPAM", **more: Any) -> dict[str, Any]:
    """A line as Prodigy writes it, nested fields and all."""
    return {
        "text": f"text {text}",
        "meta": {"source": "mail", "score": 0.5},
        "label": label,
        "_input_hash": 100 + text,
        "_task_hash": -(1000 * text) - len(label),
        "tokens": [{"text": "text", "start": 0}],
        "answer": said,
        "_session_id": f"mails-{who}",
        "_annotator_id": f"mails-{who}",
        "_view_id": "classification",
        "_timestamp": 1700000000 + text,
    } | more


ROWS = [
    answer(1, "ann", "accept"),
    answer(1, "bob", "reject"),
    answer(2, "ann", "reject"),
    answer(2, "bob", "reject"),
    answer(3, "ann", "accept"),
]
EXPECTED = [(-1004, "mails-ann", "accept"), (-1004, "mails-bob", "reject"), (-2004, "mails-ann", "reject"),
            (-2004, "mails-bob", "reject"), (-3004, "mails-ann", "accept")]  # fmt: skip


def written(rows: list[dict[str, Any]], file: Path) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def edges(labels: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in labels.to_table().to_pylist()]


def test_accept_and_reject_are_the_labels(tmp_path: Path) -> None:
    file = written(ROWS, tmp_path / "spam.jsonl")
    assert edges(read_labels(file)) == EXPECTED
    timed = read_timed_labels(file)
    assert (edges(timed.labels), timed.column) == (EXPECTED, "_timestamp")
    assert timed.time.tolist() == [1700000001, 1700000001, 1700000002, 1700000002, 1700000003]


def test_a_list_of_records_is_read_alike(tmp_path: Path) -> None:
    assert edges(read_labels(ROWS)) == EXPECTED
    (tmp_path / "l.json").write_text(json.dumps(ROWS))
    assert edges(read_labels(tmp_path / "l.json")) == EXPECTED


def test_ignored_answers_are_left_out_and_said(tmp_path: Path) -> None:
    rows = [answer(1, "cy", "ignore"), *ROWS, answer(2, "cy", "ignore"), answer(9, "cy", "ignore", _session_id=None)]
    file = written(rows, tmp_path / "spam.jsonl")
    with pytest.warns(InputWarning, match=r"spam\.jsonl: 3 answers 'ignore' left out"):
        labels = read_labels(file)
    assert edges(labels) == EXPECTED
    assert labels.classes.to_pylist() == ["accept", "reject"]
    with pytest.warns(InputWarning):
        assert read_timed_labels(file).time.tolist()[0] == 1700000001
    twice = written([*rows, answer(2, "ann", "accept")], tmp_path / "twice.jsonl")
    with (
        pytest.warns(InputWarning),
        pytest.raises(InputError, match=r"worker 'mails-ann' on task -2004 \(twice\.jsonl, line 9\)"),
    ):
        read_labels(twice)
    with pytest.raises(InputError, match="every answer is 'ignore'"):
        read_labels(written([answer(1, "ann", "ignore")], tmp_path / "none.jsonl"))


def test_of_several_labels_each_is_a_task_of_its_own(tmp_path: Path) -> None:
    rows = [*ROWS, answer(1, "ann", "reject", label="URGENT"), answer(1, "bob", "accept", label="URGENT")]
    labels = read_labels(written(rows, tmp_path / "l.jsonl"))
    assert (labels.n_tasks, labels.classes.to_pylist()) == (4, ["accept", "reject"])
    for name in ("_task_hash", "_input_hash"):
        rows = without(rows, name)
        if name == "_task_hash":
            with pytest.raises(InputError, match=r"without the field '_task_hash'.*--task-column"):
                read_labels(written(rows, tmp_path / "l.jsonl"))


@pytest.mark.parametrize(
    ("left_out", "tasks"),
    [(("_task_hash",), [101, 102, 103]), (("_task_hash", "_input_hash", "_view_id"), ["text 1", "text 2", "text 3"])],
)
def test_without_hashes_of_tasks(left_out: tuple[str, ...], tasks: list[Any], tmp_path: Path) -> None:
    labels = read_labels(written(without(ROWS, *left_out), tmp_path / "l.jsonl"))
    assert (labels.tasks.to_pylist(), labels.classes.to_pylist()) == (tasks, ["accept", "reject"])


def test_the_session_stands_in_for_the_annotator(tmp_path: Path) -> None:
    assert read_labels(written(without(ROWS, "_annotator_id"), tmp_path / "l.jsonl")).n_workers == 2
    nobody = [row | {"_annotator_id": None, "_session_id": None} for row in ROWS]
    for rows in (nobody, without(ROWS, "_annotator_id", "_session_id")):
        with pytest.raises(InputError, match=r"does not say who gave each answer.*--worker-column"):
            read_labels(written(rows, tmp_path / "l.jsonl"))
    named = [row | {"who": row["_session_id"][-3:]} for row in ROWS]
    rows = without(named, "_annotator_id", "_session_id")
    assert read_labels(written(rows, tmp_path / "l.jsonl"), worker="who").workers.to_pylist() == ["ann", "bob"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"_view_id": "choice", "options": [{"id": "A"}], "accept": ["A"]}, "of the view 'choice'"),
        ({"_view_id": "ner_manual", "spans": []}, "of the view 'ner_manual'"),
        ({"_view_id": "blocks"}, "of the view 'blocks'"),
        ({"_view_id": None, "accept": ["A"], "options": [{"id": "A"}]}, "with the fields 'accept', 'options'"),
        ({"_view_id": None, "spans": [{"start": 0}]}, "with the fields 'spans'"),
    ],
)
def test_answers_that_stand_elsewhere_are_refused(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = written([row | more for row in ROWS], tmp_path / "l.jsonl")
    with pytest.raises(
        InputError, match=rf"l\.jsonl looks like an export of Prodigy {said}, whose answers are not read"
    ):
        read_labels(file)


def test_suggested_spans_are_accepted_or_rejected_as_a_whole(tmp_path: Path) -> None:
    rows = [
        row | {"_view_id": "ner", "spans": [{"start": 0, "end": 4, "label": "X"}]} for row in without(ROWS, "label")
    ]
    assert edges(read_labels(written(rows, tmp_path / "l.jsonl"))) == EXPECTED


def test_who_names_the_label_is_taken_at_their_word(tmp_path: Path) -> None:
    labels = read_labels(written(ROWS, tmp_path / "l.jsonl"), task="text", worker="_session_id", label="label")
    assert labels.classes.to_pylist() == ["SPAM"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda table: pd.DataFrame(table).astype("category")])
def test_tables_in_memory(make: Any) -> None:
    rows = without(ROWS, "meta", "tokens")
    labels = read_labels(make({name: [row[name] for row in rows] for name in rows[0]}))
    assert [tuple(row) for row in labels.with_kind("pandas").to_table().itertuples(index=False)] == EXPECTED


def test_as_csv(tmp_path: Path) -> None:
    file = tmp_path / "l.csv"
    rows = without(ROWS, "meta", "tokens")
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert edges(read_labels(file)) == EXPECTED


def test_other_tables_with_an_answer_are_left_alone() -> None:
    table = {"task": ["a", "b"], "worker": ["w", "w"], "label": ["x", "y"], "answer": ["long text", "more"]}
    assert read_labels(table).classes.to_pylist() == ["x", "y"]
    plain = {"task": ["a", "b"], "worker": ["w", "w"], "answer": ["accept", "reject"]}
    assert read_labels(plain).classes.to_pylist() == ["accept", "reject"]
