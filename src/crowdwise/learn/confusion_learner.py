"""Learners whose matrices are found by small steps, together with the classifier: both their own and refined ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import ROUNDING, SavedArray
from crowdwise.learn.base import REFINED, Learner
from crowdwise.learn.worker_models import fit_confusions_to_classifier

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Crowd

__all__ = ["ConfusionLearner"]

WORDS = """Matrices (M, K, K) [worker, truth, label] after ten steps of EM with the classifier held fixed."""


@estimator
class ConfusionLearner(Learner):
    """Base of learners that find a matrix of each worker by small steps.

    The epoch is chosen for the classifier's sake, often before the matrices have come far from their start. Skills,
    `posterior_` and predictions from features and labels therefore use matrices that go with that classifier.

    Attributes
    ----------
    confusion_ : (M, K, K) [worker, truth, label]
        The method's own, as it learnt them by the chosen epoch.
    refined_confusion_ : (M, K, K) [worker, truth, label]
        Ten steps of EM from the chosen classifier, which is held fixed: what `skill_`, `posterior_` and predictions
        with labels use. They are nearer to the truth than the method's own unless the classifier is poor.
    """

    refined_confusion_ = FittedArray(
        SavedArray(f"extra/{REFINED}", "M K K", low=0, high=1 + ROUNDING, sums_to_one=True), WORDS
    )

    @property
    def _confusion_for_labels(self) -> FloatArray:
        return self.refined_confusion_

    def _refine_confusion(self, crowd: Crowd, log_f: Tensor) -> Tensor:
        return fit_confusions_to_classifier(crowd, log_f)
