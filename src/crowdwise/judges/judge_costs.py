"""What a vote of each judge costs, from a mapping or a table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_table
from crowdwise.labels.errors import InputError, InputWarning, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import FloatArray

__all__ = ["read_costs"]

NEEDS = "Costs need a column `judge` and a column `cost`: the price of one vote."


def read_costs(source: Any, judges: Sequence[str]) -> FloatArray:
    """Cost of a vote of each judge, (M,); NaN where it is not told.

    Parameters
    ----------
    source
        A mapping from judge to cost, a file or table with columns judge and cost, or None.

    Examples
    --------
    >>> read_costs({"a": 2}, ["a", "b"]).tolist()
    [2.0, nan]
    """
    if source is None:
        return np.full(len(judges), np.nan)
    if isinstance(source, Mapping) and not {"judge", "worker", "model"} & set(source):
        told = {str(name): value for name, value in source.items()}
    else:
        table = open_table(source, NEEDS, {"worker": None, "cost": None})
        names = table.encode("worker")
        told = {}
        for code, value in zip(names.codes, table.read_numbers("cost"), strict=True):
            name = str(names.names[int(code)].as_py())
            if told.setdefault(name, float(value)) != value:
                raise InputError(f"The costs of {listing([name])} differ from row to row. Keep one.")
    costs = np.full(len(judges), np.nan)
    for at, name in enumerate(judges):
        if name in told:
            costs[at] = _check_cost(name, told[name])
    if told and np.isnan(costs).all():
        raise InputError(f"The costs are of other judges ({listing(told)}) than the votes ({listing(judges)}).")
    strange = [name for name in told if name not in judges]
    if strange:
        warnings.warn(f"The costs name {listing(strange)}, who gave no vote.", InputWarning, stacklevel=3)
    return costs


def _check_cost(name: str, value: Any) -> float:
    try:
        cost = float(value)
    except (TypeError, ValueError):
        cost = float("nan")
    if not (np.isfinite(cost) and cost >= 0):
        raise InputError(f"The cost of {listing([name])} is {value!r}; it must be a number from 0 up.")
    return cost
