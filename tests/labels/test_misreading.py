"""What was once read without a word as something else: read as meant, noted, or refused."""

from __future__ import annotations

import datetime as dt
import io
import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.labels import CrowdLabels, InputError, InputWarning, byte_source, read_labels
from crowdwise.labels.truth import read_truth, truth_codes

if TYPE_CHECKING:
    from pathlib import Path

LONG = {"task": ["a", "a", "b", "b"], "worker": ["ann", "bob", "ann", "bob"], "label": ["x", "y", "y", "y"]}
HEADER = "task,worker,label\n"
masked = np.ma.masked_array


def names_of(labels: CrowdLabels) -> tuple[list[Any], list[Any], list[Any]]:
    return labels.tasks.to_pylist(), labels.workers.to_pylist(), labels.classes.to_pylist()


# ---- masked arrays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix",
    [
        masked([[0, 7], [1, 0]], mask=[[0, 1], [0, 0]]),
        masked([[0.5, 7], [1, 0.5]], mask=[[0, 1], [0, 0]]),
        masked([["x", "z"], ["y", "x"]], mask=[[0, 1], [0, 0]]),
        [masked([0, 7], mask=[0, 1]), masked([1, 0], mask=[0, 0])],
        [[0, np.ma.masked], [1, 0]],
    ],
    ids=["integers", "floats", "text", "rows", "cells"],
)
def test_what_is_masked_in_a_matrix_is_no_answer(matrix: Any) -> None:
    labels = CrowdLabels.from_dense(matrix)
    assert labels.n_labels == 3
    assert labels.n_classes == 2
    assert list(zip(labels.task.tolist(), labels.worker.tolist(), strict=True)) == [(0, 0), (1, 0), (1, 1)]
    if isinstance(matrix, np.ndarray):
        assert read_labels(matrix).n_labels == 3


def test_what_is_masked_in_a_column_is_missing() -> None:
    label = masked(["x", "z", "y", "y"], mask=[0, 1, 0, 0])
    for values in (label, list(label)):
        with pytest.raises(InputError, match=r"1 missing value: .*row 1"):
            CrowdLabels.from_arrays(LONG["task"], LONG["worker"], values)
    with pytest.raises(InputError, match="1 missing value"):
        read_truth({"task": ["a", "b"], "label": label[:2]})
    with pytest.raises(InputError, match="label has masked entries"):
        CrowdLabels.from_codes([0, 1], [0, 0], masked([0, 1], mask=[0, 1]), tasks=2, workers=1, classes=2)


def test_dates_that_are_none_are_no_answer() -> None:
    assert CrowdLabels.from_dense(np.array([["2020", "NaT"], ["2021", "2020"]], "M8[Y]")).n_labels == 3


# ---- numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "zeros",
    [
        [0.0, -0.0, 0.5, 0.5],
        np.array([0.0, -0.0, 0.5, 0.5], np.float32),
        np.array([0.0, -0.0, 0.5, 0.5], np.float16),
        pl.Series([0.0, -0.0, 0.5, 0.5]),
        pa.DictionaryArray.from_arrays([0, 1, 2, 2], [0.0, -0.0, 0.5]),
        [0.0, -0.0, "0.5", "0.5"],
    ],
    ids=["list", "float32", "float16", "polars", "dictionary", "mixed"],
)
def test_zero_has_no_sign(zeros: Any) -> None:
    labels = read_labels({**LONG, "label": zeros})
    assert [float(name) for name in labels.classes.to_pylist()] == [0, 0.5]
    assert read_labels({**LONG, "label": [0.0, 0.5, 0.5, -0.0]}, classes=[-0.0, 0.5]).label.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(("kind", "last"), [(np.float64, 2**53), (np.float32, 2**24)])
def test_digits_that_floating_point_loses_are_noted(kind: Any, last: int) -> None:
    with pytest.warns(
        InputWarning, match=r"column 'task' holds large whole numbers .* several names may have become one"
    ):
        read_labels({**LONG, "task": np.array([last + 1, last + 1, 3, 3], kind)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_labels({**LONG, "task": np.array([last - 1, last - 1, 3, 3], kind)})
        assert read_labels({**LONG, "task": [2**62 + 1, 2**62 + 1, 2**62, 2**62]}).n_tasks == 2


def test_integers_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    digits = "9" * 5000
    for text in (f'{{"task":{digits},"worker":1,"label":0}}\n' * 2, f'[{{"task":{digits},"worker":1,"label":0}}]'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"l\.json.*more digits than Python reads. Write it as text"):
            read_labels(path)
    path.write_text(f'{{"task":1,"worker":1,"label":0}}\n{{"task":{digits},"worker":1,"label":0}}\n')
    with pytest.raises(InputError, match=r"l\.json, line 2: an integer of more digits"):
        read_labels(path)
    with pytest.raises(InputError, match="row 0: <int> cannot be written as text"):
        read_labels({**LONG, "task": [10**5000, 1, 2, 3]})
    wide = pl.Series([2**100, 2**100, 1, 1], dtype=pl.Int128)
    for table in (
        pl.DataFrame({**LONG, "task": wide}),
        pl.DataFrame({**LONG, "task": wide}).lazy(),
        {**LONG, "task": wide},
    ):
        assert read_labels(table).tasks.to_pylist() == [str(2**100), "1"]
    assert read_labels(
        pl.DataFrame({**LONG, "label": pl.Series([0, 1, 1, 1], dtype=pl.Int128)})
    ).classes.to_pylist() == [0, 1]


# ---- types of columns -------------------------------------------------------------------------------------

BINS = pd.cut(pd.Series([1, 5, 1, 5]), [0, 3, 6, 9])


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        (pa.DictionaryArray.from_arrays([0, 2, 2, 0], ["y", None, "x"], ordered=True), ["y", "x"]),
        (pa.RunEndEncodedArray.from_arrays([2, 4], ["x", "y"]), ["x", "y"]),
        (pa.array(["x", "y", "y", "x"], pa.string_view()), ["x", "y"]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 1, 0], pa.int8())), [0, 1]),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16] * 2, pa.binary(16))),
         ["30303030-3030-3030-3030-303030303030", "31313131-3131-3131-3131-313131313131"]),
        (BINS, ["(0, 3]", "(3, 6]", "(6, 9]"]),
        (pd.Series(pd.PeriodIndex(["2020", "2021"] * 2, freq="Y")), ["2020", "2021"]),
        (pl.Series(["y", "x", "x", "y"], dtype=pl.Enum(["y", "z", "x"])), ["y", "z", "x"]),
    ],
    ids=["dictionary with an unused null", "run-end", "view", "bool8", "uuid", "intervals", "periods", "enum"],
)  # fmt: skip
def test_types_of_labels(label: Any, classes: list[Any]) -> None:
    assert read_labels({**LONG, "label": label}).classes.to_pylist() == classes


def test_a_null_of_a_dictionary_is_a_missing_value(tmp_path: Path) -> None:
    label = pa.DictionaryArray.from_arrays([0, 1, 2, 0], ["x", None, "y"])
    table = pa.table({**LONG, "label": label})
    path = tmp_path / "l.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    for source in (table, path, {**LONG, "label": label}):
        with pytest.raises(InputError, match=r"column 'label' has 1 missing value: .*row 1"):
            read_labels(source)


def test_text_that_is_not_unicode(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    path.write_text('{"t\\ud800": {"w1": "x"}, "t2": {"w1": "y"}, "t3": {"w1": "y"}}')
    for read in (
        lambda: read_labels(path, outer="tasks"),
        lambda: read_labels(LONG, classes=["x", "y", "\ud800"]),
        lambda: read_labels({**LONG, "task": ["\ud800", "b", "b", "c"]}),
        lambda: CrowdLabels.from_codes([0], [0], [0], tasks=["\ud800"], workers=1, classes=1),
    ):
        with pytest.raises(InputError, match=r"surrogates not allowed|cannot be read"):
            read()


def test_tables_in_place_of_columns() -> None:
    with pytest.raises(InputError, match="task must be one-dimensional"):
        read_labels({**LONG, "task": pd.DataFrame({"a": [1, 2, 3, 4]})})


def test_wide_integers_in_a_matrix() -> None:
    matrix = pl.DataFrame({"ann": [2**100, 1], "bob": [1, None]}, schema={"ann": pl.Int128, "bob": pl.Int128})
    labels = CrowdLabels.from_dense(matrix)
    assert labels.n_labels == 3
    assert labels.kind == "polars"
    assert labels.workers.to_pylist() == ["ann", "bob"]


def test_collections_without_an_order() -> None:
    for column in ({"a", "b", "c", "d"}, {"a": 0, "b": 1, "c": 2, "d": 3}):
        with pytest.raises(InputError, match="do not stand in rows"):
            read_labels({**LONG, "task": column})
    assert read_labels(LONG, classes={"y", "z", "x", "w"}).classes.to_pylist() == ["w", "x", "y", "z"]


def test_a_truth_that_contradicts_itself_in_a_series() -> None:
    with pytest.raises(InputError, match="contradicts itself about task 'a'"):
        read_truth(pd.Series(["x", "y"], index=["a", "a"]))


@pytest.mark.parametrize("name", ["", " ", float("nan")])
def test_declared_names_that_are_none(name: Any) -> None:
    with pytest.raises(InputError, match=r"A class name is (empty|missing)"):
        read_labels(LONG, classes=["x", "y", name])


def test_tables_as_pandas_writes_them(tmp_path: Path) -> None:
    frame = pd.DataFrame({**LONG, "task": [1, 1, 2, 2]})
    path = tmp_path / "l.json"
    path.write_text(frame.to_json())
    for source in (path, frame.to_dict()):
        assert names_of(read_labels(source)) == ([1, 2], ["ann", "bob"], ["x", "y"])


# ---- text files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "1,1,x\n1,2,y\n" + HEADER + "2,1,y\n",
        "\ufeff" + HEADER + "1,1,x\n1,2,y\n\ufeff" + HEADER + "2,1,y\n",
        (HEADER + "1,1,x\n1,2,y\n" + HEADER + HEADER + "2,1,y\n").replace("\n", "\r\n"),
        '"task","worker","label"\n"1",1,x\n1,2,y\n"task","worker","label"\n2,1,y\n',
    ],
    ids=["plain", "marks", "returns", "quotes"],
)
def test_files_put_together_with_their_headers(text: str, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_bytes(text.encode())
    with pytest.warns(InputWarning, match=r"l\.csv, lines? 4.*: the header again, which is left out") as caught:
        assert names_of(read_labels(path)) == ([1, 2], [1, 2], ["x", "y"])
    assert len(caught) == 1


def test_lines_are_counted_with_the_headers_left_out(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + "a,ann,x\n" + HEADER + "b,ann,\n")
    with pytest.raises(InputError, match=r"l\.csv, line 4"), pytest.warns(InputWarning, match="header again"):
        read_labels(path)
    path.write_text("id,ann,bob\n1,x,y\n2,,x\nid,ann,bob\n3,x,\n")
    with pytest.warns(InputWarning, match="header again"):
        assert names_of(read_labels(path)) == ([1, 2, 3], ["ann", "bob"], ["x", "y"])
    path.write_text("task,label\na,x\ntask,label\nb,y\n")
    with pytest.warns(InputWarning, match="header again"):
        assert read_truth(path).tasks.to_pylist() == ["a", "b"]


@pytest.mark.parametrize("size", [1, 7, 30, 64])
def test_a_header_across_two_blocks_of_bytes(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_source, "BLOCK", size)
    path = tmp_path / "l.csv"
    path.write_text(HEADER + "a,ann,x\n" + HEADER + "b,ann,y\n")
    with pytest.warns(InputWarning, match="header again"):
        assert read_labels(path).n_labels == 2


def test_a_class_may_be_called_like_its_column(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + "a,ann,label\na,bob,x\ntask,worker,x\n")
    assert read_labels(path).classes.to_pylist() == ["label", "x"]


@pytest.mark.parametrize("header", ["worker,task,label", "Task,Worker,Label"])
def test_files_with_other_columns_put_together(header: str, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(f"{HEADER}a,ann,x\na,bob,y\n{header}\nann,b,x\n")
    with pytest.raises(InputError, match=r"l\.csv, line 4 holds the names of the columns .*Give the files one by one"):
        read_labels(path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "dict"])
def test_nul_bytes_anywhere(kind: str, tmp_path: Path) -> None:
    rows = [{"task": f"t{place}", "worker": "ann", "label": "xy"[place % 2]} for place in range(9000)]
    rows[-1]["worker"] = "ann\0"
    table = {name: [row[name] for row in rows] for name in rows[0]}
    source: Any = table
    if kind != "dict":
        source = tmp_path / f"l.{kind}"
    if kind == "csv":
        source.write_text(HEADER + "".join(",".join(row.values()) + "\n" for row in rows))
    elif kind == "jsonl":
        source.write_text("\n".join(map(json.dumps, rows)))
    elif kind == "parquet":
        pq.write_table(pa.table(table), source)
    with pytest.raises(InputError, match=r"line 9001: a NUL byte|names with a NUL byte: .*(line 9000|row 8999)"):
        read_labels(source)


def test_names_of_which_nothing_is_seen_are_missing() -> None:
    for name in ("\u200b", " \u2060\ufeff", "\x1b", "\u3164"):
        with pytest.raises(InputError, match="column 'label' has 1 missing value: the table, row 1"):
            read_labels({**LONG, "label": ["x", name, "x", "y"]})


def test_what_is_not_seen_around_the_name_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("\ufeff\ufefftask,\u200bworker,label\xa0\na,ann,x\n")
    assert read_labels(path).n_labels == 1


def test_an_open_quote_in_a_file_of_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_bytes((HEADER + "a,ann,x\n" * 20_000 + 'é,ann,"x\n').encode("latin-1"))
    with pytest.raises(InputError, match=r"never closed|not UTF-8"):
        read_labels(path)


def test_quotes_behind_backslashes_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + 'a,ann,x\na,"say \\"hi\\" now",y\n')
    with pytest.warns(InputWarning, match=r"l\.csv, line 3: a quote behind a backslash"):
        read_labels(path)
    path.write_text(HEADER + 'a,"C:\\",x\na,"say ""hi""",y\n')
    assert read_labels(path).workers.to_pylist() == ["C:\\", 'say "hi"']


def test_a_line_for_excel_is_named(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("sep=;\ntask;worker;label\na;ann;x\n")
    with pytest.raises(InputError, match="line 1 is meant for Excel alone"):
        read_labels(path)


# ---- what stays as it is ----------------------------------------------------------------------------------


def test_names_that_look_like_something_else_stay_names(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + "a,007,NA\na,1e5,null\nb,007,2020-01-01\nb,1e5,True\n")
    with pytest.warns(InputWarning, match="where nothing is known"):
        names = names_of(read_labels(path))
    assert names == (["a", "b"], ["007", "1e5"], ["2020-01-01", "NA", "True", "null"])
    dates = [dt.date(2020, 1, 1), dt.date(2021, 1, 1)] * 2
    assert read_labels({**LONG, "label": dates}).classes.to_pylist() == ["2020-01-01", "2021-01-01"]
    assert read_labels({**LONG, "label": [True, False] * 2}).classes.to_pylist() == ["false", "true"]


def test_known_truths_of_tasks_written_otherwise_are_noted() -> None:
    labels = read_labels({**LONG, "task": ["Jos\u00e9", "Jos\u00e9", "b", "b"]})
    with pytest.warns(InputWarning, match=r"'Jose\\u0301' and 'Jos\\xe9'. Write them the same way"):
        assert truth_codes({"Jose\u0301": "x", "b": "y"}, labels).tolist() == [-1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truth_codes({"other": "x", "b": "y"}, labels)


WITH_GAPS = [[0, 1, -1], [1, 1, 0], [0, -1, 0]]
MATRICES = {
    "integers": np.array(WITH_GAPS),
    "floats": np.array(WITH_GAPS, np.float64),
    "32-bit floats": np.array(WITH_GAPS, np.float32),
    "floats and NaN": np.array([[0, 1, -1], [1, 1, 0], [0, np.nan, 0]]),
    "objects and None": [[0, 1, -1], [1, 1, 0], [0, None, 0]],
    "pandas, floats": pd.DataFrame(np.array(WITH_GAPS, np.float64), columns=["ann", "bob", "cy"]),
    "pandas, whole numbers of both kinds": pd.DataFrame({"ann": [0, 1, 0], "bob": [1.0, 1, np.nan], "cy": [-1, 0, 0]}),
    "pandas, nullable": pd.DataFrame({"ann": [0, 1, 0], "bob": [1, 1, None], "cy": [-1, 0, 0]}, dtype="Int64"),
    "pyarrow, floats": pa.table({"ann": [0.0, 1.0, 0.0], "bob": [1.0, 1.0, None], "cy": [-1.0, 0.0, 0.0]}),
}


@pytest.mark.parametrize("read", [read_labels, CrowdLabels.from_dense])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_minus_one_among_whole_numbers_is_no_answer(matrix: Any, read: Any) -> None:
    if isinstance(matrix, list) and read is read_labels:
        matrix = np.array(matrix)
    labels = read(matrix)
    assert labels.n_labels == 7
    assert labels.classes.to_pylist() == [0, 1]


def test_minus_one_among_fractions_is_a_number() -> None:
    matrix = np.array([[0.5, -1, 0.5], [0.5, -1, 0.5]])
    assert CrowdLabels.from_dense(matrix).classes.to_pylist() == ["-1", "0.5"]
    table = pd.DataFrame({"ann": [0.5, -1, 0.5], "bob": [-1, -1, np.nan], "cy": [0.5, 0.5, -1]})
    assert read_labels(table).classes.to_pylist() == ["-1", "0.5"]
    whole = np.array([[1.0, -1], [1, 1]])
    assert CrowdLabels.from_dense(whole, missing=np.nan).classes.to_pylist() == [-1, 1]


def test_minus_one_in_a_table_that_pandas_wrote(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    pd.DataFrame({"task": ["a", "b", "c"], "ann": [0.0, 1, -1], "bob": [0, np.nan, 1], "cy": [1, 1, 0.0]}).to_csv(
        path, index=False
    )
    assert len(read_labels(path).classes) == 2


def test_arrow_streams_that_were_put_together_are_not_half_read(tmp_path: Path) -> None:
    table = pa.table({"task": [1, 2], "worker": ["a", "a"], "label": ["x", "y"]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "one.arrow").write_bytes(sink.getvalue())
    assert read_labels(tmp_path / "one.arrow").n_labels == 2
    (tmp_path / "two.arrow").write_bytes(sink.getvalue() * 2)
    with pytest.raises(InputError, match="holds more after the end of its Arrow stream"):
        read_labels(tmp_path / "two.arrow")


@pytest.mark.parametrize(
    ("matrix", "missing"), [([["1", "0"], ["2", "1"]], 0), ([[1, -1], [2, 1]], "-1"), ([[b"a", b"x"]], "x")]
)
def test_a_marker_of_another_type_than_the_cells_is_noted(matrix: Any, missing: Any) -> None:
    array = np.array(matrix)
    with pytest.warns(InputWarning, match="counts as an answer. Give the marker as it stands in the matrix"):
        assert len(CrowdLabels.from_dense(array, missing=missing)) == array.size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(CrowdLabels.from_dense(array, missing=array.dtype.type(missing))) == array.size - 1
