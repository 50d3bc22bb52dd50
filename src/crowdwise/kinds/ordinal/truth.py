"""Known grades of tasks, lined up with those of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_table
from crowdwise.kinds.ordinal.answers import encode_grades
from crowdwise.labels.errors import InputError, listing

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.types import IntArray

__all__ = ["align_true_grades"]


def align_true_grades(source: Any, tasks: pa.Array, classes: pa.Array) -> IntArray:
    """Known grades of tasks (N,) as positions in `classes`, -1 where unknown; truths of other tasks are left aside.

    Parameters
    ----------
    source
        A mapping from task to grade, or a path or table with a column for the task and one for the grade.
    """
    if isinstance(source, Mapping) and not {"task", "grade"} <= set(source):
        source = {"task": list(source), "grade": list(source.values())}
    table = open_table(source, "Known grades need a column task and a column grade.", {"task": None, "grade": None})
    codes, _ = encode_grades(table, classes)
    encoded, there = table.find_names("task", tasks, "task")
    found: IntArray = np.full(len(tasks), -1, np.int64)
    found[there[there >= 0]] = codes[there >= 0]
    again = (there >= 0) & (found[np.maximum(there, 0)] != codes)
    if again.any():
        names = encoded.names.to_pylist()
        shown = listing(dict.fromkeys(names[code] for code in encoded.codes[again]))
        raise InputError(f"The truth contradicts itself about task {shown}. Keep one grade for each task.")
    return found
