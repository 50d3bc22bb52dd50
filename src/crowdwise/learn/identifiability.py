"""When the labels cannot tell the classifier from the workers: warnings, in plain words, with the consequence."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import listing
from crowdwise.metrics.identifiability_conditions import (
    class_separation,
    crowd_confusion,
    find_non_dominant,
    find_unanchored,
)

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["NotIdentifiable", "warn_if_not_identifiable"]

FLAT = 0.01  # contrast (a squared correlation) under which the classifier hardly tells some classes apart


class NotIdentifiable(UserWarning):
    """The labels may not tell the classifier from the workers."""


def warn_if_not_identifiable(model: Any, answers: CrowdLabels, f: FloatArray) -> None:
    """Warn of what the workers' matrices and the classifier's outputs on the training tasks say against believing them.

    Classes that nobody named are left out: nothing is claimed of them.
    """
    used = np.flatnonzero(answers.class_shares)
    names = [answers.classes[int(k)].as_py() for k in used]
    confusion = model._confusion_for_labels[:, used][:, :, used]
    # Matrices that few steps have moved still look like their start; what the classifier's outputs count does not.
    counts = [np.bincount(answers.label, f[answers.task, k], answers.n_classes)[used] for k in used]
    counted = np.array(counts) / np.maximum(np.sum(counts, axis=1, keepdims=True), 1e-12)
    weak = sorted(
        {*find_non_dominant(crowd_confusion(confusion, model.labels_per_worker_)), *find_non_dominant(counted)}
    )
    reasons: list[str] = []
    if weak:
        reasons.append(
            f"the crowd as a whole says {listing([names[k] for k in weak])} no more often when it is true than when "
            "something else is (its mean confusion matrix is not diagonally dominant), so classes may have been swapped"
        )
    if class_separation(f[:, used]) < FLAT:
        reasons.append("what the classifier says hardly tells some classes apart")
    pairs = answers.worker.astype(np.int64) * answers.n_classes + answers.label
    said = np.bincount(pairs, minlength=answers.n_workers * answers.n_classes).reshape(-1, answers.n_classes)
    alone = find_unanchored(f[:, used], confusion, said[:, used])
    if alone:
        reasons.append(
            f"there is neither a task that is surely {listing([names[k] for k in alone])} nor a worker who is an "
            "expert of it"
        )
    if reasons:
        warnings.warn(
            f"{model.slug}: the classifier and the workers may not be told apart: {'; '.join(reasons)}. Check some "
            "tasks by hand before trusting the result.",
            NotIdentifiable,
            stacklevel=5,
        )
