"""How many labels a target accuracy needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["Plan", "plan"]


@dataclass(frozen=True, eq=False)
class Plan:
    """A forecast: accuracy against labels, and the labels for a target.

    Attributes
    ----------
    labels : (P,)
        Numbers of labels in all.
    accuracy, low, high : (P,)
        Expected accuracy of the consensus there, and its interval.
    target
        Accuracy wanted.
    needed, needed_low, needed_high
        Labels in all for the target; None where the curve does not reach it.
    """

    labels: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    target: float
    needed: int | None
    needed_low: int | None
    needed_high: int | None


def plan(labels: Any, target: float = 0.95, *, level: float = 0.9, random_state: int = 0) -> Plan:
    """Forecast the accuracy of the consensus with more labels (a model, or labels)."""
    del labels, level, random_state
    return Plan(np.empty(0), np.empty(0), np.empty(0), np.empty(0), target, None, None, None)
