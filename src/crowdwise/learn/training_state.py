"""How to train, what on, and where training stands: the data that the loop and its checkpoints share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from crowdwise.learn.batches import Crowd, TrainingData
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import TrainingObjective

__all__ = ["TrainingJob", "TrainingPlan", "TrainingState", "ValidationSet"]

STEPS_BY_DEFAULT = 4000
FEWEST_EPOCHS, MOST_EPOCHS = 10, 200
WARM_UP = 0.3  # of the epochs in which "one-cycle" raises the rate, as in torch's OneCycleLR
PLATEAU = 10  # epochs without improvement after which "plateau" divides the rate by ten (Wang et al. 2023)


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
    augment: str | None = None
    checkpoint: Path | None = None
    name: str = ""
    own: dict[str, str] = field(default_factory=dict)  # what else a checkpoint must agree with

    def n_epochs(self, n_tasks: int) -> int:
        """Epochs asked for, or as many as make about `STEPS_BY_DEFAULT` steps."""
        if self.epochs is not None:
            return self.epochs
        steps = -(-n_tasks // self.batch_size)
        return min(max(STEPS_BY_DEFAULT // steps, FEWEST_EPOCHS), MOST_EPOCHS)

    def rate_at(self, epoch: int, n_epochs: int, scores: list[float] | None = None) -> float:
        """Share of the first learning rate used in an epoch; "step" divides by ten each quarter (Tanno et al. 2019).

        Parameters
        ----------
        scores
            Of the epochs before, the higher the better, which "plateau" goes by.
        """
        if self.schedule == "one-cycle":
            done = (epoch + 0.5) / n_epochs
            falling = (done - WARM_UP) / (1 - WARM_UP)
            return done / WARM_UP if falling < 0 else 0.5 * (1 + math.cos(math.pi * falling))
        if self.schedule == "plateau":
            return float(0.1 ** count_plateaus(scores or []))
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * epoch / n_epochs))
        if self.schedule == "step":
            return float(0.1 ** (4 * epoch // n_epochs))
        if self.schedule == "drop":
            return 0.1 if 4 * epoch >= 3 * n_epochs else 1.0
        return 1.0


def count_plateaus(scores: list[float]) -> int:
    """How often `PLATEAU` epochs in a row were no better than the best before them."""
    count, waited, best = 0, 0, -math.inf
    for score in scores:
        waited = 0 if score > best else waited + 1
        best = max(best, score)
        if waited == PLATEAU:
            count, waited = count + 1, 0
    return count


class ValidationSet(NamedTuple):
    """Tasks with their true classes, which choose the epoch, and what the crowd says of them, where it is asked."""

    features: Features
    truth: Tensor
    crowd: Crowd | None = None


@dataclass
class TrainingJob:
    """What to train on: the classifier and the objective, features, labels, and what to choose the epoch by."""

    classifier: Classifier
    objective: TrainingObjective
    features: Features
    crowd: TrainingData
    tasks: Tensor  # positions of the training tasks; of the answers, where an epoch goes through answers
    held_crowd: TrainingData | None = None  # labels of tasks held out, or answers
    held_tasks: Tensor | None = None
    valid: ValidationSet | None = None


@dataclass
class TrainingState:
    """Where training stands at the end of an epoch."""

    epoch: int = 0
    best_epoch: int = -1
    best_score: float = -float("inf")
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
