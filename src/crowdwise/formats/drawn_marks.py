"""Boxes and regions that workers drew in images, until all images and labels are known.

A worker who saw an image and drew nothing in it gave an answer as well. Regions of one label in one image are one
mask: the union of what the worker outlined so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdwise.formats.answer_collector import AnswerCollector

__all__ = ["DrawnMarks"]


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
