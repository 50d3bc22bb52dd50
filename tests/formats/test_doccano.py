"""Exports of doccano: the name of a file is the worker."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from crowdwise import MajorityVote, read_export
from crowdwise.cli import main
from crowdwise.labels import InputError, InputWarning, read_labels

EXAMPLE = Path(__file__).parents[2] / "examples" / "exports" / "doccano.zip"


def written(tmp_path: Path, **files: list[Any]) -> list[Path]:
    for name, rows in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [tmp_path / f"{name}.jsonl" for name in files]


def test_the_example(tmp_path: Path) -> None:
    export = read_export(EXAMPLE)
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [("label", "labels", 23)]
    assert export.left_out == {"task without a label (not seen, or none)": 1}
    assert (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows, export.n_anchored) == (0, 0, 0, 0)
    assert (export.labels.n_tasks, export.labels.workers.to_pylist()) == (8, ["ann", "bob", "cy"])
    assert export.task_attributes.column_names == ["task", "source"]
    with zipfile.ZipFile(EXAMPLE) as archive:
        archive.extractall(tmp_path / "files")
    for same in (tmp_path / "files", sorted((tmp_path / "files").iterdir())):
        assert read_export(same).labels.to_table() == export.labels.to_table()


@pytest.mark.parametrize(
    ("fields", "kind", "row"),
    [
        ({"text": "a", "label": [[0, 4, "PER"]]}, "spans", {"start": 0, "end": 4, "label": "PER"}),
        ({"text": "a", "entities": [{"id": 1, "label": "PER", "start_offset": 0, "end_offset": 4}], "relations": []},
         "spans", {"start": 0, "end": 4, "label": "PER"}),
        ({"filename": "a.png", "bbox": [{"uuid": "u", "x": 1, "y": 2, "width": 3, "height": 4, "label": "cat"}]},
         "boxes", {"x_min": 1.0, "y_min": 2.0, "x_max": 4.0, "y_max": 6.0, "label": "cat"}),
        ({"text": "a", "label": ["x", "y"]}, "multi-label", {"labels": ["x", "y"]}),
    ],
)  # fmt: skip
def test_other_kinds(fields: dict[str, Any], kind: str, row: dict[str, Any], tmp_path: Path) -> None:
    export = read_export(written(tmp_path, ann=[{"id": 1, **fields}])[0])
    assert export.question.kind == kind  # type: ignore[union-attr]
    assert export.answers.select(list(row)).to_pylist() == [row]


GOOD = {"id": 1, "text": "a", "label": ["x"]}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GOOD, GOOD], r"ann\.jsonl, record 2 has the id 1 of record 1 again"),
        ([GOOD, {"text": "b", "label": ["x"]}], r"record 2 is no object with an 'id'"),
        ([GOOD, {"id": 2, "text": "b"}], r"record 2 has none of 'label', 'entities' and 'bbox'"),
        ([GOOD, {"id": 2, "text": "b", "label": "x"}], r"record 2: 'label' holds 'x', not a list"),
        ([GOOD, {"id": 2, "text": "b", "label": [[1, 2]]}], r"record 2: 'label' cannot be read"),
        ([GOOD, {"id": 2, "text": "b", "label": [{"a": 1}]}], r"record 2: 'label' cannot be read"),
        ([GOOD, {"id": 2, "text": "b", "entities": [{"label": "x"}]}], r"record 2: 'entities' cannot be read"),
    ],
)
def test_what_is_broken_is_named(rows: list[Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_labels(written(tmp_path, ann=rows))


def test_answers_of_all_members_as_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"all\.jsonl holds the answers of all members as one.*Share annotations"):
        read_labels(written(tmp_path, all=[GOOD]))


def test_tables_that_name_a_worker_are_no_export_of_doccano(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "a", "label": "x", "worker": "ann"}, {"id": 1, "text": "a", "label": "y", "worker": "b"}]
    assert read_labels(written(tmp_path, ann=rows), task="id").n_labels == 2


def test_write_back(tmp_path: Path) -> None:
    out = tmp_path / "ann.jsonl"
    assert main(["aggregate", str(EXAMPLE), "--method", "majority-vote", "--write-back", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    with pytest.warns(InputWarning, match="not seen, or none"):
        table = MajorityVote().fit(read_labels(EXAMPLE)).consensus()
    consensus = dict(zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True))
    assert {line["id"]: line["label"] for line in lines} == {task: [label] for task, label in consensus.items()}
    assert all(line["text"] and 0 < line["confidence"] <= 1 for line in lines)
    assert read_export(out).labels.n_labels == 8
