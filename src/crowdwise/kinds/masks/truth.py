"""Known regions of tasks, lined up with those of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_table, place_known
from crowdwise.kinds.masks.region_cells import as_mask_array, find_table_folder, read_regions
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["align_true_masks"]


def align_true_masks(source: Any, tasks: pa.Array, height: IntArray, width: IntArray) -> dict[int, BoolArray]:
    """Known masks by the position of their task; truths of other tasks are left aside.

    Parameters
    ----------
    source
        A mapping from task to an array (height, width), or a path or table with a column for the task and one for
        the mask: paths of images, polygons or run lengths.
    """
    regions: Iterable[BoolArray]
    if isinstance(source, Mapping) and all(isinstance(each, np.ndarray) and each.ndim == 2 for each in source.values()):
        names, codes = as_vocabulary(list(source), "task"), np.arange(len(source))
        regions = map(as_mask_array, source.values())
    else:
        table = open_table(
            source, "Known masks need a column task and a column mask, polygon or rle.", {"task": None, "mask": None},
            {"width": None, "height": None},
        )  # fmt: skip
        encoded = table.encode("task")
        names, codes, regions = encoded.names, encoded.codes, read_regions(table, find_table_folder(source))
    there = place_known(names, tasks, "task")[codes]
    found: dict[int, BoolArray] = {}
    for place, region in zip(there.tolist(), regions, strict=True):
        if place < 0:
            continue
        name = quote(tasks[place].as_py())
        if region.shape != (height[place], width[place]):
            raise InputError(
                f"The truth of task {name} has {region.shape[1]} × {region.shape[0]} pixels, its answers "
                f"{width[place]} × {height[place]}. Bring them to one size."
            )
        if place in found and (found[place] != region).any():
            raise InputError(f"The truth contradicts itself about task {name}. Keep one mask for each task.")
        found[place] = region
    return found
