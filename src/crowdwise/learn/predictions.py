"""What a trained network says of many tasks, without dropout or gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import TrainingObjective

__all__ = ["FORWARD", "predict_log_probabilities"]

FORWARD = 1024  # tasks at a time where no gradient is needed


def predict_log_probabilities(
    classifier: Classifier, objective: TrainingObjective, features: Features, order: Tensor
) -> Tensor:
    """The classifier's log-probabilities of the tasks `order` (n, K), without dropout or gradient.

    Of networks for other kinds of answers, whatever the objective takes for its output.
    """
    was_training = classifier.training
    classifier.eval()
    with torch.no_grad():
        parts = [objective.output(classifier.logits_and_representation(x)) for x in features.batches(order, FORWARD)]
    classifier.train(was_training)
    return torch.cat(parts)
