"""Good input, in every shape and from every kind of table."""

# ruff: noqa: E501  (tables of cases read best with a case a line)
from __future__ import annotations

import contextlib
import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather

from crowdwise.labels import CrowdLabels, InputError, InputWarning, read_labels
from crowdwise.labels.string_encoder import Interner
from crowdwise.labels.unseen_characters import LETTER

if TYPE_CHECKING:
    from pathlib import Path

LONG = {"task": ["b", "b", "a"], "worker": ["zoe", "bob", "zoe"], "label": ["y", "x", "x"]}
GOOD = "task,worker,label\nb,zoe,y\nb,bob,x\na,zoe,x\n"


def edges(labels: CrowdLabels) -> list[tuple[Any, Any, Any]]:
    table = labels.with_kind("pyarrow").to_table()
    return list(zip(*(table.column(name).to_pylist() for name in ("task", "worker", "label")), strict=True))


def is_long(labels: CrowdLabels) -> None:
    assert edges(labels) == [("b", "zoe", "y"), ("b", "bob", "x"), ("a", "zoe", "x")]
    assert labels.tasks.to_pylist() == ["b", "a"]
    assert labels.workers.to_pylist() == ["zoe", "bob"]
    assert labels.classes.to_pylist() == ["x", "y"]


def files(folder: Path, table: pa.Table) -> list[Path]:
    """Write one table in every format, plain and gzipped."""
    pacsv.write_csv(table, folder / "l.csv")
    pacsv.write_csv(table, folder / "l.tsv", pacsv.WriteOptions(delimiter="\t"))
    (folder / "l.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (folder / "l.json").write_text(json.dumps(table.to_pylist(), indent=1))
    pq.write_table(table, folder / "l.parquet")
    feather.write_feather(table, folder / "l.arrow")
    with pa.ipc.new_stream(folder / "l.arrows", table.schema) as stream:
        stream.write_table(table)
    plain = sorted(folder.glob("l.*"))
    for path in plain:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    return sorted(folder.glob("l.*"))


def test_every_file(tmp_path: Path) -> None:
    paths = files(tmp_path, pa.table(LONG))
    assert len(paths) == 14
    for path in paths:
        for source in (path, str(path), io.BytesIO(path.read_bytes())):
            is_long(read_labels(source))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_delimiters_line_ends_and_marks(delimiter: str, end: str, mark: str) -> None:
    is_long(read_labels(io.StringIO(mark + GOOD.replace(",", delimiter).replace("\n", end))))


def test_quotes_blank_lines_and_extra_columns() -> None:
    text = 'when,"task",worker,label\n1,"b",zoe,y\n\n2,b,bob,x\n"3,5",a,zoe,x'
    is_long(read_labels(io.StringIO(text)))


def test_unknown_extension_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labels.dat").write_text(GOOD)
    is_long(read_labels(tmp_path / "labels.dat"))

    class Stdin:
        buffer = io.BytesIO(gzip.compress(GOOD.encode()))

    monkeypatch.setattr("sys.stdin", Stdin)
    is_long(read_labels("-"))


class Streams:
    """Something of another library, with nothing but the Arrow stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table(LONG).__arrow_c_stream__(requested_schema)


TABLES = {
    "pandas": pd.DataFrame(LONG),
    "pandas, object": pd.DataFrame(LONG, dtype=object),
    "pandas, categorical": pd.DataFrame(LONG).astype("category"),
    "pandas, index": pd.DataFrame(LONG).set_index("task"),
    "pandas, two indices": pd.DataFrame(LONG).set_index(["task", "worker"]),
    "polars": pl.DataFrame(LONG),
    "polars, lazy": pl.LazyFrame(LONG),
    "polars, categorical": pl.DataFrame(LONG).with_columns(pl.all().cast(pl.Categorical)),
    "pyarrow": pa.table(LONG),
    "pyarrow, batches": pa.table(LONG).to_reader(max_chunksize=2),
    "pyarrow, batch": pa.table(LONG).to_batches()[0],
    "pyarrow, dictionaries by chunk": pa.concat_tables(
        pa.table({name: pa.array(column).dictionary_encode() for name, column in part.items()})
        for part in ({key: value[:1] for key, value in LONG.items()}, {key: value[1:] for key, value in LONG.items()})
    ),
    "pyarrow, views": pa.table({name: pa.array(column, pa.string_view()) for name, column in LONG.items()}),
    "stream": Streams(),
    "dict": LONG,
    "records": pa.table(LONG).to_pylist(),
    "structured": np.array([("b", "zoe", "y"), ("b", "bob", "x"), ("a", "zoe", "x")],
                           dtype=[("task", "U9"), ("worker", "U9"), ("label", "U9")]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_table_goes_out_as_it_came(name: str) -> None:
    labels = read_labels(TABLES[name])
    is_long(labels)
    assert labels.kind == (name.split(",", 1)[0] if name.startswith(("pandas", "polars")) else "pyarrow")
    out = labels.to_table()
    assert type(out).__module__.split(".")[0] == labels.kind
    is_long(read_labels(out))


def test_labels_come_back_as_they_are() -> None:
    labels = read_labels(LONG)
    assert read_labels(labels) is labels
    is_long(CrowdLabels.from_arrays(**LONG))


@pytest.mark.parametrize(
    "names",
    [
        ("task_id", "WorkerId", "Answer"),
        ("Item", "annotator", "rating"),
        ("question", "Annotator ID", "response"),
        ("id", "rater", "judgment"),
        ("HITId", "user", "class"),
    ],
)
def test_usual_names(names: tuple[str, str, str]) -> None:
    is_long(read_labels(dict(zip(names, LONG.values(), strict=True))))


def test_named_columns() -> None:
    table = dict(zip(("p", "q", "r"), LONG.values(), strict=True)) | {"label": [1, 2, 3]}
    is_long(read_labels(table, task="p", worker="q", label="r"))


# ---- names ----------------------------------------------------------------------------------------------


def test_text_keeps_leading_zeros_and_huge_integers() -> None:
    text = "task,worker,label\n007,99999999999999999999,1\n07,3,0\n"
    with pytest.warns(InputWarning, match="'007' and '07'"):
        labels = read_labels(io.StringIO(text))
    assert labels.tasks.to_pylist() == ["007", "07"]
    assert labels.workers.to_pylist() == ["99999999999999999999", "3"]
    assert labels.classes.to_pylist() == [0, 1]


def test_huge_integers_in_memory_stay_text() -> None:
    labels = read_labels({"task": [2**70, 1], "worker": np.array([2**64 - 1, 3], np.uint64), "label": [0, 1]})
    assert labels.tasks.to_pylist() == [str(2**70), "1"]
    assert labels.workers.to_pylist() == [str(2**64 - 1), "3"]


def test_kinds_of_label() -> None:
    def classes(column: Any) -> list[Any]:
        return read_labels({"task": [1, 2, 3], "worker": [1, 1, 1], "label": column}).classes.to_pylist()

    assert classes([10, 9, -1]) == [-1, 9, 10]
    assert classes([10.0, 9.0, 9.0]) == [9, 10]
    assert classes([True, False, True]) == ["false", "true"]
    assert classes([0.5, 1.5, 0.5]) == ["0.5", "1.5"]
    assert classes(["10", "9", "9"]) == ["10", "9"]
    assert classes(pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-01"]))[0].startswith("2024-01-01")
    assert classes([1, "b", 1]) == ["1", "b"]
    assert classes(pd.Series(["lo", "hi", "lo"], dtype=pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True))) == [
        "lo", "mid", "hi",
    ]  # fmt: skip
    assert classes(pl.Series(["lo", "hi", "lo"], dtype=pl.Enum(["lo", "mid", "hi"]))) == ["lo", "mid", "hi"]
    assert classes(pd.Series(["lo", "hi", "lo"], dtype=pd.CategoricalDtype(["lo", "mid", "hi"]))) == [
        "hi",
        "lo",
    ]


def test_declared_classes() -> None:
    labels = read_labels(io.StringIO("task,worker,label\na,ann,1\nb,ann,0\n"), classes=["2", "1", "0"])
    assert labels.classes.to_pylist() == [2, 1, 0]
    assert labels.label.tolist() == [1, 2]
    both = read_labels(LONG | {"label": ["Cat", "cat", "cat"]}, classes=["cat", "Cat"])
    assert both.classes.to_pylist() == ["cat", "Cat"]


def test_json_text_that_looks_like_a_date_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    rows = [
        {"task": "2024-01-01", "worker": 1, "label": "x"},
        {"task": "2024-01-02", "worker": "b", "label": "y"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert edges(read_labels(path)) == [("2024-01-01", "1", "x"), ("2024-01-02", "b", "y")]


@pytest.mark.parametrize("first", [{"source": "web", "tags": ["a", "b"]}, None, [1, 2], "text"])
def test_json_lines_with_nested_fields(first: Any, tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    rows = [
        {"meta": first, "task": "a", "worker": "ann", "label": "x"},
        {"meta": {"source": "mail", "deep": [{"x": [1]}]}, "task": "a", "worker": "bob", "label": "y"},
        {"task": "b", "worker": "ann", "label": "x", "later": {"only": "here"}},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    expected = [("a", "ann", "x"), ("a", "bob", "y"), ("b", "ann", "x")]
    assert edges(read_labels(path)) == expected
    path.write_text(json.dumps(rows[1]) + "\n")  # a single line is a record too
    assert edges(read_labels(path)) == expected[1:2]


def test_json_lines_name_their_fields_where_the_first_lacks_one(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(
        '{"task": "a", "worker": "ann", "answer": "x"}\n{"task": "b", "worker": "ann", "label": "y", "answer": "x"}\n'
    )
    with pytest.raises(InputError, match=r"column 'label' has 1 missing value: l\.jsonl, line 1"):
        read_labels(path)


def test_json_lines_whose_labels_are_nested_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(
        '{"task": "a", "worker": "ann", "label": {"x": 1}}\n{"task": "b", "worker": "ann", "label": {"x": 2}}\n'
    )
    with pytest.raises(InputError, match="column 'label' holds lists or records"):
        read_labels(path)
    path.write_text('{"a": {"ann": "x"}}\n{"b": {"ann": "y"}}\n')
    with pytest.raises(InputError, match=r"l\.jsonl has no task column and no worker column"):
        read_labels(path)


def test_duplicates() -> None:
    table = {"task": [1, 1, 1], "worker": [1, 1, 2], "label": [0, 1, 1]}
    kept = {how: [edge[2] for edge in edges(read_labels(table, on_duplicate=how))] for how in ("first", "last", "all")}
    assert kept == {"first": [0, 1], "last": [1, 1], "all": [0, 1, 1]}


def test_the_callers_arrays_stay_writeable() -> None:
    task, worker, label = (
        np.array([0, 0, 1], np.int32),
        np.array([0, 1, 0], np.int32),
        np.array([0, 1, 1], np.int8),
    )
    CrowdLabels.from_codes(task, worker, label, tasks=2, workers=2, classes=2)
    assert task.flags.writeable
    assert label.flags.writeable


# ---- other shapes ---------------------------------------------------------------------------------------

WIDE = [("b", "zoe", 1), ("b", "bob", 0), ("a", "zoe", 0)]


def test_wide_tables() -> None:
    frame = pd.DataFrame({"zoe": [1, 0], "bob": [0, np.nan]}, index=["b", "a"])
    named = frame.reset_index(names="task")
    text = "what,zoe,bob\nb,1,0\na,0,\n"
    for source in (
        frame,
        frame.rename_axis("task"),
        named,
        pl.DataFrame(named),
        pa.table(LONG_WIDE),
        io.StringIO(text),
    ):
        assert edges(read_labels(source)) == WIDE
    assert edges(read_labels(io.StringIO(text.replace(",\n", ",-1\n")))) == WIDE
    assert read_labels(frame).kind == "pandas"


LONG_WIDE = {"item": ["b", "a"], "zoe": [1, 0], "bob": [0, None]}


def test_complete_wide_text_with_a_task_column() -> None:
    labels = read_labels(io.StringIO("task,u,v,w\np,yes,no,yes\nq,no,no,yes\n"))
    assert (labels.n_tasks, labels.n_workers, labels.n_labels) == (2, 3, 6)


@pytest.mark.parametrize(
    ("text", "shape", "left_out"),
    [
        ("tweet,annotator_1,annotator_2\np,yes,no\nq,no,no\n", (2, 2, 4), None),
        ("file,rater 1,rater 2,rater 3\na.png,x,y,x\nb.png,x,x,y\n", (2, 3, 6), None),
        ("id,text,annotator_1,annotator_2\n1,how,x,y\n2,so,y,y\n", (2, 2, 4), "'text' left out"),
    ],
)
def test_complete_wide_text_whose_columns_are_named_after_workers(
    text: str, shape: tuple[int, int, int], left_out: str | None
) -> None:
    with pytest.warns(InputWarning, match=left_out) if left_out else contextlib.nullcontext():
        labels = read_labels(io.StringIO(text))
    assert (labels.n_tasks, labels.n_workers, labels.n_labels) == shape


def test_columns_named_after_workers_that_share_no_values() -> None:
    with pytest.raises(InputError, match="no worker column"):
        read_labels(io.StringIO("question,human essay,gpt essay\n1,one,two\n2,three,four\n"))


def test_matrices() -> None:
    numbers = [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    for matrix in (
        np.array([[1, 0], [0, -1]]),
        np.array([[1, 0], [0, np.nan]]),
        np.array([[1, 0], [0, None]], object),
        [[1, 0], [0, None]],
    ):
        assert edges(CrowdLabels.from_dense(matrix)) == numbers
    assert edges(read_labels(np.array([[1, 0], [0, -1]]))) == numbers
    assert edges(CrowdLabels.from_dense([[1, 0], [0, 9]], missing=9)) == numbers
    assert edges(CrowdLabels.from_dense([[2, 1], [1, 0]], missing=0, tasks=["b", "a"], workers=["zoe", "bob"])) == [
        ("b", "zoe", 2), ("b", "bob", 1), ("a", "zoe", 1),
    ]  # fmt: skip
    frame = pd.DataFrame({"zoe": ["y", "x"], "bob": ["x", None]}, index=["b", "a"])
    for table in (frame, pa.table(frame.reset_index(drop=True)), pl.DataFrame(frame)):
        assert [edge[1:] for edge in edges(CrowdLabels.from_dense(table))] == [
            ("zoe", "y"),
            ("bob", "x"),
            ("zoe", "x"),
        ]


def test_a_task_without_answers_is_kept() -> None:
    assert CrowdLabels.from_dense(np.array([[0, 1], [-1, -1]])).n_tasks == 2
    assert read_labels({"b": {"zoe": 1, "bob": 0}, "c": {}}, outer="tasks").tasks.to_pylist() == ["b", "c"]


def test_nested(tmp_path: Path) -> None:
    nested = {"b": {"zoe": 1, "bob": 0}, "a": {"zoe": 0}}
    (tmp_path / "one.json").write_text(json.dumps(nested))
    (tmp_path / "many.json").write_text(json.dumps(nested, indent=2))
    for source in (nested, tmp_path / "one.json", tmp_path / "many.json"):
        assert edges(read_labels(source, outer="tasks")) == WIDE
    (tmp_path / "numbers.json").write_text('{"0": {"7": 1, "8": 0}}')
    assert edges(read_labels(tmp_path / "numbers.json", outer="tasks")) == [(0, 7, 1), (0, 8, 0)]


# ---- properties -----------------------------------------------------------------------------------------

hostile = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.sampled_from(["=1+1", "@x", "-3", "007", "a,b", 'say "no"', "two\nlines", "tab\there", "\x1b[31m", "nan", "…", "{", "😀" * 3]),
)  # fmt: skip


def usable(names: list[str]) -> bool:
    seen = all(any(letter.isprintable() and not letter.isspace() for letter in LETTER.sub("", name)) for name in names)
    return seen and len({name.strip().casefold() for name in names}) == len(names)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[str]]:
    # "\r" and NUL are no use in text files: CSV readers disagree about the one, the other is refused. An apostrophe
    # before a formula is taken away, since `write_csv` puts it there.
    clean = hostile.map(lambda name: name.replace("\r", "").replace("\0", "").lstrip("'")).filter(bool)
    vocabularies = [draw(st.lists(clean, min_size=2, max_size=5, unique=True).filter(usable)) for _ in range(3)]
    tasks, workers, classes = vocabularies
    cells = draw(
        st.lists(st.tuples(st.sampled_from(tasks), st.sampled_from(workers)), unique=True, min_size=2, max_size=15)
    )
    said = draw(
        st.lists(st.sampled_from(classes), min_size=len(cells), max_size=len(cells)).filter(
            lambda said: len(set(said)) > 1
        )
    )
    return {"task": [cell[0] for cell in cells], "worker": [cell[1] for cell in cells], "label": said}


@pytest.mark.filterwarnings("ignore::crowdwise.labels.errors.InputWarning")  # names that hardly differ are among them
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(tables())
def test_hostile_names_survive_every_format_and_kind(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, list[str]]
) -> None:
    expected = read_labels(table)
    for kind in (pd.DataFrame(table), pl.DataFrame(table), pa.table(table)):
        assert edges(read_labels(kind)) == edges(expected)
    folder = tmp_path_factory.mktemp("formats")
    for path in files(folder, pa.table(table)):
        as_text = [tuple(map(str, edge)) for edge in edges(read_labels(path))]
        assert as_text == edges(expected), path.name


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4), st.integers(0, 3)), min_size=2), st.randoms())
def test_shuffled_rows_and_text_names_give_the_same_labels(rows: list[tuple[int, int, int]], random: Any) -> None:
    rows = list({row[:2]: row for row in rows}.values())
    if len({row[2] for row in rows}) < 2:
        return
    columns = dict(zip(("task", "worker", "label"), map(list, zip(*rows, strict=True)), strict=True))
    expected = read_labels(columns)
    shuffled = random.sample(rows, len(rows))
    other = read_labels(dict(zip(("task", "worker", "label"), map(list, zip(*shuffled, strict=True)), strict=True)))
    assert sorted(edges(other)) == sorted(edges(expected))
    assert other.classes.equals(expected.classes)
    text = read_labels({name: [str(value) for value in column] for name, column in columns.items()})
    assert [tuple(map(int, edge)) for edge in edges(text)] == edges(expected)
    assert (
        [int(name) for name in text.tasks.to_pylist()]
        == expected.tasks.to_pylist()
        == list(dict.fromkeys(columns["task"]))
    )
    sparse = read_labels(columns | {"task": [task * 10**12 for task in columns["task"]]})  # hashed, not looked up
    assert sparse.task.tolist() == expected.task.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text(max_size=20))))
def test_interner_numbers_by_first_appearance(batches: list[list[str]]) -> None:
    interner = Interner()
    for batch in batches:
        interner.add(pa.array(batch, pa.string()))
    codes, names = interner.finish()
    every = [text for batch in batches for text in batch]
    assert names.to_pylist() == list(dict.fromkeys(every))
    assert [names[int(code)].as_py() for code in codes] == every


def test_interner_grows_past_its_first_table() -> None:
    texts = [f"name-{number % 150_000}" for number in range(400_000)]
    interner = Interner()
    interner.add(pa.array(texts, pa.large_string()).slice(7))
    codes, names = interner.finish()
    assert len(names) == 150_000
    assert names.take(pa.array(codes)).equals(pa.array(texts[7:]))


def test_a_large_gzip_that_is_cut_short_is_noticed(tmp_path: Path) -> None:
    rows = "".join(f"{number},w{number % 7},{number % 3}\n" for number in range(200_000))
    data = gzip.compress(("task,worker,label\n" + rows).encode(), 1)
    path = tmp_path / "l.csv.gz"
    path.write_bytes(data)
    assert len(read_labels(path)) == 200_000
    for cut in (len(data) // 2, len(data) - 5):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError, match="damaged or cut short"):
            read_labels(path)
    path.write_bytes(data + gzip.compress(b"x,w,1\n"))  # two members: as `cat a.gz b.gz` makes them
    assert len(read_labels(path)) == 200_001
