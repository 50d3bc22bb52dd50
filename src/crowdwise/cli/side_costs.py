"""What answers cost, read from a table."""

from __future__ import annotations

from typing import Any

from crowdwise.labels.errors import InputError, quote

__all__ = ["read_cost_table"]


def read_cost_table(source: Any) -> dict[Any, float]:
    """Cost of an answer by worker, from a table with the columns worker and cost."""
    from crowdwise.labels.columns import Columns
    from crowdwise.labels.read import open_source

    columns = open_source(source, "Costs need the columns worker and cost, and a row for each worker.")
    if not isinstance(columns, Columns) or not {"worker", "cost"} <= set(columns.names):
        raise InputError("Costs need the columns worker and cost, and a row for each worker.")
    found: dict[Any, float] = {}
    for worker, cost in zip(columns.column("worker").to_pylist(), columns.column("cost").to_pylist(), strict=True):
        if str(worker) in found:
            raise InputError(f"Costs name {quote(worker)} twice. Give each worker one cost.")
        try:
            found[str(worker)] = float(cost)
        except (TypeError, ValueError) as error:
            raise InputError(f"The cost of {quote(worker)} is {quote(cost)}; it must be a number above 0.") from error
    return found
