"""A worker in a model's place, scored by their agreement with the others: the last part of Wang et al.'s table 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import IntArray

__all__ = ["OneWorker"]


@dataclass(frozen=True)
class OneWorker:
    """The worker at a position among those of the labels."""

    worker: int

    def split_labels(self, labels: CrowdLabels) -> tuple[IntArray, CrowdLabels]:
        """What they say of each task, -1 where nothing, and the labels of all others."""
        if not 0 <= self.worker < labels.n_workers:
            raise InputError(f"worker is {self.worker}; the labels are those of {labels.n_workers} workers.")
        own = labels.worker == self.worker
        said = np.full(labels.n_tasks, -1)
        said[labels.task[own]] = labels.label[own]
        return said, labels.keep(~own)
