"""Plain answers in a container of their own: Hugging Face data sets and workbooks."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import DawidSkene, read_export
from crowdwise.cli import main
from crowdwise.kinds import read_boxes
from crowdwise.labels import InputError, InputWarning, read_labels

if TYPE_CHECKING:
    from crowdwise.formats import Export

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def count(export: Export) -> tuple[str, int, int, int, int, int]:
    assert export.question is not None
    left = (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows, export.n_anchored)
    return (export.question.kind, export.question.n_answers, *left)


# ---- Hugging Face -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hugging-face", "hugging-face-long"])
def test_hugging_face(name: str) -> None:
    export = read_export(EXAMPLES / name)
    assert count(export) == ("labels", 23, 0, 0, 0, 0)
    assert export.labels.workers.to_pylist() == ["ann", "bob", "cy"]
    assert export.labels.classes.to_pylist() == ["negative", "positive"]
    assert export.labels.tasks.to_pylist() == [f"t{number}" for number in range(8)]
    if name == "hugging-face":
        assert export.task_attributes.column_names == ["task", "source"]


@pytest.mark.parametrize("name", ["hugging-face", "hugging-face-long"])
def test_soft_labels_are_written(name: str, tmp_path: Path) -> None:
    out = tmp_path / "soft.parquet"
    assert main(["aggregate", str(EXAMPLES / name), "--method", "dawid-skene", "--write-back", str(out)]) == 0
    model = DawidSkene().fit(read_labels(EXAMPLES / name))
    written = pq.read_table(out)
    assert written[{"hugging-face": "id"}.get(name, "task")].to_pylist() == [f"t{number}" for number in range(8)]
    assert np.allclose(written["soft_label"].to_pylist(), model.posterior_)
    labels = model.consensus()["label"].to_pylist()
    assert [model.classes_[code] for code in written["consensus"].to_pylist()] == labels
    if name == "hugging-face":
        assert written["text"][0].as_py() == "Review 0"
    datasets = pytest.importorskip("datasets")
    loaded = datasets.Dataset.from_parquet(str(out), cache_dir=str(tmp_path / "cache"))
    assert loaded.features["consensus"].names == ["negative", "positive"]
    assert [loaded.features["consensus"].int2str(code) for code in loaded["consensus"]] == labels
    assert loaded["soft_label"][3] == pytest.approx(model.posterior_[3].tolist())


def folder_of(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data" / "train.parquet")
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ([{"text": "a", "annotators": ["x", "y"], "labels": [1, 0]}], ("labels", 2, 0, 0, 0, 0)),
        ([{"text": "a", "annotations": {"annotator_id": ["x", "y"], "label": ["p", None]}}], ("labels", 1, 1, 0, 0, 0)),
        ([{"annotators": ["x", "y"], "ratings": [1.5, 0.5]}], ("values", 2, 0, 0, 0, 0)),
        ([{"id": 1, "answers": [{"worker": "x", "label": ["p", "q"]}]}], ("multi-label", 1, 0, 0, 0, 0)),
        ([{"task": 1, "worker": "x", "value": 1.5}], ("values", 1, 0, 0, 0, 0)),
        ([{"task": 1, "worker": "x", "start": 1, "end": 2, "label": "A"}], ("spans", 1, 0, 0, 0, 0)),
    ],
)
def test_other_columns(rows: Any, counts: Any, tmp_path: Path) -> None:
    assert count(read_export(folder_of(tmp_path, rows))) == counts


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "a", "labels": [1, 0]}], r"data has no answers that can be read; its columns are 'text', 'labels'"),
        ([{"id": 1, "annotators": ["x"], "labels": [1, 0]}], r"row 1: 'annotators' and 'labels' are no lists of one"),
        ([{"id": 1, "annotators": ["x", None], "labels": [1, 0]}], r"row 1: an annotator is None"),
        ([{"id": 1, "annotators": ["x"], "labels": [1]}] * 2, r"row 2 has the id 1 of train\.parquet, row 1 again"),
        (
            [{"task": 1, "worker": "a", "label": "x"}, {"task": 1, "worker": None, "label": "x"}],
            r"row 2: 'worker' is None",
        ),
        ([{"task": 1, "worker": "a", "label": {"x": 1}}], r"row 1: 'label' is \{'x': 1\}; it must be a class"),
    ],
)
def test_data_sets_that_are_broken(rows: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_export(folder_of(tmp_path, rows))


def test_a_data_set_that_is_cut_short(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, [{"id": 1, "annotators": ["x"], "labels": [1]}])
    (folder / "more.parquet").write_bytes((folder / "train.parquet").read_bytes()[:100])
    with pytest.raises(InputError, match=r"more\.parquet"):
        read_export(folder, format="hugging-face")
    assert main(["aggregate", str(folder)]) == 2


# ---- workbooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spreadsheet-long.xlsx", "spreadsheet-wide.xlsx"])
def test_workbooks(name: str) -> None:
    pytest.importorskip("openpyxl")
    export = read_export(EXAMPLES / name)
    assert count(export) == ("labels", 23, 0, 0, 0, 0)
    assert export.labels.workers.to_pylist() == ["ann", "bob", "cy"]
    assert export.labels.tasks.to_pylist() == list(range(1, 9))
    assert main(["describe", str(EXAMPLES / name)]) == 0


def book(tmp_path: Path, *sheets: list[list[Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    made = openpyxl.Workbook()
    for number, rows in enumerate(sheets):
        sheet = made.active if not number else made.create_sheet(f"Sheet {number}")
        for row in rows:
            sheet.append(row)
    made.save(tmp_path / "book.xlsx")
    return tmp_path / "book.xlsx"


LONG = [["task", "worker", "label"], [1, "ann", "x"], [1, "bob", "y"]]


def test_several_sheets(tmp_path: Path) -> None:
    notes = [["A note", None], ["on the work", None]]
    values = [["task", "worker", "value"], [1, "ann", 2.5], [2, "ann", 3.0]]
    export = read_export(book(tmp_path, LONG, values, [], notes))
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [
        ("Sheet", "labels", 2), ("Sheet 1", "values", 2)
    ]  # fmt: skip
    assert list(export.left_out.values()) == [1]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], r"book\.xlsx holds no table"),
        ([["a", "b"], [1, 2]], r"book\.xlsx has no table of answers; the columns of its first sheet are 'a', 'b'"),
        ([*LONG, [2, None, "x"]], r"book\.xlsx, sheet 'Sheet', row 4: 'worker' is None"),
        ([["task", "task", "label"], [1, 1, 1]], r"sheet 'Sheet' has more than one column 'task'"),
        ([["item", "task_id", "worker", "label"], [1, 2, 3, 4]], r"has more than one column that may be the task"),
        ([*LONG, *LONG], r"sheet 'Sheet' holds the header again \(row 4\)"),
        ([*LONG, [1, "ann", "z"]], r"more than once|twice|again|repeat"),
    ],
)
def test_workbooks_that_are_broken(rows: list[list[Any]], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_labels(book(tmp_path, rows))


@pytest.mark.parametrize(
    ("rows", "cells"),
    [
        ([*LONG, [2, "ann", '=IF(1,"x","y")'], [2, "bob", '=""']], "C4, C5"),
        ([*LONG, [2, "=B2", "x"]], "B4"),
        ([["task", "worker", "x", "y"], [1, "ann", 2.5, "=C2*2"]], "D2"),
        ([["task", "ann", "bob", "cy"], ["p", 1, None, 0], ["q", "=B2", 0, 0]], "B3"),
        ([["task", "ann", "bob", "cy"], ['="p"', 1, None, 0], ['="q"', 1, 0, 0]], "A2, A3"),
    ],
)
def test_formulas_without_a_saved_value(rows: list[list[Any]], cells: str, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=rf"sheet 'Sheet' holds formulas .* not saved: cell {cells}\. Open the workbook"
    ):
        read_export(book(tmp_path, rows))


def test_formulas_that_are_not_read_need_no_value(tmp_path: Path) -> None:
    rows = [[*row, note] for row, note in zip(LONG, ["note", "=1+1", None], strict=True)]
    assert read_export(book(tmp_path, rows, [["sums"], ["=SUM(1,2)"]])).labels.n_labels == 2


def test_formulas_that_came_to_an_empty_text_are_no_answers(tmp_path: Path) -> None:
    path = book(tmp_path, [*LONG, [2, "ann", '=""']])
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    files[sheet] = files[sheet].replace(b'<c r="C4">', b'<c r="C4" t="str">')  # as Excel saves it
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    with pytest.warns(InputWarning, match="1 skipped answer"):
        assert read_labels(path).n_labels == 2


def test_fractions_make_whole_numbers_values(tmp_path: Path) -> None:
    rows = [["task", "worker", "label"], [1, "ann", 1], [1, "bob", 1.5], [2, "ann", 2]]
    export = read_export(book(tmp_path, rows))
    assert count(export)[:2] == ("values", 3)
    assert export.answers["value"].to_pylist() == [1.5, 1.0, 2.0]


def test_kinds_by_the_columns_of_tables(tmp_path: Path) -> None:
    drawn = [["task", "worker", "x_min", "y_min", "x_max", "y_max"], [1, "ann", 0, 0, 2, 2], [1, "bob"]]
    assert read_boxes(read_export(book(tmp_path, drawn))).n_marks == 1  # no labels, and none are asked for
    grades = [["task", "worker", "grade"], [1, "ann", 1], [1, "bob", 2]]
    assert count(read_export(book(tmp_path, grades)))[:2] == ("ordinal", 2)


def test_what_a_spreadsheet_cannot_hold_is_noted(tmp_path: Path) -> None:
    ids = [["task", "worker", "label"], [1.23456789012346e18, "ann", "x"], [1.23456789012346e18, "bob", "#REF!"]]
    with pytest.warns(InputWarning) as said:
        read_labels(book(tmp_path, ids))
    told = " ".join(str(each.message) for each in said)
    assert "numbers of more than 15 digits (1234567890123460096)" in told
    assert "'#REF!'" in told


def test_rows_that_the_workbook_does_not_count(tmp_path: Path) -> None:
    path = book(tmp_path, LONG)
    with zipfile.ZipFile(path) as whole:
        parts = {name: whole.read(name).decode() for name in whole.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    for part, far in (('ref="A1:A1"', False), ('r="1000000000"', True)):
        parts[sheet] = re.sub(r'ref="[^"]*"' if not far else r'(?<=<row )r="3"', part, parts[sheet], count=1)
        with zipfile.ZipFile(path, "w") as changed:
            for name, text in parts.items():
                changed.writestr(name, text)
        if far:
            with pytest.raises(InputError, match=r"sheet 'Sheet' has more than 1,048,576 rows"):
                read_labels(path)
        else:
            assert read_labels(path).n_labels == 2


def changed_book(tmp_path: Path, name: str, text: str) -> Path:
    """The example with one of its parts replaced."""
    with zipfile.ZipFile(EXAMPLES / "spreadsheet-long.xlsx") as old, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as new:
        for entry in old.namelist():
            new.writestr(entry, text if entry == name else old.read(entry))
        if name not in old.namelist():
            new.writestr(name, text)
    return tmp_path / "b.xlsx"


def test_hostile_workbooks(tmp_path: Path) -> None:
    laughs = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><worksheet>&b;</worksheet>'
    with pytest.raises(InputError, match=r"b\.xlsx/xl/worksheets/sheet1\.xml, line 1 declares a document type"):
        read_export(changed_book(tmp_path, "xl/worksheets/sheet1.xml", laughs))
    with pytest.raises(InputError, match=r"b\.xlsx holds '\.\./evil\.xml', a file outside"):
        read_export(changed_book(tmp_path, "../evil.xml", "<a/>"))
    with pytest.raises(InputError, match=r"b\.xlsx/xl/workbook\.xml, line 1 is not XML"):
        read_export(changed_book(tmp_path, "xl/workbook.xml", "<workbook"))
    assert main(["aggregate", str(tmp_path / "b.xlsx")]) == 2
    pytest.importorskip("openpyxl")
    name = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    word = f'<worksheet xmlns="{name}"><sheetData><row><c t="n"><v>x</v></c></row></sheetData></worksheet>'
    with pytest.raises(InputError, match=r"b\.xlsx is a damaged workbook"):
        read_export(changed_book(tmp_path, "xl/worksheets/sheet1.xml", word))


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        InputError, match=r"needs openpyxl, which is not installed: pip install 'crowdwise\[spreadsheets"
    ):
        read_export(EXAMPLES / "spreadsheet-wide.xlsx")
