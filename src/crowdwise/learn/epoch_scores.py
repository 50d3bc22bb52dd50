"""What the epochs of a classifier are compared by: labels held out, and a validation set."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from crowdwise.learn.losses import SMALLEST
from crowdwise.learn.predictions import predict_log_probabilities
from crowdwise.learn.worker_models import smooth_rows

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Crowd
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective
    from crowdwise.learn.training_state import TrainingJob

__all__ = ["score_labels"]


def score_labels(
    objective: Objective, classifier: Classifier, features: Features, job: TrainingJob, tally: Tensor | None
) -> dict[str, float]:
    """Mean log-probability of the labels held out, and accuracy on a validation set, where there are such."""
    scores: dict[str, float] = {}
    if job.held_crowd is not None and job.held_tasks is not None:
        crowd = cast("Crowd", job.held_crowd)
        log_f = predict_log_probabilities(classifier, objective, features, job.held_tasks)
        with torch.no_grad():
            own = objective.held_out(log_f, crowd)
            scores["held_out"] = (
                float(own)
                if own is not None
                else _held_out_log_probability(_matrices_of_epoch(objective, tally), log_f, crowd)
            )
    if job.valid is not None:
        valid, truth, crowd_of_valid = job.valid
        log_f = predict_log_probabilities(
            classifier, objective, valid, torch.arange(len(valid), device=objective.device)
        )
        scores["accuracy"] = float((log_f.argmax(dim=1) == truth).float().mean())
        if crowd_of_valid is not None:
            crowd, confusion = crowd_of_valid, _matrices_of_epoch(objective, tally)
            table = torch.cat([confusion, confusion.mean(dim=0, keepdim=True)]).to(log_f.dtype)
            with torch.no_grad():
                log_q = objective.log_posterior(log_f, crowd.task, crowd.worker, crowd.label, table)
            scores["forecast"] = float((log_q.argmax(dim=1) == truth).float().mean())
    return scores


def _matrices_of_epoch(objective: Objective, tally: Tensor | None) -> Tensor:
    """The workers' matrices (M, K, K), counted in training where the method has none."""
    confusion = objective.confusion()
    if confusion is None and tally is not None:
        confusion = smooth_rows(tally)
    assert confusion is not None  # noqa: S101 (the tally is kept where a method has no matrices)
    return confusion.detach()


def _held_out_log_probability(confusion: Tensor, log_f: Tensor, crowd: Crowd) -> float:
    """Mean log-probability of labels through the workers' matrices."""
    said = confusion.to(log_f.dtype)[crowd.worker, :, crowd.label]
    chance = (log_f.exp()[crowd.task] * said).sum(dim=1).clamp(min=SMALLEST)
    return float(chance.log().mean())
