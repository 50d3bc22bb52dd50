"""Amazon SageMaker Ground Truth: the answers of workers, and the request to a consolidation function.

| worker responses (a folder) | consolidation request | read as |
|---|---|---|
| folder `<row>`: the line of the input manifest, from 0 | `datasetObjectId` | task |
| `workerId` | `workerId` | worker |
| an element of `answerContent` | an element of `annotationData.content`, JSON text | question |
| `submissionTime`, `timeSpentInSeconds` | not there | time, duration |

What elements hold is in `crowd_elements`. Written back is the output manifest (of worker responses, where the input
manifest lies in the folder), or the reply of a consolidation function (of its request).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crowdwise.formats.answer_columns import is_name
from crowdwise.formats.consensus_answers import AGENT
from crowdwise.formats.crowd_elements import add_content
from crowdwise.formats.export_format import Format
from crowdwise.formats.json_records import JsonRecords, format_json, parse_json_text
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.consensus_answers import ConsensusAnswer, ConsensusAnswers
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

RESPONSES = "worker-response"  # the folder with the answers, in that of a job
MANIFEST = ".manifest"


def recognises(files: ExportFiles) -> bool:
    """Whether the folder is that of a job, or the first record holds answers or a request."""
    if any(RESPONSES in file.path.parts for file in files.files):
        return True
    first = files.first_record
    return _is_request(first) or (isinstance(first.get("answers"), list) and _has_content(first["answers"]))


def _is_request(record: Mapping[str, Any]) -> bool:
    return "datasetObjectId" in record and "annotations" in record


def _has_content(answers: list[Any]) -> bool:
    return bool(answers) and isinstance(answers[0], dict) and "answerContent" in answers[0]


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every answer to the collector."""
    if _is_request(files.first_record):
        for record, records in files.records():
            _read_request(record, found, records.where)
            found.add_task(record["datasetObjectId"], records.number)
        return
    for file in _answer_files(files):
        for record in file.records():
            where = f"{files.origin}/{file.path}" if len(files.files) > 1 else file.blob.name
            answers = record.get("answers") if isinstance(record, dict) else None
            if not isinstance(answers, list):
                raise InputError(f"{where} has no list 'answers'; it holds {quote(record)}. Give the worker responses.")
            for each in answers:
                _read_answer(each, _row_of(file), found, where)


def _answer_files(files: ExportFiles) -> list[ExportFile]:
    inside = [file for file in files.files if RESPONSES in file.path.parts]
    jobs = {file.path.parts[: file.path.parts.index(RESPONSES)] for file in inside}
    if len(jobs) > 1:
        raise InputError(
            f"{files.origin} holds the answers of {len(jobs)} jobs ({listing('/'.join(job) for job in sorted(jobs))}), "
            "whose tasks are numbered alike. Give the folder of one."
        )
    return [file for file in inside or files.files if file.path.suffix == ".json"]


def _row_of(file: ExportFile) -> Any:
    """The folder of a file is the line of the input manifest that it is about."""
    row = file.path.parent.name
    return int(row) if re.fullmatch(r"0|[1-9][0-9]{,17}", row) else row or file.path.stem


def _read_answer(answer: Any, task: Any, found: AnswerCollector, where: str) -> None:
    if not isinstance(answer, dict) or "answerContent" not in answer:
        raise InputError(f"{where}: an answer has no 'answerContent': {quote(answer)}. Give the worker responses.")
    add_content(
        answer["answerContent"],
        task,
        _worker_of(answer, where),
        found,
        where,
        time=answer.get("submissionTime"),
        duration=answer.get("timeSpentInSeconds"),
    )


def _read_request(record: Mapping[str, Any], found: AnswerCollector, where: str) -> None:
    task, annotations = record.get("datasetObjectId"), record.get("annotations")
    if not is_name(task) or not isinstance(annotations, list):
        raise InputError(f"{where} needs 'datasetObjectId' and a list 'annotations'; it has {listing(record)}.")
    for each in annotations:
        data = each.get("annotationData") if isinstance(each, dict) else None
        content = data.get("content") if isinstance(data, dict) else None
        if content is None:
            raise InputError(
                f"{where}: an annotation has no 'annotationData' with its 'content': {quote(each)}. Where it has an "
                "'s3Uri', put what lies there in its place."
            )
        if isinstance(content, str):
            content = parse_json_text(content, f"{where}: the content of an annotation")
        add_content(content, task, _worker_of(each, where), found, where)


def _worker_of(answer: Mapping[str, Any], where: str) -> Any:
    worker = answer.get("workerId")
    if not is_name(worker) or worker == "":
        raise InputError(f"{where}: 'workerId' is {quote(worker)}, so that nobody knows whose answer it is.")
    return worker


# ---- writing ----------------------------------------------------------------------------------------------


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write the reply of a consolidation function, or the output manifest."""
    if consensus.question.kind != "labels":
        raise InputError(f"{consensus.question.kind} are not written for Ground Truth yet. Leave --write-back out.")
    classes = {label: place for place, label in enumerate(sorted({said.answer for said in consensus.by_task.values()}))}
    if _is_request(files.first_record):
        reply = [
            {"datasetObjectId": record["datasetObjectId"],
             "consolidatedAnnotation": {"content": _attribute(consensus.by_task[str(record["datasetObjectId"])],
                                                              consensus.question.name, classes)}}
            for record, _ in files.records()
            if str(record["datasetObjectId"]) in consensus.by_task
        ]  # fmt: skip
        out.write_text(format_json(reply, indent=1) + "\n", encoding="utf-8")
        return
    manifests = [file for file in files.files if file.path.suffix == MANIFEST]
    if len(manifests) != 1:
        raise InputError(
            f"{files.origin} holds {len(manifests)} files *{MANIFEST}. Put the input manifest of the job into the "
            "folder, and no other: the lines written are its lines, with the consensus."
        )
    with out.open("w", encoding="utf-8") as file:
        records = JsonRecords(manifests[0].blob)
        for record in records:
            said = consensus.by_task.get(str(records.number - 1))
            if said is not None and isinstance(record, dict):
                line = {**record, **_attribute(said, consensus.question.name, classes)}
                file.write(format_json(line) + "\n")


def _attribute(said: ConsensusAnswer, name: str, classes: dict[Any, int]) -> dict[str, Any]:
    """The two fields that hold a label of one class."""
    about = {
        "class-name": said.answer,
        "confidence": said.confidence,
        "type": f"groundtruth/{'image' if 'image' in name else 'text'}-classification",
        "job-name": f"labeling-job/{AGENT}",
        "human-annotated": "yes",
        "creation-date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f"),
    }
    return {name: classes[said.answer], f"{name}-metadata": about}


FORMAT = Format(
    slug="sagemaker",
    name="Amazon SageMaker Ground Truth",
    files="worker responses (the folder of a job), consolidation request",
    kinds=("labels", "multi-label", "spans", "boxes"),
    writes="output manifest, or consolidation reply",
)
