"""How much memory the answers of a large export take while they are read: little more than their tables."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from crowdwise.formats import answer_columns, label_studio
from crowdwise.formats.answer_collector import AnswerCollector
from crowdwise.formats.answer_columns import ROWS, TOGETHER, GrowingTable, first_rows
from crowdwise.formats.export import make_export

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crowdwise.formats.export import Export

USUAL = pa.default_memory_pool()
POOL = pa.proxy_memory_pool(USUAL)  # counts its own peak, and outlives what is taken from it
TABLES = ("answers", "gold", "predictions", "skipped", "drafts", "task_attributes", "worker_attributes", "items")


def label_studio_tasks(n: int) -> Iterator[dict[str, Any]]:
    """Tasks with four answers each, as an export of Label Studio has them."""
    for number in range(n):
        yield {
            "id": number,
            "data": {"text": f"{number:0200d}", "source": ("mail", "chat")[number % 2]},
            "annotations": [
                {
                    "id": 4 * number + worker,
                    "completed_by": worker,
                    "created_at": f"2026-03-01T10:{worker:02d}:00.123456Z",
                    "lead_time": 0.5 + worker,
                    "result": [
                        {
                            "from_name": "q",
                            "to_name": "text",
                            "type": "choices",
                            "value": {"choices": [f"class {worker}"]},
                        }
                    ],
                }
                for worker in range(4)
            ],
        }


def read_tasks(n: int) -> Export:
    found = AnswerCollector()
    for number, task in enumerate(label_studio_tasks(n)):
        found.add_task(task["id"], number)
        label_studio._read_task(task, found, lambda: "")
    files: Any = SimpleNamespace(origin="export.json")
    return make_export(label_studio.FORMAT, files, found, question=None, kind=None, include_predictions=False)


def measure_reading(n: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Most bytes held at a time while tasks are read (Python's, Arrow's and pages), and bytes of the tables."""
    pages, mmap = [], answer_columns.mmap

    def count_pages(where: int, size: int) -> Any:
        pages.append(size)
        return mmap(where, size)

    pa.set_memory_pool(POOL)
    tracemalloc.start()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(answer_columns, "mmap", count_pages)
            export = read_tasks(n)
        held = tracemalloc.get_traced_memory()[1] + POOL.max_memory() + sum(pages)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(USUAL)
    assert export.answers.num_rows == 4 * n
    return held, sum(getattr(export, name).nbytes for name in TABLES)


def test_growing_exports_take_little_more_than_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What more tasks take is at most 1.5 × what their tables take; what is the same for all files does not count."""
    monkeypatch.setattr("crowdwise.formats.answer_collector.MOST_TEXT", 1000)  # nor do texts that are let go
    monkeypatch.setattr(answer_columns, "ROWS", 256)  # rows that are no table yet
    read_tasks(1)  # imports what is imported on first use
    small, large = measure_reading(250, monkeypatch), measure_reading(1_500, monkeypatch)
    assert large[0] - small[0] <= 1.5 * (large[1] - small[1])


COLUMNS: dict[str, Callable[[int], Any]] = {
    "integers": lambda row: row,
    "texts": lambda row: f"é{row}" * (row % 3),
    "truth values": lambda row: row % 3 == 0,
    "missing values": lambda row: None if row % 5 else row / 2,
    "lists": lambda row: ["a", str(row)],
}


@pytest.mark.parametrize("what", COLUMNS)
def test_joined_columns_hold_what_was_added(what: str) -> None:
    given = [COLUMNS[what](row) for row in range(2 * TOGETHER * ROWS + 5)]
    table = GrowingTable("column")
    for value in given[:ROWS]:
        table.add(value)
    early = table.to_table()["column"]
    for value in given[ROWS:]:
        table.add(value)
    assert table.to_table()["column"].to_pylist() == given
    assert early.to_pylist() == given[:ROWS]


def test_columns_are_held_without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(answer_columns, "mmap", refuse)
    table = GrowingTable("column")
    for value in range(TOGETHER * ROWS):
        table.add(value)
    assert table.to_table()["column"].to_pylist() == list(range(TOGETHER * ROWS))


@pytest.mark.parametrize(
    ("names", "first"),
    [([], []), ([7], [0]), ([1, 2, 5], [0, 1, 2]), (["b", "a", "b", "c", "a"], [0, 1, 3]), ([2, 2, 1], [0, 2])],
)
def test_first_rows(names: list[Any], first: list[int]) -> None:
    column = pa.chunked_array([names[:2], names[2:]], pa.array(names or [1]).type)
    assert first_rows(column).tolist() == first
