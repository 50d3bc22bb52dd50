"""EM over the existence and the places of objects, and over the workers who draw them, with moves of marks between.

| step | here |
|---|---|
| E: P(object), visibility, place and label of each thing, and the objects that nobody drew | `expect_things` |
| M: rates, workers' log-odds, precisions, labels | `improve` |
| matching of marks, given the parameters | `grouping.regroup` |
| what they climb: `object_likelihood.log_likelihood` and the priors | `objective` |

Priors. Log-odds of workers are normal about the crowd's, with standard deviation 1; the crowd's about 1 (73 % of the
objects drawn) and about -2.5 (8 % of the distractors). A worker's precision counts `PRECISION_STRENGTH` coordinates of
a common worker, whose error is about a tenth of an object's size. One more task with one object and one distractor,
five more objects of visibilities with a standard deviation of 1.5, and ten more labels of which eight are right. These
keep estimates of small crowds finite; none was set by a truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from crowdwise.fitting.em import Climb, climb
from crowdwise.kinds.boxes.grouping import regroup, start_grouping
from crowdwise.kinds.boxes.object_likelihood import (
    FACTOR,
    LEVELS,
    Crowd,
    Drawn,
    Grouping,
    log_likelihood,
    log_places,
    log_sum_exp,
    mark_terms,
    missed_by_all,
    sum_terms,
    task_of_things,
    thing_terms,
    visibility_shares,
)

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Things", "expect_things", "fit_objects", "group_marks", "improve", "objective", "start_crowd"]

DRAW_MEAN, FALSE_DRAW_MEAN = 1.0, -2.5
USUAL_VARIANCE = 0.01
PRECISION_STRENGTH = 16.0
SPREAD_STRENGTH, SPREAD = 5.0, 1.5
RIGHT_LABELS, WRONG_LABELS = 8.0, 2.0
NARROWEST, WIDEST = 0.05, 20.0  # spread of visibilities
EM_STEPS = 5  # between moves of marks, which take longer
NEWTON_STEPS = 4
MOST_SWEEPS = 20


@dataclass(frozen=True)
class Things:
    """What is believed about the things (B) of a grouping.

    Attributes
    ----------
    task : (B,)
    confidence : (B,)
        Probability that the thing is an object.
    levels : (B, H)
        Visibility, if it is an object.
    place, variance : (B, D)
        Posterior of the place; `size` (B, D) is what errors are measured by.
    label : (B, K)
        Posterior of the label.
    unseen : (N, H)
        Expected number of objects in each task that nobody drew, by visibility.
    unseen_distractors : (N,)
    """

    task: IntArray
    confidence: FloatArray
    levels: FloatArray
    place: FloatArray
    variance: FloatArray
    size: FloatArray
    label: FloatArray
    unseen: FloatArray
    unseen_distractors: FloatArray


def start_crowd(drawn: Drawn, grouping: Grouping) -> Crowd:
    """Workers alike, with the error within groups and as many objects as a task has groups of two marks or more."""
    n_tasks, n_workers, n_classes = drawn.sizes
    count = np.bincount(grouping.thing, minlength=grouping.n_things)
    of_several = count[grouping.thing] > 1
    variance = USUAL_VARIANCE
    if of_several.any():
        middle = np.stack([np.bincount(grouping.thing, each) for each in drawn.place.T], axis=1) / count[:, None]
        errors = (drawn.place - middle[grouping.thing]) / np.exp(drawn.log_size)
        # Median of squares of a normal error, without the few that are far off.
        variance = max(float(np.median(errors[of_several] ** 2)) / 0.455, 1e-8)
    return Crowd(
        draw=np.full(n_workers, DRAW_MEAN),
        false_draw=np.full(n_workers, FALSE_DRAW_MEAN),
        precision=np.full(n_workers, 1 / variance),
        objects=(1 + float((count > 1).sum())) / (1 + n_tasks),
        distractors=(1 + float((count == 1).sum())) / (1 + n_tasks),
        spread=SPREAD,
        draw_mean=DRAW_MEAN,
        false_draw_mean=FALSE_DRAW_MEAN,
        usual_variance=variance,
        label_accuracy=RIGHT_LABELS / (RIGHT_LABELS + WRONG_LABELS),
        label_share=np.full(n_classes, 1 / n_classes),
    )


def expect_things(drawn: Drawn, crowd: Crowd, grouping: Grouping) -> Things:
    """What is believed about the things, given the parameters."""
    missed = missed_by_all(drawn, crowd)
    task = task_of_things(drawn, grouping)
    terms = mark_terms(drawn, crowd, grouping.careless, grouping.careless_coordinate)
    plain, weighed = sum_terms(terms, grouping.thing, grouping.n_things)
    places = log_places(plain, weighed).sum(axis=-1)
    found = thing_terms(plain, places, (missed[0][task], missed[1][task]), crowd, drawn.geometry)
    n_coordinates, n_classes = drawn.place.shape[1], drawn.sizes[2]
    size = np.exp(plain[:, 4 + n_coordinates : 4 + 2 * n_coordinates] / plain[:, :1])
    labels = np.log(crowd.label_share) + plain[:, -n_classes:]
    return Things(
        task=task,
        confidence=expit(found.log_object - found.log_distractor),
        levels=np.exp(found.levels - log_sum_exp(found.levels)[:, None]),
        place=weighed[..., 2] / weighed[..., 0],
        variance=size**2 / weighed[..., 0],
        size=size,
        label=np.exp(labels - log_sum_exp(labels)[:, None]),
        unseen=crowd.objects * visibility_shares(crowd.spread) * np.exp(missed[0]),
        unseen_distractors=crowd.distractors * np.exp(missed[1]),
    )


def improve(drawn: Drawn, crowd: Crowd, grouping: Grouping, things: Things | None = None) -> Crowd:
    """Parameters under which what is believed now (by default, what the crowd makes one believe) is most probable."""
    things = expect_things(drawn, crowd, grouping) if things is None else things
    n_tasks = drawn.sizes[0]
    seen, total, false_seen, false_total = worker_counts(drawn, things, grouping)
    visible = things.unseen.sum(axis=0) + (things.confidence[:, None] * things.levels).sum(axis=0)
    false = float(things.unseen_distractors.sum() + (1 - things.confidence).sum())
    draw = raise_log_odds(crowd.draw, seen, total, crowd.draw_mean, LEVELS)
    false_draw = raise_log_odds(crowd.false_draw, false_seen, false_total, crowd.false_draw_mean, np.zeros(1))
    precision = estimate_precisions(drawn, things, grouping, crowd.usual_variance)
    strength = PRECISION_STRENGTH / 2
    accuracy, share = estimate_labels(drawn, things, grouping, crowd)
    return Crowd(
        draw=draw,
        false_draw=false_draw,
        precision=precision,
        objects=(1 + float(visible.sum())) / (1 + n_tasks),
        distractors=(1 + false) / (1 + n_tasks),
        spread=estimate_spread(visible),
        draw_mean=(DRAW_MEAN + float(draw.sum())) / (1 + draw.size),
        false_draw_mean=(FALSE_DRAW_MEAN + float(false_draw.sum())) / (1 + draw.size),
        usual_variance=(strength * draw.size + 1) / (strength * float(precision.sum()) + 1 / USUAL_VARIANCE),
        label_accuracy=accuracy,
        label_share=share,
    )


def worker_counts(
    drawn: Drawn, things: Things, grouping: Grouping
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Expected objects that each worker drew and met, by visibility (M, H); distractors likewise (M, 1)."""
    n_tasks, n_workers, _ = drawn.sizes
    real = things.confidence[:, None] * things.levels
    met = things.unseen.copy()
    np.add.at(met, things.task, real)
    seen, total = (np.zeros((n_workers + 1, LEVELS.size)) for _ in range(2))
    np.add.at(seen, drawn.worker, real[grouping.thing])
    np.add.at(total, drawn.answer_worker, met[drawn.answer_task])
    false_met = things.unseen_distractors + np.bincount(things.task, 1 - things.confidence, n_tasks)
    false_seen = np.bincount(drawn.worker, 1 - things.confidence[grouping.thing], n_workers + 1).astype(np.float64)
    false_total = np.bincount(drawn.answer_worker, false_met[drawn.answer_task], n_workers + 1).astype(np.float64)
    return seen[:-1], total[:-1], false_seen[:-1, None], false_total[:-1, None]


def raise_log_odds(
    start: FloatArray, seen: FloatArray, total: FloatArray, mean: float, offset: FloatArray
) -> FloatArray:
    """Log-odds (M,) of drawing, by Newton's steps, each halved until it does not lower what they raise."""

    def value(at: FloatArray) -> FloatArray:
        odds = at[:, None] + offset
        fits = seen * log_expit(odds) + (total - seen) * log_expit(-odds)
        found: FloatArray = fits.sum(axis=1) - 0.5 * (at - mean) ** 2
        return found

    now, height = start, value(start)
    for _ in range(NEWTON_STEPS):
        chance = expit(now[:, None] + offset)
        slope = (seen - total * chance).sum(axis=1) - (now - mean)
        step = slope * log_odds_variance(now, total, offset)
        for _ in range(30):
            new = value(now + step)
            worse = new < height
            if not worse.any():
                break
            step = np.where(worse, step / 2, step)
        better = new >= height
        now, height = np.where(better, now + step, now), np.where(better, new, height)
    return now


def log_odds_variance(at: FloatArray, total: FloatArray, offset: FloatArray) -> FloatArray:
    """Variance (M,) of log-odds by the curvature of their posterior."""
    chance = expit(at[:, None] + offset)
    found: FloatArray = 1 / (1 + (total * chance * (1 - chance)).sum(axis=1))
    return found


def estimate_precisions(drawn: Drawn, things: Things, grouping: Grouping, usual: float) -> FloatArray:
    """Precision of each worker (M,)."""
    n_workers = drawn.sizes[1]
    squares = ((drawn.place - things.place[grouping.thing]) / things.size[grouping.thing]) ** 2
    squares = squares + (things.variance / things.size**2)[grouping.thing]
    weight = FACTOR ** (grouping.careless[:, None] + grouping.careless_coordinate)
    sums = np.bincount(drawn.worker, (weight * squares).sum(axis=1), n_workers + 1)[:-1]
    found: FloatArray = (coordinates_drawn(drawn) + PRECISION_STRENGTH) / (sums + PRECISION_STRENGTH * usual)
    return found


def coordinates_drawn(drawn: Drawn) -> FloatArray:
    """Number of coordinates that each worker gave (M,)."""
    counts: FloatArray = np.float64(drawn.place.shape[1]) * np.bincount(drawn.worker, minlength=drawn.sizes[1] + 1)[:-1]
    return counts


def estimate_spread(visible: FloatArray) -> float:
    """Standard deviation of visibilities, given expected objects of each (H,): the mean square must be theirs."""
    counts = visible + SPREAD_STRENGTH * visibility_shares(SPREAD)
    wanted = float((counts * LEVELS**2).sum() / counts.sum())

    def excess(log_spread: float) -> float:
        return float((visibility_shares(np.exp(log_spread)) * LEVELS**2).sum()) - wanted

    low, high = np.log(NARROWEST), np.log(WIDEST)
    if excess(high) <= 0:
        return WIDEST
    return float(np.exp(brentq(excess, low, high, xtol=1e-12))) if excess(low) < 0 else NARROWEST


def estimate_labels(drawn: Drawn, things: Things, grouping: Grouping, crowd: Crowd) -> tuple[float, FloatArray]:
    """Accuracy of labels, and the share of each class among things."""
    if drawn.sizes[2] == 1:
        return crowd.label_accuracy, crowd.label_share
    own = drawn.worker < drawn.sizes[1]
    right = float(things.label[grouping.thing, drawn.label][own].sum())
    share = 1 + things.label.sum(axis=0)
    accuracy = (right + RIGHT_LABELS) / (int(own.sum()) + RIGHT_LABELS + WRONG_LABELS)
    return accuracy, share / share.sum()


def log_prior(crowd: Crowd) -> float:
    """Log-density of the parameters, up to a constant."""
    strength = PRECISION_STRENGTH / 2
    shrunk = crowd.usual_variance * crowd.precision
    workers = (
        -0.5 * ((crowd.draw - crowd.draw_mean) ** 2 + (crowd.false_draw - crowd.false_draw_mean) ** 2)
        + strength * (np.log(shrunk) - shrunk)
    ).sum()
    means = (crowd.draw_mean - DRAW_MEAN) ** 2 + (crowd.false_draw_mean - FALSE_DRAW_MEAN) ** 2
    rates = np.log(crowd.objects) - crowd.objects + np.log(crowd.distractors) - crowd.distractors
    spread = SPREAD_STRENGTH * float(visibility_shares(SPREAD) @ np.log(visibility_shares(crowd.spread)))
    labels = 0.0
    if crowd.label_share.size > 1:
        labels = (
            RIGHT_LABELS * np.log(crowd.label_accuracy)
            + WRONG_LABELS * np.log1p(-crowd.label_accuracy)
            + float(np.log(crowd.label_share).sum())
        )
    usual = np.log(crowd.usual_variance) - crowd.usual_variance / USUAL_VARIANCE
    return float(workers - 0.5 * means + rates + spread + labels + usual)


def objective(drawn: Drawn, crowd: Crowd, grouping: Grouping) -> float:
    """What EM and the moves of marks climb."""
    return log_likelihood(drawn, crowd, grouping) + log_prior(crowd)


def fit_objects(drawn: Drawn, max_iter: int, tol: float, name: str) -> Climb[tuple[Crowd, Grouping, BoolArray]]:
    """Parameters, grouping, and the tasks to look at next: some steps of EM and one move of every answer, in turn.

    Answers of tasks in which nothing was moved are left alone as long as there are others.
    """
    every = np.ones(drawn.sizes[0], np.bool_)

    def step(now: tuple[Crowd, Grouping, BoolArray]) -> tuple[float, float, tuple[Crowd, Grouping, BoolArray]]:
        crowd, grouping, active = now
        value = objective(drawn, crowd, grouping)
        for _ in range(EM_STEPS):
            crowd = improve(drawn, crowd, grouping)
        grouping, moved = regroup(drawn, crowd, grouping, active)
        if not moved.any() and not active.all():
            grouping, moved = regroup(drawn, crowd, grouping, every)
        return value, value, (crowd, grouping, moved if moved.any() else every)

    first = start_grouping(drawn, drawn.geometry.together)
    return climb([(start_crowd(drawn, first), first, every)], step, max_iter=max_iter, tol=tol, name=name)


def group_marks(drawn: Drawn, crowd: Crowd) -> Grouping:
    """Grouping of marks by known workers: moves until none changes anything."""
    grouping = start_grouping(drawn, drawn.geometry.together)
    active = np.ones(drawn.sizes[0], np.bool_)
    for _ in range(MOST_SWEEPS):
        grouping, active = regroup(drawn, crowd, grouping, active)
        if not active.any():
            break
    return grouping


def add_stranger(crowd: Crowd) -> Crowd:
    """The same crowd with one more worker, who is as workers usually are."""
    return replace(
        crowd,
        draw=np.append(crowd.draw, crowd.draw_mean),
        false_draw=np.append(crowd.false_draw, crowd.false_draw_mean),
        precision=np.append(crowd.precision, 1 / crowd.usual_variance),
    )
