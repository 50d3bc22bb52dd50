"""Arrays of a state that grows, with room for more than there is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdwise.kernels.online_em import OnlineArrays

__all__ = ["Sizes", "make_arrays"]

EMPTY = {"gold": -1, "last_edge": -1, "edge_before": -1}


class Sizes(NamedTuple):
    """Room for tasks, workers and labels."""

    tasks: int
    workers: int
    labels: int


def make_arrays(room: Sizes, n_classes: int) -> OnlineArrays:
    """Arrays of a state in which nothing is known yet."""
    shapes: dict[str, tuple[int, ...]] = {
        "score": (room.tasks, n_classes),
        "posterior": (room.tasks, n_classes),
        "gold": (room.tasks,),
        "last_edge": (room.tasks,),
        "n_labels": (room.tasks,),
        "counts": (room.workers, n_classes, n_classes),
        "log_table": (room.workers, n_classes, n_classes),
        "weight": (room.workers,),
        "n_answers": (room.workers,),
        "edge_task": (room.labels,),
        "edge_worker": (room.labels,),
        "edge_label": (room.labels,),
        "edge_before": (room.labels,),
        "class_counts": (n_classes,),
        "log_prior": (n_classes,),
    }
    whole = {"gold", "last_edge", "n_labels", "n_answers", "edge_task", "edge_worker", "edge_label", "edge_before"}
    arrays: dict[str, Any] = {
        name: np.full(shape, EMPTY.get(name, 0), np.int64 if name in whole else np.float64)
        for name, shape in shapes.items()
    }
    return OnlineArrays(**arrays)
