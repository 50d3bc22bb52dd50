"""Several files are read as one table, and an error names the file."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.labels import InputError, read_labels
from crowdwise.labels.times import read_timed_labels

if TYPE_CHECKING:
    from pathlib import Path

DAY1 = "task,worker,label,day\n1,ann,x,1\n1,bob,y,1\n2,ann,x,1\n"
DAY2 = "task,worker,label,day\n2,bob,x,2\n3,ann,y,2\n"
BOTH = [(1, "ann", "x"), (1, "bob", "y"), (2, "ann", "x"), (2, "bob", "x"), (3, "ann", "y")]


@pytest.fixture
def days(tmp_path: Path) -> Path:
    folder = tmp_path / "days"
    folder.mkdir()
    (folder / "day1.csv").write_text(DAY1)
    (folder / "day2.csv").write_text(DAY2)
    return folder


def edges(labels: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in labels.to_table().to_pylist()]


def test_a_list_and_a_pattern(days: Path) -> None:
    paths = [days / "day1.csv", str(days / "day2.csv")]
    for source in (
        paths,
        tuple(paths),
        str(days / "*.csv"),
        days / "day?.csv",
        [days / "day1.csv", str(days / "*2.csv")],
    ):
        assert edges(read_labels(source)) == BOTH
    assert edges(read_labels([days / "day1.csv"])) == BOTH[:3]
    assert edges(read_labels(days / "day[1].csv")) == BOTH[:3]


def test_a_name_that_looks_like_a_pattern_is_a_name(days: Path) -> None:
    (days / "day[1].csv").write_text(DAY2)
    assert edges(read_labels(days / "day[1].csv")) == BOTH[3:]


def test_times_come_along(days: Path) -> None:
    timed = read_timed_labels([days / "day2.csv", days / "day1.csv"])
    assert (timed.column, timed.time.tolist()) == ("day", [2, 1, 2, 1, 1])


def test_formats_may_differ(days: Path) -> None:
    (days / "day1.csv.gz").write_bytes(gzip.compress(DAY1.encode()))
    table = pa.table({"day": [2, 2], "label": ["x", "y"], "worker": ["bob", "ann"], "task": [2, 3]})
    pq.write_table(table, days / "day2.parquet")
    (days / "day2.jsonl").write_text(
        '{"task": 2, "worker": "bob", "label": "x", "day": 2}\n{"task": 3, "worker": "ann", "label": "y", "day": 2}\n'
    )
    for first in ("day1.csv", "day1.csv.gz"):
        for second in ("day2.parquet", "day2.jsonl"):
            assert edges(read_labels([days / first, days / second])) == BOTH
    assert edges(read_labels([days / "day2.parquet", days / "day1.csv"]))[0] == (2, "bob", "x")


def test_wide_tables_are_joined(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,ann,bob\n1,x,y\n2,x,\n")
    (tmp_path / "b.csv").write_text("task,ann,bob\n3,,y\n4,y,x\n")
    assert read_labels(str(tmp_path / "?.csv")).n_labels == 6


def test_an_answer_in_two_files_is_a_duplicate(days: Path) -> None:
    (days / "day3.csv").write_text("task,worker,label,day\n4,ann,x,3\n1,ann,y,3\n")
    with pytest.raises(InputError, match=r"worker 'ann' on task 1 \(day3\.csv, line 3\)"):
        read_labels(str(days / "*.csv"))
    assert edges(read_labels(str(days / "*.csv"), on_duplicate="last"))[0] == (1, "bob", "y")
    other = days / "other"
    other.mkdir()
    (other / "day1.csv").write_text(DAY1)
    with pytest.raises(InputError, match=r"3 in all.*other/day1\.csv, line 2"):
        read_labels([days / "day1.csv", other / "day1.csv"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task,worker,label\n5,ann,x\n", r"new\.csv lacks 'day', unlike day1\.csv"),
        (DAY2.replace("label", "answer"), r"new\.csv lacks 'label' and has 'answer' besides"),
        ("task,worker,label,day\n5,ann,,1\n6,bob,,1\n", r"new\.csv, line 2; new\.csv, line 3"),
        ("task,worker,label,day\n5,ann,x\n", r"new\.csv: the header has 4 fields, but line 2 has 3"),
        ("", r"new\.csv is empty"),
        ('{"t1": {"ann": "x"}}', r"new\.csv' is a mapping of mappings"),
    ],
)
def test_the_file_is_named(text: str, message: str, days: Path) -> None:
    (days / "new.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_labels([days / "day1.csv", days / "new.csv"])


def test_what_is_not_there_is_said(days: Path) -> None:
    with pytest.raises(InputError, match=r"No file matches '.*none\*\.csv'"):
        read_labels(days / "none*.csv")
    with pytest.raises(InputError, match="There is no file"):
        read_labels([days / "day1.csv", days / "day9.csv"])
    with pytest.raises(InputError, match=r"day1\.csv' is given more than once"):
        read_labels([days / "day1.csv", str(days / "*.csv")])
