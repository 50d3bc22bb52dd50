"""How near a consensus of boxes or points is to a truth: matched one to one, task by task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from crowdwise.kinds.boxes.geometry import intersection_over_union
from crowdwise.kinds.boxes.truth import align_true_marks

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.boxes.model import ObjectModel
    from crowdwise.labels.types import FloatArray

__all__ = ["match_marks", "score_boxes", "score_objects"]


def score_boxes(model: ObjectModel, truth: Any, overlap: float = 0.5) -> dict[str, float]:
    """Precision, recall and F1, means over tasks of known truth, and the mean IoU of matched boxes.

    A box is right if it is matched with a true one of which the intersection over union is at least `overlap`. The
    matching is the one with most right boxes. Labels are not compared, but their accuracy among matched boxes is given
    where the truth has labels.

    Parameters
    ----------
    truth
        A path or table with the columns task, x_min, y_min, x_max and y_max, or a mapping from task to its boxes. A
        task without objects has a row without coordinates.
    """
    found = score_objects(model, truth, intersection_over_union, overlap)
    found["mean_iou"] = found.pop("mean_nearness")
    return found


def score_objects(
    model: ObjectModel, truth: Any, nearness: Callable[[FloatArray, FloatArray], FloatArray], least: float
) -> dict[str, float]:
    """Precision, recall and F1 of objects that are at least so near to true ones."""
    true = align_true_marks(truth, model._names["tasks"], model._names["classes"], model.marks)
    kept = model._kept(model.confidence_)
    scores, near, right = [], [], []
    for task in np.flatnonzero(true.known):
        rows = np.flatnonzero(kept & (model.object_task_ == task))
        truths = np.flatnonzero(true.task == task)
        values = nearness(model.place_[rows], true.place[truths])
        one, other = match_marks(values, least)
        near.append(values[one, other])
        label = true.label[truths[other]]
        right.append(model.object_label_[rows[one]].argmax(axis=1)[label >= 0] == label[label >= 0])
        scores.append(precision_recall(one.size, rows.size, truths.size))
    means = np.mean(scores, axis=0)
    matched, labels = np.concatenate(near), np.concatenate(right)
    found = {
        "n_truths": int(true.known.sum()),
        "precision": float(means[0]),
        "recall": float(means[1]),
        "f1": float(means[2]),
        "mean_nearness": float(matched.mean()) if matched.size else 0.0,
    }
    return found | (
        {"label_accuracy": float(labels.mean())} if labels.size and len(model._names["classes"]) > 1 else {}
    )


def precision_recall(n_right: int, n_found: int, n_true: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of a task; all 1 where nothing is there and nothing was found."""
    if not n_found and not n_true:
        return 1.0, 1.0, 1.0
    return n_right / n_found if n_found else 0.0, n_right / n_true if n_true else 0.0, 2 * n_right / (n_found + n_true)


def match_marks(nearness: FloatArray, least: float) -> tuple[Any, Any]:
    """Rows and columns of the matching with the most pairs at least so near, of these the nearest in all."""
    enough = nearness >= least
    span = float(np.abs(nearness).max(initial=0.0)) * (min(nearness.shape, default=0) + 1) + 1.0
    one, other = linear_sum_assignment(np.where(enough, nearness + span, 0.0), maximize=True)
    good = enough[one, other]
    return one[good], other[good]
