"""The passes in plain NumPy: the specification that the fast kernels must meet, kept for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["drawn_scores"]


def drawn_scores(
    labels: CrowdLabels,
    truth: IntArray,
    uniform: FloatArray,
    cumulative: FloatArray,
    log_prior: FloatArray,
    log_table: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Scores of each task's best class (N,) and of its truth (N,), for labels that the numbers `uniform` draw.

    A class may have several states: its score is the highest of theirs.
    """
    label = (cumulative[labels.worker, truth[labels.task], :-1] <= uniform[:, None]).sum(axis=1)
    scores = np.tile(log_prior, (labels.n_tasks, 1))
    np.add.at(scores, labels.task, log_table[labels.worker, label])
    by_class = scores.reshape(labels.n_tasks, -1, labels.n_classes).max(axis=1)
    return by_class.max(axis=1), by_class[np.arange(labels.n_tasks), truth % labels.n_classes]
