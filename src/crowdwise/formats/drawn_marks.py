"""Boxes and regions that workers drew in images, until all images and labels are known.

A worker who saw an image and drew nothing in it gave an answer as well. Regions of one label in one image are one
mask: the union of what the worker outlined so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.formats.answer_collector import AnswerCollector

__all__ = ["DrawnMarks", "lies_outside"]


def lies_outside(box: Sequence[Any], size: tuple[float, float]) -> bool:
    """Whether more than half of a box (left, top, right, bottom) lies outside of its image, of this height and width.

    Boxes that reach over the edge by a little are common.

    >>> lies_outside((-1, 0, 3, 4), (4, 4)), lies_outside((5, 0, 9, 4), (4, 4)), lies_outside((-9, -9, 9, 9), (4, 4))
    (False, True, True)
    """
    (left, top, right, bottom), (height, width) = box[:4], size
    inside = max(min(right, width) - max(left, 0), 0) * max(min(bottom, height) - max(top, 0), 0)
    return bool(2 * inside < (right - left) * (bottom - top))


class DrawnMarks:
    """Takes marks, and gives them to a collector as answers to one question for boxes and one for each label of masks.

    Parameters
    ----------
    boxes
        Name of the question about boxes.
    """

    def __init__(self, boxes: str) -> None:
        self.name = boxes
        self.seen: dict[tuple[Any, str], tuple[int, int]] = {}
        self.boxes: dict[tuple[Any, str], list[tuple[Any, ...]]] = {}
        self.regions: dict[str, dict[tuple[Any, str], list[Any]]] = {}

    def see(self, task: Any, worker: str, size: tuple[int, int]) -> None:
        """Take note that a worker saw an image of this height and width."""
        self.seen[task, worker] = size

    def add_box(self, task: Any, worker: str, row: tuple[Any, ...]) -> None:
        """Take a box: its corners and its label."""
        self.boxes.setdefault((task, worker), []).append(row)

    def add_region(self, task: Any, worker: str, label: str, region: Any) -> None:
        """Take a region as COCO writes it: polygons, or run lengths with their size."""
        self.regions.setdefault(label, {}).setdefault((task, worker), []).append(region)

    def give(self, found: AnswerCollector) -> None:
        """Give everything to the collector, with an answer for every image that a worker saw."""
        if self.boxes:
            asked = found.question(self.name, "boxes")
            for task, worker in self.seen:
                asked.add(task, worker, *self.boxes.get((task, worker), ()))
        for label, drawn in self.regions.items():
            asked = found.question(label, "masks")
            for (task, worker), size in self.seen.items():
                cell = {"size": size, "regions": drawn.get((task, worker), [])}
                asked.add(task, worker, (json.dumps(cell), label))
