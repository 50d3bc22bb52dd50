"""What a trained learner shows against its own result, in sentences that the command and Python share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.learn.base import Learner
    from crowdwise.learn.trained_model import TrainedModel

__all__ = ["diagnose_fit", "diagnose_history"]

OVERSTATED = 0.1  # share of labels by which skills and classifier may differ before it is said


def diagnose_fit(model: Learner, X: Any, answers: CrowdLabels, *, as_options: bool = False) -> list[str]:
    """What speaks against the result of a fit: its history, and skills that promise more than the classifier finds.

    Parameters
    ----------
    X
        The features that the model was fitted to.
    answers
        The labels that it was fitted to, their tasks in the order of the rows of `X`.
    as_options
        Whether parameters are named as options of the command.
    """
    return [*diagnose_history(model, as_options=as_options), *_diagnose_skills(model, X, answers, as_options)]


def diagnose_history(model: TrainedModel, *, as_options: bool = False) -> list[str]:
    """What the history of training says against the result."""
    if not all(math.isfinite(loss) for loss in np.asarray(model.history_["loss"]).tolist()):
        rate = "--learning-rate" if as_options else "learning_rate"
        return [f"The loss ended in no number. Give a smaller {rate}."]
    measured = {"held_out", "accuracy"} & set(_column_names(model.history_))
    if model.best_epoch_ == model.n_epochs_ and measured and model.keep_epoch == "best":
        more = "with --epochs" if as_options else "(epochs)"
        return [f"The last of {model.n_epochs_:,} epochs was the best. Give more {more}."]
    return []


def _column_names(history: Any) -> list[str]:
    """Of the table that the labels came as: pyarrow's, or a data frame."""
    return list(getattr(history, "column_names", None) or history.columns)


def _diagnose_skills(model: Learner, X: Any, answers: CrowdLabels, as_options: bool) -> list[str]:
    """Whether the skills promise more right labels than the classifier finds.

    Matrices that few steps have moved still look like their start, near the identity.
    """
    guess = model.predict_proba(X).argmax(axis=1)
    agrees = float((guess[answers.task] == answers.label).mean())
    promised = float(np.average(model.skill_, weights=answers.labels_per_worker))
    if promised - agrees < OVERSTATED:
        return []
    other = "--method em" if as_options else "the learner em"
    sentence = (
        f"By the workers' skills {promised:.0%} of the labels are right, but the classifier agrees with {agrees:.0%}. "
        f"Either it is often wrong or the skills, and with them the confidence, are too high. Compare {other}."
    )
    return [sentence]
