"""Known grades of tasks, lined up with those of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.known_truth import open_truth, place_truths, refuse_contradictions
from crowdwise.kinds.ordinal.answers import encode_grades

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
    table = open_truth(source, "grade", "Known grades need a column task and a column grade.")
    codes, _ = encode_grades(table, classes)
    there, names = place_truths(table, tasks)
    found: IntArray = np.full(len(tasks), -1, np.int64)
    found[there[there >= 0]] = codes[there >= 0]
    again = (there >= 0) & (found[np.maximum(there, 0)] != codes)
    refuse_contradictions(again, names, "grade")
    return found
