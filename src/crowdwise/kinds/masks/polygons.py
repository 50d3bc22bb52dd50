"""Outlines as polygons: read from text or lists, and filled.

A pixel in column j and row i is inside where its centre (j + ½, i + ½) is, by the even-odd rule: of a polygon that
crosses itself, what is enclosed twice is outside. What lies outside of the frame is cut off. Several polygons of one
answer are united.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["fill_polygons", "parse_polygons"]

FARTHEST = 1e7  # pixels: beyond it, coordinates are no longer exact enough
CROSSINGS = 1 << 20  # of edges with rows that are held at a time


def parse_polygons(given: Any) -> list[FloatArray]:
    """Polygons, (n, 2) each, from "x1 y1 x2 y2 …", a list of numbers, of points or of polygons, or such a list as JSON.

    >>> [each.tolist() for each in parse_polygons("0 0 4 0 4 3")]
    [[[0.0, 0.0], [4.0, 0.0], [4.0, 3.0]]]
    """
    if isinstance(given, str):
        given = _parse_text(given)
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, list | tuple):
        raise InputError(f"it is {quote(given)}; give x1 y1 x2 y2 …")
    if not len(given):
        return []
    return [_as_points(each) for each in (given if _holds_polygons(given) else [given])]


def fill_polygons(polygons: list[FloatArray], height: int, width: int) -> BoolArray:
    """The mask (height, width) of polygons; one that lies wholly outside of the frame is refused.

    >>> fill_polygons([np.array([[0, 0], [2, 0], [2, 1], [0, 1.0]])], 2, 3).astype(int)
    array([[1, 1, 0],
           [0, 0, 0]])
    """
    inside = np.zeros((height, width), np.bool_)
    for points in polygons:
        low, high = points.min(axis=0), points.max(axis=0)
        if low[0] >= width or low[1] >= height or high[0] <= 0 or high[1] <= 0:
            raise InputError(
                f"it runs from x {low[0]:g}, y {low[1]:g} to x {high[0]:g}, y {high[1]:g}, wholly outside of the frame "
                f"of width {width} and height {height}. Give coordinates in pixels"
            )
        inside |= _fill(points, height, width)
    return inside


def _fill(points: FloatArray, height: int, width: int) -> BoolArray:
    """Even-odd: along each row, every edge that crosses the middle of the row turns inside into outside."""
    turns = np.zeros((height, width + 1), np.int64)
    start, end = points, np.roll(points, -1, axis=0)
    down = np.where((start[:, 1] <= end[:, 1])[:, None], start, end)
    up = np.where((start[:, 1] <= end[:, 1])[:, None], end, start)
    # An edge crosses the rows whose middle lies in [down, up): each vertex belongs to one of its two edges.
    first = np.clip(np.ceil(down[:, 1] - 0.5), 0, height).astype(np.int64)
    last = np.clip(np.ceil(up[:, 1] - 0.5), 0, height).astype(np.int64)
    number = last - first
    blocks = np.flatnonzero(np.diff(np.cumsum(number) // CROSSINGS)) + 1
    for edges in np.split(np.arange(len(points)), blocks):
        which = np.repeat(edges, number[edges])
        begin = np.cumsum(number[edges]) - number[edges]
        row = np.arange(which.size) - np.repeat(begin - first[edges], number[edges])
        along = (row + 0.5 - down[which, 1]) / (up[which, 1] - down[which, 1])
        x = down[which, 0] + along * (up[which, 0] - down[which, 0])
        np.add.at(turns, (row, np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)), 1)
    return np.asarray(np.cumsum(turns[:, :width], axis=1) % 2 == 1)


def _parse_text(text: str) -> Any:
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"it is no JSON ({quote(str(error))})") from error
    return re.split(r"[\s,;]+", text.strip())


def _holds_polygons(given: Any) -> bool:
    """Whether a list holds polygons, not numbers and not points."""
    first = given[0]
    if not isinstance(first, list | tuple):
        return False
    return len(first) != 2 or isinstance(first[0], list | tuple)


def _as_points(given: Any) -> FloatArray:
    try:
        points = np.array(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("it holds what is no number, or points that are not x and y") from error
    if points.ndim == 1:
        if points.size % 2:
            raise InputError(f"it has {points.size} numbers, an odd number: an x or a y is missing")
        points = points.reshape(-1, 2)
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError("its points are not x and y")
    if len(points) < 3:
        raise InputError(f"it has {len(points)} points; an outline needs at least three")
    # A comparison with what is not a number is false.
    if not (np.abs(points) <= FARTHEST).all():
        raise InputError(f"it has coordinates that are no numbers between -{FARTHEST:,.0f} and {FARTHEST:,.0f}")
    return points
