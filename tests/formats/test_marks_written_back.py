"""Spans, boxes, points, masks and comparisons: what is written back is read again, and is the consensus."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow.csv as pv
import pytest

from crowdwise import read_export
from crowdwise.cli import main
from crowdwise.kinds import read_masks

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"
WORKERS = ("ann", "bob", "cy")


def write_back(source: Path | list[Path], out: Path, *options: str) -> list[dict[str, Any]]:
    """Write the consensus back, and give it as the table of the results has it."""
    files = [str(path) for path in ([source] if isinstance(source, Path) else source)]
    results = out.parent / "results"
    assert main(["aggregate", *files, *options, "--write-back", str(out), "--out", str(results), "--json"]) == 0
    rows: list[dict[str, Any]] = pv.read_csv(results / "consensus.csv").to_pylist()
    shutil.rmtree(results)
    return rows


def places(rows: list[dict[str, Any]], *names: str) -> set[tuple[Any, ...]]:
    """What marks are, whoever made them; those of answers without a mark are left out."""
    marked = [row for row in rows if row[names[0]] is not None]
    numbers = [tuple(round(float(row[name]), 2) for name in names) for row in marked]
    return {(str(row["task"]), *place, str(row["label"])) for row, place in zip(marked, numbers, strict=True)}


def results_of(kind: str, *values: dict[str, Any]) -> list[dict[str, Any]]:
    about = {"from_name": "q", "to_name": "x", "type": kind, "original_width": 800, "original_height": 600}
    return [{**about, "id": f"r{number}", "value": value} for number, value in enumerate(values)]


def label_studio(path: Path, data: dict[str, Any], *answers: list[list[dict[str, Any]]]) -> Path:
    """An export with a task for each list of answers: the results of each worker."""
    tasks = [
        {
            "id": number,
            "data": data,
            "annotations": [
                {"id": 10 * number + each, "completed_by": name, "result": result}
                for each, (name, result) in enumerate(zip(WORKERS, of_task, strict=True))
            ],
        }
        for number, of_task in enumerate(answers, 1)
    ]
    path.write_text(json.dumps(tasks))
    return path


def as_annotations(written: Path) -> Path:
    """Predictions of Label Studio as annotations, so that the reader takes them for answers."""
    tasks = json.loads(written.read_text())
    for task in tasks:
        (prediction,) = task["predictions"]
        task["annotations"] = [{"id": task["id"], "completed_by": "crowdwise", "result": prediction["result"]}]
    again = written.with_name("again.json")
    again.write_text(json.dumps(tasks))
    return again


def rectangle(x: float, label: str = "cat") -> dict[str, Any]:
    return {"x": x, "y": 20.0, "width": 30.0, "height": 10.0, "rotation": 0, "rectanglelabels": [label]}


def test_label_studio_boxes(tmp_path: Path) -> None:
    drawn = [results_of("rectanglelabels", rectangle(10 + shift), rectangle(60 + shift, "dog")) for shift in range(3)]
    source = label_studio(tmp_path / "e.json", {"image": "a.jpg"}, drawn, [[], [], []])
    consensus = write_back(source, tmp_path / "p.json")
    assert len(consensus) == 2
    first, nothing = (task["predictions"][0] for task in json.loads((tmp_path / "p.json").read_text()))
    assert nothing == {"model_version": "crowdwise", "score": None, "result": []}
    assert {(each["original_width"], each["original_height"]) for each in first["result"]} == {(800, 600)}
    assert first["score"] == min(each["score"] for each in first["result"])
    again = read_export(as_annotations(tmp_path / "p.json")).answers.to_pylist()
    sides = ("x_min", "y_min", "x_max", "y_max")
    assert places(again, *sides) == places(consensus, *sides)


def test_label_studio_spans(tmp_path: Path) -> None:
    stretch = {"start": 0, "end": 5, "text": "Maria", "labels": ["PERSON"]}
    page = {"start": "/p[1]/text()[1]", "startOffset": 3, "end": "/p[1]/text()[1]", "endOffset": 8}
    path = page | {"globalOffsets": {"start": 3, "end": 8}, "hypertextlabels": ["PERSON"]}
    for kind, value in {"labels": stretch, "hypertextlabels": path}.items():
        given = [results_of(kind, value), results_of(kind, value), []]
        source = label_studio(tmp_path / "e.json", {"text": "Maria wrote"}, given)
        consensus = write_back(source, tmp_path / "p.json")
        (task,) = json.loads((tmp_path / "p.json").read_text())
        (result,) = task["predictions"][0]["result"]
        assert (result["from_name"], result["to_name"], result["type"], result["value"]) == ("q", "x", kind, value)
        again = read_export(as_annotations(tmp_path / "p.json")).answers.to_pylist()
        assert places(again, "start", "end") == places(consensus, "start", "end") != set()


def test_a_span_that_nobody_marked_whole_is_written_by_its_characters() -> None:
    from crowdwise.formats.consensus_answers import ConsensusMark
    from crowdwise.formats.label_studio_predictions import _span_value

    mark = ConsensusMark((2, 7), "PERSON", 0.9)
    assert _span_value(mark, "labels", []) == {"start": 2, "end": 7}
    assert _span_value(mark, "hypertextlabels", []) == {"globalOffsets": {"start": 2, "end": 7}}


def test_label_studio_comparisons(tmp_path: Path) -> None:
    chosen = [[results_of("pairwise", {"selected": side}) for side in sides] for sides in (["left"] * 3, ["right"] * 3)]
    source = label_studio(tmp_path / "e.json", {"left": "good", "right": "bad"}, chosen[0], chosen[0])
    tasks = json.loads(source.read_text())
    tasks.append({**json.loads(json.dumps(tasks[0])), "id": 3, "data": {"left": "bad", "right": "good"}})
    for each in tasks[2]["annotations"]:
        each["result"] = chosen[1][0]
    source.write_text(json.dumps(tasks))
    write_back(source, tmp_path / "p.json")
    predictions = [task["predictions"][0] for task in json.loads((tmp_path / "p.json").read_text())]
    assert [each["result"][0]["value"]["selected"] for each in predictions] == ["left", "left", "right"]
    assert len({each["score"] for each in predictions}) == 1
    assert 0.9 < predictions[0]["score"] < 1


def test_doccano(tmp_path: Path) -> None:
    box = {"x": 1.0, "y": 2.0, "width": 8.0, "height": 4.0, "label": "cat"}
    entity = {"id": 3, "label": "PER", "start_offset": 0, "end_offset": 3}
    fields: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        "label": ({"text": "Ann met Bob", "label": [[0, 3, "PER"], [8, 11, "PER"]]}, ("start", "end")),
        "entities": ({"text": "Ann met Bob", "entities": [entity]}, ("start", "end")),
        "bbox": ({"filename": "a.jpg", "bbox": [box]}, ("x_min", "y_min", "x_max", "y_max")),
    }
    for field, (record, sides) in fields.items():
        for worker in WORKERS[:2]:
            lines = [{"id": 1, **record}, {"id": 2, **record}]
            (tmp_path / f"{worker}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        out = tmp_path / "out.jsonl"
        consensus = write_back([tmp_path / "ann.jsonl", tmp_path / "bob.jsonl"], out)
        written = [json.loads(line) for line in out.read_text().splitlines()]
        assert [(each["id"], 0 < each["confidence"] <= 1) for each in written] == [(1, True), (2, True)]
        assert places(read_export(out).answers.to_pylist(), *sides) == places(consensus, *sides) != set(), field
        out.unlink()


def test_prodigy(tmp_path: Path) -> None:
    tokens = [{"text": "Ann", "start": 0, "end": 3, "id": 0}, {"text": "met", "start": 4, "end": 7, "id": 1}]
    span = {"start": 0, "end": 3, "label": "PER", "token_start": 0, "token_end": 0}
    box = {"x": 1.0, "y": 2.0, "width": 8.0, "height": 4.0, "label": "cat"}
    views: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        "ner_manual": ({"text": "Ann met", "tokens": tokens, "spans": [span]}, ("start", "end")),
        "image_manual": ({"image": "a.jpg", "spans": [box]}, ("x_min", "y_min", "x_max", "y_max")),
    }
    for view, (record, sides) in views.items():
        kept = {"_input_hash": 7, "_task_hash": 8, "_view_id": view, "answer": "accept"}
        lines = [json.dumps({**record, **kept, "_annotator_id": name}) for name in WORKERS[:2]]
        (tmp_path / "e.jsonl").write_text("\n".join(lines))
        consensus = write_back(tmp_path / "e.jsonl", tmp_path / "out.jsonl")
        (written,) = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert (written["_annotator_id"], written["answer"]) == ("crowdwise", "accept")
        if view == "ner_manual":
            assert written["spans"] == [span]
        again = read_export(tmp_path / "out.jsonl").answers.to_pylist()
        assert places(again, *sides) == places(consensus, *sides) != set()


def test_brat(tmp_path: Path) -> None:
    consensus = write_back(EXAMPLES / "brat.zip", tmp_path / "out.zip")
    again = read_export(tmp_path / "out.zip")
    assert set(again.answers["worker"].to_pylist()) == {"crowdwise"}
    assert set(again.answers["task"].to_pylist()) == {"a", "b", "sub/c"}  # nothing is marked in the last
    assert places(again.answers.to_pylist(), "start", "end") == places(consensus, "start", "end") != set()
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        text = archive.read("crowdwise/a.txt").decode()
        assert archive.read("crowdwise/a.ann").decode() == f"T1\tPerson 0 3\t{text[:3]}\n"


@pytest.mark.parametrize("question", ["box", "sky", "tag"])
def test_cvat(question: str, tmp_path: Path) -> None:
    consensus = write_back(EXAMPLES / "cvat", tmp_path / "consensus.xml", "--question", question)
    images = ET.parse(tmp_path / "consensus.xml").getroot().findall("image")  # noqa: S314 (our own file)
    assert [each.attrib["name"] for each in images] == [f"road/{number}.jpg" for number in range(4)]
    files = [EXAMPLES / "cvat" / "ann.xml", tmp_path / "consensus.xml"]
    again = read_export(files, question=question, workers=["ann", "consensus"])
    mine = [row for row in again.answers.to_pylist() if row["worker"] == "consensus"]
    if question == "box":
        sides = ("x_min", "y_min", "x_max", "y_max")
        assert places(mine, *sides) == places(consensus, *sides)
        assert all(0 < float(each.attrib["score"]) <= 1 for image in images for each in image.findall("box"))
    elif question == "tag":
        assert {row["task"]: row["label"] for row in mine} == {row["task"]: row["label"] for row in consensus}
    else:
        masks = read_masks(again)
        rows = [row for row in range(masks.n_answers) if masks.workers[int(masks.worker[row])].as_py() == "consensus"]
        assert [int(masks.mask(row).sum()) for row in rows] == [180, 210, 240, 270]  # 6, 7, 8 and 9 rows of 30 pixels
