"""Labels drawn anew, many times, from a model of the crowd, and p-values by the largest statistic of each draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.simulated_scores import drawn_scores
from crowdwise.simulate.draws import cumulate_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TOGETHER", "drawn_again", "largest_p_values"]

TOGETHER = 50  # draws
MOST_AT_ONCE = 2**15  # labels that are drawn so many times together


def drawn_again(
    labels: CrowdLabels,
    truths: Callable[[slice], IntArray],
    confusion: FloatArray,
    log_prior: FloatArray,
    table: FloatArray,
    rng: np.random.Generator,
    draws: int,
) -> Iterator[tuple[slice, slice, tuple[FloatArray, FloatArray]]]:
    """Draw labels anew, some draws and some tasks at a time: `drawn_scores` of each."""
    rows, by_label = (np.ascontiguousarray(each) for each in (cumulate_rows(confusion), table.transpose(0, 2, 1)))
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
            yield some, tasks, drawn_scores(labels, tasks, truth, uniform, rows, log_prior, by_label)


def largest_p_values(
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
