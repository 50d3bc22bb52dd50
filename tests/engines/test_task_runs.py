"""Labels sorted through files: the same order as of a plain sort, in runs of whole tasks, in little memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.engines import Stream, task_runs
from crowdwise.engines.task_runs import Run, count_buckets, cut_run, sort_buckets, sort_rows, write_buckets
from crowdwise.labels.read import read_labels
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (7, 3)


def make_rows(n_rows: int, *, text: bool) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(4)
    task = generator.integers(-40, 40, n_rows) * 10**15
    names = np.array([f"task {each}" for each in task]) if text else task
    worker, label = (generator.integers(0, size, n_rows).astype(kind)
                     for size, kind in zip(SIZES, (np.int32, np.int8), strict=True))  # fmt: skip
    return {"task": names, "worker": worker, "label": label}


def list_rows(run: Run) -> list[tuple[object, int, int]]:
    tasks = np.repeat(np.arange(len(run.tasks)), np.diff(run.ptr))
    names = run.tasks.to_pylist()
    return [(names[task], int(worker), int(label))
            for task, worker, label in zip(tasks, run.worker, run.label, strict=True)]  # fmt: skip


@pytest.mark.parametrize("text", [False, True])
def test_rows_are_sorted_by_task_worker_and_label(text: bool) -> None:
    rows = make_rows(500, text=text)
    expected = sorted(zip(*(each.tolist() for each in rows.values()), strict=True))
    whole = pa.table(rows)
    chunked = pa.concat_tables([whole.slice(0, 100), whole.slice(100, 1), whole.slice(101)])
    for table in (whole, chunked):
        run = sort_rows(table, SIZES)
        assert list_rows(run) == expected
        assert (run.worker.dtype, run.label.dtype) == (np.int32, np.int8)
    pieces = list(cut_run(run, 30))
    assert [each for piece in pieces for each in list_rows(piece)] == expected
    assert max(len(piece.worker) for piece in pieces) <= 30
    assert len(list(cut_run(run, 1))) == len(run.tasks)  # a task is never cut


@pytest.mark.parametrize("text", [False, True])
def test_files_hold_the_rows_of_their_bucket(text: bool, tmp_path: Path) -> None:
    rows = make_rows(500, text=text)
    bucket = (np.unique(rows["task"], return_inverse=True)[1] % 4).astype(np.int32)
    bucket[bucket == 2] = 3  # one bucket is empty
    batches = pa.table({**rows, "bucket": bucket}).to_batches(max_chunksize=90)
    files = write_buckets(iter(batches), tmp_path, 4)
    runs = list(sort_buckets(files, SIZES))
    assert len(runs) == 3
    for run, number in zip(runs, (0, 1, 3), strict=True):
        here = [each[bucket == number].tolist() for each in rows.values()]
        assert list_rows(run) == sorted(zip(*here, strict=True))
    assert not list(tmp_path.iterdir())


def test_a_bucket_is_smaller_than_a_part() -> None:
    assert count_buckets(10**6, 300) == count_buckets(2**22, 2**22) == 1
    n_buckets = count_buckets(3 * 10**8, 9_600_000)
    assert 32 <= n_buckets <= 40
    assert 3e8 / n_buckets < 9_600_000


def test_several_buckets_hold_the_labels_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    rows = make_rows(500, text=True)
    kept = np.unique(np.stack([np.unique(rows["task"], return_inverse=True)[1], rows["worker"]]), axis=1,
                     return_index=True)[1]  # fmt: skip
    table = pa.table({name: values[kept] for name, values in rows.items()})
    pq.write_table(table, tmp_path / "l.parquet", row_group_size=64)
    monkeypatch.setattr(task_runs, "LEAST_PART", 60)
    stored = Stream(scratch=tmp_path / "s", part_labels=60).read(tmp_path / "l.parquet")
    assert len(stored.store.parts) >= len(kept) // 60
    assert not list((tmp_path / "s").glob("bucket-*"))
    memory = read_labels(table)
    place, who = positions(stored.tasks, memory.tasks), positions(stored.workers, memory.workers)
    found = sorted(zip(place[stored.task], who[stored.worker], stored.label, strict=True))
    assert found == sorted(zip(memory.task, memory.worker, memory.label, strict=True))
