"""Steps that fit workers to grades, for the cells (worker and grade) that occur.

| equation | here |
|---|---|
| log P(grade of a cell) at each score | `log_cells` |
| a, d of each worker: Fisher scoring with normal priors | `improve_cells`, as `worker_responses.improve_workers` |
| a, d of all workers and of the crowd, moved by the same step δ: Fisher scoring | `shift_together` |

Answers are counted by cell and score (C, G), of which a worker of one answer has one row. The compiled loops are given
the cells alone; NumPy fills tables (M, K, G).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from crowdwise.kernels.grade_cells import Cells, Steps, improve_by_cells, log_by_cells, sum_gradients, sum_values
from crowdwise.kinds.ordinal.worker_responses import (
    ENOUGH,
    GRID,
    HALVINGS,
    LEAST,
    LONGEST,
    NEWTON,
    Responses,
    blocks_of_workers,
    grade_probabilities,
    improve_workers,
    log_chances,
    log_density,
    prior_spreads,
    worker_gradient,
)
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.answers import Grades
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["improve_cells", "lay_out_cells", "log_cells", "shift_together"]


def lay_out_cells(answers: Grades) -> tuple[Cells, Any, BoolArray]:
    """The cells that occur, how often each task has each of them, sparse (N, C), and which workers have any (M,)."""
    code = answers.worker.astype(np.int64) * answers.n_classes + answers.grade
    occurring, cell = np.unique(code, return_inverse=True)
    worker, grade = np.divmod(occurring, answers.n_classes)
    ptr = np.searchsorted(worker, np.arange(answers.n_workers + 1))
    shape = (answers.n_tasks, occurring.size)
    said = csr_array((np.ones(answers.n_answers), (answers.task, cell)), shape=shape)
    return Cells(ptr, grade.astype(np.int32), worker.astype(np.int32)), said, answers.answers_per_worker > 0


def log_cells(workers: Responses, cells: Cells) -> FloatArray:
    """Log-probability of the grade of each cell at each point of the grid (C, G)."""
    if _is_compiled(cells):
        return log_by_cells(workers.parameters, cells, GRID, LEAST)
    found: FloatArray = log_chances(workers)[cells.worker, cells.grade]
    return found


def improve_cells(
    workers: Responses, crowd: Responses, cells: Cells, counts: FloatArray, spread: float, points: FloatArray = GRID
) -> Responses:
    """Better parameters, given the expected counts of each cell at each of the points (C, G)."""
    if not _is_compiled(cells):
        return improve_workers(workers, crowd, _fill(workers, cells, counts), spread, points)
    precision, steps = prior_spreads(workers, spread) ** -2.0, Steps(NEWTON, HALVINGS, LONGEST, ENOUGH)
    return Responses(
        improve_by_cells(workers.parameters, crowd.parameters[0], precision, cells, counts, points, LEAST, steps)
    )


def shift_together(
    workers: Responses,
    crowd: Responses,
    first: Responses,
    cells: Cells,
    counts: FloatArray,
    spread: float,
    points: FloatArray = GRID,
) -> tuple[Responses, Responses]:
    """Workers and the crowd, moved by the same parameters δ: a scoring step, halved until the answers are likelier.

    Where workers have few answers, none moves far from the crowd, nor the crowd from their mean: fitted one after the
    other they would creep. The prior of workers about the crowd does not change if all move (parameter expansion, Liu,
    Rubin and Wu 1998): what δ climbs is Σ expected log P(grade) + log-density of `first` about the crowd.
    """
    compiled, precision = _is_compiled(cells), prior_spreads(workers, spread) ** -2.0
    own = (cells, counts, points, LEAST) if compiled else (_fill(workers, cells, counts), spread, points)
    sum_by, value_of = (sum_gradients, sum_values) if compiled else (_sum_gradients, _sum_values)
    gradient, information = sum_by(workers.parameters, *own)
    gradient = gradient - (crowd.parameters - first.parameters)[0] * precision
    information = information + np.diag(precision)

    def value(step: FloatArray) -> float:
        prior = float(log_density(first, Responses(crowd.parameters + step), spread).sum())
        return prior + value_of(workers.parameters + step, *own)

    step = np.linalg.solve(information, gradient)
    step *= min(1.0, LONGEST / max(float(np.abs(step).max()), LONGEST))
    before = value(np.zeros_like(step))
    for _ in range(HALVINGS):
        if value(step) >= before:
            return Responses(workers.parameters + step), Responses(crowd.parameters + step)
        step = step / 2
    return workers, crowd


def _is_compiled(cells: Cells) -> bool:
    return choose_engine(cells.grade.size, GRID.size) == "numba"


def _fill(workers: Responses, cells: Cells, counts: FloatArray) -> FloatArray:
    """Counts of every grade, also those that a worker never gave (M, K, G)."""
    found = np.zeros((*workers.parameters.shape, counts.shape[1]))
    found[cells.worker, cells.grade] = counts
    return found


def _sum_gradients(
    parameters: FloatArray, counts: FloatArray, spread: float, points: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sums over the workers of gradients (K,) and information (K, K), without the prior."""
    n_classes = parameters.shape[1]
    gradient, information = np.zeros(n_classes), np.zeros((n_classes, n_classes))
    for block in blocks_of_workers(counts):
        own = Responses(parameters[block])
        by, twice = worker_gradient(own, own, counts[block], spread, points)
        gradient += by.sum(axis=0)
        information += twice.sum(axis=0) - len(by) * np.diag(prior_spreads(own, spread) ** -2.0)
    return gradient, information


def _sum_values(parameters: FloatArray, counts: FloatArray, _spread: float, points: FloatArray) -> float:
    """Expected log-probability of all answers."""
    total = 0.0
    for block in blocks_of_workers(counts):
        chances = grade_probabilities(Responses(parameters[block]), points)
        total += float((counts[block] * np.log(np.maximum(chances, LEAST))).sum())
    return total
