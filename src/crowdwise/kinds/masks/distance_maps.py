"""Signed distances to the outline of a mask, in pixels: above 0 inside, below 0 outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import distance_transform_edt, find_objects

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["signed_distance"]


def signed_distance(mask: BoolArray) -> FloatArray:
    """Distance (height, width) of each pixel's centre to the outline, half a pixel next to it.

    Of a mask that is empty or full, the outline is farther away than any.

    >>> signed_distance(np.array([[False, True, True, True]]))
    array([[-0.5,  0.5,  1.5,  2.5]])
    """
    inside = int(mask.sum())
    if inside in (0, mask.size):
        return np.full(mask.shape, float(sum(mask.shape)) * (1 if inside else -1))
    outside = np.asarray(distance_transform_edt(~mask), np.float64)
    # What is nearest to a pixel inside lies at most one pixel beyond the box around the mask.
    box = tuple(slice(max(each.start - 1, 0), each.stop + 1) for each in find_objects(mask.astype(np.int8))[0])
    found: FloatArray = 0.5 - outside
    found[box] = np.where(mask[box], np.asarray(distance_transform_edt(mask[box])) - 0.5, found[box])
    return found
