"""Every kind of bad input stops with one clear message that names the place and the remedy."""

# ruff: noqa: E501  (tables of cases read best with a case a line)
from __future__ import annotations

import gzip
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from crowdwise.labels import CrowdLabels, InputError, read_labels

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "task,worker,label\na,ann,x\na,bob,y\nb,ann,y\n"
LONG = {"task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "label": ["x", "y", "y"]}


def arrays_archive() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, x_train=np.zeros(3))
    return sink.getvalue()


# What is in the file, and what the message must say.
BAD_TEXT = {
    "empty": ("", ["l.csv is empty", "header line"]),
    "only blanks": ("\n \n", ["l.csv is empty"]),
    "header only": ("task,worker,label\n", ["l.csv has columns but no rows", "a row for each answer"]),
    "missing column": ("task,worker,colour\na,ann,x\na,bob,y\n", ["no label column", "'colour'", "label=", "--label-column"]),
    "all columns strange": ("p,q,r\n1,2,3\n1,3,4\n", ["no task column and no worker column", "'p', 'q', 'r'", "from_dense"]),
    "no header": ("1,2,0\n1,3,1\n", ["looks like data", "task,worker,label"]),
    "ambiguous": ("item,question,worker,label\na,q,ann,x\n", ["more than one column that may be the task", "'item', 'question'", "--task-column"]),
    "one column": ("task worker label\na ann x\n", ["single column", "separated by commas"]),
    "empty label": ("task,worker,label\na,ann,x\na,bob,\nb,ann,y\n", ["column 'label' has 1 missing value", "l.csv, line 3", "remove those rows"]),
    "blank worker": ("task,worker,label\na,  ,x\na,bob,y\n", ["column 'worker' has 1 missing value", "line 2"]),
    "many empty": ("task,worker,label\n" + ",w,x\n" * 7, ["column 'task' has 7 missing values", "lines 2, 3, 4, 5, 6 and 2 more"]),
    "empty after a quoted line break": ('task,worker,label\n"a\nb",ann,x\nb,bob,\n', ["l.csv, line 4"]),
    "empty after a blank line": ("task,worker,label\na,ann,x\n\nb,bob,\n", ["l.csv, line 4"]),
    "short row": ("task,worker,label\na,ann,x\na,bob\n", ["the header has 3 fields", "line 3 has 2"]),
    "long row": ("task,worker,label\na,ann,x\na,bob,y,z\n", ["line 3 has 4", "Quote a field"]),
    "unclosed quote": ('task,worker,label\n"a,ann,x\nb,bob,y\n', ["l.csv", "line 2", "never closed"]),
    "duplicate": (GOOD + "a,ann,y\n", ["worker 'ann' on task 'a' (l.csv, line 5)", "--on-duplicate"]),
    "class in other case": (GOOD + "c,bob,X\n", ["differ only in case or blanks", "'x', 'X'", "lines 2, 5", "classes="]),
    "class with blanks": (GOOD + "c,bob,x \n", ["'x', 'x '", "Clean the label column"]),
    "worker with blanks": (GOOD + "c,bob ,x\n", ["worker names that differ only in blanks: 'bob', 'bob '", "lines 3, 5", "Clean column 'worker'"]),
    "task with blanks": (GOOD + " a,cat,x\n", ["task names that differ only in blanks: 'a', ' a'"]),
    "two twins, none clean": (GOOD + "c, dan,x\nd,dan ,x\n", ["' dan', 'dan '"]),
    "repeated column": ("task,worker,label,label\na,ann,x,y\n", ["more than one column named 'label'", "Rename"]),
    "empty header": (",,\na,ann,x\n", ["header is empty"]),
    "endless quote": ('task,worker,label\n"' + "a" * 5_000_000 + ",w,x\n", ["l.csv"]),
    "NUL byte": ("task,worker,label\na,\0nn,x\n", ["line 2", "NUL byte", "not a text table"]),
    "comparisons": ("worker,winner,loser\n1,a,b\n2,b,a\n", ["l.csv holds comparisons", "'worker', 'winner', 'loser'", "crowdwise.kinds.read_comparisons"]),
    "wide, task twice": ("t,ann,bob\nq,1,0\nr,1,0\nq,,1\n", ["column for each worker ('ann', 'bob')", "more than one row for a task: ", "l.csv, lines 2, 4", "Give each task one row"]),
    "wide, worker twice": ("t,ann,ann,cy\nq,1,0,\nr,,1,0\n", ["no worker column", "more than one column is called 'ann'"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_TEXT)
@pytest.mark.parametrize("gz", [False, True])
def test_bad_text(tmp_path: Path, kind: str, gz: bool) -> None:
    text, said = BAD_TEXT[kind]
    path = tmp_path / "l.csv"
    path.write_bytes(gzip.compress(text.encode()) if gz else text.encode())
    _stops(path, said)


def test_silent_losses_are_refused(tmp_path: Path) -> None:
    for text, said in (
        ("\n\ntask,worker,label\na,ann,x\n", ["line 1 is blank"]),
        ('task,worker,label\na,ann,x\na,bob,"y\nb,ann,x\nb,bob,y\n', ["line 3", "never closed"]),
        ('{"a": {"ann": "x"}, "a": {"ann": "y"}, "b": {"ann": "y"}}', ["'a' more than once"]),
    ):
        path = tmp_path / "l.csv"
        path.write_text(text)
        _stops(path, said)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, GOOD.encode())
        assert read_labels(pipe).n_labels == GOOD.count("\n") - 1


BAD_BYTES = {
    "Latin-1": (GOOD.encode() + "c,zoë,x\n".encode("latin-1"), ["line 5", "0xeb is not UTF-8", "Save the file as UTF-8"]),
    "Latin-1 far down": (b"task,worker,label\n" + b"a,w,x\n" * 20_000 + b"\xe9,w,y\n", ["line 20002", "0xe9"]),
    "Latin-1 header": (b"t\xe2che,worker,label\na,b,c\n", ["line 1", "not UTF-8"]),
    "UTF-16": (GOOD.encode("utf-16"), ["looks like UTF-16", "UTF-8"]),
    "UTF-16 without mark": (GOOD.encode("utf-16-le"), ["looks like UTF-16"]),
    "junk": (bytes(range(256)) * 4, ["NUL byte"]),
    "cut gzip": (gzip.compress(GOOD.encode() * 50)[:-12], ["damaged or cut short", "again"]),
    "cut long gzip": (gzip.compress(os.urandom(300_000).hex().encode(), 1)[:-9000], ["l.csv"]),
    "bad gzip": (b"\x1f\x8b" + b"nonsense" * 9, ["damaged or cut short"]),
    "Excel": (b"PK\x03\x04" + b"\0" * 90, ["Excel", "save the sheet as CSV"]),
    "npz": (arrays_archive(), ["l.csv is an archive of NumPy arrays", "Give the table of their labels"]),
    "picture": (b"\x89PNG\r\n\x1a\n" + b"\0" * 90, ["l.csv is a picture", "task, worker, label"]),
    "photograph": (b"\xff\xd8\xff\xe0" + b"\0" * 90, ["l.csv is a picture", "task, worker, label"]),
    "bzip2": (b"BZh91AY&SY", ["bzip2", "gzip"]),
    "cut Parquet": (b"PAR1" + b"\1" * 90, ["begins like a Parquet file", "again"]),
    "cut Arrow": (b"ARROW1\0\0" + b"\1" * 90, ["begins like an Arrow file", "again"]),
    "cut Arrow stream": (b"\xff\xff\xff\xff\x10\1\0\0" + b"\1" * 9, ["begins like an Arrow file"]),
    "JSON, bad line": (b'{"task":"a","worker":"w","label":"x"}\n{"task":\n', ["l.csv, line 2 is not JSON", "Mend"]),
    "JSON, a list on a line": (b'{"task":"a","worker":"w","label":"x"}\n[1,2]\n', ["line 2 holds [1, 2]", "not an object"]),
    "JSON, missing key": (b'{"task":"a","worker":"w","label":"x"}\n\n{"task":"a","worker":"v"}\n', ["column 'label' has 1 missing value", "line 3"]),
    "JSON, null": (b'{"task":"a","worker":"w","label":"x"}\n{"task":null,"worker":"v","label":"y"}\n', ["column 'task' has 1 missing value", "line 2"]),
    "JSON, list in a column": (b'{"task":"a","worker":"w","label":["x"]}\n', ["'label' holds lists or records", "one row for each answer"]),
    "JSON, not UTF-8": (b'{"task":"a","worker":"w","label":"x"}\n{"task":"\xff","worker":"w","label":"x"}\n', ["line 2", "UTF-8"]),
    "JSON, other shape": (b'[1, 2, 3]', ["unknown shape", "one object a line"]),
    "JSON, empty": (b'[]', ["holds no labels"]),
    "JSON, broken": (b'{"task": {\n', ["is not JSON"]),
    "JSON, too deep": (b"[" * 100_000, ["l.csv"]),
    "nested, no answers": (b'{"a": {}, "b": {}}', ["holds no answers"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_BYTES)
def test_bad_bytes(tmp_path: Path, kind: str) -> None:
    data, said = BAD_BYTES[kind]
    path = tmp_path / "l.csv"
    path.write_bytes(data)
    _stops(path, said)


def test_cut_parquet_and_arrow(tmp_path: Path) -> None:
    table = pa.table({name: column * 1000 for name, column in LONG.items()})
    pq.write_table(table, tmp_path / "l.parquet")
    feather.write_feather(table, tmp_path / "l.arrow")
    for path in (tmp_path / "l.parquet", tmp_path / "l.arrow"):
        path.write_bytes(path.read_bytes()[:-40])
        _stops(path, ["damaged or cut short", path.name])


def test_no_such_file(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(GOOD)
    _stops(tmp_path / "label.csv", ["There is no file", "Did you mean 'labels.csv'?"])
    _stops(tmp_path / "nowhere" / "x.csv", ["There is no file", "Check the path"])
    _stops(GOOD, ["no such file", "several lines"])
    _stops("a\0b", ["cannot be opened"])


def test_folder(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(GOOD)
    _stops(tmp_path, ["is a folder", "'labels.csv'"])


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    _stops(tmp_path / "l.csv", ["may not be read", "permissions"])


BAD_TABLES = {
    "no columns": ({}, ["no columns"]),
    "empty pandas": (pd.DataFrame(), ["no columns"]),
    "NaN label": (pd.DataFrame(LONG | {"label": [1.0, np.nan, 2.0]}), ["column 'label' has 1 missing value", "row 1"]),
    "None worker": (pd.DataFrame(LONG | {"worker": ["ann", None, "bob"]}), ["column 'worker' has 1 missing value", "row 1"]),
    "null in polars": (pl.DataFrame(LONG | {"task": ["a", None, None]}), ["has 2 missing values", "rows 1, 2"]),
    "all null": (pa.table(LONG | {"label": [None, None, None]}), ["has 3 missing values"]),
    "infinite": (pd.DataFrame(LONG | {"label": [1.0, np.inf, 2.5]}), ["not finite", "row 1"]),
    "lists": (pa.table(LONG | {"label": [["x"], ["y"], ["x"]]}), ["holds lists or records", "one name"]),
    "lists in pandas": (pd.DataFrame(LONG | {"label": [["x"], "y", "x"]}), ["holds lists or records"]),
    "bytes": (pa.table(LONG | {"label": [b"\xff", b"y", b"x"]}), ["column 'label' holds values that are not text"]),
    "lengths": ({"task": [1, 2], "worker": [1], "label": [0, 1]}, ["same length", "2, 1, 2"]),
    "two-dimensional": ({"task": np.zeros((2, 2)), "worker": [1, 2], "label": [0, 1]}, ["one-dimensional", "(2, 2)", "from_dense"]),
    "scalar": ({"task": "abc", "worker": [1, 2, 3], "label": [0, 1, 1]}, ["task is 'abc'", "array"]),
    "empty table": (pd.DataFrame({"task": [], "worker": [], "label": []}), ["no rows"]),
    "empty polars": (pl.DataFrame(LONG).head(0), ["no rows"]),
    "one-dimensional array": (np.arange(4), ["(4,)", "from_arrays"]),
    "list of numbers": ([1, 2, 3], ["not a table", "from_arrays"]),
    "number": (42, ["int is not something labels can be read from"]),
    "repeated names": (pd.DataFrame([[1, 2, 0, 1]], columns=["task", "worker", "label", "label"]), ["more than one column named 'label'"]),
    "complete and unnamed": (pd.DataFrame({"q": [0, 0, 1], "who": [0, 1, 0], "said": [0, 1, 1]}), ["no task column", "from_dense"]),
    "duplicates": (pl.DataFrame(LONG | {"worker": ["ann"] * 3}), ["repeat an earlier one of the same worker to the same task (1 in all)", "row 1"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_bad_tables(kind: str) -> None:
    _stops(*BAD_TABLES[kind])


def test_options() -> None:
    _stops(LONG, ["no column 'tusk'", "Did you mean 'task'?", "--task-column"], task="tusk")
    _stops(LONG, ["three different columns"], worker="task")
    _stops(
        LONG,
        ["1 label outside the declared classes ('y', 'z'): 'x'", "row 0", "--classes"],
        classes=["y", "z"],
    )
    _stops(LONG, ["class names repeat 'x'", "once"], classes=["x", "x", "y"])
    _stops(LONG, ["classes is the text 'xy'", "list"], classes="xy")
    _stops(LONG, ["on_duplicate is 'any'", "'last'"], on_duplicate="any")


def test_bad_matrices() -> None:
    for matrix, said in (
        ([[1, 0], [1]], ["differ in length"]),
        ([1, 0], ["two dimensions", "from_arrays"]),
        (np.zeros((0, 3)), ["empty"]),
        (np.full((2, 2), np.nan), ["no answers"]),
    ):
        with pytest.raises(InputError) as caught:
            CrowdLabels.from_dense(matrix)
        _says(caught.value, said)
    with pytest.raises(InputError, match=r"has 2 tasks, but 1 names"):
        CrowdLabels.from_dense([[0, 1], [1, 1]], tasks=["a"])
    with pytest.raises(InputError, match=r"outside the declared classes .*task 1, worker 0"):
        CrowdLabels.from_dense([[0, 1], [7, 1]], classes=[0, 1])


def test_standard_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"task,worker,label\na,ann,\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    _stops("-", ["standard input, line 2"])


def test_hostile_names_are_escaped_in_errors() -> None:
    table = LONG | {"worker": ["\x1b[31m", "\x1b[31m", "b"], "task": ["=1\n2"] * 3}
    with pytest.raises(InputError) as caught:
        read_labels(table)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    _says(caught.value, [r"'\x1b[31m'", r"'=1\n2'"])


def test_json_nested_error_names_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    path.write_text(json.dumps({"a": {"ann": 1, "bob": None}, "b": {"ann": 0}}))
    _stops(path, ["missing value", "task 'a', worker 'bob'"], outer="tasks")


def _stops(source: object, said: list[str], **options: object) -> None:
    with pytest.raises(InputError) as caught:
        read_labels(source, **options)  # type: ignore[arg-type]
    _says(caught.value, said)


def _says(error: InputError, said: list[str]) -> None:
    message = str(error)
    assert all(part in message for part in said), message
    assert len(message) < 700
    assert "\n" not in message


def test_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="Standard input is closed"):
        read_labels("-")
    monkeypatch.setattr("sys.stdin", io.StringIO("task,worker,label\n1,a,x\n2,a,y\n"))
    assert read_labels("-").n_labels == 2


def test_a_table_in_place_of_its_path() -> None:
    with pytest.raises(InputError, match="Cannot read"):
        read_labels("task,worker,label\n" + "t1,ann,cat\n" * 40)
