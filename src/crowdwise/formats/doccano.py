"""doccano: a zip archive with one `<username>.jsonl` for each member, or such files by themselves.

| field | read as |
|---|---|
| name of the file | worker |
| `id` | task |
| `label` with texts | labels, or multi-label where some answers hold several |
| `label` with [start, end, label], `entities` | spans |
| `bbox` | boxes, in pixels |
| other fields | attributes of tasks |

The one `all.jsonl` of a project whose members share their annotations does not say who gave which, and is refused. A
task without a label was not seen, or has none: the file does not tell, so it is counted and no answer. Written back
are the tasks with the consensus as their label, as doccano imports them.
"""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, Any

from crowdwise.formats.answer_columns import is_name
from crowdwise.formats.consensus_answers import least_confidence
from crowdwise.formats.export_format import Format
from crowdwise.formats.json_records import format_json
from crowdwise.labels.columns import candidates
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.collected_answers import CollectedTask
    from crowdwise.formats.consensus_answers import ConsensusAnswers, ConsensusMark
    from crowdwise.formats.export import Question
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT"]

SHOWN = ("text", "filename")  # what a task shows
MARKED = ("label", "entities", "bbox")  # fields with the answer
SHARED = "all"  # the name of the file in which answers of all members are one
QUESTION = "label"
MEMBER = re.compile(r"[\w@+-][\w.@+ -]*")  # names of workers that are names of files, everywhere
ELSEWHERE = {*MARKED, *SHOWN, "id", "relations", "Comments", "comments", "cats", "segmentation"}


def recognises(files: ExportFiles) -> bool:
    """Whether the first line has an id, what a task shows and a list of labels, and nobody who gave them."""
    first = files.first_record
    return (
        "id" in first
        and any(isinstance(first.get(name), str) for name in SHOWN)
        and any(isinstance(first.get(name), list) for name in MARKED)
        and not {*candidates("worker", list(first))} - {"source", "model"}  # of tasks as well
        and all(file.path.suffix == ".jsonl" for file in files.files)
    )


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every line of every member to the collector."""
    for file in files.files:
        worker = file.worker or file.path.stem
        if file.worker is None and worker == SHARED:
            raise InputError(
                f"{file.blob.name} holds the answers of all members as one, and not who gave which. In doccano, switch "
                "'Share annotations across all users' off before labelling: the export then has a file for each member."
                " If one person labelled it all, name them: --worker NAME=FILE."
            )
        seen: dict[Any, int] = {}
        records = file.records()
        for record in records:
            task = record.get("id") if isinstance(record, dict) else None
            if not is_name(task):
                raise InputError(f"{records.where} is no object with an 'id': {quote(record)}. Export the file again.")
            if task in seen:
                raise InputError(
                    f"{records.where} has the id {quote(task)} of record {seen[task]} again. Give one export of one "
                    "project."
                )
            seen[task] = records.number
            _read_line(record, worker, found, records.where)


def _read_line(record: Mapping[str, Any], worker: str, found: AnswerCollector, where: str) -> None:
    task, field = record["id"], next((name for name in MARKED if name in record), None)
    if field is None:
        raise InputError(f"{where} has none of 'label', 'entities' and 'bbox'. Export the file again.")
    marks = record[field]
    if not isinstance(marks, list):
        raise InputError(f"{where}: {field!r} holds {quote(marks)}, not a list. Export the file again.")
    found.shown.add(task, {name: record[name] for name in SHOWN if name in record})
    found.tasks.add(task, {name: value for name, value in record.items() if name not in ELSEWHERE})
    if not marks:
        found.left_out["task without a label (not seen, or none)"] += 1
        return
    try:
        if field == "bbox":
            rows = [_corners(mark) for mark in marks]
            found.question(QUESTION, "boxes").add(task, worker, *rows)
        elif field == "entities":
            spans = [(mark["start_offset"], mark["end_offset"], mark["label"]) for mark in marks]
            found.question(QUESTION, "spans").add(task, worker, *spans)
        elif all(isinstance(mark, list) for mark in marks):
            found.question(QUESTION, "spans").add(task, worker, *((start, end, label) for start, end, label in marks))
        elif len(marks) == 1:
            found.question(QUESTION, "labels").add(task, worker, (_check_label(marks[0]),))
        else:
            found.question(QUESTION, "multi-label").add(task, worker, ([_check_label(mark) for mark in marks],))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where}: {field!r} cannot be read ({error!r}). Export the file again.") from error


def _check_label(mark: Any) -> str | int:
    if not isinstance(mark, str | int):
        raise TypeError(f"a label is {quote(mark)}")
    return mark


def _corners(box: Mapping[str, Any]) -> tuple[Any, ...]:
    left, top = float(box["x"]), float(box["y"])
    return left, top, left + float(box["width"]), top + float(box["height"]), box["label"]


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write a line for each task with the consensus as its label, in the field and the form of the export."""
    marked = consensus.question.kind in ("spans", "boxes")
    left = dict(consensus.marks_by_task if marked else consensus.by_task)
    with out.open("w", encoding="utf-8") as file:
        for record, _ in files.records():
            said: Any = left.pop(str(record["id"]), None)
            if said is None:
                continue
            if marked:
                field = next(name for name in MARKED if name in record)
                line = {field: [_format_mark(mark, field) for mark in said], "confidence": least_confidence(said)}
            else:
                label = said.answer if isinstance(said.answer, list) else [said.answer]
                line = {"label": label, "confidence": said.confidence}
            file.write(format_json({**record, **line}) + "\n")


def write_answers(tasks: Sequence[CollectedTask], question: Question, out: Path) -> None:  # noqa: ARG001
    """Write a zip archive with a file for each worker, as doccano exports it."""
    lines: dict[str, list[str]] = {}
    for task in tasks:
        shown = {to: task.shows[name] for name, to in (("text", "text"), ("image", "filename")) if name in task.shows}
        for each in task.answers:
            label = each.answer if isinstance(each.answer, list) else [each.answer]
            lines.setdefault(each.worker, []).append(format_json({"id": task.name, **shown, "label": label}) + "\n")
    if strange := [worker for worker in lines if not MEMBER.fullmatch(worker) or worker == SHARED]:
        raise InputError(
            f"doccano names a file after each worker, which cannot be done for {listing(strange)}. Choose another "
            "format, or other names."
        )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for worker, written in lines.items():
            archive.writestr(f"{worker}.jsonl", "".join(written))


def _format_mark(mark: ConsensusMark, field: str) -> Any:
    if field == "label":
        return [*mark.place, mark.label]
    if field == "entities":
        return {"label": mark.label, "start_offset": mark.place[0], "end_offset": mark.place[1]}
    left, top, right, bottom = mark.place
    return {"x": left, "y": top, "width": right - left, "height": bottom - top, "label": mark.label}


FORMAT = Format(
    slug="doccano",
    name="doccano",
    files="zip, or <username>.jsonl for each member",
    kinds=("labels", "multi-label", "spans", "boxes"),
    writes="a line for each task (JSON lines, for import)",
    is_of_one_worker=True,
    collects=("labels", "multi-label"),
    suffixes=("zip", "jsonl"),
)
