"""Amazon SageMaker Ground Truth: the folder of a job, and the request to a consolidation function."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crowdwise import MajorityVote, read_export
from crowdwise.cli import main
from crowdwise.labels import InputError, read_labels

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"
JOB, REQUEST = EXAMPLES / "sagemaker", EXAMPLES / "sagemaker-request.json"
ELEMENT = "crowd-image-classifier"


def test_a_job() -> None:
    export = read_export(JOB)
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [(ELEMENT, "labels", 18)]
    assert (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows, export.n_anchored) == (0, 0, 0, 0)
    assert export.labels.tasks.to_pylist() == list(range(6))
    assert export.answers["duration"].to_pylist() == [12.5] * 18
    assert export.answers["time"].null_count == 0
    several = read_export(sorted(JOB.glob("annotations/worker-response/*/*/*.json")))
    assert several.labels.to_table() == export.labels.to_table()


def test_a_request_holds_the_same() -> None:
    labels = read_export(REQUEST).labels
    said = {(int(row["task"]), row["worker"], row["label"]) for row in labels.to_table().to_pylist()}
    assert said == {tuple(row.values()) for row in read_export(JOB).labels.to_table().to_pylist()}


BOX = {"left": 1, "top": 2, "width": 3, "height": 4, "label": "cat"}


@pytest.mark.parametrize(("width", "n_notes"), [(4, 0), (2, 1), (None, 0)])
def test_boxes_outside_of_the_image(width: int | None, n_notes: int, tmp_path: Path) -> None:
    content = {"boundingBoxes": [BOX], "inputImageProperties": {"height": 9, "width": width}}
    made = {"answers": [{"workerId": "w", "answerContent": {"q": content}, "submissionTime": None}]}
    (tmp_path / "3.json").write_text(json.dumps(made))
    notes = read_export(tmp_path / "3.json").notes
    assert sum("1 box lies outside of the image" in note for note in notes) == n_notes


@pytest.mark.parametrize(
    ("content", "kind", "row"),
    [
        ({"labels": ["a", "b"]}, "multi-label", {"labels": ["a", "b"]}),
        ({"cat": True, "dog": False}, "labels", {"label": "cat"}),
        ({"cat": {"on": True}, "dog": {"on": True}}, "multi-label", {"labels": ["cat", "dog"]}),
        ({"entities": [{"startOffset": 0, "endOffset": 4, "label": "PER"}]}, "spans", {"start": 0, "label": "PER"}),
        ({"boundingBoxes": [BOX]}, "boxes", {"x_min": 1.0, "x_max": 4.0, "y_max": 6.0, "label": "cat"}),
        ({"annotatedResult": {"boundingBoxes": [BOX]}}, "boxes", {"x_min": 1.0}),
        ("good", "labels", {"label": "good"}),
    ],
)
def test_form_elements(content: Any, kind: str, row: dict[str, Any], tmp_path: Path) -> None:
    made = {"answers": [{"workerId": "w", "answerContent": {"q": content}, "submissionTime": None}]}
    (tmp_path / "3.json").write_text(json.dumps(made))
    export = read_export(tmp_path / "3.json")
    assert export.question.kind == kind  # type: ignore[union-attr]
    assert export.answers.select(list(row)).to_pylist() == [row]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("workerId", None, r"record 2: 'workerId' is None"),
        (
            "annotationData",
            {"s3Uri": "s3://b/x"},
            r"record 2: an annotation has no 'annotationData' with its 'content'",
        ),
        ("annotationData", {"content": '{"q": '}, r"record 2: the content of an annotation is not JSON \(character 6"),
        ("annotationData", {"content": "5"}, r"record 2: an answer is 5, not an object"),
        ("annotationData", {"content": '{"q": {"entities": [{}]}}'}, r"record 2: the answer to 'q' cannot be read"),
    ],
)
def test_what_is_broken_is_named(place: str, value: Any, said: str, tmp_path: Path) -> None:
    made = json.loads(REQUEST.read_text())
    made[1]["annotations"][0][place] = value
    (tmp_path / "r.json").write_text(json.dumps(made))
    with pytest.raises(InputError, match=said):
        read_labels(tmp_path / "r.json")


def test_a_broken_job_names_the_file(tmp_path: Path) -> None:
    shutil.copytree(JOB, tmp_path / "job")
    broken = next((tmp_path / "job").glob("**/3/*.json"))
    broken.write_text('{"answers": 5}')
    with pytest.raises(InputError, match=r"job/annotations/worker-response/iteration-1/3/.*json has no list 'answers'"):
        read_labels(tmp_path / "job")
    broken.write_text('{"answers": [{"workerId": "w"}]}')
    with pytest.raises(InputError, match="an answer has no 'answerContent'"):
        read_labels(tmp_path / "job")


def test_write_back(tmp_path: Path) -> None:
    table = MajorityVote().fit(read_export(JOB).labels).consensus()
    consensus = dict(zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True))
    lines, reply = tmp_path / "output.manifest", tmp_path / "reply.json"
    assert main(["aggregate", str(JOB), "--method", "majority-vote", "--write-back", str(lines)]) == 0
    made = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [each["source-ref"] for each in made] == [f"s3://bucket/{row}.jpg" for row in range(6)]
    about = [each[f"{ELEMENT}-metadata"] for each in made]
    assert {row: each["class-name"] for row, each in enumerate(about)} == consensus
    assert [each[ELEMENT] for each in made] == [["cat", "dog"].index(each["class-name"]) for each in about]
    fields = {"class-name", "confidence", "type", "job-name", "human-annotated", "creation-date"}
    assert {frozenset(each) for each in about} == {frozenset(fields)}
    assert {each["type"] for each in about} == {"groundtruth/image-classification"}
    assert main(["aggregate", str(REQUEST), "--method", "majority-vote", "--write-back", str(reply)]) == 0
    answers = json.loads(reply.read_text())
    contents = {int(each["datasetObjectId"]): each["consolidatedAnnotation"]["content"] for each in answers}
    assert {row: content[f"{ELEMENT}-metadata"]["class-name"] for row, content in contents.items()} == consensus
    assert all(0 < content[f"{ELEMENT}-metadata"]["confidence"] <= 1 for content in contents.values())
