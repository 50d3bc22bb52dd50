"""Known values of tasks, lined up with those of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_table
from crowdwise.kinds.answers import as_numbers
from crowdwise.kinds.known_truth import place_truths, refuse_contradictions
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.types import FloatArray

__all__ = ["align_true_values"]


def align_true_values(source: Any, tasks: pa.Array, coordinates: tuple[str, ...] = ("value",)) -> FloatArray:
    """Known values of tasks (N, D), NaN where unknown; truths of other tasks are left aside.

    Parameters
    ----------
    source
        A mapping from task to value (D numbers where there are several), or a path or table with a column for the
        task and one for each coordinate.
    """
    if isinstance(source, Mapping) and not {"task", *coordinates} <= set(source):
        rows = as_numbers(list(source.values()), "The truth").reshape(len(source), -1 if source else 0)
        if rows.shape[1] != len(coordinates):
            raise InputError(f"Known values need {len(coordinates)} numbers for each task; these have {rows.shape[1]}.")
        source = {"task": list(source), **dict(zip(coordinates, rows.T, strict=True))}
    named = {name: None if name == "value" else name for name in coordinates}
    table = open_table(source, "Known values need a column task and a column value.", {"task": None, **named})
    values = np.column_stack([table.read_numbers(name) for name in coordinates])
    there, names = place_truths(table, tasks)
    found: FloatArray = np.full((len(tasks), len(coordinates)), np.nan)
    found[there[there >= 0]] = values[there >= 0]
    again = (there >= 0) & (found[np.maximum(there, 0)] != values).any(axis=1)
    refuse_contradictions(again, names, "value")
    return found
