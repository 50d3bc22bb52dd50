"""An error and a warning that are also scikit-learn's; apart, because importing scikit-learn takes a second."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning, NotFittedError

from crowdwise.fitting.em import StillImproving
from crowdwise.labels.errors import InputError

__all__ = ["ModelNotFittedError", "NotConverged"]


class ModelNotFittedError(InputError, NotFittedError):
    """A model was asked for results before `fit`."""


class NotConverged(StillImproving, ConvergenceWarning):  # type: ignore[misc,unused-ignore]
    """The fit stopped at `max_iter` while its objective was still rising."""
