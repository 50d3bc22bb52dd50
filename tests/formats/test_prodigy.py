"""Exports of Prodigy: the answer is the label, never the label that was asked about."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from crowdwise import MajorityVote, read_export
from crowdwise.cli import main
from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.times import read_timed_labels

EXAMPLE = Path(__file__).parents[2] / "examples" / "exports" / "prodigy.jsonl"


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
    assert (edges(timed.labels), timed.column) == (EXPECTED, "time")
    assert timed.time.tolist() == [1700000001, 1700000001, 1700000002, 1700000002, 1700000003]


def test_a_list_of_records_is_read_alike(tmp_path: Path) -> None:
    assert edges(read_labels(ROWS)) == EXPECTED
    (tmp_path / "l.json").write_text(json.dumps(ROWS))
    assert edges(read_labels(tmp_path / "l.json")) == EXPECTED


def test_ignored_answers_are_left_out_and_said(tmp_path: Path) -> None:
    rows = [answer(1, "cy", "ignore"), *ROWS, answer(2, "cy", "ignore"), answer(9, "cy", "ignore", _session_id=None)]
    file = written(rows, tmp_path / "spam.jsonl")
    with pytest.warns(InputWarning, match=r"spam\.jsonl \(Prodigy\): 3 skipped answers not counted"):
        labels = read_labels(file)
    assert edges(labels) == EXPECTED
    assert labels.classes.to_pylist() == ["accept", "reject"]
    with pytest.warns(InputWarning):
        assert read_timed_labels(file).time.tolist()[0] == 1700000001
    twice = written([*rows, answer(2, "ann", "accept")], tmp_path / "twice.jsonl")
    with (
        pytest.warns(InputWarning),
        pytest.raises(InputError, match=r"worker 'mails-ann' on task -2004 \(twice\.jsonl, answer 6\)"),
    ):
        read_labels(twice)
    with pytest.raises(InputError, match=r"no answer that can be read: 1 skipped answer\."):
        read_labels(written([answer(1, "ann", "ignore")], tmp_path / "none.jsonl"))


def test_of_several_labels_each_is_a_task_of_its_own(tmp_path: Path) -> None:
    rows = [*ROWS, answer(1, "ann", "reject", label="URGENT"), answer(1, "bob", "accept", label="URGENT")]
    labels = read_labels(written(rows, tmp_path / "l.jsonl"))
    assert (labels.n_tasks, labels.classes.to_pylist()) == (4, ["accept", "reject"])
    labels = read_labels(written(without(rows, "_task_hash"), tmp_path / "l.jsonl"))
    assert (labels.n_tasks, labels.classes.to_pylist()) == (4, ["accept", "reject"])
    with pytest.raises(InputError, match=r"without the field '_task_hash'.*--task-column"):
        read_labels(without(rows, "_task_hash"))


@pytest.mark.parametrize(
    ("left_out", "tasks"),
    [(("_task_hash",), ["101", "102", "103"]), (("_task_hash", "_input_hash"), ["text 1", "text 2", "text 3"])],
)
def test_without_hashes_of_tasks(left_out: tuple[str, ...], tasks: list[Any], tmp_path: Path) -> None:
    labels = read_labels(written(without(ROWS, *left_out), tmp_path / "l.jsonl"))
    assert (labels.tasks.to_pylist(), labels.classes.to_pylist()) == (
        [f"{task}/SPAM" for task in tasks],
        ["accept", "reject"],
    )


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
def test_answers_that_stand_elsewhere_are_refused_in_tables(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=rf"looks like an export of Prodigy {said}, whose answers are not read"):
        read_labels([row | more for row in ROWS])


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


def test_the_example() -> None:
    export = read_export(EXAMPLE)
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [("accept", "labels", 27)]
    assert (export.skipped.num_rows, export.left_out) == (2, {"task rejected as a whole": 1})
    assert (export.labels.n_tasks, export.labels.n_workers) == (10, 3)
    assert export.labels.classes.to_pylist() == ["negative", "neutral", "positive"]
    assert export.answers["time"].to_pylist()[0] == 1772359200
    assert export.task_attributes.column_names == ["task", "source"]


def test_views_that_choose_and_mark(tmp_path: Path) -> None:
    base = {"_input_hash": 1, "_task_hash": 2, "_annotator_id": "ann", "_timestamp": 5, "answer": "accept"}
    span = {"start": 0, "end": 4, "token_start": 0, "token_end": 0, "label": "PERSON"}
    box = {"x": 1, "y": 2, "width": 3, "height": 4, "label": "cat", "points": [[1, 2], [4, 6]]}
    lines = {
        "multi-label": ({"_view_id": "choice", "options": [], "accept": ["a", "b"]}, {"labels": ["a", "b"]}),
        "spans": ({"_view_id": "ner_manual", "spans": [span]}, {"start": 0, "end": 4, "label": "PERSON"}),
        "boxes": ({"_view_id": "image_manual", "spans": [box]}, {"x_min": 1.0, "y_max": 6.0, "label": "cat"}),
        "texts": ({"_view_id": "text_input", "user_input": "hello"}, {"text": "hello"}),
    }
    for kind, (fields, row) in lines.items():
        more = base | fields | {"_input_hash": 2, "_annotator_id": "bob"}
        more |= {"accept": ["a"]} if kind == "multi-label" else {"spans": []} if "spans" in fields else {}
        export = read_export(written([base | fields, more], tmp_path / "l.jsonl"))
        assert export.question.kind == kind  # type: ignore[union-attr]
        assert export.question.n_answers == 2  # type: ignore[union-attr]
        assert export.answers.select(list(row)).to_pylist()[0] == row
        if kind == "boxes":
            for width, n_notes in ((4, 0), (2, 1)):
                sized = base | fields | {"height": 9, "width": width}
                notes = read_export(written([sized, more], tmp_path / "l.jsonl")).notes
                assert sum("1 box lies outside of the image" in note for note in notes) == n_notes


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"answer": "maybe"}, r"record 2: 'answer' is 'maybe'; Prodigy writes accept, reject, ignore"),
        ({"_annotator_id": None, "_session_id": None}, r"record 2 does not say who gave each answer"),
        (
            {"_input_hash": None, "_task_hash": None, "text": None},
            r"record 2 has neither '_task_hash' nor '_input_hash'",
        ),
        ({"_view_id": None, "spans": []}, r"record 2 has 'spans' and no '_view_id'"),
        ({"_view_id": "choice", "accept": 5}, r"record 2: the answer cannot be read"),
        ({"_view_id": "ner_manual", "spans": [{"start": 1}]}, r"record 2: the answer cannot be read"),
    ],
)
def test_what_is_broken_is_named(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_labels(written([ROWS[0], ROWS[0] | more], tmp_path / "l.jsonl"))


def test_write_back(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["aggregate", str(EXAMPLE), "--method", "majority-vote", "--write-back", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    model = MajorityVote().fit(read_export(EXAMPLE).labels)
    consensus = dict(zip(model.consensus()["task"].to_pylist(), model.consensus()["label"].to_pylist(), strict=True))
    assert {line["_input_hash"]: line["accept"][0] for line in lines} == consensus
    assert {(line["answer"], line["_annotator_id"]) for line in lines} == {("accept", "crowdwise")}
    assert all(0 < line["meta"]["confidence"] <= 1 and "options" in line and line["text"] for line in lines)
    assert read_export(out).labels.n_labels == 10
