"""Exports that are CSV or TSV: Mechanical Turk, Toloka and Zooniverse."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise import read_export
from crowdwise.cli import main
from crowdwise.labels import InputError, read_labels

if TYPE_CHECKING:
    from crowdwise.formats import Export

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"
FILES = {"mechanical-turk": "mechanical-turk.csv", "toloka": "toloka.tsv", "zooniverse": "zooniverse.csv"}


def rows_of(name: str) -> list[dict[str, str]]:
    with (EXAMPLES / FILES[name]).open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if name == "toloka" else ","))


def written(name: str, rows: list[dict[str, Any]], tmp_path: Path) -> Path:
    file = tmp_path / FILES[name]
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t" if name == "toloka" else ",")
        writer.writeheader()
        writer.writerows(rows)
    return file


def count(export: Export) -> tuple[int, ...]:
    assert export.question is not None
    sizes = (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows, export.n_anchored)
    return (export.question.n_answers, *sizes)


def test_mechanical_turk() -> None:
    export = read_export(EXAMPLES / FILES["mechanical-turk"])
    assert (count(export), export.left_out) == ((23, 0, 0, 0, 0), {"rejected assignment": 1})
    assert (export.question.name, export.labels.n_tasks) == ("relevance", 8)  # type: ignore[union-attr]
    assert export.answers["duration"].to_pylist()[:3] == [30.0, 30.0, 30.0]
    assert export.answers["time"].to_pylist()[0].isoformat() == "2021-03-01T18:00:30+00:00"
    assert export.task_attributes.column_names == ["task", "site"]


def test_toloka() -> None:
    export = read_export(EXAMPLES / FILES["toloka"])
    assert (count(export), export.left_out) == ((22, 1, 0, 6, 0), {"rejected assignment": 1})
    assert (export.question.name, export.labels.n_tasks) == ("animal", 8)  # type: ignore[union-attr]
    gold = export.gold_columns()
    assert gold is not None
    assert sorted(zip(gold.column("task").to_pylist(), gold.column("label").to_pylist(), strict=True)) == [
        ("https://example.org/0.jpg", "cat"),
        ("https://example.org/1.jpg", "dog"),
    ]


def test_zooniverse() -> None:
    export = read_export(EXAMPLES / FILES["zooniverse"])
    assert count(export) == (24, 0, 0, 1, 0)
    assert export.left_out == {"repeat of a subject that was seen already": 1}
    assert export.labels.workers.to_pylist() == ["ann", "bob", "not-logged-in-0f3a"]
    assert export.answers["duration"].to_pylist()[0] == 8.5
    assert export.task_attributes.column_names == ["task", "survey"]


def test_several_tasks_a_row(tmp_path: Path) -> None:
    row = {"HITId": "h", "AssignmentId": "a", "WorkerId": "w", "AssignmentStatus": "Approved", "Input.url1": "x",
           "Input.url2": "y", "Answer.tag1": "cat", "Answer.tag2": "dog"}  # fmt: skip
    export = read_export(written("mechanical-turk", [row, row | {"AssignmentId": "b", "WorkerId": "v"}], tmp_path))
    assert [each.name for each in export.questions] == ["tag"]
    assert export.labels.tasks.to_pylist() == ["h/1", "h/2"]


def test_groups_of_options_and_task_answers(tmp_path: Path) -> None:
    base = {"HITId": "h", "AssignmentId": "a", "WorkerId": "w"}
    options = base | {"Answer.pet.cat": "true", "Answer.pet.dog": "false"}
    labels = read_export(written("mechanical-turk", [options], tmp_path)).labels
    assert labels.to_table().to_pylist() == [{"task": "h", "worker": "w", "label": "cat"}]
    entered = base | {"Answer.taskAnswers": json.dumps([{"pet": {"label": "dog"}}])}
    labels = read_export(written("mechanical-turk", [entered], tmp_path)).labels
    assert labels.to_table().to_pylist() == [{"task": "h", "worker": "w", "label": "dog"}]


def test_shapes(tmp_path: Path) -> None:
    shape = {"shape": "rectangle", "left": 0.1, "top": 0.2, "width": 0.5, "height": 0.5}
    row = rows_of("toloka")[0] | {"OUTPUT:animal": json.dumps([shape]), "GOLDEN:animal": ""}
    export = read_export(written("toloka", [row], tmp_path))
    assert (export.question.kind, export.answers["x_max"].to_pylist()) == ("boxes", [0.6])  # type: ignore[union-attr]
    value = [{"x": 1, "y": 2, "width": 3, "height": 4, "tool": 0, "tool_label": "galaxy"}]
    row = rows_of("zooniverse")[0] | {"annotations": json.dumps([{"task": "T1", "value": value}])}
    export = read_export(written("zooniverse", [row], tmp_path))
    assert (export.question.kind, export.answers["y_max"].to_pylist()) == ("boxes", [6.0])  # type: ignore[union-attr]


def test_workflows_are_told_apart(tmp_path: Path) -> None:
    rows = rows_of("zooniverse")
    rows[0]["workflow_id"] = "6"
    export = read_export(written("zooniverse", rows, tmp_path))
    assert sorted(each.name for each in export.questions) == ["5/T0", "6/T0"]


@pytest.mark.parametrize(
    ("name", "column", "value", "said"),
    [
        ("mechanical-turk", "WorkerId", "", r"mechanical-turk\.csv, row 2: 'WorkerId' is empty"),
        (
            "mechanical-turk",
            "AssignmentId",
            "3A00",
            r"row 2 has the AssignmentId '3A00' of mechanical-turk\.csv, row 1",
        ),
        ("toloka", "ASSIGNMENT:worker_id", "", r"toloka\.tsv, row 2: 'ASSIGNMENT:worker_id' is empty"),
        ("toloka", "INPUT:image", "", r"row 2: every 'INPUT:' column is empty"),
        ("toloka", "OUTPUT:animal", '[{"shape": "polygon"}]', r"row 2: an output holds .* rectangles are read"),
        ("toloka", "OUTPUT:animal", '[{"shape', r"row 2: an output is not JSON"),
        ("zooniverse", "user_name", "", r"zooniverse\.csv, row 2: 'user_name' is empty"),
        ("zooniverse", "annotations", "[{", r"row 2: the column annotations is not JSON \(character 2"),
        ("zooniverse", "annotations", "{}", r"row 2: the column annotations holds \{\}, not a list"),
        ("zooniverse", "annotations", "[{}]", r"row 2: an annotation has no 'task'"),
        ("zooniverse", "annotations", "[" * 100_000, r"row 2: the column annotations is nested too deeply"),
        ("zooniverse", "metadata", "5", r"row 2: the column metadata holds 5, not an object"),
        ("zooniverse", "classification_id", "1000", r"row 2 has the classification_id 1000 of zooniverse\.csv, row 1"),
    ],
)
def test_what_is_broken_is_named(name: str, column: str, value: str, said: str, tmp_path: Path) -> None:
    rows = rows_of(name)
    rows[1][column] = value
    with pytest.raises(InputError, match=said):
        read_labels(written(name, rows, tmp_path))


def test_no_writer_is_said_and_nothing_written(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out.csv"
    assert main(["aggregate", str(EXAMPLES / FILES["zooniverse"]), "--write-back", str(out)]) == 2
    assert "cannot write for Zooniverse yet; it can for" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()
