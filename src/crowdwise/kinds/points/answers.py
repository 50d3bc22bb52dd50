"""`Points`: answers that are sets of places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crowdwise.kinds.marks import Marks, open_marks, read_marks
from crowdwise.kinds.reader_decorator import reader_of

if TYPE_CHECKING:
    from typing import Unpack

    from crowdwise.kinds.marks import MarkOptions

__all__ = ["Points", "read_points"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Points(Marks, kind="points", noun="point", coordinates=("x", "y")):
    """Points that workers marked on tasks: one row for each answer, with any number of points. Immutable.

    Make one with `read_points` or `Points.from_codes`.

    Attributes
    ----------
    place : (n_marks, 2)
        x and y.

    Examples
    --------
    >>> read_points({"task": ["a", "a"], "worker": ["ann", "bob"], "x": [0, 1], "y": [0, 1]})
    Points: 2 points in 2 answers by 2 workers on 1 task
    """


@reader_of(Points)
def read_points(source: Any, **options: Unpack[MarkOptions]) -> Points:
    """Read points from a file or a table with a row for each point.

    A row whose coordinates are empty says that the worker saw the task and marked nothing.

    Parameters
    ----------
    coordinates
        Names of the columns of x and y, where they are not the usual ones.
    task, worker, label, on_duplicate
        As for `read_boxes`.
    """
    needs = (
        "Points need the columns task, worker, x and y, with a row for each point; a row without coordinates says that "
        "the worker marked nothing."
    )
    table, _, place = open_marks(source, needs, (Points.coordinates,), options)
    return read_marks(Points, table, place, options)
