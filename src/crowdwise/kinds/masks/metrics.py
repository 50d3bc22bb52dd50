"""How near masks are to each other, and a consensus to a truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.masks.truth import align_true_masks

if TYPE_CHECKING:
    from crowdwise.kinds.masks.model import MaskModel
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["dice_coefficient", "expected_dice", "intersection_over_union", "score_masks", "soft_dice"]


def dice_coefficient(first: BoolArray, second: BoolArray) -> float:
    """Twice the pixels of both over the sum of the pixels of each; 1 where both are empty.

    >>> dice_coefficient(np.array([True, True]), np.array([True, False]))
    0.6666666666666666
    """
    both, total = int((first & second).sum()), int(first.sum()) + int(second.sum())
    return 2 * both / total if total else 1.0


def intersection_over_union(first: BoolArray, second: BoolArray) -> float:
    """Pixels of both over pixels of either; 1 where both are empty.

    >>> intersection_over_union(np.array([True, True]), np.array([True, False]))
    0.5
    """
    either = int((first | second).sum())
    return int((first & second).sum()) / either if either else 1.0


def soft_dice(both: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """The same from sums of pixels, which may be expected ones; 1 where both are less than half a pixel."""
    total = first + second
    found: FloatArray = np.where(total < 0.5, 1.0, 2 * both / np.maximum(total, 0.5))
    return np.clip(found, 0.0, 1.0)


def expected_dice(soft: FloatArray) -> float:
    """Expected Dice coefficient of the pixels above ½ with the truth, the expectations of its parts taken one by one.

    Where no pixel is above ½, the probability that the truth is empty too.
    """
    inside = soft > 0.5
    if not inside.any():
        return float(np.exp(np.log1p(-soft).sum()))
    chosen = float(soft[inside].sum())
    return min(2 * chosen / (float(inside.sum()) + float(soft.sum())), 1.0)


def score_masks(model: MaskModel, truth: Any) -> dict[str, float]:
    """Dice coefficient, intersection over union and share of right pixels of a consensus, means over tasks.

    Parameters
    ----------
    truth
        A mapping from task to an array (height, width), or a path or table with a column for the task and one for
        the mask: paths of images, polygons or run lengths.
    """
    known = align_true_masks(truth, model._names["tasks"], model.height_, model.width_)
    rows = []
    for task, true in known.items():
        soft = model._soft(task)
        found = soft > 0.5
        rows.append(
            (dice_coefficient(found, true), intersection_over_union(found, true), float((found == true).mean()),
             float(((soft - true) ** 2).mean()))
        )  # fmt: skip
    dice, overlap, right, brier = np.mean(rows, axis=0).tolist()
    return {"n_truths": len(rows), "dice": dice, "iou": overlap, "pixel_accuracy": right, "brier": brier}
