"""Times beside labels: in the labels' order whatever the order of the rows, and said why there are none."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdwise as cw
from crowdwise.audit.drift import check_times
from crowdwise.labels.errors import InputError
from crowdwise.labels.times import read_timed_labels


def read(*rows: str, header: str = "task,worker,label,time", **options: Any) -> Any:
    return read_timed_labels(io.BytesIO("\n".join([header, *rows]).encode()), **options)


@pytest.mark.parametrize("on_duplicate", ["first", "last", "all"])
def test_each_label_keeps_its_time(on_duplicate: Any) -> None:
    rng = np.random.default_rng(0)
    task, worker, label = rng.integers(0, [40, 9, 3], (1000, 3)).T
    table = {"task": task, "worker": worker, "label": label, "time": 100 * np.arange(1000) + label}
    timed = cw.read_timed_labels(table, on_duplicate=on_duplicate)
    labels = timed.labels
    row = (timed.time // 100).astype(int)
    assert (timed.time % 100).tolist() == labels.classes.to_numpy()[labels.label].tolist()
    np.testing.assert_array_equal(labels.tasks.to_numpy()[labels.task], task[row])
    np.testing.assert_array_equal(labels.workers.to_numpy()[labels.worker], worker[row])
    assert labels.n_labels == (1000 if on_duplicate == "all" else len(set(zip(task, worker, strict=True))))
    assert labels.to_table().equals(cw.read_labels(table, on_duplicate=on_duplicate).to_table())


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["3", "1e1", ""], [3.0, 10.0, np.nan]),
        (["2026-05-31", "2026-06-01 ", ""], ["2026-05-31", "2026-06-01", "NaT"]),
        (["2026-05-31 13:45", "2026-05-31T13:45:10.5", ""], ["2026-05-31T13:45", "2026-05-31T13:45:10.5", "NaT"]),
        (["2026-05-31T13:45Z", "2026-05-31T13:45+02:00", ""], ["2026-05-31T13:45", "2026-05-31T11:45", "NaT"]),
        (["", "", ""], [np.nan] * 3),
    ],
)
def test_numbers_and_dates_as_text(cells: list[str], wanted: list[Any]) -> None:
    timed = read(*(f"t,{who},x,{cell}" for who, cell in enumerate(cells)))
    assert timed.column == "time"
    expected = np.array(wanted, None if isinstance(wanted[0], float) else "datetime64[us]")
    np.testing.assert_array_equal(timed.time, expected)


def test_dates_of_tables_in_memory() -> None:
    when = [datetime(2026, 5, day, 12, 30) for day in (1, 2)]
    columns = {"task": [1, 1], "worker": ["a", "b"], "label": [0, 1]}
    for column in (when, pd.Series(when), pd.Series(when).dt.tz_localize("UTC"), pd.Categorical(["7", "8"])):
        timed = read_timed_labels(pd.DataFrame({**columns, "created_at": column}))
        seven = [7.0, 8.0] if isinstance(column, pd.Categorical) else np.array(when, "datetime64[us]").tolist()
        assert timed.time.tolist() == seven


def test_the_column_is_known_by_its_usual_names() -> None:
    for name in ("time", "Timestamp", "submitted_at", "Answer Time", "date"):
        assert read("t,w,x,5", header=f"task,worker,label,{name}").column == name
    both = read("t,w,x,5,6", header="task,worker,label,time,timestamp")
    assert (both.column, both.time.tolist()) == ("time", [5.0])
    named = read("t,w,x,5,6", header="task,worker,label,time,timestamp", time="timestamp")
    assert (named.column, named.time.tolist()) == ("timestamp", [6.0])


@pytest.mark.parametrize(
    ("header", "row", "why"),
    [
        ("task,worker,label", "t,w,x", "There is no time column"),
        ("task,worker,label,created,updated_at", "t,w,x,1,2", r"More than one column .*'created', 'updated_at'"),
        ("task,worker,label,date", "t,w,x,5 May", r"Column 'date' cannot be read as times: '5 May' \(.*line 2\)"),
        ("task,ann,bob", "t,x,\nu,y,x\nv,x,y", "does not have a row for each answer"),
    ],
)
def test_without_times_the_labels_are_read_and_it_is_said_why(header: str, row: str, why: str) -> None:
    timed = read(row, header=header)
    assert timed.labels.n_labels
    assert (timed.time, timed.column) == (None, None)
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(timed.why_not)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"time": [True, False]}, "holds no times, but bool"),
        ({"time": ["2026-05-31", "1"]}, r"cannot be read as times: '1' \(the table, row 1\)"),
        ({"time": ["2026-05-31T12:00Z", "2026-05-31T12:00"]}, "all with a time zone or all without"),
        ({"when": [1, 2]}, "has no column 'time'; it has 'task', 'worker', 'label', 'when'"),
    ],
)
def test_a_column_that_was_named_must_be_times(source: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_timed_labels({"task": [1, 1], "worker": ["a", "b"], "label": [0, 1], **source}, time="time")


def test_only_rows_have_times() -> None:
    nested = {"t": {"ann": "x", "bob": "y"}}
    assert "does not have a row" in read_timed_labels(nested, outer="tasks").why_not
    with pytest.raises(InputError, match="only a table with a row for each answer has times"):
        read_timed_labels(nested, time="time", outer="tasks")


@pytest.mark.parametrize("cell", ["inf", "-inf", "1e300", "9999-12-31", "0001-01-01 00:00"])
def test_times_at_which_no_label_was_given(cell: str) -> None:
    other = "2026-05-31" if "-" in cell[1:] else "3"
    with pytest.raises(InputError, match=r"'time' holds times at which no label was given: .* line 3\)"):
        read(f"a,1,x,{other}", f"b,1,y,{cell}", time="time")
    timed = read(f"a,1,x,{other}", f"b,1,y,{cell}")
    assert timed.time is None
    assert "Leave cells empty" in timed.why_not
    array = np.array([other, cell], "M8[us]" if "-" in cell[1:] else float)
    with pytest.raises(InputError, match=r"time holds .* at row 1"):
        check_times(array, timed.labels)


def test_masked_times_are_unknown() -> None:
    labels = read("a,1,x,1", "b,1,y,2").labels
    assert np.isnan(check_times(np.ma.masked_array([1, 2], mask=[0, 1]), labels)).tolist() == [False, True]
    dates = np.ma.masked_array(["2026-05-31", "2026-05-31"], mask=[0, 1], dtype="M8[D]")
    assert np.isnat(check_times(dates, labels)).tolist() == [False, True]


def test_columns_that_can_be_read_only_once() -> None:
    table = {"task": [1, 1, 2], "worker": [1, 2, 1], "label": list("xyx"), "time": [3, 2, 1]}
    assert read_timed_labels({name: iter(values) for name, values in table.items()}).time.tolist() == [3, 2, 1]


def test_times_with_a_zone_and_times_without() -> None:
    """Arrow takes those without to be in UTC, without a word."""
    noon = datetime(2026, 5, 31, 12)
    mixed = [noon.replace(tzinfo=timezone(timedelta(hours=9))), noon]
    for times in (mixed, mixed[::-1], np.array(mixed, object)):
        with pytest.raises(InputError, match="holds times with a time zone and times without"):
            read_timed_labels({"task": [1, 2], "worker": [1, 1], "label": ["x", "y"], "time": times}, time="time")
