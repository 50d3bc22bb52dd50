"""How probable an answer is to a model that has not seen it.

The marks of an answer are a Poisson process: its intensity at x is the sum, over the things that others marked on the
task, of the probability that this worker draws them times the density of their mark there, and of what nobody marked
yet, which may lie anywhere. log P = Σ log intensity(mark) - expected number of marks. (A worker may so mark a thing
twice, which the model of the fit rules out: a matching would have to be summed over all ways to match.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from crowdwise.kinds.boxes.object_likelihood import FACTOR, LEVELS, LOG_SHARES, Crowd, log_sum_exp, visibility_shares

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.geometry import Geometry
    from crowdwise.kinds.boxes.object_em import Things
    from crowdwise.kinds.marks import Marks
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["log_density_of_answers"]


def log_density_of_answers(
    answers: Marks, task: IntArray, worker: IntArray, things: Things, crowd: Crowd, geometry: Geometry
) -> FloatArray:
    """Log-density of each answer (A,), whose marks are in units; `task` is -1 where the model does not know it."""
    drawn = expit(crowd.draw[:, None] + LEVELS)
    false = expit(crowd.false_draw)
    order = np.argsort(things.task, kind="stable")
    ends = np.searchsorted(things.task[order], np.arange(len(things.unseen) + 1))
    anywhere = geometry.log_density(answers.place)
    n_classes, accuracy = crowd.label_share.size, crowd.label_accuracy
    found = np.empty(answers.n_answers)
    for each in range(answers.n_answers):
        marks = slice(int(answers.mark_ptr[each]), int(answers.mark_ptr[each + 1]))
        who, where = int(worker[each]), int(task[each])
        if where < 0:
            rows = order[:0]
            expected = crowd.objects * (drawn[who] @ visibility_shares(crowd.spread)) + crowd.distractors * false[who]
        else:
            rows = order[ends[where] : ends[where + 1]]
            expected = drawn[who] @ things.unseen[where] + false[who] * things.unseen_distractors[where]
        sure = things.confidence[rows]
        chance = sure * (things.levels[rows] @ drawn[who]) + (1 - sure) * false[who]
        near = _log_mark_density(answers.place[marks], things, rows, float(crowd.precision[who]))
        label = answers.label[marks]
        if n_classes > 1:
            right = things.label[rows][:, label].T
            near = near + np.log(right * accuracy + (1 - right) * (1 - accuracy) / (n_classes - 1))
        far = np.log(max(expected, 1e-300)) + anywhere[marks] + np.log(crowd.label_share)[label]
        parts = np.concatenate([near + np.log(np.maximum(chance, 1e-300)), far[:, None]], axis=1)
        found[each] = log_sum_exp(parts).sum() - expected - chance.sum()
        found[each] -= parts.shape[0] * answers.place.shape[1] * np.log(geometry.unit)
    return found


def _log_mark_density(place: FloatArray, things: Things, rows: IntArray, precision: float) -> FloatArray:
    """Log-density of each mark (n, R) if it is of each of these things."""
    error = place[:, None] - things.place[rows]
    ways = []
    for state in (0, 1):
        levels = []
        for level in (0, 1):
            variance = things.size[rows] ** 2 / (precision * FACTOR ** (state + level)) + things.variance[rows]
            levels.append(LOG_SHARES[level] - 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance))
        ways.append(LOG_SHARES[state] + np.logaddexp(*levels).sum(axis=-1))
    found: FloatArray = np.logaddexp(*ways)
    return found
