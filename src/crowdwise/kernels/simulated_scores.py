"""How well labels drawn anew fit each class: scores of tasks, without the labels ever being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from crowdwise.kernels.compiled.prefetch import LINE, prefetch

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["drawn_scores"]


def drawn_scores(
    labels: CrowdLabels,
    tasks: slice,
    truth: IntArray,
    uniform: FloatArray,
    cumulative: FloatArray,
    log_prior: FloatArray,
    log_table: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Labels of n tasks drawn anew B times: the score of each task's best class, and of its truth, both (B, n).

    The score of class k is log_prior[k] + Σ_e log_table[worker_e, label_e, k]. Several draws at a time, so that the
    rows of a task's workers are fetched once for all.

    Parameters
    ----------
    truth : (B, n)
        From which labels are drawn.
    uniform : (B, S)
        Numbers from 0 to 1, one for each label of these tasks.
    cumulative : (M, K, K) [worker, truth, label]
        Chance of each label or one before it.
    log_table : (M, K, K) [worker, label, truth]
        C-ordered, both.
    """
    best, own = np.empty((2, *truth.shape))
    ptr = labels.task_ptr[tasks.start : tasks.stop + 1]
    worker = labels.worker[ptr[0] : ptr[-1]]
    _draw(ptr - ptr[0], worker, truth, uniform, cumulative, log_prior, log_table, best, own)
    return best, own


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(
    task_ptr: IntArray,
    worker: IntArray,
    truth: IntArray,
    uniform: FloatArray,
    cumulative: FloatArray,
    log_prior: FloatArray,
    log_table: FloatArray,
    best: FloatArray,
    own: FloatArray,
) -> None:
    total, last = np.empty(log_prior.size), log_prior.size - 1
    # All matrices of a worker in one row, to be asked for while the task before is drawn.
    tables = cumulative.reshape(cumulative.shape[0], -1), log_table.reshape(log_table.shape[0], -1)
    for task in range(best.shape[1]):
        for draw in range(best.shape[0]):
            right = truth[draw, task]
            if task + 1 < best.shape[1] and draw * LINE < tables[0].shape[1]:
                for edge in range(task_ptr[task + 1], task_ptr[task + 2]):
                    prefetch(tables[0], worker[edge], draw * LINE)  # type: ignore[call-arg]
                    prefetch(tables[1], worker[edge], draw * LINE)
            total[:] = 0.0
            for edge in range(task_ptr[task], task_ptr[task + 1]):
                chance, number = cumulative[worker[edge], right], uniform[draw, edge]
                label = 0
                for j in range(last):  # all of them: a branch would be hard to foretell
                    label += chance[j] <= number
                row = log_table[worker[edge], label]
                for k in range(total.size):
                    total[k] += row[k]
            highest = -np.inf
            for k in range(total.size):
                highest = max(highest, log_prior[k] + total[k])
            best[draw, task], own[draw, task] = highest, log_prior[right] + total[right]
