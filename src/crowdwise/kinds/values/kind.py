"""Values, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="values",
    words="numbers: ratings from 0 to 100, ages, measurements",
    columns=(("task", "worker", "value"),),
    roles=("task", "worker", "value"),
    default="gaussian",
    reader="crowdwise.kinds.values.answers:read_values",
    scorer="crowdwise.kinds.values.metrics:score_values",
    simulator="crowdwise.kinds.values.simulation:simulate_values",
    shown=(("task", "value", "low", "high", "n_answers"), ("worker", "n_answers", "error", "error_low", "error_high")),
)
