"""How probable marks are, grouped into things: objects that workers draw or miss, and distractors that some draw.

The generative story. A task has a Poisson number of objects (mean `objects`) and of distractors, things that are taken
for objects now and then (mean `distractors`). Both lie where marks usually lie (`Geometry.log_density`). An object has
a visibility d, normal with standard deviation `spread`, on a grid; worker w draws it with probability
sigmoid(draw[w] + d), and a distractor with probability sigmoid(false_draw[w]). Each coordinate of what they draw is
normal about the thing's own, with the worker's standard deviation σ[w] times the thing's size. One mark in ten is
careless, and one coordinate in ten of any mark: each makes the standard deviation three times as large (Tukey 1960).
A label is the thing's with probability `label_accuracy`, else any other.

A grouping puts every mark into a thing, of each answer at most one into a thing, and says which marks and coordinates
are careless. Whether a thing is an object, its visibility, its place and its label are summed and integrated out,
things that nobody drew as well. So the log-likelihood of a grouping is a bound on that of the marks:

| term | here |
|---|---|
| log Σ_k share[k] P(labels given k) | `thing_terms` |
| log ∫ Π N(x; b, σ² size² c) db, coordinate by coordinate, with the shares of careless ones | `log_places` |
| log objects + log density + log Σ_d share[d] Π P(drawn or missed given d) | `ThingTerms.log_object` |
| log distractors + log density + log Π P(drawn or missed) | `ThingTerms.log_distractor` |
| Σ_things log(object + distractor) - Σ_tasks expected number of things that somebody draws | `log_likelihood` |

The size of a thing and the density at its place are taken at the mean of its marks, as if known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import log_expit

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.geometry import Geometry
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "CARELESS",
    "LEVELS",
    "Crowd",
    "Drawn",
    "Grouping",
    "MarkTerms",
    "ThingTerms",
    "log_likelihood",
    "log_sum_exp",
    "mark_terms",
    "missed_by_all",
    "sum_terms",
    "thing_terms",
    "visibility_shares",
]

LEVELS = np.linspace(-4, 4, 9)  # visibilities
CARELESS = 0.1  # share of careless marks, and of careless coordinates
FACTOR = 1 / 9  # of the precision of what is careless
LOG_SHARES = np.log([1 - CARELESS, CARELESS])
CERTAIN = 1e4  # log-odds of one who never misses an object: the truth, which enters a fit as a worker
CERTAIN_PRECISION = 1e6
CERTAIN_LABEL = 50.0


@dataclass(frozen=True)
class Drawn:
    """Marks (n) in units of the geometry, sorted by task; answers (A) likewise.

    Attributes
    ----------
    task, worker, answer, label : (n,)
        A label is -1 where the truth has none.
    place, log_size : (n, D)
    answer_task, answer_worker : (A,)
        The truth of a task, where known, is an answer of worker M, first in its task.
    sizes
        Numbers of tasks N, workers M and classes K.
    """

    task: IntArray
    worker: IntArray
    answer: IntArray
    label: IntArray
    place: FloatArray
    log_size: FloatArray
    answer_task: IntArray
    answer_worker: IntArray
    sizes: tuple[int, int, int]
    geometry: Geometry


@dataclass(frozen=True)
class Crowd:
    """Parameters of the model.

    Attributes
    ----------
    draw, false_draw : (M,)
        Log-odds of drawing an object of visibility 0, and a distractor.
    precision : (M,)
        1 / σ².
    objects, distractors
        Mean number in a task.
    spread
        Standard deviation of visibilities.
    draw_mean, false_draw_mean, usual_variance
        Of the workers' priors.
    label_accuracy, label_share : (), (K,)
    """

    draw: FloatArray
    false_draw: FloatArray
    precision: FloatArray
    objects: float
    distractors: float
    spread: float
    draw_mean: float
    false_draw_mean: float
    usual_variance: float
    label_accuracy: float
    label_share: FloatArray


@dataclass(frozen=True)
class Grouping:
    """Thing of each mark (n,), 0 … B - 1, and whether marks (n,) and their coordinates (n, D) are careless, 0 or 1."""

    thing: IntArray
    careless: IntArray
    careless_coordinate: IntArray

    @property
    def n_things(self) -> int:
        """Number of things."""
        return int(self.thing.max(initial=-1)) + 1


class MarkTerms(NamedTuple):
    """What marks add to their things: sums of these are all that the likelihood needs.

    Attributes
    ----------
    plain : (…, 4 + 2 D + K)
        1, log-odds of drawing and of drawing falsely, constants; places, logarithms of sizes; log-odds of the labels.
    weighed : (…, D, 4)
        Precision, logarithm of the height, precision × place, precision × place².
    """

    plain: FloatArray
    weighed: FloatArray


class ThingTerms(NamedTuple):
    """Parts of the log-likelihood of things (…,); `levels` (…, H) sum to `log_object` less what both share.

    Attributes
    ----------
    log_object, log_distractor, levels
        All without `shared`, the part of places and labels, which is the same for objects and distractors.
    """

    log_object: FloatArray
    log_distractor: FloatArray
    levels: FloatArray
    shared: FloatArray

    @property
    def total(self) -> FloatArray:
        """Log-likelihood of each thing (…,)."""
        found: FloatArray = np.logaddexp(self.log_object, self.log_distractor) + self.shared
        return found


def log_sum_exp(values: FloatArray) -> FloatArray:
    """Logarithm of the sum of exponentials along the last axis; SciPy's takes longer than all else of a move."""
    top = values.max(axis=-1)
    found: FloatArray = top + np.log(np.exp(values - top[..., None]).sum(axis=-1))
    return found


def visibility_shares(spread: float) -> FloatArray:
    """Share of each visibility (H,): normal, on the grid."""
    weights = np.exp(-0.5 * (LEVELS / spread) ** 2)
    shares: FloatArray = weights / weights.sum()
    return shares


def missed_by_all(drawn: Drawn, crowd: Crowd) -> tuple[FloatArray, FloatArray]:
    """Log-probability that no answer of a task draws an object (N, H) of each visibility, or a distractor (N,)."""
    draw, false_draw = np.append(crowd.draw, CERTAIN), np.append(crowd.false_draw, -CERTAIN)
    n_tasks = drawn.sizes[0]
    objects: FloatArray = np.zeros((n_tasks, LEVELS.size))
    np.add.at(objects, drawn.answer_task, log_expit(-(draw[drawn.answer_worker][:, None] + LEVELS)))
    distractors = np.bincount(drawn.answer_task, log_expit(-false_draw[drawn.answer_worker]), n_tasks).astype(
        np.float64
    )
    return objects, distractors


def mark_terms(drawn: Drawn, crowd: Crowd, careless: IntArray, careless_coordinate: IntArray) -> MarkTerms:
    """What each mark adds to its thing."""
    worker, place = drawn.worker, drawn.place
    n_classes = drawn.sizes[2]
    wrong = np.log((1 - crowd.label_accuracy) / max(n_classes - 1, 1))
    told = worker == drawn.sizes[1]
    named = (drawn.label >= 0) & (n_classes > 1)
    odds = np.where(named, np.where(told, CERTAIN_LABEL, np.log(crowd.label_accuracy) - wrong), 0.0)
    plain = np.zeros((worker.size, 4 + 2 * place.shape[1] + n_classes))
    plain[:, 0] = 1
    plain[:, 1] = np.append(crowd.draw, CERTAIN)[worker]
    plain[:, 2] = np.append(crowd.false_draw, -CERTAIN)[worker]
    plain[:, 3] = LOG_SHARES[careless] + np.where(named, np.where(told, -CERTAIN_LABEL, wrong), 0.0)
    plain[:, 4 : 4 + place.shape[1]] = place
    plain[:, 4 + place.shape[1] : 4 + 2 * place.shape[1]] = drawn.log_size
    plain[np.arange(worker.size), 4 + 2 * place.shape[1] + drawn.label] = odds
    precision = np.append(crowd.precision, CERTAIN_PRECISION)[worker][:, None] * FACTOR ** (
        careless[:, None] + careless_coordinate
    )
    height = 0.5 * np.log(precision) + LOG_SHARES[careless_coordinate]
    weighed = np.stack([precision, height, precision * place, precision * place**2], axis=-1)
    return MarkTerms(plain, weighed)


def sum_terms(terms: MarkTerms, thing: IntArray, n_things: int) -> MarkTerms:
    """Sums of the terms of the marks of each thing."""
    plain = np.zeros((n_things, terms.plain.shape[1]))
    weighed = np.zeros((n_things, *terms.weighed.shape[1:]))
    np.add.at(plain, thing, terms.plain)
    np.add.at(weighed, thing, terms.weighed)
    return MarkTerms(plain, weighed)


def log_places(plain: FloatArray, weighed: FloatArray) -> FloatArray:
    """Log-probability of the coordinates (…, D) of things' marks, with their true places integrated out."""
    n_coordinates = weighed.shape[-2]
    count = plain[..., :1]
    log_size = plain[..., 4 + n_coordinates : 4 + 2 * n_coordinates] / count
    precision, height, first, second = (weighed[..., each] for each in range(4))
    squares = np.maximum(second - first**2 / precision, 0) * np.exp(-2 * log_size)
    normal = -0.5 * (count - 1) * (np.log(2 * np.pi) + 2 * log_size)
    found: FloatArray = normal + height - 0.5 * np.log(precision) - 0.5 * squares
    return found


def thing_terms(
    plain: FloatArray, places: FloatArray, missed: tuple[FloatArray, FloatArray], crowd: Crowd, geometry: Geometry
) -> ThingTerms:
    """Parts of the log-likelihood of things.

    Parameters
    ----------
    plain : (…, 4 + 2 D + K)
        Sums of the marks' terms.
    places : (…,)
        Log-probability of the coordinates.
    missed : (…, H), (…,)
        Of the things' tasks, by `missed_by_all`.
    """
    n_classes = crowd.label_share.size
    n_coordinates = (plain.shape[-1] - 4 - n_classes) // 2
    count = plain[..., :1]
    density = geometry.log_density(plain[..., 4 : 4 + n_coordinates] / count)
    levels = np.log(visibility_shares(crowd.spread)) + missed[0] + plain[..., 1:2] + count * LEVELS
    log_object = np.log(crowd.objects) + density + log_sum_exp(levels)
    log_distractor = np.log(crowd.distractors) + density + missed[1] + plain[..., 2]
    labels = log_sum_exp(np.log(crowd.label_share) + plain[..., -n_classes:]) if n_classes > 1 else 0.0
    return ThingTerms(log_object, log_distractor, levels, places + plain[..., 3] + labels)


def log_likelihood(drawn: Drawn, crowd: Crowd, grouping: Grouping) -> float:
    """Log-likelihood of the marks in this grouping."""
    missed = missed_by_all(drawn, crowd)
    terms = mark_terms(drawn, crowd, grouping.careless, grouping.careless_coordinate)
    sums = sum_terms(terms, grouping.thing, grouping.n_things)
    task = task_of_things(drawn, grouping)
    places = log_places(sums.plain, sums.weighed).sum(axis=-1)
    things = thing_terms(sums.plain, places, (missed[0][task], missed[1][task]), crowd, drawn.geometry)
    return float(things.total.sum()) - expected_drawn(missed, crowd)


def expected_drawn(missed: tuple[FloatArray, FloatArray], crowd: Crowd) -> float:
    """Expected number of things in all tasks that at least one answer draws."""
    unseen = np.exp(log_sum_exp(np.log(visibility_shares(crowd.spread)) + missed[0]))
    return float(crowd.objects * (1 - unseen).sum() - crowd.distractors * np.expm1(missed[1]).sum())


def task_of_things(drawn: Drawn, grouping: Grouping) -> IntArray:
    """Task of each thing (B,)."""
    task = np.zeros(grouping.n_things, np.int64)
    task[grouping.thing] = drawn.task
    return task
