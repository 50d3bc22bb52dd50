"""Reading a truth file (task, label) and laying it beside the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.vocabulary import parse_integers, positions

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import IntArray

__all__ = ["align_truth", "find_unknown_classes", "read_truth"]

COLUMNS = ("task", "label")


def read_truth(file: Path) -> pa.Table:
    """Read a table with the columns task and label, each task once (the same line twice counts once)."""
    options = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string()))
    try:
        table = csv.read_csv(file, convert_options=options)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{file} cannot be read as CSV: {quote(str(error))}.") from error
    if not set(COLUMNS) <= set(table.column_names):
        raise InputError(f"{file} has the columns {listing(table.column_names)}; the truth needs 'task' and 'label'.")
    table = table.group_by(list(COLUMNS), use_threads=False).aggregate([])
    tasks, label = (table[name].combine_chunks() for name in COLUMNS)
    if "" in tasks.to_pylist() or "" in label.to_pylist():
        raise InputError(f"{file} has lines without a task or a label. Fill them in or leave them out.")
    once, how_often = np.unique(tasks.to_numpy(zero_copy_only=False).astype(str), return_counts=True)
    torn = once[how_often > 1].tolist()
    if torn:
        raise InputError(f"{file} gives two truths to {len(torn)} tasks: {listing(torn)}. Keep one line for each task.")
    return pa.table({"task": parse_integers(tasks), "label": parse_integers(label)})


def find_unknown_classes(truth: pa.Table, labels: CrowdLabels) -> pa.Array[Any]:
    """Name the classes of the truth that no worker ever said."""
    classes = pc.unique(truth["label"].combine_chunks())
    return classes.filter(pa.array(positions(classes, labels.classes) < 0))


def align_truth(truth: pa.Table, labels: CrowdLabels) -> IntArray:
    """Give the true class of each task of the labels as a position in their classes, -1 where unknown."""
    codes = np.full(labels.n_tasks, -1, np.int32)
    at = positions(truth["task"].combine_chunks(), labels.tasks)
    known = at >= 0  # a task with a truth but without labels has no place here
    codes[at[known]] = positions(truth["label"].combine_chunks(), labels.classes)[known]
    return codes
