"""How sure scores and workers are: Laplace's approximation, whose covariance is the inverse of the information.

With at most `LARGEST_EXACT` parameters, the information on items and workers together is inverted: some megabytes.
With more, workers are taken as known when it comes to items, and the other way round; the information on the items is
then a graph's Laplacian, and the inverse is found by Gaussian belief propagation on the pairs that were compared: exact
on a tree, and a little too small otherwise (0.1 % with 2,000 items of 20 comparisons each, 2 % with 300).

Scores are known up to a constant for each group of items that comparisons join; `centred` is the variance of a score
less the mean of its group. The information maps a constant to itself over the squared spread, so that the covariance of
every score with its group's mean, and the variance of the mean, are spread² / size of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array

from crowdwise.kernels.gaussian_beliefs import propagate_precisions
from crowdwise.kinds.comparisons.likelihood import choice_shares
from crowdwise.kinds.fisher_scoring import solve_by_conjugate_gradients

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.likelihood import Parameters
    from crowdwise.kinds.comparisons.posterior_mode import Objective
    from crowdwise.kinds.pair_graph import PairGraph
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "LARGEST_EXACT",
    "LaplaceVariances",
    "find_rough_variances",
    "find_variances",
    "propagate_beliefs",
    "shift_to_mean",
]

LARGEST_EXACT = 1_200  # parameters, of which a matrix takes 12 MB and its inverse half a second


@dataclass(frozen=True)
class LaplaceVariances:
    """Variances of what was estimated.

    Attributes
    ----------
    score, centred : (N,)
        Of the scores, and of the scores less the mean of their group.
    pair : (P,)
        Of the difference of scores of each pair that was compared.
    workers : dict
        Of "slope", "bias" and "quality" where these were estimated (M,).
    """

    score: FloatArray
    centred: FloatArray
    pair: FloatArray
    workers: dict[str, FloatArray]


def find_variances(objective: Objective, mode: Parameters) -> LaplaceVariances:
    """Variances at the mode, with items and workers together where they are few."""
    if objective.size > LARGEST_EXACT:
        return find_rough_variances(objective, mode)
    return _collect(objective, *_invert_whole(objective, mode))


def find_rough_variances(objective: Objective, mode: Parameters) -> LaplaceVariances:
    """Variances at the mode, with items and workers apart."""
    return _collect(objective, *_invert_parts(objective, mode))


def shift_to_mean(objective: Objective, mode: Parameters, variances: LaplaceVariances) -> FloatArray:
    """How far the means of the scores are from their mode (N,), to the next order of Laplace's approximation.

    The likelihood of an item that wins falls more slowly upwards than downwards: ½ × inverse information × Σ third
    derivative × variance of x (Tierney and Kadane 1986). For workers who are alike: where slopes or qualities are
    estimated at their mode, scores come out too far apart already, and nothing is shifted.
    """
    answers, graph = objective.answers, objective.answers.graph
    if "quality" in objective.place or "slope" in objective.place:
        return np.zeros(answers.n_items)
    slope = mode.slope[answers.worker]
    difference = mode.score[answers.left] - mode.score[answers.right]
    left, tied, right = choice_shares(slope * difference + mode.bias[answers.worker], mode.tie)
    mean = (left - right) / 2
    third = left * (0.5 - mean) ** 3 - tied * mean**3 - right * (0.5 + mean) ** 3  # cumulant of the answer
    pull = -0.5 * third * slope**3 * variances.pair[graph.pair]
    local = objective.of_scores(mode).describe(mode.score)
    gradient: FloatArray = np.zeros(answers.n_items)
    gradient += np.bincount(answers.left, pull, answers.n_items)
    gradient -= np.bincount(answers.right, pull, answers.n_items)
    if objective.pinned is not None:
        gradient[objective.pinned] = 0.0
    shift = solve_by_conjugate_gradients(local._replace(gradient=gradient))
    most = np.sqrt(variances.score)  # where answers are few and all alike, the next order is no small correction
    return np.clip(shift, -most, most)


def _collect(
    objective: Objective, diagonal: dict[str, FloatArray], score: FloatArray, pair: FloatArray
) -> LaplaceVariances:
    graph = objective.answers.graph
    if objective.pinned is not None:
        score = np.where(objective.pinned, 0.0, score)
    sizes = graph.group_sizes[graph.group]
    shift = objective.priors.spread**2 / sizes
    centred = np.where((sizes > 1) & (objective.pinned is None), np.maximum(score - shift, 1e-12 * score), score)
    workers = {part: values for part, values in diagonal.items() if part in ("slope", "bias", "quality")}
    return LaplaceVariances(score, centred, np.maximum(pair, 0.0), workers)


def _invert_whole(objective: Objective, mode: Parameters) -> tuple[dict[str, FloatArray], FloatArray, FloatArray]:
    """Diagonal of the inverse by parts, and the variances of scores and of the differences of pairs."""
    answers, place, graph = objective.answers, objective.place, objective.answers.graph
    found, slope, difference, precision = objective.information(mode)
    n = objective.size
    # Each answer moves x by its left and right score, slope and bias; q by the quality; t by log ν.
    moves: list[tuple[str, IntArray, FloatArray]] = [("x", answers.left, slope), ("x", answers.right, -slope)]
    ones = np.ones(answers.n_answers)
    for part, kind, factor in (("slope", "x", difference), ("bias", "x", ones), ("quality", "q", ones)):
        if part in place:
            moves.append((kind, place[part].start + answers.worker, factor))
    if "tie" in place:
        moves.append(("t", np.full(answers.n_answers, place["tie"].start, np.int32), ones))
    weight = {"xx": found.xx, "qq": found.qq, "tt": found.tt, "qx": found.xq, "tx": found.xt, "qt": found.qt}
    rows, columns, values = [np.arange(n)], [np.arange(n)], [precision]
    for kind, row, factor in moves:
        for other, column, times in moves:
            rows.append(row)
            columns.append(column)
            values.append(factor * times * weight["".join(sorted(kind + other))])
    every = np.concatenate(values)
    matrix = coo_array((every, (np.concatenate(rows), np.concatenate(columns))), shape=(n, n)).toarray()
    if objective.pinned is not None:  # as if known beforehand very surely
        known = np.flatnonzero(objective.pinned)
        matrix[known, known] *= 1e12
    inverse = np.linalg.inv(matrix)
    diagonal = np.maximum(inverse.diagonal(), 0.0)
    score = diagonal[place["score"]]
    pair = score[graph.first] + score[graph.second] - 2 * inverse[graph.first, graph.second]
    return {part: diagonal[where] for part, where in place.items()}, score, pair


def _invert_parts(objective: Objective, mode: Parameters) -> tuple[dict[str, FloatArray], FloatArray, FloatArray]:
    """The same with items and workers apart."""
    answers, place, graph = objective.answers, objective.place, objective.answers.graph
    found, slope, difference, precision = objective.information(mode)
    weights: FloatArray = np.bincount(graph.pair, found.xx * slope**2, graph.n_pairs).astype(np.float64)
    own = precision[place["score"]]
    score, pair = propagate_beliefs(graph, weights, own if objective.pinned is None else own + 1e12 * objective.pinned)
    variances: dict[str, FloatArray] = {}
    information = {"slope": found.xx * difference**2, "bias": found.xx, "quality": found.qq}
    sums = {
        part: np.bincount(answers.worker, values, answers.n_workers) + precision[place[part]]
        for part, values in information.items()
        if part in place
    }
    for part, total in sums.items():
        variances[part] = 1 / total
    if "slope" in sums and "bias" in sums:
        both = np.bincount(answers.worker, found.xx * difference, answers.n_workers)
        determinant = sums["slope"] * sums["bias"] - both**2
        variances["slope"], variances["bias"] = sums["bias"] / determinant, sums["slope"] / determinant
    return variances, score, pair


def propagate_beliefs(graph: PairGraph, weights: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variances of scores (N,) and of differences of pairs (P,) where the information is a Laplacian and a diagonal.

    Parameters
    ----------
    weights : (P,)
        Information on the difference of each pair; minus this is the entry of the pair.
    own : (N,)
        Information on each score besides, above 0.
    """
    precision, (there, back) = propagate_precisions(graph.first, graph.second, weights, own)
    # Of a pair without its own information: precisions a, b; with it the difference has variance (a + b)/(ab + w(a+b)).
    a, b = precision[graph.first] - back, precision[graph.second] - there
    pair: FloatArray = (a + b) / (a * b + weights * (a + b))
    return 1 / precision, pair
