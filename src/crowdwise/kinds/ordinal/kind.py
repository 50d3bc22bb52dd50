"""Grades, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="ordinal",
    words="grades: classes that have an order, such as stars or G, P, R, X",
    columns=(("task", "worker", "grade"),),
    roles=("task", "worker", "grade"),
    default="ordered-classes",
    reader="crowdwise.kinds.ordinal.answers:read_grades",
    scorer="crowdwise.kinds.ordinal.metrics:score_grades",
    simulator="crowdwise.kinds.ordinal.simulation:simulate_grades",
    shown=(
        ("task", "label", "confidence", "expected", "n_answers"),
        ("worker", "n_answers", "error", "error_low", "error_high"),
    ),
)
