"""Labels drawn anew and their scores; see `kernels.simulated_scores`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.prefetch import LINE, prefetch
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.simulated_scores import AnswerModel
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["simulate_scores"]


@njit(cache=True, nogil=True, error_model="numpy")
def simulate_scores(
    task_ptr: IntArray, worker: IntArray, truth: IntArray, uniform: FloatArray, model: AnswerModel
) -> tuple[FloatArray, FloatArray]:
    """Draw labels; the scores of the best class and of the true one."""
    cumulative, log_prior, log_table = model
    n_draws, n_tasks = truth.shape
    best, own = np.empty((n_draws, n_tasks)), np.empty((n_draws, n_tasks))
    total, last = np.empty(log_prior.size), cumulative.shape[2] - 1
    # All matrices of a worker in one row, to be asked for while the task before is drawn.
    tables = cumulative.reshape(cumulative.shape[0], -1), log_table.reshape(log_table.shape[0], -1)
    for task in range(n_tasks):
        for draw in range(n_draws):
            right = truth[draw, task]
            if task + 1 < n_tasks and draw * LINE < tables[0].shape[1]:
                for edge in range(task_ptr[task + 1], task_ptr[task + 2]):
                    prefetch(tables[0], worker[edge], draw * LINE)  # type: ignore[call-arg]
                    prefetch(tables[1], worker[edge], draw * LINE)
            total[:] = 0.0
            for edge in range(task_ptr[task], task_ptr[task + 1]):
                chance, number = cumulative[worker[edge], right], uniform[draw, edge]
                label = 0
                for j in range(last):  # all of them: a branch would be hard to predict
                    label += chance[j] <= number
                row = log_table[worker[edge], label]
                for k in range(total.size):
                    total[k] += row[k]
            highest = -np.inf
            for k in range(total.size):
                highest = max(highest, log_prior[k] + total[k])
            best[draw, task], own[draw, task] = highest, -np.inf
            for k in range(right % (last + 1), total.size, last + 1):
                own[draw, task] = max(own[draw, task], log_prior[k] + total[k])
    return best, own
