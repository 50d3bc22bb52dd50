"""The error of a model that is not fitted; apart, because scikit-learn is imported for it."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from crowdwise.labels.errors import InputError

__all__ = ["ModelNotFittedError"]


class ModelNotFittedError(InputError, NotFittedError):
    """A model was asked for results before `fit`."""
