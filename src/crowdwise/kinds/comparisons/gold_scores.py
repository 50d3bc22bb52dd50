"""Known scores of some items, put on the scale of a model's.

Known scores have a scale of their own (grades from 1 to 12). Of the items that have one, they are brought to mean 0 and
the standard deviation that the model's scores have beforehand, and stay there: what is learnt from them is the order
and the distances of the items, and so who of the workers follows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["pin_gold"]


def pin_gold(gold: FloatArray | None, spread: float | None) -> tuple[FloatArray | None, BoolArray | None]:
    """Scores to start from, those of gold in place, and which items they are; nothing without gold."""
    if gold is None:
        return None, None
    pinned = np.isfinite(gold)
    known = gold[pinned]
    if known.size < 2 or np.ptp(known) == 0:
        raise InputError("Gold needs at least two items of different scores. Give more, or leave it out.")
    start = np.zeros(gold.size)
    start[pinned] = (known - known.mean()) / known.std() * (1.0 if spread is None else spread)
    return start, pinned
