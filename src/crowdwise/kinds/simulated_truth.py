"""A truth that is given to a simulator instead of drawn: that of items with features, above all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["given_truth"]


def given_truth(truth: Any, size: int, name: str) -> FloatArray:
    """The truth (size,) as numbers, refusing another number of them and what is not finite."""
    values = np.asarray(truth, np.float64)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise InputError(f"{name} has shape {values.shape}; it must be {size:,} finite numbers.")
    return values
