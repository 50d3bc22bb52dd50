"""Exports of Argilla: three shapes, one answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crowdwise import MajorityVote, read_export
from crowdwise.cli import main
from crowdwise.labels import InputError, read_labels

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"
JSON = EXAMPLES / "argilla.json"


@pytest.mark.parametrize(
    ("name", "answers", "skipped", "drafts", "anchored"),
    [("argilla.json", 30, 0, 0, 12), ("argilla.parquet", 28, 1, 1, 10), ("argilla-1.jsonl", 28, 1, 1, 10)],
)
def test_the_examples(name: str, answers: int, skipped: int, drafts: int, anchored: int) -> None:
    export = read_export(EXAMPLES / name)
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [("sentiment", "labels", answers)]
    assert (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows) == (skipped, drafts, 0)
    assert (export.n_anchored, export.predictions.num_rows) == (anchored, 4)
    assert export.predictions.to_pylist()[0] == {"task": "r1", "worker": "small-1", "label": "positive", "score": 0.8}
    assert (export.labels.n_tasks, export.labels.n_workers) == (10, 3)
    assert export.task_attributes.column_names == ["task", "source"]


def record(task: int, *values: Any, **more: Any) -> dict[str, Any]:
    every = [{"value": value, "user_id": f"u{who}"} for who, value in enumerate(values)]
    return {"id": f"r{task}", "fields": {}, "metadata": {}, "suggestions": {}, "responses": {"q": every}} | more


def written(records: list[Any], tmp_path: Path) -> Path:
    (tmp_path / "e.json").write_text(json.dumps(records))
    return tmp_path / "e.json"


@pytest.mark.parametrize(
    ("values", "kind", "row"),
    [
        ([3, 5], "ordinal", {"rating": 3}),
        ([["a", "b"], ["a"]], "multi-label", {"labels": ["a", "b"]}),
        ([["a", "b"], ["b", "a"]], "rankings", {"item": "a", "rank": 1}),
        ([[{"rank": 2, "value": "a"}, {"rank": 1, "value": "b"}]], "rankings", {"item": "a", "rank": 2}),
        ([[{"start": 0, "end": 3, "label": "PER"}], []], "spans", {"start": 0, "end": 3, "label": "PER"}),
        ([f"a long text written by hand {n}" for n in range(12)], "texts", {"text": "a long text written by hand 0"}),
    ],
)  # fmt: skip
def test_kinds_are_told_by_the_answers(values: list[Any], kind: str, row: dict[str, Any], tmp_path: Path) -> None:
    export = read_export(written([record(1, *values)], tmp_path))
    assert (export.question.kind, export.question.n_answers) == (kind, len(values))  # type: ignore[union-attr]
    assert export.answers.select(list(row)).to_pylist()[0] == row


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (record(2, "a", id=None), r"e\.json, record 2 has no 'id'"),
        (record(1, "a"), r"holds task 'r1' more than once \(records 1, 2\)"),
        (record(2, "a", responses={"q": [{"value": "a", "user_id": None}]}), r"record 2: an answer to 'q' has no user"),
        (record(2, "a", responses={"q": [{"value": "a"}]}), r"record 2: the responses cannot be read .*'user_id'"),
        (record(2, "a", responses={"q": "a"}), r"record 2: the responses cannot be read"),
        (record(2, {"a": 1}), r"record 2: \{'a': 1\} is no answer of the kind labels"),
        (record(2, "a", suggestions={"q": 5}), r"record 2: the suggestions cannot be read"),
    ],
)
def test_what_is_broken_is_named(second: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_labels(written([record(1, "a", "b"), second], tmp_path))


def test_write_back(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert main(["aggregate", str(JSON), "--method", "majority-vote", "--write-back", str(out)]) == 0
    table = MajorityVote().fit(read_export(JSON).labels).consensus()
    consensus = dict(zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True))
    made = json.loads(out.read_text())
    assert {each["id"]: each["suggestions"]["sentiment"]["value"] for each in made} == consensus
    assert {each["suggestions"]["sentiment"]["agent"] for each in made} == {"crowdwise"}
    assert all(each["fields"]["text"] and 0 < each["suggestions"]["sentiment"]["score"] <= 1 for each in made)
    rg = pytest.importorskip("argilla")
    loaded = [rg.Record.from_dict(each) for each in made]
    assert {each.id: each.suggestions["sentiment"].value for each in loaded} == consensus


def test_a_data_set_is_not_written_back(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out.json"
    assert main(["aggregate", str(EXAMPLES / "argilla.parquet"), "--write-back", str(out)]) == 2
    assert "records.to_json" in capsys.readouterr().err
    assert not out.exists()
