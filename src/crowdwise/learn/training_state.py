"""How to train, what on, and where training stands: the data that the loop and its checkpoints share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from crowdwise.learn.batches import Crowd
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["TrainingJob", "TrainingPlan", "TrainingState"]

STEPS_BY_DEFAULT = 4000
FEWEST_EPOCHS, MOST_EPOCHS = 10, 200


@dataclass(frozen=True)
class TrainingPlan:
    """How to train: the parameters that all learners share."""

    epochs: int | None
    batch_size: int
    learning_rate: float
    worker_learning_rate: float
    weight_decay: float
    schedule: str
    clip: float | None
    precision: str
    device: str
    devices: int
    keep_epoch: str
    patience: int | None
    random_state: int
    checkpoint: Path | None = None
    name: str = ""
    own: dict[str, str] = field(default_factory=dict)  # what else a checkpoint must agree with

    def n_epochs(self, n_tasks: int) -> int:
        """Epochs asked for, or as many as make about `STEPS_BY_DEFAULT` steps."""
        if self.epochs is not None:
            return self.epochs
        steps = -(-n_tasks // self.batch_size)
        return min(max(STEPS_BY_DEFAULT // steps, FEWEST_EPOCHS), MOST_EPOCHS)

    def rate_at(self, epoch: int, n_epochs: int) -> float:
        """Share of the first learning rate used in an epoch; "step" divides by ten each quarter (Tanno et al. 2019)."""
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * epoch / n_epochs))
        if self.schedule == "step":
            return float(0.1 ** (4 * epoch // n_epochs))
        if self.schedule == "drop":
            return 0.1 if 4 * epoch >= 3 * n_epochs else 1.0
        return 1.0


@dataclass
class TrainingJob:
    """What to train on: the classifier and the objective, features, labels, and what to choose the epoch by."""

    classifier: Classifier
    objective: Objective
    features: Features
    crowd: Crowd
    tasks: Tensor  # positions of the training tasks
    held_crowd: Crowd | None = None  # labels of tasks held out
    held_tasks: Tensor | None = None
    valid: tuple[Features, Tensor] | None = None  # features and true classes


@dataclass
class TrainingState:
    """Where training stands at the end of an epoch."""

    epoch: int = 0
    best_epoch: int = -1
    best_score: float = -float("inf")
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
