"""Toloka: the results of a pool as TSV.

| column | read as |
|---|---|
| `ASSIGNMENT:task_id`, else the values of all `INPUT:` columns | task |
| `ASSIGNMENT:worker_id` | worker |
| `OUTPUT:NAME` | question: labels, or boxes where it holds JSON with rectangles |
| `GOLDEN:NAME` | gold; the worker's answer counts as well |
| `ASSIGNMENT:status` | SKIPPED and EXPIRED are skipped, ACTIVE is a draft; REJECTED is counted and no answer |
| `ASSIGNMENT:started`, with `ASSIGNMENT:submitted` | time, duration |
| `INPUT:NAME` | attributes of tasks |
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from crowdwise.formats.export_format import Format
from crowdwise.formats.json_records import parse_json_text
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT"]

INPUT, OUTPUT, GOLDEN, ASSIGNMENT = "INPUT:", "OUTPUT:", "GOLDEN:", "ASSIGNMENT:"
TASK, WORKER, STATUS = f"{ASSIGNMENT}task_id", f"{ASSIGNMENT}worker_id", f"{ASSIGNMENT}status"
STARTED, SUBMITTED = f"{ASSIGNMENT}started", f"{ASSIGNMENT}submitted"
UNNAMED_BOX = "object"  # rectangles are drawn without a label where there is one class


def recognises(files: ExportFiles) -> bool:
    """Whether the header line has inputs, outputs and assignments."""
    names = files.column_names
    return WORKER in names and any(name.startswith(OUTPUT) for name in names)


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every row to the collector."""
    inputs = [name for name in files.column_names if name.startswith(INPUT)]
    outputs = [name for name in files.column_names if name.startswith(OUTPUT)]
    for row, where in files.rows():
        if not any(row.values()):
            continue  # a blank line stands between pages of tasks
        task = _task_of(row, inputs, where)
        if not row[WORKER]:
            raise InputError(f"{where}: {WORKER!r} is empty, so that nobody knows whose answer it is.")
        shown = {name[len(INPUT) :]: row[name] for name in inputs}
        found.tasks.add(task, shown)
        found.shown.add(task, shown)
        for column in outputs:
            name = column[len(OUTPUT) :]
            known = row.get(GOLDEN + name, "")
            if known:
                kind, rows = _read_cell(known, where)
                found.question(name, kind).add_gold(task, *rows)
        status = row.get(STATUS, "").upper()
        if status in ("SKIPPED", "EXPIRED"):
            found.skipped.add(task, row[WORKER])
        elif status == "ACTIVE":
            found.drafts.add(task, row[WORKER])
        elif status == "REJECTED":
            found.left_out["rejected assignment"] += 1
        else:
            for column in outputs:
                if row[column]:
                    kind, rows = _read_cell(row[column], where)
                    started = row.get(STARTED, "")
                    found.question(column[len(OUTPUT) :], kind).add(
                        task,
                        row[WORKER],
                        *rows,
                        time=started or None,
                        duration=_seconds(started, row.get(SUBMITTED, "")),
                    )


def _task_of(row: dict[str, str], inputs: list[str], where: str) -> str:
    if row.get(TASK):
        return row[TASK]
    cells = [row[name] for name in inputs]
    if any(" | " in cell or "\\" in cell for cell in cells) and len(cells) > 1:  # so that no two tasks become one
        cells = [cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells]
    shown = " | ".join(cells)
    if not shown.strip(" |"):
        raise InputError(f"{where}: every 'INPUT:' column is empty, so that nobody knows which task was answered.")
    return shown


def _read_cell(cell: str, where: str) -> tuple[str, list[tuple[Any, ...]]]:
    if not cell.startswith(('[{"', "[]")):
        return "labels", [(cell,)]
    shapes = parse_json_text(cell, f"{where}: an output")
    try:
        return "boxes", [_corners(shape) for shape in shapes]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: an output holds {quote(cell)}. Of shapes, rectangles are read (shape, left, top, width, height)."
        ) from error


def _corners(shape: Any) -> tuple[Any, ...]:
    if shape["shape"] != "rectangle":
        raise ValueError(shape["shape"])
    left, top = float(shape["left"]), float(shape["top"])
    label = shape.get("label") or UNNAMED_BOX
    return left, top, left + float(shape["width"]), top + float(shape["height"]), label


def _seconds(started: str, ended: str) -> float | None:
    try:
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
    except (ValueError, TypeError):
        return None


FORMAT = Format(
    slug="toloka",
    name="Toloka",
    files="results of a pool (TSV)",
    kinds=("labels", "boxes"),
)
