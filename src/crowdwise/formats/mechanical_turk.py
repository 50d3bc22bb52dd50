"""Amazon Mechanical Turk: the results of a batch as CSV. The service has closed; its archives remain.

| column | read as |
|---|---|
| `HITId`; and a number where a row holds several tasks (`Answer.x1`, `Answer.x2`, with `Input.x1`, …) | task |
| `WorkerId` | worker |
| `Answer.NAME` | question; `Answer.NAME.OPTION`, true or false, are the options of one |
| `Answer.taskAnswers` | JSON with several questions, as the form elements write it (`crowd_elements`) |
| `SubmitTime`, `WorkTimeInSeconds` | time, duration |
| `AssignmentStatus` | those rejected are counted, and no answers |
| `Input.NAME` | attributes of tasks |
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from crowdwise.formats.crowd_elements import add_content, chosen_options
from crowdwise.formats.export_format import Format
from crowdwise.formats.json_records import parse_json_text
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT", "parse_time"]

NEEDED = {"HITId", "AssignmentId", "WorkerId"}
INPUT, ANSWER, TASK_ANSWERS = "Input.", "Answer.", "Answer.taskAnswers"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ZONES = {"PST": "-08:00", "PDT": "-07:00", "UTC": "Z", "GMT": "Z"}
TIME = re.compile(r"\w{3} (\w{3}) (\d\d?) (\d\d:\d\d:\d\d) (\w{3}) (\d{4})")


def recognises(files: ExportFiles) -> bool:
    """Whether the header line has the columns of assignments, and an answer."""
    names = files.column_names
    return set(names) >= NEEDED and any(name.startswith(ANSWER) for name in names)


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every assignment to the collector."""
    answers = [name for name in files.column_names if name.startswith(ANSWER) and name != TASK_ANSWERS]
    several = _numbered(files.column_names)
    met: dict[str, str] = {}
    for row, where in files.rows():
        lacking = [name for name in ("HITId", "WorkerId") if not row[name]]
        if lacking:
            raise InputError(
                f"{where}: {listing(lacking)} is empty, so that nobody knows whose answer it is, or to what."
            )
        if row["AssignmentId"] in met and row["AssignmentId"]:
            raise InputError(
                f"{where} has the AssignmentId {quote(row['AssignmentId'])} of {met[row['AssignmentId']]} again. Give "
                "each file of results once."
            )
        met[row["AssignmentId"]] = where
        if row.get("AssignmentStatus") == "Rejected":
            found.left_out["rejected assignment"] += 1
            continue
        _read_row(row, answers, several, found, where)


def _read_row(row: dict[str, str], answers: list[str], several: set[str], found: AnswerCollector, where: str) -> None:
    task, worker, spent = row["HITId"], row["WorkerId"], row.get("WorkTimeInSeconds", "")
    more: dict[str, Any] = {
        "time": parse_time(row.get("SubmitTime", "")),
        "duration": float(spent) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", spent) else None,
    }
    shown = {name[len(INPUT) :]: cell for name, cell in row.items() if name.startswith(INPUT)}
    found.tasks.add(task, shown)
    found.shown.add(task, shown)
    if row.get(TASK_ANSWERS):
        entered = parse_json_text(row[TASK_ANSWERS], f"{where}: the column {TASK_ANSWERS}")
        if not isinstance(entered, list) or len(entered) != 1:
            raise InputError(f"{where}: the column {TASK_ANSWERS} is no list of one object: {quote(entered)}.")
        add_content(entered[0], task, worker, found, where, **more)
    for name, chosen in _options(row, answers).items():
        kind = "labels" if len(chosen) == 1 else "multi-label"
        found.question(name, kind).add(task, worker, (chosen[0] if kind == "labels" else chosen,), **more)
    for column in answers:
        if row[column] and "." not in column[len(ANSWER) :]:
            name = column[len(ANSWER) :]
            number = re.search(r"[0-9]+$", name) if name in several else None
            if number is None:
                found.question(name, "labels").add(task, worker, (row[column],), **more)
            else:
                asked = name[: number.start()] or "answer"
                found.question(asked, "labels").add(f"{task}/{number[0]}", worker, (row[column],), **more)


def _numbered(names: Iterable[str]) -> set[str]:
    """Answers that are about one of several tasks of a row: they end in a number, as an input does."""
    every = list(names)
    numbers = {each[0] for name in every if name.startswith(INPUT) and (each := re.search(r"[0-9]+$", name))}
    found = [name[len(ANSWER) :] for name in every if name.startswith(ANSWER)]
    ends = {name: each[0] for name in found if (each := re.search(r"[0-9]+$", name))}
    return {name for name, number in ends.items() if number in numbers} if len(numbers) > 1 else set()


def _options(row: dict[str, str], answers: list[str]) -> dict[str, list[str]]:
    """What was chosen of each group of options, `Answer.NAME.OPTION`."""
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for column in answers:
        name, _, option = column[len(ANSWER) :].partition(".")
        if option and row[column]:
            groups[name][option] = row[column]
    found = {name: chosen_options(options) for name, options in groups.items()}
    return {name: chosen for name, chosen in found.items() if chosen}


def parse_time(text: str) -> str | None:
    """A time such as "Mon Nov 16 18:00:00 PST 2026" as ISO 8601; None for others.

    >>> parse_time("Mon Nov 16 18:00:00 PST 2026")
    '2026-11-16T18:00:00-08:00'
    """
    parts = TIME.fullmatch(text)
    if parts is None or parts[1] not in MONTHS or parts[4] not in ZONES:
        return None
    return f"{parts[5]}-{MONTHS.index(parts[1]) + 1:02d}-{int(parts[2]):02d}T{parts[3]}{ZONES[parts[4]]}"


FORMAT = Format(
    slug="mechanical-turk",
    name="Amazon Mechanical Turk",
    files="results of a batch (CSV)",
    kinds=("labels", "multi-label", "spans", "boxes"),
)
