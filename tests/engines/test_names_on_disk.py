"""Labels on the disk have the names that labels in memory have, and what is refused there is refused here."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.engines import Dask, Stream, partition_files, task_runs
from crowdwise.labels import InputError, InputWarning, read_labels

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.labels import CrowdLabels

pytest.importorskip("duckdb")
ENGINES = {"stream": Stream, "dask": Dask}
WORKERS = ["x", "y"] * 6
LABELS = ["a", "b", "a", "a"] * 3


def list_rows(labels: CrowdLabels) -> list[tuple[Any, ...]]:
    names = [each.to_pylist() for each in (labels.tasks, labels.workers, labels.classes)]
    codes = zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True)
    return sorted(tuple(str(name[code]) for name, code in zip(names, row, strict=True)) for row in codes)


def write_table(folder: Path, **columns: Any) -> Path:
    tasks = [f"t{row // 2}" for row in range(12)]
    pq.write_table(pa.table({"task": tasks, "worker": WORKERS, "label": LABELS, **columns}), folder / "l.parquet")
    return folder / "l.parquet"


def write_text(folder: Path, task: str = "t{}", more: str = "") -> Path:
    rows = (f"{task.format(row // 2)},{WORKERS[row]},{LABELS[row]}\n" for row in range(12))
    (folder / "l.csv").write_text("task,worker,label\n" + "".join(rows) + more)
    return folder / "l.csv"


START = dt.datetime(2024, 5, 6, 7, 8, 9)
TAKEN = {
    "fractions": {"task": [row // 2 / 2 for row in range(12)]},
    "whole": {"task": [float(row // 2) for row in range(12)]},
    "times": {"task": pa.array([START.replace(second=row // 2) for row in range(12)], pa.timestamp("ms"))},
    "uuid": {"worker": pa.array([uuid.UUID(int=row % 2).bytes for row in range(12)], pa.uuid())},
    "zero": {"label": [0.0 if row % 3 else -0.0 for row in range(11)] + [1.0]},
    "bytes": {"task": [f"é{row // 2}".encode() for row in range(12)]},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("columns", TAKEN.values(), ids=TAKEN)
def test_names_of_other_types(engine: str, columns: dict[str, Any], tmp_path: Path) -> None:
    table = write_table(tmp_path, **columns)
    assert list_rows(ENGINES[engine]().read(table)) == list_rows(read_labels(table))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nan": ({"task": [float("nan"), *map(float, range(11))]}, "not finite"),
    "inf": ({"label": [float("inf")] + [1.0, 0.0] * 5 + [1.0]}, "not finite"),
    "list": ({"label": [[1]] * 12}, "lists or records"),
    "record": ({"task": [{"a": row} for row in range(12)]}, "lists or records"),
    "nul": ({"worker": ["x\0", "y"] * 6}, "NUL"),
    "unseen": ({"task": ["\u200b"] * 2 + [f"t{row // 2}" for row in range(10)]}, "missing value"),
    "twins": ({"label": ["cat", "Cat"] * 6}, "only in case or blanks"),
    "bytes": ({"label": [b"\xff", b"a"] * 6}, "not text in UTF-8"),
    "values": ({"label": list(range(12))}, "look like values"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("columns", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(engine: str, columns: dict[str, Any], words: str, tmp_path: Path) -> None:
    table = write_table(tmp_path, **columns)
    for read in (read_labels, ENGINES[engine]().read):
        with pytest.raises(InputError, match=words):
            read(table)


@pytest.mark.parametrize("task", ["'t{}'", "'=t{}", "a\\u200b{}", "#{}", "00{}", '"t,{}"'])
def test_names_of_text(task: str, tmp_path: Path) -> None:
    table = write_text(tmp_path, task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        assert list_rows(Stream().read(table)) == list_rows(read_labels(table))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('"u,x,a\nv,y,a\n', "never closed"),
        ("u,x\n", "has 2"),
        ("u\0,x,a\n", "NUL"),
        ("worker,task,label\n", "names of"),
    ],
)
def test_text_that_is_refused(more: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        Stream(scratch=tmp_path / "s").read(write_text(tmp_path, more=more))
    assert not (tmp_path / "s" / "text.parquet").exists()


def test_a_header_again_is_left_out(tmp_path: Path) -> None:
    table = write_text(tmp_path, more="task,worker,label\nu,x,a\n")
    with pytest.warns(InputWarning, match="the header again"):
        assert Stream().read(table).n_tasks == 7


def test_names_that_may_be_one_are_noted(tmp_path: Path) -> None:
    table = write_table(tmp_path, worker=["ann", "Ann"] * 6)
    with pytest.warns(InputWarning, match="Workers whose names differ only in"):
        Stream().read(table)


def test_numbers_that_are_classes(tmp_path: Path) -> None:
    table = write_table(tmp_path, label=list(range(12)))
    assert Stream().read(table, kind="labels").n_classes == 12


def write_pair(folder: Path, first: pa.DataType, second: pa.DataType) -> list[Path]:
    tables = []
    for name, kind in (("one", first), ("two", second)):
        columns = {"task": [name] * 2, "worker": ["x", "y"], "label": pa.array([0, 1]).cast(kind)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        tables.append(folder / f"{name}.parquet")
    return tables


@pytest.mark.parametrize("types", [(pa.bool_(), pa.int64()), (pa.timestamp("s"), pa.timestamp("ns"))], ids=str)
def test_files_of_types_that_duckdb_mixes_are_refused(types: tuple[Any, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'label' holds .* Write the files with one type"):
        Stream().read(write_pair(tmp_path, *types))


def test_types_that_duckdb_reads_otherwise_are_refused(tmp_path: Path) -> None:
    for kind in (pa.duration("s"), pa.decimal256(50)):
        with pytest.raises(InputError, match=r"'task' of .* as text or numbers"):
            Stream().read(write_table(tmp_path, task=pa.array(range(12)).cast(kind)))


def test_columns_that_differ_in_case_alone(tmp_path: Path) -> None:
    table = write_table(tmp_path, Label=["z"] * 12)
    with pytest.raises(InputError, match="'label', 'Label', which are one to DuckDB"):
        Stream().read(table)
    assert list_rows(Dask().read(table)) == list_rows(read_labels(table))


def test_decimals_whole_in_one_part_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [decimal.Decimal(row // 2) / 2 for row in range(12)]
    table = write_table(tmp_path, task=pa.array(tasks, pa.decimal128(12, 2)))
    monkeypatch.setattr(task_runs, "LEAST_PART", 2)
    assert list_rows(Stream(part_labels=2).read(table)) == list_rows(read_labels(table))
    pq.write_table(pq.read_table(table), tmp_path / "groups.parquet", row_group_size=2)
    pieces = partition_files.list_pieces(str(tmp_path / "groups.parquet"), (None, None, None), 2)
    with pytest.raises(InputError, match="decimals that are whole in some row groups"):
        partition_files.refuse_partly_whole(pieces, [partition_files.find_names(each)[3] for each in pieces])
