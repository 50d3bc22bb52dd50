"""Plackett and Luce's model of rankings, with a temperature for every worker.

The generative story. Items have scores, normal with mean 0. Worker w makes a ranking from the best item down: the next
one is drawn from those that are left with probability proportional to exp(u[w] × score). The slope u[w] is one over the
worker's temperature: near 0 for who orders at random, negative for who means the opposite. Slopes are normal, and the
mean of their squares is 1.

R. L. Plackett (1975), "The analysis of permutations", Applied Statistics 24; R. D. Luce (1959), "Individual choice
behavior".

| equation | here |
|---|---|
| log P(ranking) with gradient and information | `stage_likelihood.Stages` |
| log-posterior of scores and slopes | `RankingObjective` |
| its climb | `fisher_scoring.climb_by_fisher_scoring` |
| spreads of scores and slopes, in turn with the mode, as for comparisons | `update_spreads` |

Rankings of two items are comparisons: the model is then that of worker-slope without sides.

Departures: temperatures, priors and ties are additions. Intervals take slopes as known, and in rankings of more than
`LONGEST` items the other items' scores. The objective is not concave: the climb starts from slopes of 1.
No constant was chosen by a truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from crowdwise.fitting.em import warn_not_converged
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.comparisons.gold_scores import pin_gold
from crowdwise.kinds.comparisons.posterior_mode import relative_slopes
from crowdwise.kinds.comparisons.uncertainty import LARGEST_EXACT, propagate_beliefs
from crowdwise.kinds.fisher_scoring import LocalModel, climb_by_fisher_scoring
from crowdwise.kinds.item_scores import check_spread
from crowdwise.kinds.model import Found
from crowdwise.kinds.pair_graph import PairGraph
from crowdwise.kinds.rankings.model import RankingModel
from crowdwise.kinds.rankings.stage_likelihood import Stages
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.rankings.answers import Rankings
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["PlackettLuce", "RankingObjective", "Spreads", "update_spreads"]

LONGEST = 100  # items of a ranking whose pairs are looked at for intervals
FEW = 2.0  # items or workers of the usual spread that count beside those of the data
MOST_ROUNDS = 30
MOST_SPREAD = 4.0  # where all rankings are alike, any larger spread is as probable
LARGEST_SPREAD = 100.0  # of scores, which are log-odds; beyond it variances are lost in rounding
ENOUGH = 0.01  # relative change of a spread
UNSEEN = 1e-9  # information on the root mean square of slopes, which nothing depends on


class Spreads(NamedTuple):
    """Standard deviation of scores; mean and standard deviation of slopes."""

    score: float = 1.0
    slope_mean: float = 1.0
    slope: float = 0.5


class RankingObjective:
    """Log-posterior as a function of one vector: scores and, unless they are given, slopes."""

    def __init__(
        self, answers: Rankings, spreads: Spreads, slope: FloatArray | None = None, pinned: BoolArray | None = None
    ) -> None:
        self.answers, self.spreads, self.given, self.pinned = answers, spreads, slope, pinned

    def describe(self, vector: FloatArray) -> LocalModel:
        """Value, gradient and information about a vector."""
        answers, n, spreads = self.answers, self.answers.n_items, self.spreads
        item, worker, score = answers.item, answers.worker, vector[:n]
        estimated = self.given is None
        relative = relative_slopes(vector[n:] if self.given is None else self.given, estimated=estimated)
        slope, placed = relative.slope[worker], score[item]
        stages = Stages(answers, slope * placed)
        value = stages.value - 0.5 * float((score**2).sum()) / spreads.score**2
        gradient, diagonal = np.empty(vector.size), np.empty(vector.size)
        gradient[:n] = np.bincount(item, stages.gradient * slope, n) - score / spreads.score**2
        diagonal[:n] = np.bincount(item, stages.diagonal * slope**2, n) + 1 / spreads.score**2
        if estimated:
            rest = relative.slope - spreads.slope_mean
            value -= 0.5 * float((rest**2).sum()) / spreads.slope**2
            sums = np.bincount(worker, stages.gradient * placed, answers.n_workers) - rest / spreads.slope**2
            gradient[n:] = relative.project(sums)
            own = np.bincount(worker, stages.multiply(placed) * placed, answers.n_workers)
            diagonal[n:] = (own + 1 / spreads.slope**2) / relative.size**2
        if self.pinned is not None:
            gradient[:n][self.pinned] = 0.0

        def multiply(direction: FloatArray) -> FloatArray:
            moved = slope * direction[:n][item]
            turned = relative.project(direction[n:]) if estimated else None
            if turned is not None:
                moved = moved + placed * turned[worker]
            back = stages.multiply(moved)
            product = np.empty(direction.size)
            product[:n] = np.bincount(item, back * slope, n) + direction[:n] / spreads.score**2
            if turned is not None:
                sums = np.bincount(worker, back * placed, answers.n_workers) + turned / spreads.slope**2
                product[n:] = relative.project(sums) + UNSEEN * direction[n:]
            if self.pinned is not None:
                product[:n][self.pinned] = 0.0
            return product

        return LocalModel(value, gradient, multiply, diagonal)

    def find_variances(self, score: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Variances of the scores, of the scores less the mean of their group, and of the slopes."""
        answers, own = self.answers, 1 / self.spreads.score**2
        along, placed = slope[answers.worker], score[answers.item]
        stages = Stages(answers, along * placed)
        first, second, weights = stages.pair_weights(LONGEST)
        left, right = answers.item[first], answers.item[second]
        graph = PairGraph.of(left, right, answers.n_items)
        joined: FloatArray = np.bincount(graph.pair, weights * along[first] ** 2, graph.n_pairs).astype(np.float64)
        whole = np.bincount(answers.item, stages.diagonal * along**2, answers.n_items)
        paired = np.bincount(graph.first, joined, answers.n_items) + np.bincount(graph.second, joined, answers.n_items)
        rest = np.maximum(whole - paired, 0.0) + own  # of rankings that are too long
        variance = _invert(graph, joined, rest) if answers.n_items <= LARGEST_EXACT else None
        if variance is None:
            variance = propagate_beliefs(graph, joined, rest)[0]
        if self.pinned is not None:
            variance = np.where(self.pinned, 0.0, variance)
        sizes = np.bincount(answers.group)[answers.group]
        shift = np.where(sizes > 1, self.spreads.score**2 / sizes, 0.0)
        centred = variance if self.pinned is not None else np.maximum(variance - shift, 1e-12 * variance)
        information = np.bincount(answers.worker, stages.multiply(placed) * placed, answers.n_workers)
        return variance, centred, 1 / (information + 1 / self.spreads.slope**2)


def update_spreads(
    before: Spreads, score: FloatArray, slope: FloatArray, variances: tuple[FloatArray, FloatArray, FloatArray]
) -> Spreads:
    """Spreads that fit the mode and its variances."""
    mean = float(slope.mean())
    usual = Spreads()
    found = (
        np.sqrt(((values + variance).sum() + FEW * common**2) / (values.size + FEW))
        for values, variance, common in (
            (score**2, variances[0], usual.score),
            ((slope - mean) ** 2, variances[2], usual.slope),
        )
    )
    scores, slopes = (min(float(each), MOST_SPREAD) for each in found)
    return before._replace(score=scores, slope_mean=mean, slope=slopes)


class TemperatureModel(RankingModel):
    """What a model of workers' temperatures keeps."""

    worker_slope_: FloatArray
    worker_slope_variance_: FloatArray
    spread_: FloatArray
    typical_: FloatArray


@estimator
class PlackettLuce(TemperatureModel):
    """Scores of items and a temperature of each worker, from rankings drawn item by item.

    Facts
    -----
    Assumes: every worker ranks by the same scores, more or less carefully, from the best item down
    Fails with: most workers adversaries, workers with different tastes
    Cost: O(answers) for each of some hundred products
    Paper: Plackett 1975, Applied Statistics; Luce 1959

    Parameters
    ----------
    spread : float above 0, at most 100, or None
        Standard deviation of the scores beforehand; None learns it.

    Attributes
    ----------
    worker_slope_, worker_slope_variance_ : (M,)
        One over the temperature, relative to the root mean square of all.
    """

    slug = "plackett-luce"
    uses = frozenset({"gold"})
    climbs = True
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("worker_slope", "M"),
        SavedArray("worker_slope_variance", "M", low=0),
        SavedArray("spread", "1", low=SMALLEST),
        SavedArray("typical", "1", low=0),
    )

    spread: float | None = None
    max_iter: int = 200
    tol: float = 1e-8

    def _check(self) -> None:
        check_spread("spread", self.spread, LARGEST_SPREAD)

    def _fit(self, answers: Rankings, gold: FloatArray | None) -> Found:
        n = answers.n_items
        start, pinned = pin_gold(gold, self.spread)
        vector = np.concatenate([np.zeros(n) if start is None else start, np.ones(answers.n_workers)])
        spreads, tol = Spreads(1.0 if self.spread is None else self.spread), self.tol * answers.n_answers
        for _ in range(MOST_ROUNDS):
            objective = RankingObjective(answers, spreads, pinned=pinned)
            ended = climb_by_fisher_scoring(vector, objective.describe, max_iter=self.max_iter, tol=tol, name=self.slug)
            score = ended.parameters[:n]
            slope = relative_slopes(ended.parameters[n:], estimated=True).slope
            vector = np.concatenate([score, slope])
            variances = objective.find_variances(score, slope)
            after = update_spreads(spreads, score, slope, variances)
            if self.spread is not None or pinned is not None:
                after = after._replace(score=spreads.score)
            if max(abs(after.score / spreads.score - 1), abs(after.slope / spreads.slope - 1)) < ENOUGH:
                break
            spreads = after
        if not ended.converged:
            warn_not_converged(f"{self.slug} stopped after {self.max_iter} iterations. Raise max_iter.")
        arrays = {
            "score": score,
            "score_variance": variances[1],
            "worker_slope": slope,
            "worker_slope_variance": variances[2],
            "spread": np.array([spreads.score]),
            "typical": np.array([_typical_difference(answers, score)]),
        }
        return Found(arrays, ended.objective, len(ended.objective), ended.converged)

    def _reliability(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        reach = float(ndtri((1 + level) / 2)) * np.sqrt(self.worker_slope_variance_)
        middle, low, high = (
            np.asarray(expit(self.typical_[0] * (self.worker_slope_ + side * reach)), np.float64) for side in (0, -1, 1)
        )
        return middle, low, high

    def _predict_table(self, answers: Rankings) -> Any:
        """Items of new rankings: those that the model knows keep their scores, and others are placed among them."""
        at = positions(answers.items, self._names["items"])
        pinned = at >= 0
        score = np.where(pinned, self.score_[at], 0.0)
        variance = np.where(pinned, self.score_variance_[at], self.spread_[0] ** 2)
        if not pinned.all() and answers.n_answers:
            slope = self._slopes_of(answers)
            objective = RankingObjective(answers, Spreads(float(self.spread_[0])), slope, pinned)
            ended = climb_by_fisher_scoring(score, objective.describe, max_iter=100, tol=1e-9, name=self.slug)
            score = np.where(pinned, score, ended.parameters)
            variance = np.where(pinned, variance, objective.find_variances(score, slope)[0])
        group = np.where(pinned, self.group_[at], 0) if pinned.all() else answers.group
        return self._table_of_items(answers.items, score, variance, group, answers.answers_per_item, 0.9)

    def _slopes_of(self, answers: Rankings) -> FloatArray:
        """Slopes of the workers of some rankings; that of a stranger is the mean."""
        at = positions(answers.workers, self._names["workers"])
        slopes: FloatArray = np.where(at >= 0, self.worker_slope_[at], self.worker_slope_.mean())
        return slopes

    def _log_density(self, answers: Rankings) -> FloatArray:
        at = positions(answers.items, self._names["items"])
        score = np.where(at >= 0, self.score_[at], 0.0)
        x = self._slopes_of(answers)[answers.worker] * score[answers.item]
        return Stages(answers, x).log_probability


def _invert(graph: PairGraph, weights: FloatArray, own: FloatArray) -> FloatArray:
    """Diagonal of the inverse of a Laplacian and a diagonal, of few items."""
    matrix = np.diag(own + np.bincount(graph.first, weights, own.size) + np.bincount(graph.second, weights, own.size))
    matrix[graph.first, graph.second] = matrix[graph.second, graph.first] = -weights
    diagonal: FloatArray = np.maximum(np.linalg.inv(matrix).diagonal(), 0.0)
    return diagonal


def _typical_difference(answers: Rankings, score: FloatArray) -> float:
    """Median difference of scores of two items that follow one another in a ranking of the crowd's scores."""
    differences = [
        np.abs(np.diff(np.sort(score[answers.item[block.row]], axis=1), axis=1)).ravel() for block in answers.blocks
    ]
    every = np.concatenate(differences) if differences else np.empty(0)
    return float(np.median(every)) if every.size else 0.0
