"""What tasks show, read from a table (CSV, TSV, JSON lines, Parquet, …) or from the export of a labelling tool."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crowdwise.formats.open_export import find_export
from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.read import open_source
from crowdwise.labels.unseen_characters import LETTER

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from crowdwise.campaign.project import Project, Question

__all__ = ["Task", "make_tasks", "read_gold", "read_tasks"]

SHOWN = ("text", "image", "left", "right", "left_text", "right_text", "left_image", "right_image")
MOST_LETTERS = 200_000  # of one task
MOST_NAME = 500


@dataclass(frozen=True)
class Task:
    """A task: its name, what it shows (some of `SHOWN`), and its known answer if it has one."""

    name: str
    content: dict[str, str]
    gold: Any = None


def read_tasks(project: Project) -> list[Task]:
    """The tasks of the project's file, with the gold of its gold file."""
    rows = _read_rows(project.tasks, SHOWN)
    tasks = make_tasks(rows, project.question, str(project.tasks))
    gold = {} if project.gold is None else read_gold(project.gold, project.question)
    if absent := [name for name in gold if name not in {task.name for task in tasks}]:
        raise InputError(
            f"{project.gold} has gold of {listing(absent)}, which {project.tasks} does not have as a task."
        )
    return [Task(task.name, task.content, gold.get(task.name, task.gold)) for task in tasks]


def make_tasks(rows: Iterable[dict[str, Any]], question: Question, origin: str) -> list[Task]:
    """Tasks of rows with a name under "task" and something to show; refuses a row that cannot be asked."""
    tasks: dict[str, Task] = {}
    for number, row in enumerate(rows, 1):
        where = f"{origin}, task {number}"
        for key in ("task", *SHOWN):
            if isinstance(row.get(key), bool) or not isinstance(row.get(key), str | int | float | None):
                raise InputError(f"{where}: {key} is {quote(row[key])}. It must be a text or a number.")
        name = "" if row.get("task") is None else str(row["task"]).strip()
        if not name or len(name) > MOST_NAME:
            raise InputError(f"{where} has no name, or one of more than {MOST_NAME} letters. Name it in column task.")
        if name in tasks:
            raise InputError(f"{where}: {quote(name)} is there already. Each task is one row.")
        if not name.isprintable() or LETTER.search(name):
            raise InputError(f"{where}: the name {quote(name)} has letters that cannot be seen. Choose another one.")
        content = {key: str(row[key]) for key in SHOWN if row.get(key) is not None and str(row[key]).strip()}
        if any("\x00" in text or not _is_unicode(text) for text in content.values()):
            raise InputError(f"{where}, {quote(name)}, holds letters that no page can show (NUL, or half a character).")
        if sum(map(len, content.values())) > MOST_LETTERS:
            raise InputError(f"{where}, {quote(name)}, has more than {MOST_LETTERS:,} letters. Shorten it.")
        if question.kind == "comparison" and not {"left", "right"} <= content.keys():
            raise InputError(f"{where}, {quote(name)}, has no left or no right; a comparison needs both columns.")
        if question.kind == "comparison" and content["left"].strip() == content["right"].strip():
            raise InputError(
                f"{where}, {quote(name)}, compares {quote(content['left'])} with itself. Give two different items."
            )
        if not content:
            raise InputError(f"{where}, {quote(name)}, shows nothing. Give it a text or an image.")
        gold = row.get("gold")
        tasks[name] = Task(name, content, None if gold in (None, "") else _check_gold(gold, question, where))
    if not tasks:
        raise InputError(f"{origin} has no task. It needs a row for each, with columns task and text (or image).")
    return list(tasks.values())


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_gold(path: Path, question: Question) -> dict[str, Any]:
    """Known answers by the name of their task, from a table with columns task and label (value, labels)."""
    rows = _read_rows(path, ("label", "value", "labels", "gold", "truth", "outcome"))
    found: dict[str, Any] = {}
    for number, row in enumerate(rows, 1):
        given = next((value for key, value in row.items() if key != "task" and value not in (None, "")), None)
        if given is None:
            raise InputError(f"{path}, row {number}, has no known answer. It needs a column label (or value, labels).")
        name, known = str(row["task"]).strip(), _check_gold(given, question, f"{path}, row {number}")
        if name in found and found[name] != known:
            raise InputError(f"{path}, row {number}: {quote(name)} has another known answer above. Give it one.")
        found[name] = known
    return found


def _check_gold(given: Any, question: Question, where: str) -> Any:
    if question.kind == "multi-label" and isinstance(given, str):
        try:
            given = json.loads(given) if given.startswith("[") else [each for each in given.split("|") if each]
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: the known answer {quote(given)} is no list of classes in JSON.") from error
    elif question.kind != "values" and not isinstance(given, list):
        given = str(given)
    try:
        return question.check_answer(given)
    except InputError as error:
        raise InputError(f"{where}: the known answer {error}") from error


def _read_rows(path: Path, wanted: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows with the name of the task and those of the wanted columns that are there."""
    try:
        return _read_table(path, wanted)
    except OSError as error:  # a name that is too long, or a folder with what nobody may read
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def _read_table(path: Path, wanted: tuple[str, ...]) -> list[dict[str, Any]]:
    if not path.exists():
        raise InputError(f"{path}: there is no such file.")
    _, export = find_export(path)
    if export is not None:
        if not export.items.num_rows:
            raise InputError(f"{path}, an export of {export.format.name}, holds nothing that tasks show.")
        return [dict(zip(("task", "text"), row.values(), strict=False)) for row in export.items.to_pylist()]
    opened = open_source(path, f"It needs a column task, and one of {', '.join(wanted)}.")
    if not isinstance(opened, Columns):
        raise InputError(f"{path} is no table. It needs a column task, and what tasks show.")
    names: dict[str, str] = {}
    for name in opened.names:
        if (role := name.lower().strip()) in names and role in ("task", *wanted):
            raise InputError(f"{path} has two columns for {role}: {listing([names[role], name])}. Leave one out.")
        names[role] = name
    task = candidates("task", opened.names, {names[role] for role in wanted if role in names})
    if not task:
        raise InputError(f"{path} has columns {listing(opened.names)}, none of which is called task.")
    roles = {"task": task[0], **{role: names[role] for role in wanted if role in names and names[role] != task[0]}}
    if len(roles) == 1:
        raise InputError(f"{path} has columns {listing(opened.names)}; it needs one of {', '.join(wanted)}.")
    columns = opened.read_whole_columns(list(roles.values()))
    table = pa.table({role: columns[name] for role, name in roles.items()})
    return [{role: _plain(value) for role, value in row.items()} for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    """A value as JSON has it; whole numbers that were read as decimals are whole again."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value
