"""Numbers from 0 to 1 for every pixel, kept as 16 bits: what a soft mask of a PNG has, and a model saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["HIGHEST", "pack_levels", "round_levels", "unpack_levels"]

HIGHEST = 65535


def round_levels(values: FloatArray) -> npt.NDArray[np.uint16]:
    """Numbers from 0 to 1 as whole numbers from 0 to 65535."""
    return np.asarray(np.rint(np.clip(values, 0.0, 1.0) * HIGHEST), np.uint16)


def pack_levels(fields: Iterable[FloatArray]) -> IntArray:
    """Fields of numbers from 0 to 1, one after the other, four in each integer of 64 bits.

    >>> unpack_levels(pack_levels([np.array([[0.0, 1.0]])]), 0, 2)
    array([0., 1.])
    """
    levels = [round_levels(each).ravel() for each in fields]
    size = sum(each.size for each in levels)
    return np.concatenate([*levels, np.zeros(-size % 4, np.uint16)]).view(np.int64)


def unpack_levels(words: IntArray, first: int, last: int) -> FloatArray:
    """Numbers from 0 to 1 of the pixels from `first` to before `last`."""
    found: FloatArray = words.view(np.uint16)[first:last] / np.float64(HIGHEST)
    return found
