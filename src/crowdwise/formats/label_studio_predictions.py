"""What is written for Label Studio: the consensus as predictions, and answers that were collected elsewhere.

Tasks are written with one prediction each, as Label Studio imports them, and with annotations where there are answers.

A prediction of spans or rectangles has a result for each, with its confidence as `score`; the score of the prediction
is that of the least sure. What only the page knows of a place (the path in HTML, the size of the image in pixels) is
taken from the workers' own results.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from crowdwise.formats.consensus_answers import AGENT, least_confidence
from crowdwise.formats.json_records import format_json
from crowdwise.formats.label_studio_results import place_of_span, split_path
from crowdwise.formats.label_studio_tables import is_flat_export
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from crowdwise.formats.collected_answers import CollectedTask
    from crowdwise.formats.consensus_answers import ConsensusAnswer, ConsensusAnswers, ConsensusMark
    from crowdwise.formats.export import Question
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["TYPES", "write", "write_answers"]

ANSWERED = ("labels", "multi-label", "ordinal", "values", "texts", "comparisons")  # one answer a task
MARKED = ("spans", "boxes")
TYPES = {"labels": "choices", "multi-label": "choices", "values": "number", "comparisons": "pairwise"}  # by kind
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


def write_answers(tasks: Sequence[CollectedTask], question: Question, out: Path) -> None:
    """Write the tasks with an annotation for each answer, known answers as ground truth, and a prediction each."""
    if not question.details:
        shown = {name for task in tasks for name in task.shows}
        about = "left,right" if question.kind == "comparisons" else "text" if "text" in shown else "image"
        question = replace(question, details={"to_name": about, "type": TYPES[question.kind]})
    number = count(1)
    with out.open("w", encoding="utf-8") as file:
        file.write("[")
        for place, task in enumerate(tasks):
            annotations = [
                _annotate(next(number), each.worker, each.answer, question)
                | {"created_at": _format_time(each.time), "lead_time": each.seconds}
                for each in task.answers
            ]
            if task.gold is not None:
                annotations.append(_annotate(next(number), AGENT, task.gold, question) | {"ground_truth": True})
            made: dict[str, Any] = {"id": task.name, "data": dict(task.shows), "annotations": annotations}
            if task.consensus is not None:
                made["predictions"] = [{"model_version": AGENT, **_predict_answer(task.consensus, question)}]
            file.write((",\n" if place else "\n") + format_json(made))
        file.write("\n]\n")


def _annotate(number: int, worker: str, said: Any, question: Question) -> dict[str, Any]:
    if question.kind == "comparisons" and said not in ("left", "right"):
        raise InputError("Label Studio knows no ties, and there are some among the answers. Choose another format.")
    result = [] if said == [] else [_say(said, question)]
    return {
        "id": number,
        "completed_by": {"email": worker},
        "was_cancelled": False,
        "ground_truth": False,
        "result": result,
    }


def _format_time(time: float | None) -> str | None:
    return None if time is None else datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")


def _predict_answer(answer: ConsensusAnswer, question: Question) -> dict[str, Any]:
    return {"score": answer.confidence, "result": [_say(answer.answer, question)]}


def _say(said: Any, question: Question) -> dict[str, Any]:
    """The result that says so."""
    values: dict[str, Callable[[], dict[str, Any]]] = {
        "choices": lambda: {"choices": said if isinstance(said, list) else [said]},
        "taxonomy": lambda: {"taxonomy": [split_path(each) for each in (said if isinstance(said, list) else [said])]},
        "rating": lambda: {"rating": said},
        "number": lambda: {"number": said},
        "pairwise": lambda: {"selected": said},
        "textarea": lambda: {"text": [said]},
    }
    return _make_result(question, values[question.details["type"]]())


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
