"""Graded response: tasks have a score, and every worker cuts the scores into grades at thresholds of their own.

The generative story. The score θ of a task is drawn from a distribution on a line. Worker w gives it at least grade k
with probability σ(a[w] θ - d[w, k]): a[w], the slope, says how sharply they tell scores apart (0 for a guesser, below 0
for one who turns the scale round), and d[w, k] / a[w] is the score at which they begin to say k. Slopes and intercepts
are normal about those of the crowd.

F. Samejima (1969), "Estimation of latent ability using a response pattern of graded scores", Psychometrika Monograph
17; with workers in the place of items.

| equation | here |
|---|---|
| P(grade is k) = σ(a θ - d[k]) - σ(a θ - d[k + 1]) | `grade_probabilities` |
| posterior of the score, on a grid | `score_posterior` |
| a, d: Fisher scoring with normal priors, steps halved until they raise the objective | `improve_workers` |
| crowd's a, d: the means, with one worker as at the start | `mean_worker` |
| log p(grades) and the priors | `GradedResponse._fit` |

Memory: O(tasks × points + workers × K × points).

Departures: scores have a distribution on the grid of their own, drawn to the standard normal by pseudo-counts. The true
grade is the one that a worker with the crowd's thresholds and no noise would give; where some grades are known, it is
theirs that fix the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, ndtri

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.ordinal.model import GradeModel

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.answers import Grades
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "GRID",
    "LEAST",
    "NORMAL",
    "PSEUDO_TASKS",
    "GradedResponse",
    "ResponseModel",
    "Responses",
    "count_answers",
    "crowd_density",
    "improve_workers",
    "log_chances",
    "mean_worker",
    "response_arrays",
    "start",
]

GRID = np.linspace(-3.0, 3.0, 31)
NORMAL = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()
PSEUDO_TASKS = 10.0  # tasks of the normal distribution that count beside those there are
FIRST_SLOPE = 2.0
GOLD_SLOPE = 12.0  # of a worker who knows: a tenth of a standard deviation is told
LEAST = 1e-12  # probability of an answer below which it counts as impossible
NEWTON, HALVINGS = 2, 8  # scoring steps of an iteration, and how often a step is halved at most
MIDDLE_SPREAD, GAP_SPREAD = 2.0, 0.5  # spread of middle intercepts and log-gaps, where slopes have 1: held-out answers
# of adult2, popquorn_offensive and the emotion scales are likelier than with 1 and 1
LONGEST = 2.0  # change of a parameter in one step


class Responses(NamedTuple):
    """Of each worker: the slope a, the middle intercept, and the logarithms of the gaps between intercepts (M, K).

    Gaps in logarithms keep intercepts in order, and their prior keeps grades that a worker never gave possible.
    """

    parameters: FloatArray

    @property
    def slope(self) -> FloatArray:
        """Slopes a (M,)."""
        return self.parameters[:, 0]

    @property
    def intercept(self) -> FloatArray:
        """Intercepts d (M, K-1), which rise with k."""
        found: FloatArray = (
            self.parameters[:, 1:2] + np.exp(self.parameters[:, 2:]) @ gap_signs(self.parameters.shape[1]).T
        )
        return found


def gap_signs(n_classes: int) -> FloatArray:
    """Whether gaps (K-2) lie between the middle intercept and another (K-1): 1 or -1 by the side, 0 if not."""
    intercept, gap = np.arange(n_classes - 1)[:, None], np.arange(n_classes - 2)
    middle = (n_classes - 1) // 2
    return ((gap >= middle) & (gap < intercept)).astype(float) - ((gap < middle) & (gap >= intercept))


def as_responses(slope: FloatArray, intercept: FloatArray) -> Responses:
    """Responses of these slopes (M,) and intercepts (M, K-1)."""
    middle = intercept.shape[1] // 2
    gaps = np.log(np.maximum(np.diff(intercept, axis=1), 1e-6))
    return Responses(np.concatenate([slope[:, None], intercept[:, middle : middle + 1], gaps], axis=1))


@dataclass(frozen=True)
class State:
    """Workers, the crowd's slope and intercepts, and the distribution of scores (G,)."""

    workers: Responses
    crowd: Responses  # of one row
    score_prior: FloatArray


def grade_probabilities(workers: Responses) -> FloatArray:
    """Probability of each grade at each point of the grid (M, K, G)."""
    above = expit(workers.slope[:, None, None] * GRID - workers.intercept[:, :, None])
    shape = (len(above), 1, GRID.size)
    found: FloatArray = -np.diff(np.concatenate([np.ones(shape), above, np.zeros(shape)], axis=1), axis=1)
    return found


def log_chances(workers: Responses) -> FloatArray:
    """Log-probability of each grade at each point of the grid (M, K, G)."""
    return np.log(np.maximum(grade_probabilities(workers), LEAST))


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


def worker_objective(workers: Responses, crowd: Responses, counts: FloatArray, spread: float) -> FloatArray:
    """Expected log-probability of each worker's answers, with the log-density of their prior (M,)."""
    chances = grade_probabilities(workers)
    value: FloatArray = (counts * np.log(np.maximum(chances, LEAST))).sum(axis=(1, 2))
    return value + log_density(workers, crowd, spread)


def prior_spreads(workers: Responses, spread: float) -> FloatArray:
    """Standard deviations of the prior of the parameters (K,)."""
    found = np.full(workers.parameters.shape[1], GAP_SPREAD)
    found[:2] = 1.0, MIDDLE_SPREAD
    return spread * found


def log_density(workers: Responses, crowd: Responses, spread: float) -> FloatArray:
    """Log-density of the normal prior of each worker (M,)."""
    spreads = prior_spreads(workers, spread)
    off = ((workers.parameters - crowd.parameters) / spreads) ** 2
    found: FloatArray = -0.5 * (off + 2 * np.log(spreads) + np.log(2 * np.pi)).sum(axis=1)
    return found


def crowd_density(workers: Responses, crowd: Responses, first: Responses, there: BoolArray, spread: float) -> float:
    """Log-density of all workers who are there, and of the crowd, whose prior counts as one worker at the start."""
    own = Responses(np.vstack([workers.parameters[there], first.parameters]))
    return float(log_density(own, crowd, spread).sum())


def mean_worker(workers: Responses, first: Responses, there: BoolArray) -> Responses:
    """The crowd under which the workers who are there, and one as at the start, are most probable (1, K)."""
    own = np.vstack([workers.parameters[there], first.parameters])
    return Responses(own.mean(axis=0)[None])


def worker_gradient(
    workers: Responses, crowd: Responses, counts: FloatArray, spread: float
) -> tuple[FloatArray, FloatArray]:
    """Gradient (M, K) of `worker_objective` by the parameters, and the expected information (M, K, K)."""
    chances = np.maximum(grade_probabilities(workers), LEAST)
    above = expit(workers.slope[:, None, None] * GRID - workers.intercept[:, :, None])
    density = above * (1 - above)
    share = counts / chances
    by_step = density * (share[:, 1:] - share[:, :-1])  # (M, K-1, G), by a θ - d[k]
    gradient = np.concatenate([(by_step * GRID).sum(axis=(1, 2))[:, None], -by_step.sum(axis=2)], axis=1)
    number = counts.sum(axis=1)[:, None]
    diagonal = number * density**2 * (1 / chances[:, 1:] + 1 / chances[:, :-1])
    beside = -number * density[:, :-1] * density[:, 1:] / chances[:, 1:-1]
    n_steps = density.shape[1]
    rows = diagonal.copy()  # information of a θ - d[k] with all of them
    rows[:, :-1] += beside
    rows[:, 1:] += beside
    information = np.zeros((len(counts), n_steps + 1, n_steps + 1))
    information[:, 0, 0] = (rows * GRID**2).sum(axis=(1, 2))
    information[:, 0, 1:] = information[:, 1:, 0] = -(rows * GRID).sum(axis=2)
    steps = np.arange(1, n_steps + 1)
    information[:, steps, steps] = diagonal.sum(axis=2)
    information[:, steps[:-1], steps[1:]] = information[:, steps[1:], steps[:-1]] = beside.sum(axis=2)
    # From slope and intercepts to the parameters: d[k] = middle + Σ ± exp(gap).
    change = np.zeros((len(counts), n_steps + 1, n_steps + 1))
    change[:, 0, 0] = change[:, 1:, 1] = 1.0
    change[:, 1:, 2:] = gap_signs(n_steps + 1) * np.exp(workers.parameters[:, None, 2:])
    gradient = np.einsum("wij,wi->wj", change, gradient)
    gradient -= (workers.parameters - crowd.parameters) / prior_spreads(workers, spread) ** 2
    information = np.swapaxes(change, 1, 2) @ information @ change + np.diag(prior_spreads(workers, spread) ** -2.0)
    return gradient, information


def improve_workers(workers: Responses, crowd: Responses, counts: FloatArray, spread: float) -> Responses:
    """Better parameters, given the expected counts of grades at each point of the grid (M, K, G)."""
    now = workers.parameters
    for _ in range(NEWTON):
        gradient, information = worker_gradient(Responses(now), crowd, counts, spread)
        step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
        step *= np.minimum(1.0, LONGEST / np.maximum(np.abs(step).max(axis=1), LONGEST))[:, None]
        before = worker_objective(Responses(now), crowd, counts, spread)
        share = np.ones((len(step), 1))
        for _ in range(HALVINGS):
            worse = ~(worker_objective(Responses(now + share * step), crowd, counts, spread) >= before)
            if not worse.any():
                break
            share[worse] /= 2
        else:
            share[worse] = 0.0
        now = now + share * step
    return Responses(now)


def cut_classes(posterior: FloatArray, cuts: FloatArray) -> FloatArray:
    """Probability of each class (n, K), from scores on the grid (n, G) and the cuts between classes (K-1,)."""
    width = GRID[1] - GRID[0]
    above = np.clip((GRID[:, None] + width / 2 - cuts) / width, 0.0, 1.0)
    ends = np.ones((GRID.size, 1)), np.zeros((GRID.size, 1))
    inside = -np.diff(np.concatenate([ends[0], above, ends[1]], axis=1), axis=1)
    found = np.maximum(posterior @ inside, 0.0)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


class ResponseModel(GradeModel):
    """Base of methods whose workers have a slope and thresholds on a line of scores.

    Parameters
    ----------
    spread : float, above 0
        Standard deviation of the workers' slopes about that of the crowd; that of their middle intercepts is twice as
        large, that of the logarithms of the gaps between intercepts half as large.

    Attributes
    ----------
    slope_, intercept_ : (M,), (M, K-1)
        a and d of each worker.
    crowd_slope_, crowd_intercept_ : (1,), (K-1,)
        Those of a worker who has the means of the others' parameters.
    """

    climbs = True
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("slope", "M"),
        SavedArray("intercept", "M J"),
        SavedArray("crowd_slope", "1"),
        SavedArray("crowd_intercept", "J"),
    )
    spread: float
    slope_: FloatArray
    intercept_: FloatArray
    crowd_slope_: FloatArray
    crowd_intercept_: FloatArray

    def _check(self) -> None:
        check_number("spread", self.spread, low=1e-3, high=1e3)

    def _chances(self) -> FloatArray:
        """Probability of each grade at each point of the grid (M + 1, K, G), a stranger's last: the crowd's."""
        slope = np.append(self.slope_, self.crowd_slope_)
        return grade_probabilities(as_responses(slope, np.vstack([self.intercept_, self.crowd_intercept_])))


def response_arrays(workers: Responses, crowd: Responses) -> dict[str, FloatArray]:
    """What a fit saves of the workers."""
    return {
        "slope": workers.slope,
        "intercept": workers.intercept,
        "crowd_slope": crowd.slope,
        "crowd_intercept": crowd.intercept[0],
    }


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


@estimator
class GradedResponse(ScoreModel):
    """Consensus of grades from scores of the tasks and thresholds and noise of the workers.

    Facts
    -----
    Assumes: one score says how high a task is graded; workers differ in thresholds and in noise
    Fails with: grades that mix several qualities; tasks on which workers fall into two camps
    Cost: O(answers × 31 + workers × K × 31) an iteration
    Paper: Samejima 1969, Psychometrika
    """

    slug = "graded-response"

    spread: float = 1.0
    max_iter: int = 300
    tol: float = 1e-5

    def _fit(self, answers: Grades, gold: IntArray | None) -> Found:  # type: ignore[override]
        said = count_answers(answers, answers.worker, answers.n_workers)
        there, shape = answers.answers_per_worker > 0, (answers.n_workers, answers.n_classes, GRID.size)
        first = start(answers)
        # Known grades are answers of one more worker, who does not change.
        fixed = first.crowd.intercept[0] / FIRST_SLOPE
        known = np.zeros((answers.n_tasks, GRID.size))
        if gold is not None:
            expert = log_chances(as_responses(np.array([GOLD_SLOPE]), GOLD_SLOPE * fixed[None]))
            known = np.where((gold >= 0)[:, None], expert[0][np.maximum(gold, 0)], 0.0)

        def expect(now: State) -> tuple[float, FloatArray]:
            table = log_chances(now.workers)
            return score_posterior(said, table, known + np.log(now.score_prior))

        def step(now: State) -> tuple[float, float, State]:
            likelihood, posterior = expect(now)
            value = likelihood + crowd_density(now.workers, now.crowd, first.crowd, there, self.spread)
            value += PSEUDO_TASKS * float(NORMAL @ np.log(now.score_prior))
            counts = np.asarray(said.T @ posterior).reshape(shape)
            workers = improve_workers(now.workers, now.crowd, counts, self.spread)
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


def count_answers(answers: Grades, worker: IntArray, n_workers: int) -> Any:
    """How often each worker gave each grade to each task, sparse (N, M × K)."""
    cell = worker.astype(np.int64) * answers.n_classes + answers.grade
    shape = (answers.n_tasks, n_workers * answers.n_classes)
    return csr_array((np.ones(answers.n_answers), (answers.task, cell)), shape=shape)


def start(answers: Grades) -> State:
    """Workers alike, with thresholds where the grades of all are cut by their shares."""
    counts = np.bincount(answers.grade, minlength=answers.n_classes) + 0.5
    below = np.cumsum(counts)[:-1] / counts.sum()
    # The logistic noise of a worker widens the distribution of their grades.
    wide = np.sqrt(1 + (1.7 / FIRST_SLOPE) ** 2)
    cuts = ndtri(below) * wide
    crowd = as_responses(np.array([FIRST_SLOPE]), FIRST_SLOPE * cuts[None])
    return State(Responses(np.tile(crowd.parameters, (answers.n_workers, 1))), crowd, NORMAL)
