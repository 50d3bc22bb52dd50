"""`Values`: answers that are numbers, one or several for each answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.answer_table import open_task_table
from crowdwise.kinds.answers import TaskAnswers, as_numbers
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from typing import Unpack

    from crowdwise.kinds.answer_table import TaskOptions
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Values", "read_values"]

SMALLEST = 1e-30  # squares of values, and powers of these, are reckoned with
FEW = 20  # different values, up to which they can be taken for classes
NEEDS = "Values need the columns task, worker and value, and a row for each answer."


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Values(TaskAnswers, kind="values", noun="value", said=("value",)):
    """Numbers that workers gave to tasks: one row for each answer, sorted by task. Immutable.

    Make one with `read_values` or `Values.from_codes`, from numbers (n,) or, with their `coordinates`, (n, D).

    Attributes
    ----------
    value : (n_answers, D)
        The numbers: D is 1 for plain values, more for points, spans and the like.
    coordinates
        What the D numbers are called; ("value",) for plain values.

    Examples
    --------
    >>> read_values({"task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "value": [1.5, 2.0, 7.0]})
    Values: 3 values by 2 workers on 2 tasks
    """

    value: FloatArray
    coordinates: tuple[str, ...] = ("value",)

    @classmethod
    def _code_said(cls, said: Any, *, coordinates: tuple[str, ...] = ("value",)) -> dict[str, Any]:
        numbers = as_numbers(said, "value")
        numbers = numbers[:, None] if numbers.ndim == 1 else numbers
        if numbers.ndim != 2 or numbers.shape[1] != len(coordinates):
            raise InputError(f"value has the shape {numbers.shape}; there are {len(coordinates)} coordinates.")
        if not np.isfinite(numbers).all():
            raise InputError("value holds what is no finite number. Leave those answers out.")
        _refuse_tiny_values(numbers)
        return {"value": numbers, "coordinates": tuple(coordinates)}

    @property
    def n_coordinates(self) -> int:
        """Numbers in an answer, D."""
        return len(self.coordinates)

    def to_labels(self) -> CrowdLabels | None:
        """The different values as classes, where they are few."""
        found, label = np.unique(self.value[:, 0], return_inverse=True)
        if self.n_coordinates > 1 or found.size > FEW:
            return None
        return CrowdLabels.from_codes(
            self.task, self.worker, label, tasks=self.tasks, workers=self.workers, classes=found.tolist(),
            on_duplicate="first",
        )  # fmt: skip

    def equality_columns(self) -> tuple[IntArray, IntArray]:
        """The task, and a number for each different value or vector."""
        said: IntArray = np.unique(self.value, axis=0, return_inverse=True)[1].ravel()
        return self.task, said

    def _said_columns(self) -> dict[str, Any]:
        return dict(zip(self.coordinates, map(pa.array, self.value.T), strict=True))


@reader_of(Values)
def read_values(source: Any, *, value: str | tuple[str, ...] | None = None, **options: Unpack[TaskOptions]) -> Values:
    """Read values from a file or a table with a row for each answer.

    Parameters
    ----------
    value
        Column name, where it is not the usual one. Several columns make each answer a vector.
    task, worker, on_duplicate
        As for `read_labels`.
    """
    several = value if isinstance(value, tuple | list) else None
    if several is not None and not (several and all(isinstance(name, str) for name in several)):
        raise InputError(f"value is {quote(value)}; give the name of a column, or of several.")
    given: dict[str, str | None] = (
        {"value": value} if not isinstance(value, tuple | list) else {name: name for name in value}
    )
    table = open_task_table(source, NEEDS, options, given)
    coordinates = tuple(several) if several else ("value",)
    numbers = np.column_stack([table.read_numbers(name) for name in coordinates])
    _refuse_tiny_values(numbers)
    columns = table.encode_task_answers() | {"value": numbers, "coordinates": coordinates}
    return Values._from_columns(columns, options.get("on_duplicate", "error"), table.place)


def _refuse_tiny_values(numbers: FloatArray) -> None:
    if 0 < np.abs(numbers).max(initial=0.0) < SMALLEST:
        raise InputError(f"No value is as large as {SMALLEST:g}. Give them in a smaller unit.")
