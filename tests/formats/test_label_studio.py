"""Exports of Label Studio: what is an answer, what is not, and what is written back."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from crowdwise.formats import read_export
from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.errors import UnclearInputError
from crowdwise.labels.times import read_timed_labels

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"
ONE, SEVERAL = EXAMPLES / "label-studio.json", EXAMPLES / "label-studio-questions.json"


def tasks() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(ONE.read_text())
    return made


def written(made: Any, tmp_path: Path) -> Path:
    (tmp_path / "e.json").write_text(json.dumps(made))
    return tmp_path / "e.json"


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        yield


def test_json() -> None:
    export = read_export(ONE)
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [("sentiment", "labels", 34)]
    assert (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows) == (2, 1, 2)
    assert (export.n_anchored, export.predictions.num_rows) == (3, 6)
    assert (export.labels.n_labels, export.labels.n_workers, export.labels.n_tasks) == (34, 4, 12)
    assert export.labels.classes.to_pylist() == ["Negative", "Neutral", "Positive"]
    assert export.answers["duration"].to_pylist()[:2] == [10.5, 11.5]
    assert export.task_attributes.column_names == ["task", "source"]
    assert read_timed_labels(ONE).time[0].astype(str) == "2026-03-01T10:00:00.000000"


def test_what_was_left_out_is_said() -> None:
    with pytest.warns(
        InputWarning,
        match=r"2 skipped answers, 1 draft, 2 gold answers, 6 predictions of models not counted as labels\. 3 answers "
        "began from a model's prediction",
    ):
        read_labels(ONE)


def test_predictions_are_workers_when_asked_for() -> None:
    labels = read_labels(ONE, include_predictions=True)
    assert labels.n_labels == 40
    assert "small-1" in labels.workers.to_pylist()


@pytest.mark.parametrize("name", ["label-studio-min.json", "label-studio.csv"])
def test_flat_exports(name: str) -> None:
    export = read_export(EXAMPLES / name)
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [("sentiment", "labels", 34)]
    rows = {tuple(row.values()) for row in export.labels.to_table().to_pylist()}
    assert rows == {tuple(row.values()) for row in read_labels(ONE).to_table().to_pylist()}
    assert export.answers["duration"].null_count == export.answers["time"].null_count == 0


def test_several_questions() -> None:
    with pytest.raises(UnclearInputError, match=r"answers to 4 questions: 'sentiment' \(labels, 34 answers\); 'stars'"):
        read_labels(SEVERAL)
    assert read_labels(SEVERAL, question="sentiment").n_labels == 34
    found = read_export(SEVERAL, question="topics")
    assert found.answers["labels"].to_pylist()[0] == ["price", "food"]
    assert {len(row) for row in found.answers["labels"].to_pylist()} == {1, 2}
    spans = read_export(SEVERAL, question="names").answers
    assert spans.select(["start", "end", "label"]).to_pylist()[0] == {"start": 0, "end": 5, "label": "PERSON"}
    with pytest.raises(InputError, match=r"no question 'topic'; it has 'sentiment', 'stars', 'topics', 'names'"):
        read_labels(SEVERAL, question="topic")


def test_one_question_in_two_kinds(tmp_path: Path) -> None:
    made = tasks()
    made[0]["annotations"][0]["result"][0] |= {"type": "number", "value": {"number": 3}}
    with pytest.raises(InputError, match=r"asks 'sentiment' in more than one way: values \(1 answer\), labels \(33"):
        read_export(written(made, tmp_path), question="sentiment")
    assert read_export(tmp_path / "e.json", question="sentiment", kind="labels").labels.n_labels == 33


VALUES = [
    ("rating", {"rating": 4}, "ordinal", [{"rating": 4}]),
    ("number", {"number": 2}, "values", [{"value": 2.0}]),
    ("textarea", {"text": ["a", "b"]}, "texts", [{"text": "a\nb"}]),
    ("taxonomy", {"taxonomy": [["animal", "cat"]]}, "labels", [{"label": "animal/cat"}]),
    ("pairwise", {"selected": "left"}, "labels", [{"label": "left"}]),
    ("ranker", {"ranker": {"rank": ["a", "b"]}}, "rankings", [{"item": "a", "rank": 1}, {"item": "b", "rank": 2}]),
    ("rectanglelabels", {"x": 1, "y": 2, "width": 10, "height": 20, "rotation": 0, "rectanglelabels": ["cat"]}, "boxes",
     [{"x_min": 1.0, "y_min": 2.0, "x_max": 11.0, "y_max": 22.0, "label": "cat"}]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "read_as", "rows"), VALUES)
def test_every_type_of_result(kind: str, value: Any, read_as: str, rows: list[Any], tmp_path: Path) -> None:
    made = {"id": 7, "data": {}, "completions": [{"id": 1, "completed_by": 3, "result": [
        {"id": "r", "from_name": "q", "to_name": "t", "type": kind, "value": value}]}]}  # fmt: skip
    export = read_export(written([made], tmp_path))
    assert (export.question.kind, export.answers.select(list(rows[0])).to_pylist()) == (read_as, rows)  # type: ignore[union-attr]
    assert set(zip(export.answers["task"].to_pylist(), export.answers["worker"].to_pylist(), strict=True)) == {(7, 3)}


@pytest.mark.parametrize(("x", "n_notes"), [(95, 0), (96, 1), (101, 1)])
def test_rectangles_outside_of_the_image(x: float, n_notes: int, tmp_path: Path) -> None:
    value = {"x": x, "y": 2, "width": 10, "height": 20, "rectanglelabels": ["cat"]}
    made = {"id": 7, "data": {}, "annotations": [{"id": 1, "completed_by": 3, "result": [
        {"from_name": "q", "to_name": "t", "type": "rectanglelabels", "value": value}]}]}  # fmt: skip
    notes = read_export(written([made], tmp_path)).notes
    assert sum("1 box lies outside of the image" in note for note in notes) == n_notes


def test_a_pair_of_named_items_is_a_comparison(tmp_path: Path) -> None:
    made = {"id": 7, "data": {"left": "gpt", "right": "llama"}, "annotations": [{"id": 1, "completed_by": 3, "result": [
        {"from_name": "q", "to_name": "l,r", "type": "pairwise", "value": {"selected": "right"}}]}]}  # fmt: skip
    export = read_export(written([made], tmp_path))
    assert export.question.kind == "comparisons"  # type: ignore[union-attr]
    assert export.answers.select(["left", "right", "label"]).to_pylist() == [
        {"left": "gpt", "right": "llama", "label": "right"}
    ]


def test_whoever_answers_a_question_and_marks_nothing_answers_about_spans(tmp_path: Path) -> None:
    """Also where others chose several, so that the answers to the question are moved."""

    def say(kind: str, name: str, **value: Any) -> dict[str, Any]:
        return {"from_name": name, "to_name": "text", "type": kind, "value": value}

    span = say("labels", "names", start=0, end=4, labels=["PERSON"])
    results = [
        [say("choices", "topic", choices=["a"])],
        [say("choices", "topic", choices=["a", "b"]), span],
        [say("choices", "topic", choices=["b"])],
        [],
    ]
    made = [
        {"id": task, "data": {}, "annotations": [{"completed_by": f"w{n}", "result": r} for n, r in enumerate(results)]}
        for task in range(2)
    ]
    answers = read_export(written(made, tmp_path), question="names").answers
    found = {(row["task"], row["worker"], row["start"]) for row in answers.to_pylist()}
    assert found == {(task, f"w{n}", 0 if n == 1 else None) for task in range(2) for n in range(4)}
    assert answers.num_rows == 8


def test_nothing_marked_is_an_answer_about_boxes(tmp_path: Path) -> None:
    made = copy.deepcopy(tasks()[:2])
    box = VALUES[-1]
    for task in made:
        task["predictions"] = []
        for each in task["annotations"]:
            each["result"] = []
    made[0]["annotations"][0]["result"] = [{"from_name": "b", "to_name": "i", "type": box[0], "value": box[1]}]
    export = read_export(written(made, tmp_path))
    assert export.question.n_answers == 5  # type: ignore[union-attr] (the skipped one and gold are none)
    assert export.answers["x_min"].null_count == 4


def change(made: list[dict[str, Any]], place: str, value: Any) -> None:
    target: Any = made
    *path, last = place.split("/")
    for each in path:
        target = target[int(each) if each.isdigit() else each]
    if value is KeyError:
        del target[last]
    else:
        target[last] = value


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("1/id", KeyError, r"e\.json, record 2 has no 'id'"),
        ("1/id", 1, r"e\.json holds task 1 more than once \(records 1, 2\)"),
        ("1/annotations", KeyError, r"record 2 has no 'annotations'; it has"),
        ("1/annotations", {"a": 1}, r"record 2: 'annotations' holds .*not a list of objects"),
        ("2/annotations/0/result", None, r"record 3, annotation 9: 'result' holds None"),
        ("1/annotations/0/completed_by", None, r"record 2, annotation 5: 'completed_by' is None.*whose answer"),
        ("0/annotations/0/result/0/value", {"selected": 1}, r"record 1: the value .* lacks the field 'choices'"),
        ("0/annotations/0/result/0/value", KeyError, r"record 1: a result of type 'choices' has no 'value'"),
        ("0/annotations/0/result/0/from_name", None, r"record 1: a result has no 'from_name'"),
    ],
)  # fmt: skip
def test_what_is_broken_is_named(place: str, value: Any, said: str, tmp_path: Path) -> None:
    made = tasks()
    change(made, place, value)
    with pytest.raises(InputError, match=said):
        read_labels(written(made, tmp_path))


def test_unknown_results_are_counted(tmp_path: Path) -> None:
    made = tasks()
    made[0]["annotations"][0]["result"][0]["type"] = "hologram"
    assert read_export(written(made, tmp_path)).left_out == {"result of type 'hologram'": 1}
    only = {"id": 1, "data": {}, "annotations": [{"id": 1, "completed_by": 1, "result": [{"type": "hologram"}]}]}
    with pytest.raises(InputError, match=r"holds no answer that can be read: 1 × result of type 'hologram'"):
        read_labels(written([only], tmp_path))


def test_a_choice_of_nothing_is_counted(tmp_path: Path) -> None:
    record = json.loads((EXAMPLES / "label-studio.json").read_text())
    before = read_export(EXAMPLES / "label-studio.json").labels.n_labels
    record[0]["annotations"][0]["result"][0]["value"]["choices"] = []
    (tmp_path / "e.json").write_text(json.dumps(record))
    found = read_export(tmp_path / "e.json")
    assert found.labels.n_labels == before - 1
    assert found.left_out["choices without a choice"] == 1


def test_a_record_that_is_no_object(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"record 2 holds 5, not an object"):
        read_labels(written([tasks()[0], 5], tmp_path))


def test_write_back_of_other_kinds(tmp_path: Path) -> None:
    from crowdwise.cli import main

    out = tmp_path / "p.json"
    for question, value in {"stars": {"rating": 1}, "topics": {"choices": ["food", "price"]}}.items():
        assert main(["aggregate", str(SEVERAL), "--question", question, "--write-back", str(out)]) == 0
        first = json.loads(out.read_text())[0]["predictions"][0]["result"][0]
        assert (first["from_name"], first["value"]) == (question, value)


def test_write_back(tmp_path: Path) -> None:
    from crowdwise.cli import main

    out = tmp_path / "predictions.json"
    said = ["--method", "majority-vote", "--write-back", str(out), "--out", str(tmp_path / "r")]
    assert main(["aggregate", str(ONE), *said]) == 0
    made = json.loads(out.read_text())
    lines = (tmp_path / "r" / "consensus.csv").read_text().splitlines()[1:]
    consensus = {int(line.split(",")[0]): [part.strip('"') for part in line.split(",")[1:3]] for line in lines}
    assert [task["id"] for task in made] == list(range(1, 13))
    for task in made:
        (prediction,) = task["predictions"]
        assert prediction["model_version"] == "crowdwise"
        assert prediction["result"][0]["value"] == {"choices": [consensus[task["id"]][0]]}
        assert prediction["score"] == pytest.approx(float(consensus[task["id"]][1]), abs=1e-6)
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    config = (
        '<View><Text name="text" value="$text"/><Choices name="sentiment" toName="text">'
        '<Choice value="Positive"/><Choice value="Negative"/><Choice value="Neutral"/></Choices></View>'
    )
    for task in made:
        assert interface.LabelInterface(config).validate_prediction(task["predictions"][0])
