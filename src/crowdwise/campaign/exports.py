"""What a campaign gives out at any time: labels, consensus, workers and raw answers, as CSV, JSON lines or Parquet."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from crowdwise.campaign.answer_tables import answer_columns, every_answer
from crowdwise.labels.table_output import defuse_table

if TYPE_CHECKING:
    from crowdwise.campaign.service import Service

__all__ = ["FORMATS", "TABLES", "export_table", "write_table"]

TABLES = ("labels", "consensus", "workers", "answers", "tasks")
FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


def export_table(service: Service, name: str) -> pa.Table:
    """One of `TABLES`: `labels` is what `crowdwise aggregate` reads, `answers` has every revision and skip."""
    campaign = service.campaign
    answers = campaign.counted_answers() if name == "labels" else None  # before the tasks: theirs may be new
    contents = {task.name: task.content for task in list(campaign.tasks.values())}
    if answers is not None:
        return answer_columns(answers, service.project.question, contents)
    if name == "answers":
        return every_answer(campaign.store)
    if name == "workers":
        return _make_table(service.worker_rows(), "worker")
    if name == "tasks":
        return _make_table([{"task": task, **content} for task, content in contents.items()], "task")
    found = service.consensus.snapshot(fresh=True)
    rows = [
        {"task": task, "answer": _as_text(each.answer), "confidence": each.confidence, "n_answers": each.n_answers}
        for task, each in found.tasks.items()
    ]
    return _make_table(rows, "task")


def _as_text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _make_table(rows: list[dict[str, Any]], first: str) -> pa.Table:
    names = list(dict.fromkeys(key for row in rows for key in row)) or [first]
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def write_table(table: pa.Table, form: str) -> bytes:
    """The table as bytes."""
    if form == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()
    buffer = io.BytesIO()
    if form == "parquet":
        pa.parquet.write_table(table, buffer)
    else:
        pa.csv.write_csv(defuse_table(_name_nulls(table)), buffer)
    return buffer.getvalue()


def _name_nulls(table: pa.Table) -> pa.Table:
    """Columns without any value as text: CSV has no others for them."""
    columns = [each.cast(pa.string()) if pa.types.is_null(each.type) else each for each in table.columns]
    return pa.table(columns, names=table.column_names)
