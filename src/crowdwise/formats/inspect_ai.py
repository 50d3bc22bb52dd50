"""inspect_ai: evaluation logs, `.eval` (a zip archive with a file for each sample) or `.json`, one or several.

| field | read as |
|---|---|
| `id` of a sample; with its epoch, task and model, where there are several of these | task |
| name of a scorer (`judge`, `judge1`, …) | worker |
| `value` of a score: C, I, P, N, a text or a yes-no | labels |
| `value`: a number | values |
| `value`: an object | a question for each entry |
| `metadata.panel.votes` of a score | an answer of each member of the panel, in place of the score that sums them up |
| `value` that is nothing or no number | skipped |

Epochs are repeats: the model answers again, so that there is another answer to be judged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.formats.export_files import open_files
from crowdwise.formats.export_format import Format
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

ARCHIVE, HEADER, SAMPLES = ".eval", "header.json", "samples"
QUESTION = "score"
MEMBER = ("model", "judge", "name", "scorer")  # what a vote calls the member of the panel who gave it
VOTE = ("value", "vote", "score", "answer")
FINISHED = "success"


class _Sample(NamedTuple):
    """A sample, what its log says of the run, and where it stands."""

    record: Mapping[str, Any]
    run: Mapping[str, Any]
    where: str


def recognises(files: ExportFiles) -> bool:
    """Whether the archive has a header and samples, or the file is an object with an evaluation and its version."""
    if any(file.path.suffix == ARCHIVE for file in files.files):
        return True
    if any(file.path.name == HEADER for file in files.files):
        return any(file.path.parent.name == SAMPLES for file in files.files)
    return {"version", "status", "eval"} <= set(files.first_record) and isinstance(files.first_record["eval"], dict)


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every score of every sample to the collector."""
    samples = _list_samples(files, found)
    runs = {(sample.run.get("task"), sample.run.get("model")) for sample in samples}
    several = len({task for task, _ in runs}) > 1, len({model for _, model in runs}) > 1
    epochs = {sample.record.get("epoch") for sample in samples}
    met: dict[Any, str] = {}
    for record, run, where in samples:
        name, epoch, scores = record.get("id"), record.get("epoch"), record.get("scores")
        if not isinstance(name, str | int):
            raise InputError(f"{where}: 'id' is {quote(name)}, so that nobody knows which sample it is.")
        parts = [run.get("task") if several[0] else None, run.get("model") if several[1] else None, name]
        parts.append(f"epoch {epoch}" if len(epochs) > 1 else None)
        there = [part for part in parts if part is not None]
        task = name if len(there) == 1 else "/".join(map(str, there))
        if record.get("error") and not scores:
            found.left_out["sample that ended with an error"] += 1
            continue
        if not isinstance(scores, dict) or not scores:
            found.left_out["sample without a score"] += 1
            continue
        metadata = record.get("metadata")
        found.tasks.add(task, metadata if isinstance(metadata, dict) else {})
        found.shown.add(task, {"input": record["input"]} if isinstance(record.get("input"), str) else {})
        for scorer, score in scores.items():
            if (task, scorer) in met:
                raise InputError(
                    f"{where}: {quote(scorer)} scores sample {quote(task)} again, as in {met[task, scorer]}. Give each "
                    "log once."
                )
            met[task, scorer] = where
            _read_score(score, task, scorer, found, f"{where}, score {quote(scorer)}")


def _list_samples(files: ExportFiles, found: AnswerCollector) -> list[_Sample]:
    samples: list[_Sample] = []
    for file in files.files:
        if file.path.suffix == ARCHIVE:  # of a folder of logs
            inside = open_files(file.blob)
            if inside.archive is None or any(each.path.suffix == ARCHIVE for each in inside.files):
                raise InputError(f"{file.blob.name} is no log of inspect_ai: it is no archive, or one of archives.")
            samples += _list_samples(inside, found)
        elif file.path.name == HEADER:
            header, where = _read_object(file)
            run = _describe_run(header, found, where)
            beside = file.path.parent / SAMPLES
            samples += (_Sample(*_pair(each, run)) for each in files.files if each.path.parent == beside)
        elif file.path.suffix == ".json" and not any(other.path.name == HEADER for other in files.files):
            log, where = _read_object(file)
            run = _describe_run(log, found, where)
            samples += _samples_of(log, run, where)
    return samples


def _pair(file: ExportFile, run: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    record, where = _read_object(file)
    return record, run, where


def _samples_of(log: Mapping[str, Any], run: Mapping[str, Any], where: str) -> Iterator[_Sample]:
    samples = log.get("samples")
    if not isinstance(samples, list):
        raise InputError(f"{where} has no list 'samples'. Write the log with its samples (log_samples).")
    for number, sample in enumerate(samples, 1):
        if not isinstance(sample, dict):
            raise InputError(f"{where}, sample {number} is {quote(sample)}, not an object. Write the log again.")
        yield _Sample(sample, run, f"{where}, sample {number}")


def _read_object(file: ExportFile) -> tuple[Mapping[str, Any], str]:
    records = file.records()
    found = next(iter(records), None)
    if not isinstance(found, dict):
        raise InputError(f"{file.blob.name} holds {quote(found)}, not an object. Give a log of inspect_ai.")
    return found, file.blob.name


def _describe_run(log: Mapping[str, Any], found: AnswerCollector, where: str) -> Mapping[str, Any]:
    run = log.get("eval")
    if not isinstance(run, dict):
        raise InputError(f"{where} has no object 'eval', which says what was evaluated. Give a log of inspect_ai.")
    status = log.get("status")
    if status != FINISHED:
        found.notes.append(f"{where}: the evaluation did not end (its status is {quote(status)}).")
    return run


def _read_score(score: Any, task: Any, scorer: str, found: AnswerCollector, where: str) -> None:
    if not isinstance(score, dict) or "value" not in score:
        raise InputError(f"{where} has no 'value': {quote(score)}. Write the log again.")
    metadata = score.get("metadata")
    panel = metadata.get("panel") if isinstance(metadata, dict) else None
    if panel is None:
        _add_value(score["value"], task, scorer, found, where)
        return
    votes = panel.get("votes") if isinstance(panel, dict) else None
    if not isinstance(votes, list):
        raise InputError(f"{where}: 'panel' has no list 'votes': {quote(panel)}.")
    failures = panel.get("failures")
    if isinstance(failures, list) and failures:
        found.left_out["vote of a panel that failed"] += len(failures)
    for number, vote in enumerate(votes, 1):
        said, member = vote, f"{scorer} {number}"
        if isinstance(vote, dict):
            field = next((name for name in VOTE if name in vote), None)
            if field is None:
                raise InputError(f"{where}, vote {number} has none of {', '.join(VOTE)}: {quote(vote)}.")
            said = vote[field]
            member = next((str(vote[name]) for name in MEMBER if vote.get(name)), member)
        _add_value(said, task, member, found, where)


def _add_value(value: Any, task: Any, worker: str, found: AnswerCollector, where: str) -> None:
    for name, said in value.items() if isinstance(value, dict) else [(QUESTION, value)]:
        if said is None or said == "" or (isinstance(said, float) and not math.isfinite(said)):
            found.skipped.add(task, worker)
        elif isinstance(said, str | bool):
            found.question(name, "labels").add(task, worker, (str(said),))
        elif isinstance(said, int | float):
            found.question(name, "values").add(task, worker, (float(said),))
        elif isinstance(said, list):
            found.left_out[f"score {quote(name)} that is a list"] += 1
        else:
            raise InputError(f"{where}: the value of {quote(name)} is {quote(said)}, no score. Write the log again.")


FORMAT = Format(
    slug="inspect-ai",
    name="inspect_ai",
    files="evaluation logs (.eval or .json)",
    kinds=("labels", "values"),
)
