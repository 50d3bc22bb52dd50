"""One column of names, however it is held in memory, as an Arrow column."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise.labels.errors import SHOWN, InputError, InputWarning, quote

__all__ = ["as_column"]


def as_column(values: Any, name: str, origin: str = "the table") -> pa.ChunkedArray:
    """Give an Arrow column of a list, a NumPy, pandas, polars or Arrow array; NaN and None are nulls."""
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes) or not (hasattr(values, "__iter__") or hasattr(values, "__arrow_c_stream__")):
        raise InputError(f"{origin}: {name} is {quote(values)}; it must be an array with one entry a label.")
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InputError(
            f"{origin}: {name} must be one-dimensional; it has shape {values.shape}. For a matrix "
            "with a row a task and a column a worker use CrowdLabels.from_dense."
        )
    pandas = type(values).__module__.split(".")[0] == "pandas"
    if hasattr(values, "__arrow_c_stream__") and not pandas:
        return pa.chunked_array(values)
    if not isinstance(values, np.ndarray) and not pandas:
        values = list(values)
    try:
        array = pa.array(values, from_pandas=True)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        UnicodeEncodeError,
    ):
        array = _as_text(values, name, origin)
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _as_text(values: Any, name: str, origin: str) -> pa.Array:
    """Names of mixed types, or integers beyond 64 bits, as text."""
    texts: list[str | None] = []
    first: dict[str, Any] = {}
    met: dict[str, tuple[Any, Any]] = {}  # values of two types that are one text
    for row, value in enumerate(values):
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise InputError(
                f"{origin}: column {quote(name)} holds lists or records (row {row}: {quote(value)}). "
                "Each row must hold one name: one row for each answer."
            )
        missing = value is None or (isinstance(value, float) and math.isnan(value)) or str(value) == "<NA>"
        texts.append(None if missing else str(value))
        if not missing and type(first.setdefault(str(value), value)) is not type(value):
            met.setdefault(str(value), (first[str(value)], value))
    if met:
        pairs = "; ".join(f"{quote(one)} and {quote(other)}" for one, other in list(met.values())[:SHOWN])
        more = f" and {len(met) - SHOWN:,} more" if len(met) > SHOWN else ""
        warnings.warn(
            f"{origin}: column {quote(name)} holds names of several types, which are taken as one where their text is "
            f"the same: {pairs}{more}. Give all the same type.",
            InputWarning,
            stacklevel=2,
        )
    try:
        return pa.array(texts, pa.string())
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise InputError(
            f"{origin}: column {quote(name)} holds text that is not Unicode: {error}. Clean it first."
        ) from error
