"""Workers as judges of one class against the rest: from sensitivities and false alarms to confusion matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["confusion_from_rates"]


def confusion_from_rates(sensitivity: FloatArray, false_alarm: FloatArray) -> FloatArray:
    """Matrices [worker, truth, label] from P(says k | is k) and P(says k | is another), both (M, K).

    Sensitivities stand on the diagonal; what is left of a row is shared out as the false alarms of the other classes
    are, evenly where there are none.
    """
    n_classes = sensitivity.shape[1]
    diagonal = np.arange(n_classes)
    false = np.repeat(false_alarm[:, None, :], n_classes, axis=1)
    false[:, diagonal, diagonal] = 0
    total = false.sum(axis=2, keepdims=True)
    others = (1 - np.eye(n_classes)) / (n_classes - 1)
    confusion: FloatArray = np.where(total > 0, false / np.where(total > 0, total, 1), others)
    confusion *= (1 - sensitivity)[:, :, None]
    confusion[:, diagonal, diagonal] = sensitivity
    return confusion
