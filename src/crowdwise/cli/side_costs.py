"""What answers cost, read from a table."""

from __future__ import annotations

import re
from typing import Any

from crowdwise.labels.errors import InputError, quote

__all__ = ["read_cost_table"]


def read_cost_table(source: Any) -> dict[Any, float]:
    """Cost of an answer by worker, from a table with the columns worker and cost."""
    from crowdwise.fitting.parameter_checks import check_number
    from crowdwise.labels.columns import Columns
    from crowdwise.labels.encode import encode
    from crowdwise.labels.numeric_values import NUMBER
    from crowdwise.labels.read import open_source

    columns = open_source(source, "Costs need the columns worker and cost, and a row for each worker.")
    if not isinstance(columns, Columns) or not {"worker", "cost"} <= set(columns.names):
        raise InputError("Costs need the columns worker and cost, and a row for each worker.")
    workers = encode(
        columns.column("worker"), "worker", name="worker", place=columns.place, text=columns.text
    )  # as the workers of labels are read
    found: dict[Any, float] = {}
    names = workers.names.to_pylist()
    for code, given in zip(workers.codes.tolist(), columns.column("cost").to_pylist(), strict=True):
        worker = names[code]
        if worker in found:
            raise InputError(f"Costs name {quote(worker)} twice. Give each worker one cost.")
        # Text that is written as a number, not all that Python takes for one (1_0).
        cost = float(given) if isinstance(given, str) and re.match(NUMBER, given) else given
        check_number(f"The cost of {quote(worker)}", cost, low=0, above=True)
        found[worker] = float(cost)
    return found
