"""Prodigy: JSON lines, one for each task and annotator, with `answer`: accept, reject or ignore.

| field | read as |
|---|---|
| `_input_hash`; `_task_hash` (text and label together) where a suggested label is accepted or rejected | task |
| `_annotator_id`, else `_session_id` | worker |
| `answer` | the label, where a suggestion is accepted or rejected; ignore is skipped in every view |
| `accept` | ids of the options that were chosen: labels, or multi-label where some chose several |
| `spans` | spans; boxes where they have a width and a height |
| `user_input` | texts |
| `_timestamp` | time |
| `meta` | attributes of tasks |

A task that was rejected where something was to be chosen or marked has no answer, and is counted. Written back is a
line for each task with the consensus as its answer, by the annotator crowdwise, as `prodigy db-in` takes it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crowdwise.formats.answer_columns import check_choices, is_name
from crowdwise.formats.consensus_answers import AGENT, least_confidence
from crowdwise.formats.drawn_marks import lies_outside
from crowdwise.formats.export_format import Format
from crowdwise.formats.json_records import format_json
from crowdwise.formats.prodigy_tables import ANSWERS, BINARY, HASHES, WORKERS, find_answers
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.collected_answers import CollectedTask
    from crowdwise.formats.consensus_answers import ConsensusAnswers, ConsensusMark
    from crowdwise.formats.export import Question
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT", "find_answers"]

CHOSEN = ("accept", "spans", "user_input")  # fields with answers of views that are not binary
NOT_READ = ("relations", "audio_spans")


def recognises(files: ExportFiles) -> bool:
    """Whether the first line has an answer of Prodigy's, and a field by which it keeps it."""
    first = files.first_record
    return first.get("answer") in ANSWERS and bool({*HASHES, *WORKERS, "_view_id"} & set(first))


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every line to the collector."""
    for record, records in files.records():
        where = records.where
        answer = record.get("answer")
        if answer not in ANSWERS:
            raise InputError(
                f"{where}: 'answer' is {quote(answer)}; Prodigy writes {', '.join(ANSWERS)}. Export the file again, or "
                "name the columns yourself (on the command line --task-column, --worker-column, --label-column)."
            )
        binary = _is_binary(record, where)
        if answer == "ignore":
            found.skipped.add(_task_of(record, where, binary=binary), _find_worker(record, records.worker))
            continue
        worker = _find_worker(record, records.worker)
        if worker is None:
            raise InputError(
                f"{where} does not say who gave each answer: {' and '.join(map(repr, WORKERS))} are empty or not "
                "there. Where each worker has a file, name them: --worker NAME=FILE; or add a field with the "
                "annotator, and name it with worker= in read_labels (on the command line --worker-column)."
            )
        task = _task_of(record, where, binary=binary)
        shows = {"text": record.get("text"), "label": record.get("label")}
        if binary and all(isinstance(each, str) for each in shows.values()):
            shows["text"] = f"{shows['text']} — {shows['label']}?"
        found.shown.add(task, shows)
        if isinstance(record.get("meta"), dict):
            found.tasks.add(task, record["meta"])
        if binary:
            found.question("answer", "labels").add(task, worker, (answer,), time=record.get("_timestamp"))
        elif answer == "reject":
            found.left_out["task rejected as a whole"] += 1
        else:
            _read_chosen(record, task, worker, found, where)


def _is_binary(record: Mapping[str, Any], where: str) -> bool:
    """Whether the answer is about a suggestion as a whole."""
    view = record.get("_view_id")
    if view is not None:
        return view in BINARY
    if isinstance(record.get("spans"), list) and "accept" not in record:
        raise InputError(
            f"{where} has 'spans' and no '_view_id', so that they may be the answer, or a suggestion that was accepted "
            "as a whole. Add the field: ner_manual where they were drawn by hand, ner where they were suggested."
        )
    return not any(name in record for name in (*CHOSEN, "options", *NOT_READ))


def _find_worker(record: Mapping[str, Any], named: str | None) -> Any:
    """Who gave the answer; whom the user named for the file, where they did."""
    return named or next((record[name] for name in WORKERS if is_name(record.get(name)) and record[name] != ""), None)


def _task_of(record: Mapping[str, Any], where: str, *, binary: bool) -> Any:
    """What tells tasks apart: a text, and where a label is suggested, both together."""
    for name in HASHES if binary else (HASHES[1], HASHES[0]):
        if is_name(record.get(name)):
            if name == HASHES[1] and binary and record.get("label") is not None:
                return f"{record[name]}/{_escape_slashes(record['label'])}"
            return record[name]
    shown = next((record[name] for name in ("text", "image", "html", "audio") if record.get(name)), None)
    if not isinstance(shown, str) or len(shown) > 1000:
        raise InputError(
            f"{where} has neither {' nor '.join(map(repr, HASHES))}, which tell the tasks apart; it has "
            f"{listing(record)}. Export it with its hashes."
        )
    return f"{shown}/{_escape_slashes(record['label'])}" if binary and record.get("label") is not None else shown


def _escape_slashes(label: Any) -> str:
    """A label that stands behind a slash: the last one that is bare, so that a/b and c is not a and b/c."""
    return str(label).replace("\\", "\\\\").replace("/", "\\/")


def _read_chosen(record: Mapping[str, Any], task: Any, worker: Any, found: AnswerCollector, where: str) -> None:
    time, read_any = record.get("_timestamp"), False
    try:
        if "accept" in record or "options" in record:
            read_any, chosen = True, check_choices(record.get("accept") or [])
            if len(chosen) == 1:
                found.question("accept", "labels").add(task, worker, (chosen[0],), time=time)
            elif chosen:
                found.question("accept", "multi-label").add(task, worker, (chosen,), time=time)
            else:
                found.left_out["accepted without an option"] += 1
        if "spans" in record:
            read_any = True
            _read_spans(record, task, worker, found, where)
        if isinstance(record.get("user_input"), str):
            read_any = True
            found.question("user_input", "texts").add(task, worker, (record["user_input"],), time=time)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: the answer cannot be read ({error!r}). Export the file again.") from error
    if not read_any:
        found.left_out[f"answer of the view {quote(record.get('_view_id'))}"] += 1


def _read_spans(record: Mapping[str, Any], task: Any, worker: Any, found: AnswerCollector, where: str) -> None:
    spans, time = record["spans"] or [], record.get("_timestamp")
    rows: list[tuple[Any, ...]]
    if any("points" in span and "width" not in span for span in spans):
        rows = [(json.dumps({"points": span["points"]}), span["label"]) for span in spans]
        found.question("spans", "outlines").add(task, worker, *rows, time=time)
    elif any("width" in span for span in spans):
        rows = [(*_corners(span), span["label"]) for span in spans]
        found.question("spans", "boxes").add(task, worker, *rows, time=time)
        height, width = record.get("height"), record.get("width")
        if isinstance(height, int | float) and isinstance(width, int | float):
            found.outside += [where for row in rows if lies_outside(row, (height, width))]
    elif spans:
        rows = [(span["start"], span["end"], span["label"]) for span in spans]
        found.question("spans", "spans").add(task, worker, *rows, time=time)
    else:  # whether spans or boxes were asked for is told by other answers
        found.add_unmarked(task, worker)


def _corners(span: Mapping[str, Any]) -> tuple[float, float, float, float]:
    left, top = float(span["x"]), float(span["y"])
    return left, top, left + float(span["width"]), top + float(span["height"])


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write a line for each task with the consensus as its answer."""
    question = consensus.question
    marked = question.kind in ("spans", "boxes")
    if question.name not in ("answer", "accept") and not marked:
        raise InputError(f"{question.kind} are not written for Prodigy yet. Leave --write-back out.")
    left = dict(consensus.marks_by_task if marked else consensus.by_task)
    with out.open("w", encoding="utf-8") as file:
        for record, records in files.records():
            binary = _is_binary(record, records.where)
            said: Any = left.pop(str(_task_of(record, records.where, binary=binary)), None)
            if said is None:
                continue
            confidence = least_confidence(said) if marked else said.confidence
            answer: dict[str, Any]
            if binary:
                answer = {"answer": said.answer}
            elif marked:
                spans = [_span_of_text(mark, record) if question.kind == "spans" else _rectangle(mark) for mark in said]
                answer = {"spans": spans, "answer": "accept"}
            else:
                answer = {"accept": said.answer if isinstance(said.answer, list) else [said.answer], "answer": "accept"}
            who = {"_annotator_id": AGENT, "_session_id": AGENT}
            known = record.get("meta") or {}
            meta = {"meta": {**(known if isinstance(known, dict) else {"meta": known}), "confidence": confidence}}
            kept = {name: value for name, value in record.items() if name != "_timestamp"}
            file.write(format_json({**kept, **answer, **who, **meta}) + "\n")


def write_answers(tasks: Sequence[CollectedTask], question: Question, out: Path) -> None:  # noqa: ARG001
    """Write a line for each answer, as the interface `choice` has it: the options, and which were accepted."""
    given = [(task, each) for task in tasks for each in task.answers]
    chosen = [each.answer if isinstance(each.answer, list) else [each.answer] for _, each in given]
    options = [{"id": name, "text": name} for name in dict.fromkeys(name for names in chosen for name in names)]
    with out.open("w", encoding="utf-8") as file:
        for (task, each), accepted in zip(given, chosen, strict=True):
            line = {**task.shows, "_input_hash": task.name, "options": options, "accept": accepted, "answer": "accept",
                    "_view_id": "choice", "_annotator_id": each.worker, "_session_id": each.worker}  # fmt: skip
            file.write(format_json(line if each.time is None else {**line, "_timestamp": int(each.time)}) + "\n")


def _span_of_text(mark: ConsensusMark, record: Mapping[str, Any]) -> dict[str, Any]:
    """A span, with the first and last token where it begins and ends with tokens."""
    start, end = mark.place
    span: dict[str, Any] = {"start": start, "end": end, "label": mark.label}
    tokens = record.get("tokens") or ()
    first = next((token["id"] for token in tokens if token.get("start") == start), None)
    last = next((token["id"] for token in tokens if token.get("end") == end), None)
    return span if first is None or last is None else {**span, "token_start": first, "token_end": last}


def _rectangle(mark: ConsensusMark) -> dict[str, Any]:
    left, top, right, bottom = mark.place
    corners = [[left, top], [left, bottom], [right, bottom], [right, top]]
    size = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    middle = [(left + right) / 2, (top + bottom) / 2]
    return {**size, "center": middle, "points": corners, "type": "rect", "label": mark.label}


FORMAT = Format(
    slug="prodigy",
    name="Prodigy",
    files="JSON lines (db-out)",
    kinds=("labels", "multi-label", "texts", "spans", "boxes", "outlines"),
    writes="a line for each task (JSON lines, for db-in)",
    is_of_one_worker=True,
    collects=("labels", "multi-label"),
    suffixes=("jsonl", "jsonl"),
)
