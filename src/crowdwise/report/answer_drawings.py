"""Drawings of what workers drew, as SVG: soft masks, and boxes or points over a frame. Other kinds have none."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdwise.audit.audit_answers import AnswerAudit
    from crowdwise.labels.types import IntArray

__all__ = ["draw_answers"]

MOST = 6  # tasks that are drawn
WIDEST = 320  # pixels of a mask that is drawn, on either side


def draw_answers(found: AnswerAudit) -> list[tuple[str, str]]:
    """Of the tasks that the consensus is least sure of, the name and a picture; empty where a kind is not drawn."""
    draw = {"masks": _draw_mask}.get(found.answers.kind)
    if draw is None:
        return []
    names = found.answers.tasks.to_pylist()  # type: ignore[attr-defined]
    return [(str(names[task]), draw(found, int(task))) for task in _least_sure(found)]


def _least_sure(found: AnswerAudit) -> IntArray:
    """Positions of the tasks with answers, the least sure first."""
    answers: Any = found.answers
    sure = found.model.consensus()["confidence"].to_numpy()
    order = np.argsort(sure, kind="stable")
    return order[answers.answers_per_task[order] > 0][:MOST]


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
