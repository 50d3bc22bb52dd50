"""The masks that the soft ones come to, as tools take them: run lengths, and the box around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.masks.run_lengths import count_runs, encode_run_lengths

if TYPE_CHECKING:
    from crowdwise.kinds.masks.model import MaskModel

__all__ = ["add_regions"]

INSIDE = 0.5  # probability above which a pixel is inside


def add_regions(model: MaskModel, consensus: pa.Table) -> pa.Table:
    """The table of `consensus()` with a mask for each task.

    `rle` has its run lengths, `pixels` those inside, `bounds` are x_min, y_min, x_max and y_max, and `row_runs` counts
    along the rows between them.
    """
    rows: dict[str, list[Any]] = {"rle": [], "pixels": [], "bounds": [], "row_runs": []}
    for _, soft in model.soft_masks():
        mask = soft > INSIDE
        y, x = np.nonzero(mask)
        rows["rle"].append(encode_run_lengths(mask))
        rows["pixels"].append(int(mask.sum()))
        bounds = [int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1] if x.size else [0, 0, 0, 0]
        left, top, right, bottom = bounds
        rows["bounds"].append(bounds if x.size else None)
        rows["row_runs"].append(count_runs(mask[top:bottom, left:right].ravel()) if x.size else None)
    for name, values in rows.items():
        consensus = consensus.append_column(name, pa.array(values))
    return consensus
