"""Multidimensional annotation scaling (Braylan & Lease 2020): answers as points whose distances are those of the texts.

Each answer i to task n by worker m is a point x_i about the truth, which lies at the origin:

    x_i ~ N(0, v_m u_n I) in k dimensions,        d_ij ~ N(|x_i - x_j|, s²),        k at most the answers to n less 1,

with d_ij the distance of the texts, v_m how far a worker's answers scatter, u_n how hard the task is. v, u and s² have
inverse-gamma priors: v and s² `FEW` answers' worth about the start, u about 1. The answer nearest the origin is taken.

| step | function |
|---|---|
| log posterior of points and variances, and its gradient in the points | `log_posterior` |
| points: L-BFGS from where they are | `move_points` |
| v, u, s²: the maximum in closed form, one after the other | `update_variances` |

The steps take turns, and none lets the log posterior fall. The start is classical scaling about the mean of the points,
weighted by workers (`nearness.py`).

Departures: the paper samples with Stan and has log-normal scales; here the mode is found. Pairs of one worker's answers
are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_count
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.texts.medoids import choose_answers
from crowdwise.kinds.texts.model import TextModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.texts.model import Chosen, TextCrowd
    from crowdwise.kinds.texts.text_pairs import TextPairs
    from crowdwise.labels.types import FloatArray

__all__ = ["AnnotationScaling"]

FEW = 5.0  # answers, or pairs, that a prior counts as; about the best of 2 to 20 in simulated crowds
MOVES = 20  # steps of L-BFGS before variances are found again
KNOWN = 1e-3  # variance of a known truth about the origin, in units of the workers'


class Scaling(NamedTuple):
    """Points (n, k), v of workers (M + 2), u of tasks (N,), s² of distances, and the v that priors are about."""

    point: FloatArray
    worker: FloatArray
    task: FloatArray
    noise: float
    start: float


def log_posterior(pairs: TextPairs, distance: FloatArray, at: Scaling) -> tuple[float, FloatArray]:
    """The logarithm of the posterior density up to a constant, and its gradient in the points (n, k)."""
    size = at.point.shape[1]
    apart = at.point[pairs.one] - at.point[pairs.other]
    length = np.sqrt((apart**2).sum(axis=1) + 1e-12)
    off = distance - length
    variance = at.worker[pairs.worker] * at.task[pairs.task]
    squares = (at.point**2).sum(axis=1)
    value = -0.5 * (off**2).sum() / at.noise - 0.5 * off.size * np.log(at.noise)
    value -= 0.5 * (squares / variance + dimensions_spanned(pairs, size) * np.log(variance)).sum()
    value += _log_prior(at.worker, at.start, FEW * size).sum() + _log_prior(at.task, 1.0, FEW * size).sum()
    value += float(_log_prior(np.array([at.noise]), at.start, FEW).sum())
    pull = (off / at.noise / length)[:, None] * apart
    ends = (
        (np.ones(off.size), (pairs.one, np.arange(off.size))),
        (np.ones(off.size), (pairs.other, np.arange(off.size))),
    )
    shape = pairs.n_answers, off.size
    gradient = csr_array(ends[0], shape=shape) @ pull - csr_array(ends[1], shape=shape) @ pull
    return float(value), gradient - at.point / variance[:, None]


def dimensions_spanned(pairs: TextPairs, size: int) -> FloatArray:
    """Dimensions that the points of each answer's task can span (n,): k, or one less than the answers if they are few.

    The origin and the points of two answers lie on a line: the density of the other coordinates, all 0, says nothing.
    """
    counts = np.bincount(pairs.task, minlength=pairs.n_tasks)
    return np.clip(counts - 1, 1, size).astype(np.float64)[pairs.task]


def _log_prior(variance: FloatArray, about: float, few: float) -> FloatArray:
    """Inverse-gamma log-density, up to a constant: as if `few` coordinates of mean square `about` had been seen."""
    return -(few / 2 + 1) * np.log(variance) - few * about / (2 * variance)


def move_points(pairs: TextPairs, distance: FloatArray, at: Scaling) -> Scaling:
    """Points with a higher posterior, given the variances."""

    def negative_objective(flat: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = log_posterior(pairs, distance, at._replace(point=flat.reshape(at.point.shape)))
        return -value, -gradient.ravel()

    found = minimize(negative_objective, at.point.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": MOVES})
    return at._replace(point=found.x.reshape(at.point.shape))


def update_variances(pairs: TextPairs, distance: FloatArray, at: Scaling, *, workers: bool = True) -> Scaling:
    """The most probable v and s² (where `workers`) and u, given the points; gold, the last worker, keeps its v."""
    size = at.point.shape[1]
    squares, few = (at.point**2).sum(axis=1), FEW * size
    worker, noise = at.worker, at.noise
    if workers:
        total = np.bincount(pairs.worker, squares / at.task[pairs.task], worker.size)
        counts = np.bincount(pairs.worker, dimensions_spanned(pairs, size), worker.size)
        worker = np.append(((total + few * at.start) / (counts + few + 2))[:-1], worker[-1])
        apart = np.sqrt(((at.point[pairs.one] - at.point[pairs.other]) ** 2).sum(axis=1) + 1e-12)
        noise = float((((distance - apart) ** 2).sum() + FEW * at.start) / (apart.size + FEW + 2))
    total = np.bincount(pairs.task, squares / worker[pairs.worker], at.task.size)
    counts = np.bincount(pairs.task, dimensions_spanned(pairs, size), at.task.size)
    return at._replace(worker=worker, noise=noise, task=(total + few) / (counts + few + 2))


def start_scaling(crowd: TextCrowd, distance: FloatArray, size: int, start: float) -> Scaling:
    """Classical scaling of each task's distances, about the weighted mean of its points."""
    pairs, weight = crowd.pairs, crowd.q
    point = np.zeros((pairs.n_answers, size))
    bounds = np.searchsorted(pairs.task, np.arange(pairs.n_tasks + 1))
    edges = np.searchsorted(pairs.task[pairs.one], np.arange(pairs.n_tasks + 1))
    mean = float(distance.mean()) if distance.size else 0.0
    for task in np.flatnonzero(np.diff(bounds) > 1):
        first, number = bounds[task], bounds[task + 1] - bounds[task]
        rows = slice(edges[task], edges[task + 1])
        table = np.full((number, number), mean)
        np.fill_diagonal(table, 0.0)
        one, other = pairs.one[rows] - first, pairs.other[rows] - first
        table[one, other] = table[other, one] = distance[rows]
        shares = weight[pairs.worker[first : first + number]] + 1e-9
        centre = np.eye(number) - np.outer(np.ones(number), shares / shares.sum())
        values, vectors = np.linalg.eigh(-0.5 * centre @ table**2 @ centre.T)
        kept = min(size, number)
        point[first : first + number, :kept] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :kept]
    worker = np.full(crowd.q.size, start)
    worker[-1] = KNOWN * start
    return Scaling(point, worker, np.ones(pairs.n_tasks), start, start)


class PointModel(TextModel):
    """What a model of points keeps.

    Attributes
    ----------
    scatter_ : (M,)
        Variance v of the points of a worker's answers about the truth, in squares of the chance distance.
    point_noise_ : (2,)
        The variance s² of distances, and the v that priors are about.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("scatter", "M", low=SMALLEST),
        SavedArray("point_noise", "2", low=SMALLEST),
    )
    n_dimensions: int
    scatter_: FloatArray
    point_noise_: FloatArray

    def _choose(self, crowd: TextCrowd) -> Chosen:
        noise, start = float(self.point_noise_[0]), float(self.point_noise_[1])
        distance = 1 - crowd.similarity
        at = start_scaling(crowd, distance, self.n_dimensions, start)
        worker = np.concatenate([self.scatter_, [float(np.exp(np.log(self.scatter_).mean())), KNOWN * start]])
        at = at._replace(worker=worker, noise=noise)
        before = -np.inf
        for _ in range(50):
            at = update_variances(crowd.pairs, distance, move_points(crowd.pairs, distance, at), workers=False)
            value, _ = log_posterior(crowd.pairs, distance, at)
            if value - before <= 1e-6 * crowd.pairs.n_answers:
                break
            before = value
        return choose_answers(crowd.pairs, -np.sqrt((at.point**2).sum(axis=1)))


@estimator
class AnnotationScaling(PointModel):
    """Answers as points about the truth, with distances like those of the texts; the one nearest the truth is taken.

    Facts
    -----
    Assumes: wrong answers lie in all directions from the truth, each worker's at a distance of their own
    Fails with: distances that points cannot have, few answers to a task
    Cost: O(pairs of answers to the same task × dimensions) an iteration
    Paper: Braylan & Lease 2020, The Web Conference (multidimensional annotation scaling)

    Parameters
    ----------
    n_dimensions : int, 1 or more
        Dimensions of the points; 8 as in the paper.
    """

    slug = "annotation-scaling"
    climbs = True

    distance: str | Callable[[str, str], float] = "gleu"
    n_dimensions: int = 8
    max_iter: int = 100
    tol: float = 1e-4

    def _check(self) -> None:
        super()._check()
        check_count("n_dimensions", self.n_dimensions, high=100)

    def _learn(self, crowd: TextCrowd, n_workers: int) -> Found:
        pairs, distance = crowd.pairs, 1 - crowd.similarity
        # Two points of variance v in each of k dimensions lie 2 k v apart, squared.
        start = max(float((distance**2).mean()), 1e-6) / (2 * self.n_dimensions) if distance.size else 1.0

        def step(at: Scaling) -> tuple[float, float, Scaling]:
            value, _ = log_posterior(pairs, distance, at)
            return value, value, update_variances(pairs, distance, move_points(pairs, distance, at))

        first = start_scaling(crowd, distance, self.n_dimensions, start)
        went = climb([first], step, max_iter=self.max_iter, tol=self.tol * pairs.n_answers, name="annotation scaling")
        at = went.parameters
        arrays = {"scatter": at.worker[:n_workers], "point_noise": np.array([at.noise, start])}
        return Found(arrays, went.objective, went.n_iter, went.converged)
