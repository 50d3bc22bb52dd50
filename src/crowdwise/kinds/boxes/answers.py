"""`Boxes`: answers that are sets of rectangles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.marks import Marks, open_marks, read_marks
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from crowdwise.kinds.marks import MarkOptions
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Boxes", "read_boxes"]

CORNERS = ("x_min", "y_min", "x_max", "y_max")
SIDES = ("x", "y", "width", "height")
NEEDS = (
    "Boxes need the columns task, worker, x_min, y_min, x_max and y_max (or x, y, width and height), with a row for "
    "each box; a row without coordinates says that the worker drew nothing."
)
LEAST_SIZE = 1e-50  # of a box: squares of sizes are divided by


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Boxes(Marks, kind="boxes", noun="box", coordinates=CORNERS):
    """Boxes that workers drew on tasks: one row for each answer, with any number of boxes. Immutable.

    Make one with `read_boxes` or `Boxes.from_codes`.

    Attributes
    ----------
    place : (n_marks, 4)
        x_min, y_min, x_max and y_max.

    Examples
    --------
    >>> read_boxes({"task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "x_min": [0, 1, None],
    ...             "y_min": [0, 1, None], "x_max": [5, 6, None], "y_max": [5, 6, None]})
    Boxes: 2 boxes in 3 answers by 2 workers on 2 tasks
    """

    @classmethod
    def _check_places(cls, place: FloatArray, marked: BoolArray, show: Callable[[IntArray], str]) -> None:
        super()._check_places(place, marked, show)
        wrong = np.flatnonzero(marked & ~(place[:, 2:] - place[:, :2] >= LEAST_SIZE).all(axis=1))
        if wrong.size:
            raise InputError(
                f"Some boxes have no size or a negative one ({show(wrong)}): x_max must be above x_min, and y_max "
                "above y_min. Mend or remove those rows."
            )


@reader_of(Boxes)
def read_boxes(source: Any, **options: Unpack[MarkOptions]) -> Boxes:
    """Read boxes from a file or a table with a row for each box.

    A row whose coordinates are empty says that the worker saw the task and drew nothing.

    Parameters
    ----------
    task, worker, label
        Column names, where they are not the usual ones. Labels are optional.
    coordinates
        Names of the columns of x_min, y_min, x_max and y_max, where they are not the usual ones. A table may have x, y
        (of the corner with the smallest numbers), width and height instead.
    on_duplicate
        What to do with the same box twice in one answer: "error", keep the "first" or the "last", or keep "all".
    """
    table, form, place = open_marks(source, NEEDS, (CORNERS, SIDES), options)
    if form == SIDES:
        place[:, 2:] += place[:, :2]
    return read_marks(Boxes, table, place, options)
