"""The consensus as predictions of Label Studio: the tasks with one prediction each, which it imports.

A prediction of spans or rectangles has a result for each, with its confidence as `score`; the score of the prediction
is that of the least sure. What only the page knows of a place (the path in HTML, the size of the image in pixels) is
taken from the workers' own results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.formats.consensus_answers import AGENT, least_confidence
from crowdwise.formats.json_records import format_json
from crowdwise.formats.label_studio_results import place_of_span, split_path
from crowdwise.formats.label_studio_tables import is_flat_export
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from crowdwise.formats.consensus_answers import ConsensusAnswer, ConsensusAnswers, ConsensusMark
    from crowdwise.formats.export import Question
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["write"]

ANSWERED = ("labels", "multi-label", "ordinal", "values", "texts", "comparisons")  # one answer a task
MARKED = ("spans", "boxes")
IMAGE = ("original_width", "original_height", "image_rotation")  # of a result about an image


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write the tasks with a prediction each, as Label Studio imports them."""
    question = consensus.question
    if question.kind not in (*ANSWERED, *MARKED):
        raise InputError(f"{question.kind} are not written for Label Studio yet. Leave --write-back out.")
    if is_flat_export(files):
        raise InputError(
            f"{files.origin} does not say which part of a task each question is about, as predictions must. Export the "
            "project as JSON, and write back from that."
        )
    known = consensus.marks_by_task if question.kind in MARKED else consensus.by_task
    with out.open("w", encoding="utf-8") as file:
        file.write("[")
        written = (task for task, _ in files.records() if str(task["id"]) in known)
        for number, task in enumerate(written):
            if question.kind in MARKED:
                made = _predict_marks(consensus.marks_by_task[str(task["id"])], question, task)
            else:
                made = _predict_answer(consensus.by_task[str(task["id"])], question)
            line = {"id": task["id"], "data": task.get("data"), "predictions": [{"model_version": AGENT, **made}]}
            file.write((",\n" if number else "\n") + format_json(line))
        file.write("\n]\n")


def _predict_answer(answer: ConsensusAnswer, question: Question) -> dict[str, Any]:
    kind, said = question.details["type"], answer.answer
    values: dict[str, Callable[[], dict[str, Any]]] = {
        "choices": lambda: {"choices": said if isinstance(said, list) else [said]},
        "taxonomy": lambda: {"taxonomy": [split_path(each) for each in (said if isinstance(said, list) else [said])]},
        "rating": lambda: {"rating": said},
        "number": lambda: {"number": said},
        "pairwise": lambda: {"selected": said},
        "textarea": lambda: {"text": [said]},
    }
    return {"score": answer.confidence, "result": [_make_result(question, values[kind]())]}


def _make_result(question: Question, value: Mapping[str, Any]) -> dict[str, Any]:
    details = question.details
    return {"from_name": question.name, "to_name": details["to_name"], "type": details["type"], "value": value}


def _predict_marks(marks: list[ConsensusMark], question: Question, task: Mapping[str, Any]) -> dict[str, Any]:
    drawn = list(_results_of_workers(task, question))
    results = []
    for number, mark in enumerate(marks, 1):
        if question.kind == "spans":
            value = _span_value(mark, question.details["type"], drawn)
            more: dict[str, Any] = {}
        else:
            left, top, right, bottom = mark.place
            value = {"x": left, "y": top, "width": right - left, "height": bottom - top, "rotation": 0}
            more = {name: drawn[0][name] for name in IMAGE if drawn and name in drawn[0]}
        value |= {question.details["type"]: [mark.label]}
        results.append({"id": f"{AGENT}-{number}", **_make_result(question, value), **more, "score": mark.confidence})
    return {"score": least_confidence(marks), "result": results}


def _results_of_workers(task: Mapping[str, Any], question: Question) -> Iterator[Mapping[str, Any]]:
    for annotation in task.get("annotations") or task.get("completions") or ():
        for result in annotation.get("result") or ():
            if result.get("from_name") == question.name and isinstance(result.get("value"), dict):
                yield result


def _span_value(mark: ConsensusMark, kind: str, drawn: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Where a span is, as a worker who marked the same stretch has it; by its characters alone where nobody did."""
    start, end = mark.place
    for result in drawn:
        place = place_of_span(result["value"])
        if (place.get("start"), place.get("end")) == (start, end):
            return {name: each for name, each in result["value"].items() if name != kind}
    return {"start": start, "end": end} if kind == "labels" else {"globalOffsets": {"start": start, "end": end}}
