"""Boxes, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="boxes",
    words="rectangles drawn around objects, several in a task, or none",
    columns=(
        ("task", "worker", "x_min", "y_min", "x_max", "y_max"),
        ("task", "worker", "x", "y", "width", "height"),
    ),
    roles=("task", "worker", "label"),
    default="object-em",
    reader="crowdwise.kinds.boxes.answers:read_boxes",
    scorer="crowdwise.kinds.boxes.metrics:score_boxes",
    simulator="crowdwise.kinds.boxes.simulation:simulate_boxes",
    shown=(
        ("task", "object", "x_min", "y_min", "x_max", "y_max", "label", "confidence"),
        ("worker", "n_answers", "miss_rate", "false_positives", "error"),
    ),
    labelled=True,
)
