"""Files beside the labels that are empty, or lack rows or values: the message speaks of them, not of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from crowdwise.labels import InputError
from crowdwise.labels.attributes import read_attributes
from crowdwise.labels.sequences import read_sequences
from crowdwise.labels.task_graph import read_graph
from crowdwise.labels.truth import read_truth
from crowdwise.report.task_items import read_items

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = pa.array(["a", "b"])
# Reader, header, what an empty file is told, and what one without rows is told.
SIDE_FILES: dict[str, tuple[Callable[[Path], Any], str, str, str]] = {
    "truth": (read_truth, "task,label", "Known answers need the columns task and label", "no rows"),
    "graph": (lambda path: read_graph(path, NAMES), "one,two", "A graph needs two columns", "no rows"),
    "sequences": (
        lambda path: read_sequences(path, NAMES),
        "task,sequence,position",
        "Sequences need the columns task, sequence, position",
        "no rows",
    ),
    "task attributes": (
        lambda path: read_attributes(path, NAMES, "task"), "task,topic", "tasks need a column task", "no rows"
    ),
    "worker attributes": (
        lambda path: read_attributes(path, NAMES, "worker"), "worker,age", "workers need a column worker", "no rows"
    ),
    "items": (lambda path: read_items(path, NAMES), "task,text", "Items need a table with a column 'task'", "no rows"),
}  # fmt: skip


@pytest.mark.parametrize("what", SIDE_FILES)
def test_empty_side_file_is_told_its_own_columns(what: str, tmp_path: Path) -> None:
    reader, header, needs, no_rows = SIDE_FILES[what]
    path = tmp_path / "side.csv"
    for content, message in (("", needs), (f"{header}\n", no_rows)):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=message) as caught:
            reader(path)
        assert "side.csv" in str(caught.value)
        assert "Labels" not in str(caught.value)


@pytest.mark.parametrize(
    ("what", "content"),
    [("truth", "task,label\na,x\nb,\n"), ("graph", "one,two\na,b\na,\n"), ("task attributes", "task,topic\na,x\n,y\n")],
)
def test_missing_value_speaks_of_its_column_alone(what: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / "side.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"missing value: side\.csv, line 3\. Every row needs a value in this column"):
        SIDE_FILES[what][0](path)


def test_the_column_of_a_truth_is_named_by_its_own_option(tmp_path: Path) -> None:
    for header, said in (("task,said", "has no label column"), ("task,truth,gold", "more than one column")):
        (tmp_path / "t.csv").write_text(f"{header}\n{'a,x,y'[: 2 * len(header.split(',')) - 1]}\n")
        with pytest.raises(InputError, match=f"{said}.*--truth-label-column"):
            read_truth(tmp_path / "t.csv")
