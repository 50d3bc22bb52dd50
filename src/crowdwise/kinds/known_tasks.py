"""Known answers of tasks, of any kind: which tasks of a model they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.types import IntArray

__all__ = ["place_known_tasks"]


def place_known_tasks(names: pa.Array, tasks: pa.Array) -> IntArray:
    """Positions (n,) of the names of a truth among the tasks, -1 for others; refused where all are others."""
    there = positions(names, tasks)
    if (there < 0).all():
        raise InputError(
            f"The truth is about other tasks ({listing(names.to_pylist()[:5])}, …) than the answers "
            f"({listing(tasks.slice(0, 5).to_pylist())}, …): no name matches. Use the same task names in both."
        )
    return there
