"""Zooniverse: the classification export as CSV.

| column | read as |
|---|---|
| `subject_ids` | task |
| `user_name` (`not-logged-in-…` for those without an account) | worker |
| `task` of an entry of `annotations`, JSON | question; with the workflow before it, where there are several |
| `value` of such an entry | labels (a text), multi-label (several), boxes (rectangles); the choice of a survey |
| `gold_standard` | gold |
| `metadata`: `subject_selection_state.already_seen` | a repeat, counted and no answer |
| `created_at`; `metadata`: `started_at`, `finished_at` | time, duration |
| `subject_data`: fields of the subject | attributes of tasks |
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from crowdwise.formats.export_format import Format
from crowdwise.formats.json_records import explain_unreadable, parse_json_text
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT"]

NEEDED = {"classification_id", "user_name", "annotations", "subject_ids"}
Read = tuple[str, list[tuple[Any, ...]]]


def recognises(files: ExportFiles) -> bool:
    """Whether the header line has the columns of classifications."""
    return set(files.column_names) >= NEEDED


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every classification to the collector."""
    workflows = {row.get("workflow_id") for row, _ in files.rows()}
    met: dict[str, str] = {}
    for row, where in files.rows():
        task, worker = row["subject_ids"], row["user_name"]
        if not task or not worker:
            lacking = "subject_ids" if not task else "user_name"
            raise InputError(f"{where}: {lacking!r} is empty, so that nobody knows whose answer it is, or to what.")
        if row["classification_id"] in met:
            raise InputError(
                f"{where} has the classification_id {row['classification_id']} of {met[row['classification_id']]} "
                "again. Give each export once."
            )
        met[row["classification_id"]] = where
        metadata = _parse(row.get("metadata", ""), f"{where}: the column metadata", dict)
        state = metadata.get("subject_selection_state")
        if isinstance(state, dict) and state.get("already_seen"):
            found.left_out["repeat of a subject that was seen already"] += 1
            continue
        about = _parse(row.get("subject_data", ""), f"{where}: the column subject_data", dict)
        found.tasks.add(task, _facts(about.get(task)))
        before = f"{row.get('workflow_id')}/" if len(workflows) > 1 else ""
        times = {"time": _as_iso(row.get("created_at", "")), "duration": _seconds(metadata)}
        is_gold = row.get("gold_standard", "").casefold() == "true"
        for entry in _parse(row["annotations"], f"{where}: the column annotations", list):
            _read_entry(entry, task, worker, found, where, before=before, is_gold=is_gold, times=times)


def _read_entry(
    entry: Any,
    task: str,
    worker: str,
    found: AnswerCollector,
    where: str,
    *,
    before: str,
    is_gold: bool,
    times: dict[str, Any],
) -> None:
    if not isinstance(entry, dict) or not isinstance(entry.get("task"), str):
        raise InputError(f"{where}: an annotation has no 'task': {quote(entry)}. Export the file again.")
    value = entry.get("value")
    if value is None:
        return  # a question that was passed over
    with explain_unreadable(f"{where}: the value of {entry['task']}", value):
        answered = _read_value(value)
    if answered is None:
        found.left_out[f"value of {before}{entry['task']} (shapes that are no rectangles, or a form of its own)"] += 1
        return
    kind, rows = answered
    asked = found.question(before + entry["task"], kind, label=entry.get("task_label"))
    if is_gold:
        asked.add_gold(task, *rows)
    else:
        asked.add(task, worker, *rows, **times)


def _read_value(value: Any) -> Read | None:
    if isinstance(value, str | int | float | bool):
        return "labels", [(str(value),)]
    if not isinstance(value, list):
        return None
    if all(isinstance(each, str) for each in value):
        return "multi-label", [(value,)]
    if all(isinstance(each, dict) for each in value):
        if all("choice" in each for each in value):
            return "multi-label", [([each["choice"] for each in value],)]
        if all({"x", "y", "width", "height"} <= set(each) for each in value):
            return "boxes", [_corners(each) for each in value]
    return None


def _corners(shape: dict[str, Any]) -> tuple[Any, ...]:
    left, top = float(shape["x"]), float(shape["y"])
    label = shape.get("tool_label") or str(shape.get("tool", "object"))
    return left, top, left + float(shape["width"]), top + float(shape["height"]), label


def _parse(text: str, where: str, kind: type[Any]) -> Any:
    found = parse_json_text(text, where) if text else kind()
    if not isinstance(found, kind):
        raise InputError(f"{where} holds {quote(found)}, not {'a list' if kind is list else 'an object'}.")
    return found


def _facts(about: Any) -> dict[str, Any]:
    """Fields of a subject; those that begin with # or // are hidden from volunteers, and facts all the same."""
    return {name: value for name, value in about.items() if name != "retired"} if isinstance(about, dict) else {}


def _as_iso(text: str) -> str | None:
    return text.replace(" UTC", "Z").replace(" ", "T", 1) or None


def _seconds(metadata: dict[str, Any]) -> float | None:
    try:
        started, ended = (datetime.fromisoformat(metadata[name]) for name in ("started_at", "finished_at"))
        return (ended - started).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None


FORMAT = Format(
    slug="zooniverse",
    name="Zooniverse",
    files="classification export (CSV)",
    kinds=("labels", "multi-label", "boxes"),
)
