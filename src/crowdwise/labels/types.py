"""Names for the array types that the whole package speaks."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.signedinteger[Any]]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

Duplicates: TypeAlias = Literal["error", "first", "last", "all"]
TableKind: TypeAlias = Literal["pyarrow", "pandas", "polars"]
LabelKind: TypeAlias = Literal["labels"]  # what an answer is: a class; other kinds are to come
Outer: TypeAlias = Literal["tasks", "workers"]  # what the keys of a mapping of mappings are
