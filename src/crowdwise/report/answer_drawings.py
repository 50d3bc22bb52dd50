"""Drawings of what workers drew: boxes over a frame, soft masks. Other kinds have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdwise.audit.audit_answers import AnswerAudit

__all__ = ["draw_answers"]


def draw_answers(found: AnswerAudit) -> list[tuple[str, str]]:
    """Of some tasks its name and a picture in SVG; empty where answers of this kind are not drawn."""
    draw = getattr(found.model, "draw_tasks", None)
    return [] if draw is None else draw(found.answers)
