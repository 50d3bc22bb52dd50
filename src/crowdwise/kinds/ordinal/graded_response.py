"""Graded response: tasks have a score, and every worker cuts the scores into grades at thresholds of their own.

The generative story. The score θ of a task is drawn from a distribution on a line. Worker w gives it at least grade k
with probability σ(a[w] θ - d[w, k]): a[w], the slope, says how sharply they tell scores apart (0 for a guesser, below 0
for one who turns the scale round), and d[w, k] / a[w] is the score at which they begin to say k. Slopes and intercepts
are normal about those of the crowd.

F. Samejima (1969), "Estimation of latent ability using a response pattern of graded scores", Psychometrika Monograph
17; with workers in the place of items.

| equation | here |
|---|---|
| P(grade is k) = σ(a θ - d[k]) - σ(a θ - d[k + 1]) | `worker_responses.grade_probabilities` |
| posterior of the score, on a grid | `score_posterior` |
| a, d of all workers and the crowd's: the same step δ, by Fisher scoring | `cell_steps.shift_together` |
| a, d: Fisher scoring with normal priors, in steps that raise the objective | `cell_steps.improve_cells` |
| crowd's a, d: the means, with one worker as at the start | `worker_responses.mean_worker` |
| log p(grades) and the priors | `GradedResponse._fit` |

Memory: O(tasks × points + cells × points), where a cell is a worker and a grade that they gave; in NumPy, as for few
answers, workers × K × points.

Departures: scores have a distribution on the grid of their own, drawn to the standard normal by pseudo-counts. The true
grade is the one that a worker with the crowd's thresholds and no noise would give; where some grades are known, it is
theirs that fix the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.ordinal.cell_steps import improve_cells, lay_out_cells, log_cells, shift_together
from crowdwise.kinds.ordinal.worker_responses import (
    FIRST_SLOPE,
    GRID,
    LEAST,
    ResponseMethod,
    ResponseModel,
    Responses,
    as_responses,
    count_answers,
    crowd_density,
    log_chances,
    mean_worker,
    response_arrays,
    start_workers,
)

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.answers import Grades
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["NORMAL", "PSEUDO_TASKS", "GradedResponse", "ScoreModel", "cut_classes", "score_posterior"]

NORMAL = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()
PSEUDO_TASKS = 10.0  # tasks of the normal distribution that count beside those there are
GOLD_SLOPE = 12.0  # of a worker who knows: a tenth of a standard deviation is told


@dataclass(frozen=True)
class State:
    """Workers, the crowd's slope and intercepts, and the distribution of scores (G,)."""

    workers: Responses
    crowd: Responses  # of one row
    score_prior: FloatArray


def score_posterior(said: Any, log_table: FloatArray, log_prior: FloatArray) -> tuple[float, FloatArray]:
    """Log-probability of the answers, and posterior of each task's score (N, G).

    Parameters
    ----------
    said : sparse (N, M × K)
        How often each worker gave each grade to a task.
    """
    found = said @ log_table.reshape(-1, GRID.size) + log_prior
    highest = found.max(axis=1, keepdims=True)
    found = np.exp(found - highest)
    mass = found.sum(axis=1, keepdims=True)
    return float((highest + np.log(mass)).sum()), found / mass


def cut_classes(posterior: FloatArray, cuts: FloatArray) -> FloatArray:
    """Probability of each class (n, K), from scores on the grid (n, G) and the cuts between classes (K-1,)."""
    width = GRID[1] - GRID[0]
    above = np.clip((GRID[:, None] + width / 2 - cuts) / width, 0.0, 1.0)
    ends = np.ones((GRID.size, 1)), np.zeros((GRID.size, 1))
    inside = -np.diff(np.concatenate([ends[0], above, ends[1]], axis=1), axis=1)
    found = np.maximum(posterior @ inside, 0.0)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


class ScoreModel(ResponseModel):
    """What a graded response keeps besides.

    Attributes
    ----------
    score_posterior_ : (N, 31)
        Posterior of each task's score, on a grid from -3 to 3.
    score_prior_ : (31,)
        Distribution of the scores.
    cuts_ : (K-1,)
        Scores between the classes.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("score_posterior", f"N {GRID.size}", low=0, high=1, sums_to_one=True),
        SavedArray("score_prior", f"{GRID.size}", low=SMALLEST, high=1, sums_to_one=True),
        SavedArray("cuts", "J"),
    )
    score_posterior_: FloatArray
    score_prior_: FloatArray
    cuts_: FloatArray

    def _posterior(self, answers: Grades, worker: IntArray) -> FloatArray:
        table = np.log(np.maximum(self._chances(), LEAST))
        said = count_answers(answers, worker, len(table))
        _, posterior = score_posterior(said, table, np.log(self.score_prior_))
        return cut_classes(posterior, self.cuts_)

    def _answer_probabilities(self, task: IntArray, worker: IntArray) -> FloatArray:
        chances = self._chances()
        found = np.empty((task.size, chances.shape[1]))
        for first in range(0, task.size, 2**14):  # a table of K × 31 for each answer
            part = slice(first, first + 2**14)
            scores = np.where((task[part] >= 0)[:, None], self.score_posterior_[task[part]], self.score_prior_)
            found[part] = np.einsum("eg,ekg->ek", scores, chances[worker[part]])
        return found


@estimator
class GradedResponse(ResponseMethod, ScoreModel):
    """Consensus of grades from scores of the tasks and thresholds and noise of the workers.

    Facts
    -----
    Assumes: one score says how high a task is graded; workers differ in thresholds and in noise
    Fails with: grades that mix several qualities; tasks on which workers fall into two camps
    Cost: O(answers × 31 + workers × K × 31) an iteration, of which there are about 60
    Paper: Samejima 1969, Psychometrika
    """

    slug = "graded-response"

    def _fit(self, answers: Grades, gold: IntArray | None) -> Found:
        cells, said, there = lay_out_cells(answers)
        first = State(*start_workers(answers), NORMAL)
        # Known grades are answers of one more worker, who does not change.
        fixed = first.crowd.intercept[0] / FIRST_SLOPE
        known = np.zeros((answers.n_tasks, GRID.size))
        if gold is not None:
            expert = log_chances(as_responses(np.array([GOLD_SLOPE]), GOLD_SLOPE * fixed[None]))
            known = np.where((gold >= 0)[:, None], expert[0][np.maximum(gold, 0)], 0.0)

        def expect(now: State) -> tuple[float, FloatArray]:
            return score_posterior(said, log_cells(now.workers, cells), known + np.log(now.score_prior))

        def step(now: State) -> tuple[float, float, State]:
            likelihood, posterior = expect(now)
            value = likelihood + crowd_density(now.workers, now.crowd, first.crowd, there, self.spread)
            value += PSEUDO_TASKS * float(NORMAL @ np.log(now.score_prior))
            counts = np.asarray(said.T @ posterior)
            moved = shift_together(now.workers, now.crowd, first.crowd, cells, counts, self.spread)
            workers = improve_cells(*moved, cells, counts, self.spread)
            crowd = mean_worker(workers, first.crowd, there)
            prior = (posterior.sum(axis=0) + PSEUDO_TASKS * NORMAL) / (answers.n_tasks + PSEUDO_TASKS)
            return value, likelihood, State(workers, crowd, prior)

        ended = climb([first], step, max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug)
        found = ended.parameters
        _, posterior = expect(found)
        cuts = fixed if gold is not None else found.crowd.intercept[0] / max(float(found.crowd.slope[0]), 0.1)
        classes = cut_classes(posterior, cuts)
        if gold is not None:
            classes[gold >= 0] = np.eye(answers.n_classes)[gold[gold >= 0]]
        arrays = {
            "posterior": classes,
            "prior": cut_classes(found.score_prior[None], cuts)[0],
            "score_posterior": posterior,
            "score_prior": found.score_prior,
            "cuts": cuts,
            **response_arrays(found.workers, found.crowd),
        }
        return Found(arrays, ended.objective, ended.n_iter, ended.converged)
