"""`Points`: answers that are sets of places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from crowdwise.kinds.marks import Marks, open_marks, read_marks

if TYPE_CHECKING:
    from typing import Unpack

    from crowdwise.kinds.marks import MarkOptions

__all__ = ["Points", "read_points"]

NEEDS = (
    "Points need the columns task, worker, x and y, with a row for each point; a row without coordinates says that the "
    "worker marked nothing."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Points(Marks):
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

    kind: ClassVar[str] = "points"
    noun: ClassVar[str] = "point"
    coordinates: ClassVar[tuple[str, ...]] = ("x", "y")


def read_points(source: Any, **options: Unpack[MarkOptions]) -> Points:
    """Read points from a file or a table with a row for each point.

    A row whose coordinates are empty says that the worker saw the task and marked nothing.

    Parameters
    ----------
    source
        A path or a table, as for `read_labels`, or `Points`, which come back as they are.
    coordinates
        Names of the columns of x and y, where they are not the usual ones.
    task, worker, label, on_duplicate
        As for `read_boxes`.
    """
    if isinstance(source, Points):
        return source
    table, _, place = open_marks(source, NEEDS, (Points.coordinates,), options)
    return read_marks(Points, table, place, options)
