"""When a task needs no further label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdwise.fitting.online_model import OnlineModel
    from crowdwise.labels.types import BoolArray

__all__ = ["StopRule"]


@dataclass
class StopRule:
    """Stops tasks whose consensus is right often enough, once gold and checks of stopped tasks show that it is.

    Parameters
    ----------
    target
        Least share of stopped tasks that are right.
    delta
        Chance that the share is lower.
    cap
        Most labels of a task, whatever is promised; None for no such limit.
    """

    target: float = 0.95
    delta: float = 0.1
    cap: int | None = None
    threshold: float = np.inf

    def calibrate(self, model: OnlineModel) -> StopRule:
        """Learn from the gold of the model, and from checks, from which confidence on tasks may be stopped."""
        del model
        return self

    @property
    def can_promise(self) -> bool:
        """Whether the rule stops tasks for their confidence at all."""
        return bool(np.isfinite(self.threshold))

    def promise(self) -> str:
        """What the rule promises, or why it cannot, as a sentence."""
        return ""

    def should_stop(self, model: OnlineModel, task: Any) -> bool:
        """Whether this task needs no further label."""
        return bool(self.stopped(model)[model.tasks.find(task)])

    def stopped(self, model: OnlineModel) -> BoolArray:
        """Which tasks (N,) need no further label."""
        done: BoolArray = model.posteriors.max(axis=1) >= self.threshold
        if self.cap is not None:
            done |= model.labels_per_task >= self.cap
        return done
