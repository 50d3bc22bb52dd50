"""Sums over comparisons: the log-likelihood, its derivatives by items and workers, and the information on them.

With x = u (s - s') + c of an answer, what its derivatives by x, logit ω (q) and log ν (t) say of the parts:

| part | derivative |
|---|---|
| score | u by x for the left item, -u by x for the right one |
| slope | (s - s') by x |
| bias | by x |
| quality | by q |
| tie | by t |

The parts stand behind one another in a vector, where `place` says. Compiled loops sum large data without ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from crowdwise.kinds.comparisons.likelihood import Curvature, differentiate, observe_information
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.kinds.comparisons.likelihood import Parameters
    from crowdwise.labels.types import FloatArray

__all__ = ["AnswerSums", "inform", "sum_answers"]

CELLS = 4  # numbers that are read and written of each answer, for the choice of the engine
WORKER_PARTS = ("slope", "bias", "quality")

Place = dict[str, slice]


class AnswerSums(NamedTuple):
    """Log-likelihood of parts, behind one another.

    Attributes
    ----------
    fisher, seen
        Diagonals of Fisher's information and of that which `multiply` uses: the same, or the observed information.
    multiply
        The product of the information with a vector.
    """

    value: float
    gradient: FloatArray
    fisher: FloatArray
    seen: FloatArray
    multiply: Callable[[FloatArray], FloatArray]


def sum_answers(answers: Comparisons, place: Place, now: Parameters, *, observed: bool) -> AnswerSums:
    """Sums over the answers at given parameters; slopes are as the likelihood takes them."""
    if _is_compiled(answers, now):
        return _sum_compiled(answers, place, now, observed=observed)
    return _sum_in_numpy(answers, place, now, observed=observed)


def inform(answers: Comparisons, now: Parameters) -> Curvature:
    """Fisher's information of each answer."""
    if _is_compiled(answers, now):
        xx, xq, qq = _run_loop(answers, now, observed=False)[1].T
        none = np.broadcast_to(0.0, xx.shape)
        return Curvature(xx, qq, none, xq, none, none)
    return differentiate(answers.outcome, _log_odds(answers, now)[2], now.quality[answers.worker], now.tie).expected


def _is_compiled(answers: Comparisons, now: Parameters) -> bool:
    return now.tie == -np.inf and choose_engine(answers.n_answers, CELLS) == "numba"


def _log_odds(answers: Comparisons, now: Parameters) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Slope, difference of scores, and x of each answer."""
    slope, difference = now.slope[answers.worker], now.score[answers.left] - now.score[answers.right]
    return slope, difference, slope * difference + now.bias[answers.worker]


def _size(place: Place) -> int:
    return int(max(each.stop for each in place.values()))


# ---- NumPy ------------------------------------------------------------------------------------------------


def _sum_in_numpy(answers: Comparisons, place: Place, now: Parameters, *, observed: bool) -> AnswerSums:
    slope, difference, x = _log_odds(answers, now)
    said = answers.outcome, x, now.quality[answers.worker], now.tie
    found = differentiate(*said)
    curved = observe_information(found, *said) if observed else found.expected

    def scatter(x: FloatArray, q: FloatArray | float, t: FloatArray | float) -> FloatArray:
        total = np.empty(_size(place))
        moved = x * slope
        total[place["score"]] = np.bincount(answers.left, moved, answers.n_items)
        total[place["score"]] -= np.bincount(answers.right, moved, answers.n_items)
        for part, values, factor in (("slope", x, difference), ("bias", x, 1.0), ("quality", q, 1.0)):
            if part in place:
                total[place[part]] = np.bincount(answers.worker, values * factor, answers.n_workers)
        if "tie" in place:
            total[place["tie"]] = np.sum(t)
        return total

    def multiply(direction: FloatArray) -> FloatArray:
        score = direction[place["score"]]
        x = slope * (score[answers.left] - score[answers.right])
        if "slope" in place:
            x += difference * direction[place["slope"]][answers.worker]
        if "bias" in place:
            x += direction[place["bias"]][answers.worker]
        by_x, by_q, by_t = curved.xx * x, found.by_q, found.by_t  # the last two count where they are estimated
        q: FloatArray | float = 0.0
        if "quality" in place:
            q = direction[place["quality"]][answers.worker]
            by_x, by_q = by_x + curved.xq * q, curved.xq * x + curved.qq * q
        if "tie" in place:
            t = float(direction[place["tie"]][0])
            by_x, by_t = by_x + curved.xt * t, curved.xt * x + curved.qt * q + curved.tt * t
            by_q = by_q + curved.qt * t
        return scatter(by_x, by_q, by_t)

    def diagonal(xx: FloatArray, qq: FloatArray, tt: FloatArray) -> FloatArray:
        total = np.empty(_size(place))
        weights = xx * slope**2
        total[place["score"]] = np.bincount(answers.left, weights, answers.n_items)
        total[place["score"]] += np.bincount(answers.right, weights, answers.n_items)
        for part, values in (("slope", xx * difference**2), ("bias", xx), ("quality", qq)):
            if part in place:
                total[place[part]] = np.bincount(answers.worker, values, answers.n_workers)
        if "tie" in place:
            total[place["tie"]] = tt.sum()
        return total

    fisher = diagonal(found.expected.xx, found.expected.qq, found.expected.tt)
    seen = diagonal(curved.xx, curved.qq, curved.tt) if observed else fisher
    return AnswerSums(float(found.value.sum()), scatter(found.by_x, found.by_q, found.by_t), fisher, seen, multiply)


# ---- compiled ---------------------------------------------------------------------------------------------


def _sum_compiled(answers: Comparisons, place: Place, now: Parameters, *, observed: bool) -> AnswerSums:
    from crowdwise.kernels.compiled.comparison_sums import multiply_sides

    value, rows, by_item, by_worker = _run_loop(answers, now, observed=observed)
    slope, score = np.ascontiguousarray(now.slope), np.ascontiguousarray(now.score)

    def join(items: FloatArray, workers: FloatArray) -> FloatArray:
        total = np.empty(_size(place))
        total[place["score"]] = items
        for column, part in enumerate(WORKER_PARTS):
            if part in place:
                total[place[part]] = workers[:, column]
        return total

    def multiply(direction: FloatArray) -> FloatArray:
        turned = np.zeros((answers.n_workers, len(WORKER_PARTS)))
        for column, part in enumerate(WORKER_PARTS):
            if part in place:
                turned[:, column] = direction[place[part]]
        moved = np.ascontiguousarray(direction[place["score"]])
        return join(*multiply_sides(answers.left, answers.right, answers.worker, score, slope, rows, moved, turned))

    gradient, fisher, seen = (join(by_item[:, each], by_worker[:, each::3]) for each in range(3))
    return AnswerSums(value, gradient, fisher, seen, multiply)


def _run_loop(
    answers: Comparisons, now: Parameters, *, observed: bool
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Log-likelihood; the information of each answer (n, 3): xx, xq, qq; and the sums by item and worker."""
    from crowdwise.kernels.compiled.comparison_sums import sum_sides

    table = np.column_stack([now.slope, now.bias, expit(now.quality)])
    items, by_worker = np.zeros((answers.n_items, 4)), np.zeros((answers.n_workers, 9))
    items[:, 0], rows = now.score, np.empty((answers.n_answers, 3))
    value = sum_sides(
        answers.left, answers.right, answers.worker, answers.outcome, items, table, observed, rows, by_worker
    )
    return value, rows, items[:, 1:], by_worker
