"""Which grades each worker gave, and the steps that fit workers to them by compiled loops.

A cell is a worker and a grade that they gave at least once: a worker of one answer has one, not K.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.block_layout import split_work
from crowdwise.kernels.threads import map_lanes

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Cells", "Steps", "improve_by_cells", "log_by_cells", "sum_gradients", "sum_values"]


class Cells(NamedTuple):
    """Cells of worker w are `ptr[w]:ptr[w + 1]`; the `grade` and the `worker` of each (C,)."""

    ptr: IntArray
    grade: IntArray
    worker: IntArray


class Steps(NamedTuple):
    """How many scoring steps, how often each is halved at most, how far it may go, and the last gain that is enough."""

    number: int
    halvings: int
    longest: float
    enough: float


def log_by_cells(parameters: FloatArray, cells: Cells, points: FloatArray, least: float) -> FloatArray:
    """Log-probability of each cell's grade at each point (C, G)."""
    from crowdwise.kernels.compiled.grade_cells import log_cells_of_lane

    found = np.empty((cells.grade.size, points.size))
    map_lanes(
        lambda first, last: log_cells_of_lane(first, last, parameters, cells, points, least, found),
        split_work(cells.ptr),
    )
    return found


def sum_values(parameters: FloatArray, cells: Cells, counts: FloatArray, points: FloatArray, least: float) -> float:
    """Expected log-probability of all answers, which are counted by cell and point (C, G)."""
    from crowdwise.kernels.compiled.grade_cells import sum_values_of_lane

    return float(
        sum(
            map_lanes(
                lambda first, last: sum_values_of_lane(first, last, parameters, cells, counts, points, least),
                split_work(cells.ptr),
            )
        )
    )


def sum_gradients(
    parameters: FloatArray, cells: Cells, counts: FloatArray, points: FloatArray, least: float
) -> tuple[FloatArray, FloatArray]:
    """Gradient of `sum_values` where all workers move alike (K,), and the expected information (K, K)."""
    from crowdwise.kernels.compiled.grade_cells import sum_gradients_of_lane

    parts = map_lanes(
        lambda first, last: sum_gradients_of_lane(first, last, parameters, cells, counts, points, least),
        split_work(cells.ptr),
    )
    return sum(each[0] for each in parts), sum(each[1] for each in parts)


def improve_by_cells(
    parameters: FloatArray,
    crowd: FloatArray,
    precision: FloatArray,
    cells: Cells,
    counts: FloatArray,
    points: FloatArray,
    least: float,
    steps: Steps,
) -> FloatArray:
    """Better parameters of each worker (M, K), about those of the crowd (K,) with a precision (K,)."""
    from crowdwise.kernels.compiled.grade_cells import improve_lane

    better = parameters.copy()
    map_lanes(
        lambda first, last: improve_lane(first, last, better, crowd, precision, cells, counts, points, least, steps),
        split_work(cells.ptr),
    )
    return better
