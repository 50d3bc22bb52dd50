"""Columns of wide tables that are no workers by their names."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import pytest

from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.summary_columns import find_summaries

if TYPE_CHECKING:
    from pathlib import Path

WIDE = "task,{}\na,1,1,,1,2\nb,2,,2,2,2\nc,1,2,2,2,1\n"


@pytest.mark.parametrize("name", ["Majority", "n_votes", "total", "Consensus", "No. of raters", "label-count"])
def test_summaries_are_no_workers(name: str) -> None:
    for header in (f"annotator_1,annotator_2,annotator_3,{name},final", f"ann,bob,cy,{name},mean"):
        with pytest.warns(InputWarning, match=f"'{name}', .* left out, no workers by name") as caught:
            labels = read_labels(io.StringIO(WIDE.format(header)))
        assert labels.workers.to_pylist() == header.split(",")[:3]
        assert "--truth" not in str(caught[0].message)


@pytest.mark.parametrize("name", ["truth", "Gold", "ground_truth", "True label"])
def test_known_answers_are_no_worker(name: str) -> None:
    with pytest.warns(InputWarning, match=rf"'{name}' left out.*Give known answers \('{name}'\).*--truth or --gold"):
        labels = read_labels(io.StringIO(WIDE.format(f"ann,bob,cy,{name},dan")))
    assert labels.workers.to_pylist() == ["ann", "bob", "cy", "dan"]


def test_complete_tables_are_read_without_summaries() -> None:
    text = "task,u,v,w,majority\na,x,x,y,x\nb,y,y,y,y\n"
    with pytest.warns(InputWarning, match="'majority' left out"):
        assert read_labels(io.StringIO(text)).workers.to_pylist() == ["u", "v", "w"]


@pytest.mark.parametrize(
    "names",
    [
        ("Max", "Min", "goldie", "y", "gt"),  # names of people, and initials
        ("gold", "majority", "final", "total", "truth"),  # nobody would be left
        ("expert", "baseline", "truthful", "count_dracula", "total_3"),
    ],
)
def test_workers_whose_names_are_only_similar_stay(names: tuple[str, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_labels(io.StringIO(WIDE.format(",".join(names)))).workers.to_pylist() == list(names)
    assert not find_summaries(names)


def test_one_worker_beside_a_truth_is_no_wide_table() -> None:
    with pytest.raises(InputError, match="no worker column and no label column"):
        read_labels(io.StringIO("task,ann,truth\na,x,x\nb,,y\nc,y,y\n"))


def test_nested_mappings() -> None:
    answers = [{"ann": "x", "bob": "y", "truth": "x"}, {"ann": "x", "truth": "y"}, {"bob": "x", "n_votes": "1"}]
    with pytest.warns(InputWarning, match="'truth', 'n_votes' left out"):
        labels = read_labels(dict(enumerate(answers)), outer="tasks")
    assert labels.workers.to_pylist() == ["ann", "bob"]
    assert labels.n_tasks == 3


def test_workbooks(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["task", "ann", "bob", "Total", "Gold"], ["a", 1, 0, 1, 1], ["b", 1, 1, 2, 0], ["c", 0, None, 0, 0]):
        book.active.append(row)
    book.save(tmp_path / "wide.xlsx")
    with pytest.warns(InputWarning, match=r"sheet 'Sheet': 'Total', 'Gold' left out.*--truth or --gold"):
        labels = read_labels(tmp_path / "wide.xlsx")
    assert labels.workers.to_pylist() == ["ann", "bob"]
    book.active.append(["b", 1, None, 0, 0])
    book.save(tmp_path / "twice.xlsx")
    with pytest.raises(InputError, match=r"more than one row for a task: .*twice\.xlsx, sheet 'Sheet', rows 3, 5"):
        read_labels(tmp_path / "twice.xlsx")
