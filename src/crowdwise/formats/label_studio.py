"""Label Studio: exports as JSON, JSON_MIN and CSV.

| field | read as |
|---|---|
| `id` of a task | task |
| `completed_by` of an annotation (the e-mail address, where it is there) | worker |
| `from_name` of a result | question |
| `created_at`, `lead_time` | time, duration |
| `was_cancelled` | skipped |
| `ground_truth` | gold |
| `parent_prediction` | anchored |
| `predictions`, their `model_version` | predictions, their worker |
| `data` | attributes of tasks |

What a result says is in `label_studio_results`, JSON_MIN and CSV in `label_studio_tables`. Old files say `completions`
for `annotations`; what is written back is in `label_studio_predictions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.formats.answer_collector import MARKED
from crowdwise.formats.answer_columns import is_name
from crowdwise.formats.export_format import Format
from crowdwise.formats.label_studio_predictions import TYPES, write, write_answers
from crowdwise.formats.label_studio_results import question_of_result, read_result
from crowdwise.formats.label_studio_tables import is_flat_export, read_flat_export
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFiles
    from crowdwise.formats.label_studio_results import Rows

__all__ = ["FORMAT", "write", "write_answers"]

ANNOTATIONS = ("annotations", "completions")
UNNAMED_MODEL = "model"  # of predictions without a model_version


class _Answer(NamedTuple):
    """The answer to a question: its kind, its rows, and the first result that says so."""

    question: str
    kind: str
    rows: Rows
    result: Mapping[str, Any]


def recognises(files: ExportFiles) -> bool:
    """Whether these are tasks with annotations, or rows with the columns of JSON_MIN and CSV."""
    first = files.first_record
    return (isinstance(first.get("data"), dict) and any(name in first for name in ANNOTATIONS)) or is_flat_export(files)


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every annotation of every task to the collector."""
    if is_flat_export(files):
        read_flat_export(files, found)
        return
    for task, records in files.records():
        if not is_name(task.get("id")):
            raise InputError(f"{records.where} has no 'id', so that its task has no name. Export the file again.")
        found.add_task(task["id"], records.number)
        _read_task(task, found, lambda: records.where)  # noqa: B023 (called at once)


def _read_task(task: Mapping[str, Any], found: AnswerCollector, where: Callable[[], str]) -> None:
    name, data = task["id"], task.get("data")
    if isinstance(data, dict):
        found.tasks.add(name, data)
        found.shown.add(name, data)
    else:
        data = {}
    for annotation in _list_objects(task, _annotations_field(task, where), where):
        _read_annotation(annotation, name, data, found, where)
    for each in _optional_list(task, "predictions", where):
        if isinstance(each, dict):
            model = str(each.get("model_version") or UNNAMED_MODEL)
            for answer in _answers_of(each, data, found, where):
                asked = found.question(answer.question, answer.kind, **_details(answer.result))
                asked.add_prediction(name, model, *answer.rows, score=each.get("score"))
        else:
            found.left_out["prediction without content (a bare id)"] += 1
    for each in _optional_list(task, "drafts", where):
        found.drafts.add(name, _worker_of_draft(each))


def _annotations_field(task: Mapping[str, Any], where: Callable[[], str]) -> str:
    for name in ANNOTATIONS:
        if name in task:
            return name
    raise InputError(
        f"{where()} has no 'annotations'; it has {listing(task)}. Export the project as JSON, with its annotations."
    )


def _list_objects(task: Mapping[str, Any], field: str, where: Callable[[], str]) -> list[dict[str, Any]]:
    every = task[field]
    if not isinstance(every, list) or not all(isinstance(each, dict) for each in every):
        raise InputError(f"{where()}: {field!r} holds {quote(every)}, not a list of objects. Export the file again.")
    return every


def _optional_list(task: Mapping[str, Any], field: str, where: Callable[[], str]) -> list[Any]:
    every = task.get(field) or []
    if not isinstance(every, list):
        raise InputError(f"{where()}: {field!r} holds {quote(every)}, not a list. Export the file again.")
    return every


def _read_annotation(
    annotation: Mapping[str, Any], task: Any, data: Mapping[str, Any], found: AnswerCollector, where: Callable[[], str]
) -> None:
    if annotation.get("ground_truth"):
        for each in _answers_of(annotation, data, found, where):
            found.question(each.question, each.kind, **_details(each.result)).add_gold(task, *each.rows)
        return
    worker = _worker_of(annotation, where)
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        found.skipped.add(task, worker)
        return
    answers = _answers_of(annotation, data, found, where)
    marked, asked = False, None
    for each in answers:
        marked = marked or each.kind in MARKED
        asked = found.questions.get((each.question, each.kind))
        asked = asked or found.question(each.question, each.kind, **_details(each.result))
        asked.add(
            task,
            worker,
            *each.rows,
            time=annotation.get("created_at"),
            duration=annotation.get("lead_time"),
            anchored=annotation.get("parent_prediction") is not None,
        )
    if not marked:
        found.add_unmarked(task, worker, asked)


def _answers_of(
    annotation: Mapping[str, Any], data: Mapping[str, Any], found: AnswerCollector, where: Callable[[], str]
) -> list[_Answer]:
    """The answer to each question; results of one question (its spans, boxes) together."""
    results = annotation.get("result")
    if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
        raise InputError(
            f"{where()}, annotation {quote(annotation.get('id'))}: 'result' holds {quote(results)}, not a list of "
            "results. Export the file again."
        )
    answers: dict[tuple[str, str], _Answer] = {}
    for result in results:
        read = read_result(result, data, found, where)
        if read is not None and (read[1] or read[0] in MARKED):
            name = question_of_result(result, where)
            answers.setdefault((name, read[0]), _Answer(name, read[0], [], result)).rows.extend(read[1])
    return list(answers.values())


def _details(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a result about the consensus has to say besides: which part of the task it is about, and its type."""
    return {"to_name": result.get("to_name"), "type": result["type"]}


def _worker_of(annotation: Mapping[str, Any], where: Callable[[], str]) -> Any:
    by = annotation.get("completed_by")
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    if not is_name(by) or by == "":
        raise InputError(
            f"{where()}, annotation {quote(annotation.get('id'))}: 'completed_by' is {quote(by)}, so "
            "that nobody knows whose answer it is. Export the project with its annotators, or remove the annotation."
        )
    return by


def _worker_of_draft(draft: Any) -> Any:
    return draft.get("user") or draft.get("created_username") if isinstance(draft, dict) else None


FORMAT = Format(
    slug="label-studio",
    name="Label Studio",
    files="JSON, JSON_MIN or CSV",
    kinds=(
        "labels", "multi-label", "ordinal", "values", "texts", "comparisons", "rankings", "spans", "boxes", "outlines",
    ),
    writes="tasks with predictions (JSON)",
    collects=tuple(TYPES),
    suffixes=("json", "json"),
)  # fmt: skip
