"""Argilla: version 2 as JSON or as a data set (JSON lines, Parquet, Arrow), version 1 as a data set.

| version 2, JSON | version 2, data set | version 1 | read as |
|---|---|---|---|
| `id` | `id` | `external_id`, else `id` | task |
| `responses` by question | `q.responses` | `q`: a list of answers | question |
| `user_id` | `q.responses.users` | `user_id` | worker |
| not there | `q.responses.status` | `status` | draft, discarded (skipped) or submitted |
| `suggestions` | `q.suggestion`, `.score`, `.agent` | `q-suggestion`, `q-suggestion-metadata` | predictions |
| `metadata` | other fields | `metadata` | attributes of tasks |

Suggestions are filled in before a person answers, so that an answer to a question with one is anchored. The file does
not say of which type a question is. An integer is a grade. A list of objects is spans, or a ranking where they have a
rank. A list of texts is a ranking where every answer has the same texts, else several labels. A text is a label, unless
most are different and long. Written back are the records with a suggestion each, as `records.from_json` takes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.formats.answer_columns import check_choices, is_name
from crowdwise.formats.consensus_answers import AGENT
from crowdwise.formats.export_format import Format
from crowdwise.formats.json_records import format_json
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.consensus_answers import ConsensusAnswers, ConsensusMark
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT"]

RESPONSES, SUGGESTION = ".responses", ".suggestion"
UNNAMED = "suggestion"  # the agent of suggestions that do not say who made them
SAMPLED = 2000  # answers to a question by which its kind is told
LONG = 20  # characters: labels are shorter
DRAFT, DISCARDED = ("draft", "pending"), ("discarded",)


class Response(NamedTuple):
    """An answer to a question."""

    question: str
    value: Any
    user: Any
    status: str | None


class Suggested(NamedTuple):
    """What a model suggested."""

    question: str
    value: Any
    agent: Any
    score: Any


def recognises(files: ExportFiles) -> bool:
    """Whether the first record has responses and suggestions of version 2, or questions of version 1."""
    first = files.first_record
    nested = isinstance(first.get("fields"), dict) and isinstance(first.get("responses"), dict)
    return (nested and "suggestions" in first) or _is_flat(first) or _is_first_version(first)


def _is_flat(record: Mapping[str, Any]) -> bool:
    return any(name.endswith(RESPONSES) and f"{name}.users" in record for name in record)


def _is_first_version(record: Mapping[str, Any]) -> bool:
    return "external_id" in record and any(f"{name}-suggestion" in record for name in record)


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every response to the collector, once the kinds of the questions are told by some of them."""
    kinds = _tell_kinds(files)
    for record, records in files.records():
        task = _task_of(record)
        if not is_name(task):
            raise InputError(f"{records.where} has no 'id', so that its task has no name. Export the file again.")
        found.add_task(task, records.number)
        facts = _parse(record.get("metadata")) or _other_fields(record)
        found.tasks.add(task, facts if isinstance(facts, dict) else {})
        fields = record.get("fields")
        found.shown.add(task, fields if isinstance(fields, dict) else _other_fields(record))
        suggested = {each.question: each for each in _suggestions(record, records.where)}
        for each in suggested.values():
            if each.question in kinds:
                rows = _rows(each.value, kinds[each.question], records.where)
                asked = found.question(each.question, kinds[each.question])
                asked.add_prediction(task, str(each.agent or UNNAMED), *rows, score=each.score)
        for response in _responses(record, records.where):
            _add_response(response, task, kinds, found, records.where, anchored=response.question in suggested)


def _task_of(record: Mapping[str, Any]) -> Any:
    names = (record.get(name) for name in ("external_id", "id", "_server_id"))
    return next((name for name in names if name is not None and name != ""), None)


def _add_response(
    response: Response, task: Any, kinds: dict[str, str], found: AnswerCollector, where: str, *, anchored: bool
) -> None:
    if not is_name(response.user) or response.user in ("", "None"):
        raise InputError(
            f"{where}: an answer to {quote(response.question)} has no user, so that nobody knows whose it is. Export "
            "the data set with its users."
        )
    if response.status in DISCARDED:
        found.skipped.add(task, response.user)
    elif response.status in DRAFT:
        found.drafts.add(task, response.user)
    elif response.value is None:
        found.left_out["response without a value"] += 1
    else:
        kind = kinds[response.question]
        rows = _rows(response.value, kind, where)
        found.question(response.question, kind).add(task, response.user, *rows, anchored=anchored)


# ---- the three shapes -------------------------------------------------------------------------------------


def _responses(record: Mapping[str, Any], where: str) -> Iterator[Response]:
    try:
        if isinstance(record.get("responses"), dict):
            for name, every in record["responses"].items():
                for each in every or ():
                    yield Response(name, each["value"], each["user_id"], each.get("status"))
        elif _is_first_version(record):
            for name in record:
                if f"{name}-suggestion" in record:
                    yield from _first_version_responses(name, _parse(record[name]))
        else:
            for name in [each for each in record if each.endswith(RESPONSES)]:
                values, users = record[name] or [], record[f"{name}.users"] or []
                states = record.get(f"{name}.status") or [None] * len(values)
                _check_lists(values, users, states)
                for value, user, status in zip(values, users, states, strict=True):
                    yield Response(name.removesuffix(RESPONSES), value, user, status)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{where}: the responses cannot be read ({error!r}). They are of another version of Argilla, or were "
            "changed after the export."
        ) from error


def _first_version_responses(name: str, every: Any) -> Iterator[Response]:
    if isinstance(every, dict):  # columns instead of rows, as older versions of `datasets` keep them
        _check_lists(*every.values())
        every = [dict(zip(every, row, strict=True)) for row in zip(*every.values(), strict=True)]
    for each in every or ():
        yield Response(name, each["value"], each["user_id"], each.get("status"))


def _check_lists(*columns: Any) -> None:
    """Refuse a text where a list belongs: it would be taken letter by letter."""
    for column in columns:
        if not isinstance(column, list):
            raise TypeError(f"{quote(column)} is no list")


def _suggestions(record: Mapping[str, Any], where: str) -> Iterator[Suggested]:
    try:
        if isinstance(record.get("responses"), dict):
            for name, each in (record.get("suggestions") or {}).items():
                if each and each.get("value") is not None:
                    yield Suggested(name, each["value"], each.get("agent"), each.get("score"))
        elif _is_first_version(record):
            for name in record:
                if record.get(f"{name}-suggestion") not in (None, [], ""):
                    about = _parse(record.get(f"{name}-suggestion-metadata")) or {}
                    yield Suggested(name, record[f"{name}-suggestion"], about.get("agent"), about.get("score"))
        else:
            for name in [each for each in record if each.endswith(SUGGESTION)]:
                if record[name] is not None:
                    asked, by, sure = name.removesuffix(SUGGESTION), f"{name}.agent", f"{name}.score"
                    yield Suggested(asked, record[name], record.get(by), record.get(sure))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: the suggestions cannot be read ({error!r}). Export the file again.") from error


def _other_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are neither questions nor Argilla's own."""
    own = ("id", "external_id", "_server_id", "status", "fields", "responses", "suggestions", "vectors", "metadata")
    return {name: value for name, value in record.items() if name not in own and "." not in name}


def _parse(value: Any) -> Any:
    """A value that some versions write as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


# ---- kinds ------------------------------------------------------------------------------------------------


def _tell_kinds(files: ExportFiles) -> dict[str, str]:
    """The kind of every question, by its first answers."""
    values: dict[str, list[Any]] = {}
    for record, records in files.records():
        for response in _responses(record, records.where):
            kept = values.setdefault(response.question, [])
            if response.value is not None and len(kept) < SAMPLED:
                kept.append(response.value)
    return {name: _tell_kind(kept) for name, kept in values.items() if kept}


def _tell_kind(values: list[Any]) -> str:
    first = next((value for value in values if value != []), values[0])
    if isinstance(first, bool | int | float):
        return "ordinal"
    if isinstance(first, list):
        if first and isinstance(first[0], Mapping):
            return "rankings" if "rank" in first[0] else "spans"
        sets = {frozenset(map(str, value)) for value in values if isinstance(value, list)}
        ordered = len(sets) == 1 and len(first) > 1 and any(value != first for value in values)
        return "rankings" if ordered else "multi-label"
    texts = [value for value in values if isinstance(value, str)]
    differ = len(set(texts)) > max(10, len(texts) / 2)
    return "texts" if texts and differ and median(map(len, texts)) > LONG else "labels"


def _rows(value: Any, kind: str, where: str) -> list[tuple[Any, ...]]:
    try:
        if kind == "spans":
            return [(span["start"], span["end"], span["label"]) for span in value]
        if kind == "rankings":
            _check_lists(value)
            ranked = isinstance(value[0], Mapping)
            return [(each["value"], each["rank"]) if ranked else (each, place) for place, each in enumerate(value, 1)]
        if kind == "multi-label":
            return [([str(each) for each in check_choices(value)],)]
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"{where}: {quote(value)} is no answer of the kind {kind}, as others are.") from error
    if isinstance(value, list | dict):
        raise InputError(f"{where}: {quote(value)} is no answer of the kind {kind}, as others are.")
    return [(value,)]


# ---- writing ----------------------------------------------------------------------------------------------


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write the records with a suggestion each, as JSON of version 2."""
    if not isinstance(files.first_record.get("fields"), dict):
        raise InputError(
            f"{files.origin} does not say which of its columns are fields and which metadata, as records must. Export "
            "the data set with records.to_json, and write back from that."
        )
    marked = consensus.question.kind == "spans"
    if consensus.question.kind not in ("labels", "multi-label", "ordinal", "texts") and not marked:
        raise InputError(f"{consensus.question.kind} are not written for Argilla yet. Leave --write-back out.")
    known = consensus.marks_by_task if marked else consensus.by_task
    kept = ("id", "fields", "metadata", "vectors", "_server_id")
    with out.open("w", encoding="utf-8") as file:
        file.write("[")
        number = 0
        for record, _ in files.records():
            said: Any = known.get(str(_task_of(record)))
            if said is not None:
                suggestion = _suggest_spans(said) if marked else {"value": said.answer, "score": said.confidence}
                suggestion["agent"] = AGENT
                made = {name: record[name] for name in kept if record.get(name) is not None}
                made |= {"suggestions": {consensus.question.name: suggestion}, "responses": {}}
                file.write((",\n" if number else "\n") + format_json(made))
                number += 1
        file.write("\n]\n")


def _suggest_spans(marks: Sequence[ConsensusMark]) -> dict[str, Any]:
    spans = [{"start": mark.place[0], "end": mark.place[1], "label": mark.label} for mark in marks]
    return {"value": spans, "score": [mark.confidence for mark in marks]}


FORMAT = Format(
    slug="argilla",
    name="Argilla",
    files="version 2 (JSON, or a data set), version 1 (a data set)",
    kinds=("labels", "multi-label", "ordinal", "rankings", "spans", "texts"),
    writes="records with suggestions (JSON, for from_json)",
)
