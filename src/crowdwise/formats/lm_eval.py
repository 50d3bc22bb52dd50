"""lm-eval (the Language Model Evaluation Harness): logged samples, `<model>/samples_<task>_<date>.jsonl`.

| field | read as |
|---|---|
| name of the folder | worker: the model |
| `doc_hash` (older files: `doc_id`) | task |
| name of the file: the task of the harness; with the filter, where there are several | question |
| `filtered_resps`: a text | labels: what the model answered |
| `filtered_resps`: likelihoods of several choices | labels: the number of the likeliest, from 0 |
| `target`: the answer, or the number or text of the choice | gold |
| `filtered_resps`: an answer that was not found (`[invalid]`) | skipped |

A document that stands twice in one file is read once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from crowdwise.formats.export_files import ExportFiles
from crowdwise.formats.export_format import Format
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFile

__all__ = ["FORMAT"]

NEEDED = {"doc_id", "target", "filtered_resps"}
NAME = re.compile(r"samples_(.+?)(_\d{4}-\d{2}-\d{2}T[\d.\-:]*\d)?\.jsonl(\.gz)?$")
NOT_FOUND = "[invalid]"  # what the filters of the harness give where they find no answer
NO_FILTER = "none"
NOT_READ = "response that is no answer (a likelihood alone)"


def recognises(files: ExportFiles) -> bool:
    """Whether the first line of some file has a document, its target and the filtered responses."""
    logged = next((file for file in files.files if NAME.match(file.path.name)), None)  # the results stand before them
    first = files.first_record if logged is None else ExportFiles(files.origin, (logged,)).first_record
    return set(first) >= NEEDED


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every response to the collector."""
    logged = [file for file in files.files if NAME.match(file.path.name)] or list(files.files)
    filters: dict[str, set[str]] = {}
    for file in logged:
        for record in file.records():
            filters.setdefault(_task_name(file), set()).add(_filter_of(record))
    known: set[tuple[str, Any]] = set()
    for file in logged:
        name, worker = _task_name(file), _worker_of(file)
        met: set[Any] = set()
        records = file.records()
        for record in records:
            where = records.where
            if not isinstance(record, dict) or not record.keys() >= NEEDED:
                raise InputError(
                    f"{where} has not all of doc_id, target and filtered_resps: {quote(record)}. Run lm-eval with "
                    "--log_samples, and give what it wrote."
                )
            task, which = record.get("doc_hash", record["doc_id"]), _filter_of(record)
            if not isinstance(task, str | int):
                raise InputError(f"{where}: 'doc_hash' is {quote(task)}, so that nobody knows which document it is.")
            if (task, which) in met:
                found.left_out["document that stands twice in its file"] += 1
                continue
            met.add((task, which))
            question = f"{name}/{which}" if len(filters[name]) > 1 else name
            _read_response(record, question, task, worker, known, found, where)


def _read_response(
    record: Mapping[str, Any],
    question: str,
    task: Any,
    worker: str,
    known: set[tuple[str, Any]],
    found: AnswerCollector,
    where: str,
) -> None:
    said = record["filtered_resps"]
    if not isinstance(said, list) or not said:
        raise InputError(f"{where}: 'filtered_resps' is {quote(said)}, not a list of responses.")
    answer = _find_answer(said, where)
    if answer is None:
        found.left_out[NOT_READ] += 1
        return
    document = record.get("doc")
    found.shown.add(task, document if isinstance(document, dict) else {})
    asked = found.question(question, "labels")
    if answer in ("", NOT_FOUND):
        found.skipped.add(task, worker)
    else:
        asked.add(task, worker, (answer,))
    target = _find_target(record, len(said))
    if target is not None and (question, task) not in known:
        known.add((question, task))
        asked.add_gold(task, (target,))


def _find_answer(said: list[Any], where: str) -> str | None:
    """The text of a response, or the number of the likeliest choice; None for a likelihood that stands alone.

    The harness writes numbers as text.
    """
    if len(said) > 1:
        try:
            scores = [float(each[0] if isinstance(each, list) else each) for each in said]
        except (TypeError, ValueError, IndexError) as error:
            raise InputError(f"{where}: 'filtered_resps' cannot be read as likelihoods: {quote(said)}.") from error
        return str(max(range(len(scores)), key=scores.__getitem__))
    first = said[0]
    if isinstance(first, list):
        if not first or (len(first) == 2 and str(first[1]) in ("True", "False")):
            return None
        first = first[0]  # several samples of one document: the first
    return str(first).strip() if isinstance(first, str | bool | int) else None


def _find_target(record: Mapping[str, Any], choices: int) -> str | None:
    """The known answer in the form of the labels; None where it cannot be put into it."""
    target = record["target"]
    if isinstance(target, list):
        target = target[0] if len(target) == 1 else None
    if target is None or isinstance(target, dict | float):
        return None
    text = str(target).strip()
    if choices < 2:
        return text or None
    if text.isdecimal() and int(text) < choices:
        return text
    said = [str(each).strip() for each in _continuations(record)]
    return str(said.index(text)) if said.count(text) == 1 and len(said) == choices else None


def _continuations(record: Mapping[str, Any]) -> list[Any]:
    """The texts of the choices, from what the model was asked: [[context, choice], …], or an object of those."""
    asked = record.get("arguments")
    entries = list(asked.values()) if isinstance(asked, dict) else asked if isinstance(asked, list) else []
    pairs = [list(each.values()) if isinstance(each, dict) else each for each in entries]
    return [pair[1] for pair in pairs if isinstance(pair, list) and len(pair) > 1]


def _filter_of(record: Any) -> str:
    return str(record.get("filter", NO_FILTER)) if isinstance(record, dict) else NO_FILTER


def _task_name(file: ExportFile) -> str:
    found = NAME.match(file.path.name)
    return found[1] if found else file.path.stem


def _worker_of(file: ExportFile) -> str:
    """The model: the name of the folder that the harness made for it."""
    path = file.blob.path
    name = file.path.parent.name or ("" if path is None else path.absolute().parent.name)
    if not name:
        raise InputError(
            f"{file.blob.name} does not say which model answered. Give the folder in which lm-eval wrote it: its name "
            "is the model's."
        )
    return name


FORMAT = Format(
    slug="lm-eval",
    name="lm-eval",
    files="logged samples (samples_*.jsonl of each model's folder)",
    kinds=("labels",),
)
