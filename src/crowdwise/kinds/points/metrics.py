"""How near a consensus of points is to a truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.boxes.metrics import score_objects
from crowdwise.kinds.points.geometry import distances

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.model import ObjectModel
    from crowdwise.labels.types import FloatArray

__all__ = ["score_points"]

SHARE_OF_FRAME = 0.02


def score_points(model: ObjectModel, truth: Any, distance: float | None = None) -> dict[str, float]:
    """Precision, recall and F1, means over tasks of known truth, and the mean distance of matched points.

    A point is right if it is matched with a true one at most `distance` away: by default two hundredths of the frame
    (the largest extent of all answers).

    Parameters
    ----------
    truth
        A path or table with the columns task, x and y, or a mapping from task to its points. A task without objects has
        a row without coordinates.
    """
    if distance is not None:
        check_number("distance", distance, low=0, above=True)
    reach = SHARE_OF_FRAME * float(model.frame_[2]) if distance is None else float(distance)

    def nearness(first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray(-distances(first, second))

    found = score_objects(model, truth, nearness, -reach)
    found["mean_distance"] = -found.pop("mean_nearness")
    return found
