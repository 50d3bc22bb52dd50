"""Workers who cut a line of scores into grades: slopes and intercepts, their priors, and steps that fit them.

Worker w gives a task of score θ at least grade k with probability σ(a[w] θ - d[w, k]). `graded_response` and
`ordered_classes` say what scores tasks have. Scores lie on a grid from -3 to 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, ndtri

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.ordinal.model import GradeModel

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.answers import Grades
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "ENOUGH",
    "FIRST_SLOPE",
    "GRID",
    "HALVINGS",
    "LEAST",
    "LONGEST",
    "NEWTON",
    "ResponseMethod",
    "ResponseModel",
    "Responses",
    "as_responses",
    "blocks_of_workers",
    "count_answers",
    "crowd_density",
    "gap_signs",
    "grade_probabilities",
    "improve_workers",
    "log_chances",
    "log_density",
    "mean_worker",
    "prior_spreads",
    "response_arrays",
    "start_workers",
    "worker_gradient",
    "worker_objective",
]

GRID = np.linspace(-3.0, 3.0, 31)
FIRST_SLOPE = 2.0
LEAST = 1e-12  # probability of an answer below which it counts as impossible
NEWTON, HALVINGS = 2, 8  # scoring steps of an iteration, and how often a step is halved at most
MIDDLE_SPREAD, GAP_SPREAD = 2.0, 0.5  # spread of middle intercepts and log-gaps, where slopes have 1: held-out answers
# of adult2, popquorn_offensive and the emotion scales are likelier than with 1 and 1
BLOCK = 2**16  # cells of the tables of workers who are fitted together
LONGEST = 2.0  # change of a parameter in one step
ENOUGH = 1e-6  # gain that a step of a worker promised, after which there is no other: a tenth of that of a climb's end


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


def grade_probabilities(workers: Responses, points: FloatArray = GRID) -> FloatArray:
    """Probability of each grade at each point, by default of the grid (M, K, G)."""
    above = expit(workers.slope[:, None, None] * points - workers.intercept[:, :, None])
    shape = (len(above), 1, points.size)
    found: FloatArray = -np.diff(np.concatenate([np.ones(shape), above, np.zeros(shape)], axis=1), axis=1)
    return found


def log_chances(workers: Responses) -> FloatArray:
    """Log-probability of each grade at each point of the grid (M, K, G)."""
    return np.log(np.maximum(grade_probabilities(workers), LEAST))


def worker_objective(
    workers: Responses, crowd: Responses, counts: FloatArray, spread: float, points: FloatArray = GRID
) -> FloatArray:
    """Expected log-probability of each worker's answers, with the log-density of their prior (M,)."""
    chances = grade_probabilities(workers, points)
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
    workers: Responses, crowd: Responses, counts: FloatArray, spread: float, points: FloatArray = GRID
) -> tuple[FloatArray, FloatArray]:
    """Gradient (M, K) of `worker_objective` by the parameters, and the expected information (M, K, K)."""
    chances = np.maximum(grade_probabilities(workers, points), LEAST)
    above = expit(workers.slope[:, None, None] * points - workers.intercept[:, :, None])
    density = above * (1 - above)
    share = counts / chances
    by_step = density * (share[:, 1:] - share[:, :-1])  # (M, K-1, G), by a θ - d[k]
    gradient = np.concatenate([(by_step * points).sum(axis=(1, 2))[:, None], -by_step.sum(axis=2)], axis=1)
    number = counts.sum(axis=1)[:, None]
    diagonal = number * density**2 * (1 / chances[:, 1:] + 1 / chances[:, :-1])
    beside = -number * density[:, :-1] * density[:, 1:] / chances[:, 1:-1]
    n_steps = density.shape[1]
    rows = diagonal.copy()  # information of a θ - d[k] with all of them
    rows[:, :-1] += beside
    rows[:, 1:] += beside
    information = np.zeros((len(counts), n_steps + 1, n_steps + 1))
    information[:, 0, 0] = (rows * points**2).sum(axis=(1, 2))
    information[:, 0, 1:] = information[:, 1:, 0] = -(rows * points).sum(axis=2)
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


def improve_workers(
    workers: Responses, crowd: Responses, counts: FloatArray, spread: float, points: FloatArray = GRID
) -> Responses:
    """Better parameters, given the expected counts of grades at each of the points (M, K, G)."""
    parts = [
        _improve_block(workers.parameters[block], crowd, counts[block], spread, points)
        for block in blocks_of_workers(counts)
    ]
    return Responses(np.concatenate(parts))


def blocks_of_workers(counts: FloatArray) -> list[slice]:
    """Workers who are fitted together."""
    size = max(BLOCK // counts[0].size, 1)
    return [slice(first, first + size) for first in range(0, len(counts), size)]


def _improve_block(
    now: FloatArray, crowd: Responses, counts: FloatArray, spread: float, points: FloatArray
) -> FloatArray:
    """Better parameters of some workers, whose tables stay in the processor's cache."""
    found, rows = now.copy(), np.arange(len(now))  # of the workers who still move
    for _ in range(NEWTON):
        own, said = Responses(found[rows]), counts[rows]
        gradient, information = worker_gradient(own, crowd, said, spread, points)
        step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
        promised = 0.5 * (gradient * step).sum(axis=1)
        step *= np.minimum(1.0, LONGEST / np.maximum(np.abs(step).max(axis=1), LONGEST))[:, None]
        before = worker_objective(own, crowd, said, spread, points)
        worse, share = np.arange(len(step)), 1.0
        for _ in range(HALVINGS):
            there = Responses(own.parameters[worse] + share * step[worse])
            higher = worker_objective(there, crowd, said[worse], spread, points) >= before[worse]
            step[worse[higher]] *= share
            worse, share = worse[~higher], share / 2
            if not worse.size:
                break
        step[worse] = 0.0
        found[rows] += step
        rows = rows[promised > ENOUGH]
        if not rows.size:
            break
    return found


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


@estimator
class ResponseMethod(ResponseModel):
    """Base of those among them that climb by EM."""

    spread: float = 1.0
    max_iter: int = 300
    tol: float = 1e-5


def response_arrays(workers: Responses, crowd: Responses) -> dict[str, FloatArray]:
    """What a fit saves of the workers."""
    return {
        "slope": workers.slope,
        "intercept": workers.intercept,
        "crowd_slope": crowd.slope,
        "crowd_intercept": crowd.intercept[0],
    }


def count_answers(answers: Grades, worker: IntArray, n_workers: int) -> Any:
    """How often each worker gave each grade to each task, sparse (N, M × K)."""
    cell = worker.astype(np.int64) * answers.n_classes + answers.grade
    shape = (answers.n_tasks, n_workers * answers.n_classes)
    return csr_array((np.ones(answers.n_answers), (answers.task, cell)), shape=shape)


def start_workers(answers: Grades) -> tuple[Responses, Responses]:
    """Workers who are all alike, with thresholds where the grades of all are cut by their shares, and the crowd."""
    counts = np.bincount(answers.grade, minlength=answers.n_classes) + 0.5
    below = np.cumsum(counts)[:-1] / counts.sum()
    # The logistic noise of a worker widens the distribution of their grades.
    wide = np.sqrt(1 + (1.7 / FIRST_SLOPE) ** 2)
    cuts = ndtri(below) * wide
    crowd = as_responses(np.array([FIRST_SLOPE]), FIRST_SLOPE * cuts[None])
    return Responses(np.tile(crowd.parameters, (answers.n_workers, 1))), crowd
