"""The arrays of a part in the bytes of its file, and whether compiled loops may follow every index in them.

A checksum tells of accidents, not of who reckons it anew; so what a stranger may have written is checked before use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kernels.block_layout import Blocks

if TYPE_CHECKING:
    from crowdwise.engines.label_store import Part

__all__ = ["are_sound", "view_blocks"]

KINDS: dict[str, tuple[type, ...]] = {
    "row": (np.int32, np.int64),
    "label": (np.int8, np.int16, np.int32),
    "slot": (np.uint16,),
    "ptr": (np.int64,),
    "lanes": (np.int64,),
}


def view_blocks(data: Any, part: Part) -> Blocks:
    """The arrays of a part in its bytes; TypeError or ValueError where they are not all there, and of their kinds."""
    if part.arrays.keys() != KINDS.keys():
        raise ValueError("other arrays")
    views: dict[str, Any] = {}
    for name, (kind, length, offset) in part.arrays.items():
        if np.dtype(kind) not in KINDS[name] or offset < 0:
            raise ValueError(name)
        views[name] = np.asarray(data[offset : offset + length * np.dtype(kind).itemsize]).view(kind)
        if views[name].size != length or not views[name].flags.aligned:
            raise ValueError(name)
    return Blocks(**{**views, **part.numbers})


def are_sound(blocks: Blocks, part: Part, n_workers: int, n_classes: int) -> bool:
    """Whether sizes, ends of blocks and lanes, and every index are such as `lay_out_blocks` makes."""
    sizes = blocks.n_tasks, blocks.n_workers, blocks.n_classes
    whole = all(isinstance(size, int) and size > 0 for size in (*sizes, blocks.size))
    if not whole or sizes != (part.n_tasks, n_workers, n_classes):
        return False
    n_blocks, ptr, lanes = -(-blocks.n_tasks // blocks.size), blocks.ptr, blocks.lanes
    if ptr.size != n_blocks + 1 or ptr[0] != 0 or ptr[-1] != part.n_labels or (np.diff(ptr) < 0).any():
        return False
    if lanes.size < 2 or lanes[0] != 0 or lanes[-1] != n_blocks or (np.diff(lanes) < 0).any():
        return False
    row, label, slot = blocks.row, blocks.label, blocks.slot
    if not row.size == label.size == slot.size == part.n_labels:
        return False
    if part.n_labels == 0:
        return True
    last = slot[ptr[-2] :].max(initial=0)
    return bool(
        label.min() >= 0
        and label.max() < n_classes
        and row.min() >= 0
        and row.max() < n_workers * n_classes
        and not ((row - label) % n_classes).any()
        and slot.max() < blocks.size
        and last < blocks.n_tasks - (n_blocks - 1) * blocks.size
    )
