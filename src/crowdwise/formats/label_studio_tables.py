"""Label Studio's flat exports, JSON_MIN and CSV: a row for each annotation, with the task's data and the answers in it.

Neither says which of its fields are questions. In JSON_MIN they stand between `id` and `annotator`. In CSV, whose
columns are sorted by name, a question is what holds results, or differs between annotations of one task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.formats.json_records import parse_json_text
from crowdwise.formats.label_studio_results import read_result, type_of_value
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFiles
    from crowdwise.formats.label_studio_results import Rows

__all__ = ["is_flat_export", "read_flat_export"]

NEEDED = {"id", "annotator", "annotation_id", "lead_time"}
KNOWN = NEEDED | {"created_at", "updated_at", "agreement", "history"}


def is_flat_export(files: ExportFiles) -> bool:
    """Whether the first row has the columns of JSON_MIN or CSV."""
    return set(files.first_record) >= NEEDED or set(files.column_names) >= NEEDED


def read_flat_export(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every annotation to the collector."""
    if files.first_record:
        for record, records in files.records():
            lacking = NEEDED - set(record)
            if lacking:
                raise InputError(f"{records.where} lacks {listing(sorted(lacking))}. Export the file again.")
            names = list(record)
            asked = names[names.index("id") + 1 : names.index("annotator")]
            _read_row(record, asked, found, lambda: records.where)  # noqa: B023 (called at once)
    else:
        found.text = True
        asked = _questions_of_table(files)
        for row, where in files.rows():
            _read_row(row, asked, found, lambda: where)  # noqa: B023


def _read_row(row: Mapping[str, Any], asked: list[str], found: AnswerCollector, where: Callable[[], str]) -> None:
    worker = row["annotator"]
    answers: list[tuple[str, str, Rows]] = []
    for name in asked:
        answers += [(name, kind, rows) for kind, rows in _answers(row.get(name), found, where).items()]
    if not isinstance(worker, str | int) or worker in (
        "",
        "None",
    ):  # "None" is how Label Studio writes that there is none
        if answers:
            raise InputError(
                f"{where()}: 'annotator' is empty, so that nobody knows whose answer it is. Export the project with "
                "its annotators, or remove the row."
            )
        return  # a task without annotations has a row too
    if not isinstance(row["id"], str | int) or row["id"] == "":
        raise InputError(f"{where()}: 'id' is {quote(row['id'])}, so that its task has no name. Export the file again.")
    data = {name: value for name, value in row.items() if name not in KNOWN and name not in asked}
    found.tasks.add(row["id"], data)
    found.shown.add(row["id"], data)
    for name, kind, rows in answers:
        found.question(name, kind).add(
            row["id"],
            worker,
            *rows,
            time=row.get("created_at") or None,
            duration=row["lead_time"],
        )


def _answers(cell: Any, found: AnswerCollector, where: Callable[[], str]) -> dict[str, Rows]:
    """Rows of an answer by their kind; one question has one kind but for choices, of which one or several are taken."""
    if cell is None or cell == "":
        return {}
    if isinstance(cell, str):
        if not cell.startswith("[{"):
            return {"labels": [(cell,)]}
        cell = parse_json_text(cell, where())
    answers: dict[str, Rows] = {}
    for value in cell if isinstance(cell, list) else [cell]:
        if isinstance(value, str):  # of several choices in one cell, each that stands alone
            answers.setdefault("labels", []).append((value,))
        elif isinstance(value, dict):
            read = read_result({"type": type_of_value(value), "value": value}, {}, found, where)
            if read is not None:
                answers.setdefault(read[0], []).extend(read[1])
        else:
            raise InputError(f"{where()}: an answer is {value!r}, which Label Studio does not write. Export it again.")
    return answers


def _holds_result(cell: Any) -> bool:
    return isinstance(cell, list) and bool(cell) and isinstance(cell[0], dict) and bool(type_of_value(cell[0]))


def _questions_of_table(files: ExportFiles) -> list[str]:
    others = [name for name in files.column_names if name not in KNOWN]
    met: dict[str, dict[Any, Any]] = {name: {} for name in others}
    asked: set[str] = set()
    for row, where in files.rows():
        for name in others:
            value = row[name]
            if value and name not in asked:
                results = value.startswith('[{"') and _holds_result(parse_json_text(value, where))
                if results or met[name].setdefault(row["id"], value) != value:
                    asked.add(name)
    if not asked:
        raise InputError(
            f"{files.origin} (a CSV export of Label Studio) does not show which of its columns {listing(others)} is a "
            "question: no task has two answers that differ. Export the project as JSON."
        )
    return [name for name in others if name in asked]
