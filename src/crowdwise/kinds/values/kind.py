"""Values, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind
from crowdwise.kinds.values.answers import read_values
from crowdwise.kinds.values.metrics import score_values
from crowdwise.kinds.values.simulation import simulate_values

__all__ = ["KIND"]

KIND = Kind(
    name="values",
    words="numbers: ratings from 0 to 100, ages, measurements",
    columns=(("task", "worker", "value"),),
    roles=("task", "worker", "value"),
    default="gaussian",
    read=read_values,
    score=score_values,
    simulate=simulate_values,
)
