"""How well labels drawn anew fit each class: scores of tasks, without the labels ever being written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.grouped_sums import sum_groups
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["AnswerModel", "simulate_scores"]


class AnswerModel(NamedTuple):
    """How labels are drawn, and how they are scored; a task is in one of R states.

    Attributes
    ----------
    cumulative : (M, R, K) [worker, state, label]
        Chance of each label or one before it.
    log_prior : (R,)
        Score of each state without labels.
    log_table : (M, K, R) [worker, label, state]
        What a label adds to it. C-ordered, as `cumulative` is.
    """

    cumulative: FloatArray
    log_prior: FloatArray
    log_table: FloatArray


def simulate_scores(
    labels: CrowdLabels, tasks: slice, truth: IntArray, uniform: FloatArray, model: AnswerModel
) -> tuple[FloatArray, FloatArray]:
    """Labels of n tasks drawn anew B times: the score of each task's best class, and of its truth, both (B, n).

    A task is in one of R states, a multiple of the number K of classes; the class of state r is r modulo K. The score
    of a state is log_prior[r] + Σ_e log_table[worker_e, label_e, r], and that of a class the highest of its states.
    Several draws at a time, so that the rows of a task's workers are fetched once for all.

    Parameters
    ----------
    truth : (B, n)
        States from which labels are drawn.
    uniform : (B, S)
        Numbers from 0 to 1, one for each label of these tasks.
    """
    ptr = labels.task_ptr[tasks.start : tasks.stop + 1] - labels.task_ptr[tasks.start]
    worker = labels.worker[labels.task_ptr[tasks.start] : labels.task_ptr[tasks.stop]]
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _simulate_scores(ptr, worker, truth, uniform, model)
    from crowdwise.kernels.compiled import simulated_scores

    found: tuple[FloatArray, FloatArray] = simulated_scores.simulate_scores(ptr, worker, truth, uniform, model)
    return found


def _simulate_scores(
    ptr: IntArray, worker: IntArray, truth: IntArray, uniform: FloatArray, model: AnswerModel
) -> tuple[FloatArray, FloatArray]:
    cumulative, log_prior, log_table = model
    n_states, n_classes = log_prior.size, cumulative.shape[2]
    task = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    chances, scores = cumulative.reshape(-1, n_classes).T.copy(), log_table.reshape(-1, n_states).T.copy()
    given = np.take(truth, task, axis=1) + worker.astype(np.int64) * n_states
    drawn = np.tile(worker.astype(np.int64) * n_classes, (len(truth), 1))
    for chance in chances[:-1]:
        drawn += np.take(chance, given) <= uniform
    # Draws along the rows, so that the labels of a task are summed row by row.
    drawn = np.ascontiguousarray(drawn.T)
    best, own = np.full((2, *truth.shape), -np.inf)
    for state in range(n_states):
        score = log_prior[state] + sum_groups(np.take(scores[state], drawn), ptr).T
        np.maximum(best, score, out=best)
        np.maximum(own, score, out=own, where=truth % n_classes == state % n_classes)
    return best, own
