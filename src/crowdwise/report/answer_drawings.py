"""Drawings of what workers drew, as SVG: soft masks, and boxes or points over a frame. Other kinds have none."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from crowdwise.report.charts import ACCENT, QUIET

if TYPE_CHECKING:
    from crowdwise.audit.answer_audit import AnswerAudit
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["draw_answers"]

MOST = 6  # tasks that are drawn
WIDEST = 320  # pixels of a drawing, on either side
MARGIN = 8


def draw_answers(found: AnswerAudit) -> list[tuple[str, str]]:
    """Of the tasks that the consensus is least sure of, the name and a picture; empty where a kind is not drawn."""
    draw = {"masks": _draw_mask, "boxes": _draw_marks, "points": _draw_marks}.get(found.answers.kind)
    if draw is None:
        return []
    names = found.answers.tasks.to_pylist()  # type: ignore[attr-defined]
    return [(str(names[task]), draw(found, int(task))) for task in _least_sure(found)]


def _least_sure(found: AnswerAudit) -> IntArray:
    """Positions of the tasks with answers, the least sure first."""
    answers, model = cast("Any", found.answers), cast("Any", found.model)
    if found.answers.kind == "masks":
        sure = model.confidence_
    else:  # the least sure of a task's objects, as far as they are from a coin
        sure = np.ones(answers.n_tasks)
        np.minimum.at(sure, model.object_task_, np.abs(model.confidence_ - 0.5))
    order = np.argsort(sure, kind="stable")
    chosen: IntArray = order[answers.answers_per_task[order] > 0][:MOST]
    return chosen


def _draw_mask(found: AnswerAudit, task: int) -> str:
    """A soft mask: the surer that a pixel is inside, the darker it is."""
    from crowdwise.kinds.masks.image_files import encode_png

    model: Any = found.model
    soft = model._soft(task)
    step = max(-(-max(soft.shape) // WIDEST), 1)
    small = soft[::step, ::step]
    picture = base64.b64encode(encode_png((65535 * (1 - small)).astype(np.uint16))).decode()
    height, width = small.shape
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<image width="{width}" height="{height}" href="data:image/png;base64,{picture}"/></svg>'
    )


def _draw_marks(found: AnswerAudit, task: int) -> str:
    """Boxes or points of every worker in grey, and those of the consensus in blue, over the frame of the task."""
    answers, model = cast("Any", found.answers), cast("Any", found.model)
    rows = np.flatnonzero(answers.task[answers.answer] == task)
    objects = np.flatnonzero(model._kept(model.confidence_) & (model.object_task_ == task))
    every = np.concatenate([answers.place[rows], model.place_[objects]])
    if not len(every):
        return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>'
    corners = every.reshape(-1, 2)
    low, extent = corners.min(axis=0), float(max((corners.max(axis=0) - corners.min(axis=0)).max(), 1e-90))
    scale = (WIDEST - 2 * MARGIN) / extent
    height = round(float((corners.max(axis=0) - low)[1]) * scale) + 2 * MARGIN
    shapes = [
        _shape((place.reshape(-1, 2) - low) * scale + MARGIN, colour, width)
        for places, colour, width in ((answers.place[rows], QUIET, 1), (model.place_[objects], ACCENT, 3))
        for place in places
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDEST}" height="{height}" viewBox="0 0 {WIDEST} {height}">'
        f"{''.join(shapes)}</svg>"
    )


def _shape(corners: FloatArray, colour: str, width: int) -> str:
    """A rectangle between two corners, or a circle about one."""
    x, y = corners[0]
    if len(corners) == 1:
        return (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 + width}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )
    sides = corners[1] - corners[0]
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{sides[0]:.1f}" height="{sides[1]:.1f}" fill="none" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )
