"""Known sets of tasks, lined up with those of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.known_truth import open_truth, place_truths, refuse_contradictions
from crowdwise.kinds.multi_label.set_cells import as_rows_of_truth, read_sets

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.types import FloatArray

__all__ = ["align_true_sets"]


def align_true_sets(
    source: Any, tasks: pa.Array, classes: pa.Array, *, more: bool = False
) -> tuple[FloatArray, pa.Array]:
    """Known sets of tasks (N, K) as 0 and 1, NaN where unknown, and their classes; other tasks are left aside.

    Parameters
    ----------
    source
        A mapping from task to set (a list, or text), or a path or table with a column task and a column labels.
    more
        Whether classes may be named that are none of `classes`; they come after those. Otherwise they are refused.
    """
    if isinstance(source, Mapping) and not {"task", "labels"} <= set(source):
        source = as_rows_of_truth(dict(source))
    table = open_truth(source, "labels", "Known sets need a column task and a column labels.")
    sets = read_sets(table, "labels", classes, more=more)
    there, rows = place_truths(table, tasks)
    known = there >= 0
    found: FloatArray = np.full((len(tasks), len(sets.classes)), np.nan)
    found[there[known]] = 0.0
    if sets.single:
        np.maximum.at(found, there[known], sets.member[known].astype(np.float64))
        return found, sets.classes
    found[there[known]] = sets.member[known]
    again = known & (found[np.maximum(there, 0)] != sets.member).any(axis=1)
    refuse_contradictions(again, rows, "set")
    return found, sets.classes
