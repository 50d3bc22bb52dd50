"""Labels drawn anew, many times, from a model of the crowd, and p-values by the largest statistic of each draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.block_layout import transpose_truth_and_label
from crowdwise.kernels.simulated_scores import AnswerModel, simulate_scores
from crowdwise.simulate.draws import cumulate_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "TOGETHER",
    "affordable_draws",
    "affordable_label_draws",
    "class_log_scores",
    "max_statistic_p_values",
    "simulate_scores_in_chunks",
]

TOGETHER = 50  # draws
MOST_AT_ONCE = 2**15  # labels that are drawn so many times together
DRAWS, FEWEST_DRAWS = 999, 199
MOST_DRAWN = 2 * 10**8  # labels drawn, or errors dealt, in all


def affordable_label_draws(labels: CrowdLabels) -> int:
    """How many draws of all labels can be paid for."""
    return affordable_draws(labels.n_labels * max(4, labels.n_classes // 4))


def affordable_draws(cost: int) -> int:
    """How many draws that cost so much each can be paid for."""
    return int(np.clip(MOST_DRAWN // cost, FEWEST_DRAWS, DRAWS))


def class_log_scores(labels: CrowdLabels, label: IntArray, log_prior: FloatArray, table: FloatArray) -> FloatArray:
    """Log of prior times likelihood of every class, or state (N, R)."""
    found = np.empty((labels.n_tasks, log_prior.size))
    for k in range(log_prior.size):
        found[:, k] = log_prior[k] + np.bincount(labels.task, table[labels.worker, k, label], labels.n_tasks)
    return found


def simulate_scores_in_chunks(
    labels: CrowdLabels,
    truths: Callable[[slice], IntArray],
    confusion: FloatArray,
    log_prior: FloatArray,
    table: FloatArray,
    rng: np.random.Generator,
    draws: int,
) -> Iterator[tuple[slice, slice, tuple[FloatArray, FloatArray]]]:
    """Draw labels anew, some draws and some tasks at a time: `simulate_scores` of each."""
    model = AnswerModel(np.ascontiguousarray(cumulate_rows(confusion)), log_prior, transpose_truth_and_label(table))
    for first in range(0, draws, TOGETHER):
        some = slice(first, min(first + TOGETHER, draws))
        last = 0
        while last < labels.n_tasks:
            ends = np.searchsorted(labels.task_ptr, labels.task_ptr[last] + MOST_AT_ONCE, side="right") - 1
            tasks = slice(last, max(int(ends), last + 1))
            last = tasks.stop
            number = int(labels.task_ptr[tasks.stop] - labels.task_ptr[tasks.start])
            truth = np.empty((some.stop - first, tasks.stop - tasks.start), np.int64)
            uniform = np.empty((some.stop - first, number))
            for row in range(some.stop - first):
                truth[row] = truths(tasks)
                rng.random(out=uniform[row])
            yield some, tasks, simulate_scores(labels, tasks, truth, uniform, model)


def max_statistic_p_values(
    observed: FloatArray, drawn: Iterable[tuple[slice, FloatArray]], draws: int, level: float
) -> FloatArray:
    """Share of draws whose largest statistic of all reaches each one observed; 1 for all once none can be flagged.

    Parameters
    ----------
    observed : (N,) or (K, K - 1)
        Not a number where a task is not judged.
    drawn
        Which draws, and the statistics (draws, …) of all, or of some tasks, in them.
    """
    largest, top = np.full(draws, -np.inf), np.nanmax(observed) * (1 - 1e-9)
    done = 0
    for some, statistics in drawn:
        if some.start > done:  # those before are whole
            done = some.start
            if 1 + (largest[:done] >= top).sum() > level * (draws + 1):
                return np.ones(observed.shape)
        np.maximum(largest[some], statistics.max(axis=tuple(range(1, statistics.ndim))), out=largest[some])
    reached = draws - np.searchsorted(np.sort(largest), observed * (1 - 1e-9), side="left")
    return np.where(np.isnan(observed), np.nan, (1 + reached) / (draws + 1))
