"""Points, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="points",
    words="places marked in a picture, several in a task, or none",
    columns=(("task", "worker", "x", "y"),),
    roles=("task", "worker", "label"),
    default="object-em",
    reader="crowdwise.kinds.points.answers:read_points",
    scorer="crowdwise.kinds.points.metrics:score_points",
    simulator="crowdwise.kinds.points.simulation:simulate_points",
    shown=(
        ("task", "object", "x", "y", "label", "confidence"),
        ("worker", "n_answers", "miss_rate", "false_positives", "error"),
    ),
    labelled=True,
)
