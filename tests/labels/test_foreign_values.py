"""Values and files of other makes: read for what they are, or refused in words."""

from __future__ import annotations

import gzip
import io
import itertools
import os
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from crowdwise.aggregate import DawidSkene
from crowdwise.engines.partition_files import list_pieces
from crowdwise.kinds import read_values
from crowdwise.labels import CrowdLabels, InputWarning, byte_source, read_labels
from crowdwise.labels.attributes import read_attributes
from crowdwise.labels.errors import InputError
from crowdwise.labels.task_graph import read_graph
from crowdwise.labels.times import read_timed_labels
from crowdwise.labels.truth import add_classes_of_truth, truth_codes
from crowdwise.learn.features import make_features
from crowdwise.metrics import log_loss

if TYPE_CHECKING:
    from pathlib import Path

LONG = {"task": ["a", "a", "b", "b"], "worker": ["x", "y", "x", "y"]}
HEADER = "task,worker,label\n"
MISSING = {
    "dates in years": np.array(["2020", "NaT", "2021", "2020"], "M8[Y]"),
    "dates of no unit": np.array(["NaT"] * 4, "M8"),
    "long doubles": np.array([1, np.nan, 2, 1], np.longdouble),
    "foreign byte order": np.array([1, np.nan, 2, 1.5], np.dtype(np.float32).newbyteorder()),
    "among text": [np.float32("nan"), "a", 1, "a"],
    "date among text": [pd.NaT, "a", 1, "a"],
    "decimal among text": [Decimal("NaN"), "a", 1, "a"],
}


@pytest.mark.parametrize("kind", MISSING)
def test_what_is_missing_is_no_class(kind: str) -> None:
    with pytest.raises(InputError, match="missing value"):
        read_labels({**LONG, "label": MISSING[kind]})


@pytest.mark.parametrize("value", [Decimal("Infinity"), float("-inf")])
def test_infinite_among_other_values(value: Any) -> None:
    with pytest.raises(InputError, match=r"not finite \(row 0: -?[Ii]nf"):
        read_labels({**LONG, "label": [value, "a", Decimal(1), "a"]})


@pytest.mark.parametrize("kind", ["U", "S", ">U3"])
def test_text_of_fixed_width_is_not_cut_at_a_nul(kind: str) -> None:
    names = np.array(["a\0b", "a\0c", "a", "z"]).astype(kind)
    with pytest.raises(InputError, match="NUL byte"):
        read_labels({**LONG, "label": names})
    with pytest.raises(InputError, match="NUL byte"):
        CrowdLabels.from_dense(names.reshape(2, 2))
    assert read_labels({**LONG, "label": names[[2, 3, 2, 3]]}).classes.to_pylist() == ["a", "z"]


def test_runs_of_a_dictionary() -> None:
    runs = pa.RunEndEncodedArray.from_arrays([1, 3, 5, 6], pa.array(["z", "p", "q", "z"]).dictionary_encode())
    labels = read_labels({**LONG, "label": runs.slice(1, 4)})
    assert labels.classes.take(pa.array(labels.label)).to_pylist() == ["p", "p", "q", "q"]


def test_an_index_that_repeats_the_name_of_a_column() -> None:
    frame = pd.DataFrame({**LONG, "label": list("pqpp")}).set_index(["task", "worker"]).assign(task="z")
    with pytest.raises(InputError, match="cannot insert task, already exists"):
        read_labels(frame)


def test_names_of_columns_are_text() -> None:
    with pytest.raises(InputError, match=r"task is \['task'\]; give the name of a column as text"):
        read_labels({**LONG, "label": list("pqpp")}, task=["task"])  # type: ignore[arg-type]


def test_a_lazy_table_whose_file_is_not_there() -> None:
    with pytest.raises(InputError, match="polars table cannot be read"):
        read_labels(pl.scan_csv("/there/is/no/such.csv"))


@pytest.mark.parametrize(
    "names", [[[1], [2]], [{}, {}], [b"\xff", b"a"], ["a\0", "b"], ["\u200b", "b"], {"a", "b"}, "ab"]
)
def test_names_of_rows_that_are_none(names: Any) -> None:
    with pytest.raises(InputError, match="task name"):
        CrowdLabels.from_dense([[0, 1], [1, 0]], tasks=names)


class Unreadable:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("it requires grad")


@pytest.mark.parametrize("matrix", [None, 5, pl.DataFrame(), Unreadable()])
def test_what_is_no_matrix(matrix: Any) -> None:
    with pytest.raises(InputError, match="matri"):
        CrowdLabels.from_dense(matrix)


def test_a_marker_of_no_answer_is_one_value() -> None:
    with pytest.raises(InputError, match="it must be one value"):
        CrowdLabels.from_dense([[0, 1], [1, 0]], missing=np.array([1, 2]))


def test_objects_that_share_a_line_are_named(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    row = '{"task": "%s", "worker": "x", "label": %s}'
    path.write_text(row % ("a", '"p"') + "\n" + row % ("b", '"p"') + row % ("c", "null") + "\n")
    with pytest.raises(InputError, match="line 2 is not JSON"):
        read_labels(path)


def test_one_file_by_two_names(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + "a,x,p\n")
    link = tmp_path / "link.csv"
    os.link(path, link)
    for other in (path, tmp_path / ".." / tmp_path.name / "l.csv", link):
        with pytest.raises(InputError, match="is given more than once"):
            read_labels([path, other], on_duplicate="all")


def test_an_open_gzip_file_that_is_damaged() -> None:
    cut = io.BytesIO(gzip.compress(HEADER.encode())[:-9])
    with gzip.open(cut) as file, pytest.raises(InputError, match="cannot be read"):
        read_labels(file)


@pytest.mark.parametrize("head", [b'{"task": "', b"PAR1"])
def test_gzipped_data_that_would_fill_the_memory(head: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_source, "SMALL", 1 << 16)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(head + b"a" * (1 << 23)))
    with pytest.raises(InputError, match="more than 200 times its size"):
        read_labels(path)


def test_a_long_line_is_not_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(HEADER.encode() + b"a" * (9 << 20)))
    monkeypatch.setattr(byte_source.Blob, "all", lambda self: pytest.fail("the file was held whole"))
    monkeypatch.setattr(byte_source.Blob, "lines", lambda self: pytest.fail("a line was held whole"))
    with pytest.raises(InputError, match="a row of more than 4 MB"):
        read_labels(path)


def test_a_header_without_the_end_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER.strip())
    with pytest.raises(InputError, match="has columns but no rows"):
        read_labels(path)


def test_a_table_of_markdown(tmp_path: Path) -> None:
    path = tmp_path / "l.md"
    path.write_text("| task | worker | label |\n|---|:--|---|\n| a | x | p |\n")
    with pytest.raises(InputError, match="Markdown"):
        read_labels(path)
    path.write_text("task|worker|label\na|x|--\nb|x|p\n")
    assert read_labels(path).classes.to_pylist() == ["--", "p"]


def test_classes_named_as_what_is_missing_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + "a,x,NA\na,y,p\n")
    with pytest.warns(InputWarning, match=r"where nothing is known \('NA'\): they count like any other"):
        assert read_labels(path).classes.to_pylist() == ["NA", "p"]
    read_labels(path, classes=["NA", "p"])  # who declares it means it


def test_known_truths_of_a_class_written_otherwise() -> None:
    labels = read_labels({**LONG, "label": list("pqpp")})
    with pytest.raises(InputError, match="only in case or blanks: 'P' and 'p'"):
        add_classes_of_truth({"a": "P", "b": "q"}, labels)


def test_attributes_that_are_no_table() -> None:
    names = pa.array(["a", "b"])
    with pytest.raises(InputError, match="more than one column named 'g'"):
        read_attributes(pd.DataFrame([["a", 1, 2]], columns=["task", "g", "g"]), names, "task")
    with pytest.raises(InputError, match="the same length; the rows are 'task' 2, 'g' 1"):
        read_attributes({"task": ["a", "b"], "g": ["x"]}, names, "task")
    (bad,) = read_attributes({"task": ["a"], "g": [b"\xff"]}, names, "task")
    assert "cannot be read as text" in bad.skipped
    (blank,) = read_attributes({"a": " ", "b": "x"}, names, "task")
    assert blank.values == ("x",)


def test_pairs_of_tasks_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("a,b\nb,c\n")
    with pytest.raises(InputError, match="would be taken for a header"):
        read_graph(path, ["a", "b", "c"])
    assert read_graph(path, ["b", "c"]).n_pairs == 1
    path.write_text("a,a\nb,c\n")
    with pytest.raises(InputError, match=r"both columns of pairs\.csv are named 'a'"):
        read_graph(path, ["b", "c"])


def test_times_that_do_not_fit() -> None:
    table = {**LONG, "label": list("pqpp")}
    with pytest.raises(InputError, match="column 'time' has 2 rows, the others 4"):
        read_timed_labels({**table, "time": [1, 2]}, time="time")
    with pytest.raises(InputError, match="too far away"):
        read_timed_labels({**table, "time": pa.array([2**63 - 1] * 4, pa.timestamp("s"))}, time="time")


def test_a_header_longer_than_the_first_look(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    workers = [f"worker_number_{number}" for number in range(5000)]
    path.write_text(f"task,{','.join(workers)}\nt0,a,b,{',' * 4997}\nt1,b,a,a{',' * 4997}\n")
    assert read_labels(path).n_labels == 5


@pytest.mark.parametrize("shift", range(2))
def test_a_letter_across_the_end_of_the_first_look(shift: int, tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text("task,worker,label\r" + "x" * shift + "".join(f"é{row},é,é\r" for row in range(7000)), newline="")
    assert read_labels(path).n_labels == 7000


def test_an_apostrophe_that_is_taken_away_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(HEADER + "'=a,x,p\nb,x,q\n")
    with pytest.warns(InputWarning, match="1 name with an apostrophe before .*: '=a'. They are read without it"):
        assert read_labels(path).tasks.to_pylist() == ["=a", "b"]


def test_a_column_that_is_a_tensor_is_numbers() -> None:
    torch = pytest.importorskip("torch")
    table = {"task": torch.tensor([1, 2]), "worker": ["a", "b"], "label": torch.tensor([0.5, 1], requires_grad=True)}
    labels = read_labels(table)
    assert labels.tasks.to_pylist() == [1, 2]
    assert labels.classes.to_pylist() == ["0.5", "1"]


def test_what_says_that_it_streams_and_does_not() -> None:
    class Streams:
        def __arrow_c_stream__(self, requested_schema: object = None) -> int:
            return 5

    with pytest.raises(InputError, match="Streams is not something labels can be read from"):
        read_labels(Streams())


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, 10, 2, 0], np.dtype(np.int32).newbyteorder()),
        np.array([0, 10, 2, 0], np.longdouble),
        pd.Series(np.array([0, 10, 2, 0], np.dtype(np.float32).newbyteorder())),
        pd.arrays.SparseArray([0, 10, 2, 0]),
        pd.Series(pd.arrays.SparseArray([0.0, 10, 2, 0])),
        pa.array([Decimal(0), Decimal(10), Decimal(2), Decimal(0)], pa.decimal32(5, 0)),
        pa.array([Decimal(0), Decimal(10), Decimal(2), Decimal(0)], pa.decimal64(5, 0)),
    ],
    ids=["int32", "long", "pandas", "sparse", "sparse floats", "decimal32", "decimal64"],
)
def test_numbers_of_other_makes_stay_numbers(values: Any) -> None:
    """Of another order of bytes, longer, sparse, short decimals: as text, 10 would stand before 2."""
    labels = read_labels({**LONG, "label": values})
    assert labels.classes.to_pylist() == [0, 2, 10]
    assert labels.label.tolist() == [0, 2, 1, 0]


def test_long_numbers_keep_their_digits() -> None:
    values = np.array(["0.1", "0.1", "0.1", "0.1"], np.longdouble)
    values[1] += np.finfo(np.longdouble).eps
    assert read_labels({**LONG, "label": values}).n_classes == 2


def test_what_cannot_be_names_is_called_by_its_type() -> None:
    spans = pa.array([(1, 2, 3), (4, 5, 6)] * 2, pa.month_day_nano_interval())
    with pytest.raises(InputError, match="holds values of the type month_day_nano_interval, which are not read as"):
        read_labels({**LONG, "label": spans})


def test_a_lazy_table_whose_own_function_fails() -> None:
    lazy = pl.LazyFrame({**LONG, "label": list("pqpq")}).with_columns(
        pl.col("label").map_elements(lambda _: 1 // 0, return_dtype=pl.Int64)
    )
    with pytest.raises(InputError, match="polars table cannot be read"):
        read_labels(lazy)


def test_classes_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdwise.labels.vocabulary.MOST_CLASSES", 1000)
    with pytest.raises(InputError, match="more than 1,000 class names, or no end"):
        read_labels({**LONG, "label": [0, 1, 0, 1]}, classes=itertools.count())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0", "is a pickle, which is never read"),
        (b"Obj\x01\x04\x16avro.schema", "is an Avro file"),
        (f"{HEADER.strip()},{'z' * 200_000}\na,x,p,1\n".encode(), "has more than 131,072 letters"),
        (gzip.compress(f"{HEADER}a,x,p\n".encode()) + bytes(512), "is gzipped, but damaged"),
    ],
    ids=["pickle", "avro", "long field", "zeros behind gzip"],
)
def test_files_that_are_no_tables(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=said):
        read_labels(path)


def test_a_header_that_begins_like_another_format(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("ORCID,task,worker,label\n1,a,x,p\n")
    assert read_labels(path).n_labels == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "name of a file is empty"),
        ("https://example.org/l.csv", "'https://example.org/l.csv' is an address"),
        ("s3://bucket/l.parquet", "Download it"),
    ],
)
def test_what_is_no_path(source: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_labels(source)


@pytest.mark.parametrize(
    "truth", [["p", "q"], [1, 2], ("p",), np.array([0, 1]), pd.Categorical(["p", "q"]), pl.Series(["p", "q"])]
)
def test_a_truth_without_tasks(truth: Any) -> None:
    """Text is not taken for names of files."""
    labels = read_labels({**LONG, "label": list("pqpq")})
    with pytest.raises(InputError, match=r"without the tasks that they are of\. Give a mapping from task to label"):
        truth_codes(truth, labels)


def test_a_truth_in_several_files(tmp_path: Path) -> None:
    for task, label in (("a", "p"), ("b", "q")):
        (tmp_path / f"{task}.csv").write_text(f"task,label\n{task},{label}\n")
    labels = read_labels({**LONG, "label": list("pqpq")})
    assert truth_codes([str(tmp_path / "a.csv"), tmp_path / "b.csv"], labels).tolist() == [0, 1]


@pytest.mark.parametrize("value", [frozenset("ab"), object(), len, io.StringIO()])
def test_what_has_no_name_of_its_own_is_refused(value: Any) -> None:
    """Equal sets may be written in two ways, and addresses differ from run to run."""
    with pytest.raises(InputError, match=r"lists or records|is no name"):
        read_labels({**LONG, "label": ["a", value, "a", "b"]})


def test_objects_of_polars() -> None:
    frame = pl.DataFrame(LONG).with_columns(
        pl.Series("label", ["a", 1, "a", 1], dtype=pl.Object), pl.Series("other", [object()] * 4, dtype=pl.Object)
    )
    assert read_labels(frame).classes.to_pylist() == ["1", "a"]


def test_options_that_mean_nothing_here_are_refused() -> None:
    table = {**LONG, "label": ["a", "b", "a", "b"]}
    for options, said in (
        ({"outer": "tasks"}, "outer"),
        ({"include_predictions": True}, "include_predictions: for exports"),
        ({"include_predictions": "no"}, "include_predictions is 'no'"),
        ({"task": "task", "question": "q"}, "question: for exports"),
    ):
        with pytest.raises(InputError, match=said):
            read_labels(table, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "\u200b", "a\0b", float("inf")])
def test_categories_that_no_row_uses(name: Any) -> None:
    """They are classes where their order is meant; a model with such a class was saved and could not be read again."""
    known = [1.5, 2.5] if isinstance(name, float) else ["x", "y"]
    kept, left_out = (
        pd.Categorical(known * 2, categories=[name, *known], ordered=ordered) for ordered in (True, False)
    )
    with pytest.raises(InputError, match=r"has categories that no row uses and that are no names: .*Remove them"):
        read_labels({**LONG, "label": kept})
    assert read_labels({**LONG, "label": left_out}).classes.to_pylist() == [str(each) for each in known]


def test_tensors_that_are_no_arrays() -> None:
    torch = pytest.importorskip("torch")
    for values in (torch.zeros(4, dtype=torch.bfloat16), torch.zeros(4).to_sparse()):
        with pytest.raises(InputError, match=r"column 'label' cannot be read .*Convert it to text first"):
            read_labels({**LONG, "label": values})


def test_objects_in_a_polars_table() -> None:
    frame = pl.DataFrame({**LONG, "label": pl.Series([object()] * 4, dtype=pl.Object)})
    with pytest.raises(InputError, match=r"column 'label' holds objects, or bytes of a fixed width"):
        read_labels(frame)


def test_a_stream_that_fails() -> None:
    def fail() -> Any:
        yield pa.record_batch({**LONG, "label": list("xyxy")})
        raise RuntimeError("the line is cut")

    schema = pa.schema([(name, pa.string()) for name in (*LONG, "label")])
    with pytest.raises(
        InputError, match=r"RecordBatchReader cannot be read to its end \(RuntimeError: 'the line is cut'"
    ):
        read_labels(pa.RecordBatchReader.from_batches(schema, fail()))


@pytest.mark.parametrize("write", [pq.write_table, feather.write_feather], ids=["parquet", "arrow"])
def test_a_name_of_a_column_that_is_no_text(write: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels"
    write(pa.table({**LONG, "label": list("xyxy"), "zzzzz": [0] * 4}), path)
    path.write_bytes(path.read_bytes().replace(b"zzzzz", b"zz\xffzz"))
    with pytest.raises(InputError, match=r"damaged or cut short \('utf-8' codec"):
        read_labels(path)
    if write is pq.write_table:
        with pytest.raises(InputError, match="names of its columns are no text"):
            list_pieces(str(path), (None, None, None))


def test_truths_in_another_case() -> None:
    """What pandas reads from True and False are booleans, whose names are true and false."""
    labels = read_labels({**LONG, "label": [True, False, True, True]})
    with pytest.raises(InputError, match="differ from those of the labels only in case or blanks: 'True' and 'true'"):
        truth_codes({"a": "True", "b": "False"}, labels)
    with pytest.raises(InputError, match=r"classes that the labels do not have \('false', 'true'\): 'maybe'"):
        truth_codes({"a": "maybe"}, labels)


@pytest.mark.parametrize("number", [1j, np.complex64(2), np.complex128(-1)])
def test_complex_numbers_are_no_names(number: Any) -> None:
    table = {"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", "x"]}
    for role, values in table.items():
        for given in ([*values[:2], number], np.array([number] * 3), pd.Series([number] * 3)):
            with pytest.raises(InputError, match=f"column '{role}', row .* is a complex number"):
                read_labels({**table, role: given})
    for matrix in (np.array([[-1, 1], [0, number]]), [[1, number], [0, 1]]):
        with pytest.raises(InputError, match="matrix holds complex numbers"):
            CrowdLabels.from_dense(matrix)
    with pytest.raises(InputError, match="is a complex number"):
        CrowdLabels.from_dense([[1, None], [0, number]])
    for names in ([number, 1], [number, "x"]):
        with pytest.raises(InputError, match=r"class name .* is a complex number"):
            read_labels(table, classes=names)
    with pytest.raises(InputError, match=r"column 'value', row 0: .* is a complex number"):
        read_values({"task": [1], "worker": ["a"], "value": [number]})
    labels = read_labels(table)
    with pytest.raises(InputError, match="class_prior holds complex numbers"):
        DawidSkene().fit(labels, class_prior=np.full(2, number))
    with pytest.raises(InputError, match="posterior holds complex numbers"):
        log_loss([0], np.full((1, 2), number))
    with pytest.raises(InputError, match="numbers, not complex"):
        make_features(np.ma.masked_equal(np.full((3, 2), number), 0))
