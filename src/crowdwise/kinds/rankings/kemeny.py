"""The order with the fewest disagreements: Kemeny's, which is the most probable one under Mallows' model.

The generative story. There is one true order. A ranking of L items is drawn with probability proportional to
exp(-θ × number of pairs that it has the other way round).

J. Kemeny (1959), "Mathematics without numbers", Daedalus 88; C. L. Mallows (1957), "Non-null ranking models: I",
Biometrika 44.

| equation | here |
|---|---|
| margin of a over b: rankings with a above b less those with b above a | `count_margins` |
| order with the fewest disagreements: move an item where it loses least, until no move helps | `search_order` |
| E[disagreements] = Σ_j (e^-θ / (1 - e^-θ) - j e^-jθ / (1 - e^-jθ)), solved for θ | `fit_dispersion` |
| P(next item) = e^-θv / Σ e^-θv', v the better ones that are left | `Kemeny._log_density` |
| position of an item with the others in place: P ∝ exp(-θ × disagreements) | `position_variances` |

Finding the best order is NP-hard: the search starts from Borda's order and ends in one that no move of a single item
makes better. Ties in a ranking disagree with neither order. Groups that no ranking joins stand one after the other.
Memory is that of the pairs that occur in rankings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.rankings.borda import borda_points
from crowdwise.kinds.rankings.model import RankingModel
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from crowdwise.kinds.rankings.answers import Rankings
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Kemeny", "count_margins", "fit_dispersion", "search_order"]

LEAST_DISPERSION = 1e-6  # nearly at random
LARGEST_DISPERSION = 20.0  # e^-20: no ranking of a crowd is more alike


def count_margins(answers: Rankings) -> csr_array:
    """Rankings with one item above another less those with it below (N, N), antisymmetric and sparse."""
    above, below = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for block in answers.blocks:
        length = block.row.shape[1]
        one, two = np.triu_indices(length, 1)
        apart = block.first[:, one] != block.first[:, two]
        items = answers.item[block.row]
        above.append(items[:, one][apart])
        below.append(items[:, two][apart])
    rows, columns = np.concatenate(above), np.concatenate(below)
    ones = np.ones(rows.size)
    found = coo_array(
        (np.concatenate([ones, -ones]), (np.concatenate([rows, columns]), np.concatenate([columns, rows]))),
        shape=(answers.n_items, answers.n_items),
    ).tocsr()
    found.eliminate_zeros()
    found.sort_indices()
    return found


def search_order(margins: csr_array, start: IntArray, max_iter: int) -> tuple[IntArray, FloatArray, bool]:
    """Position of each item (N,) after moves that each lower the disagreements; the agreement after each pass.

    Parameters
    ----------
    start : (N,)
        Items in the order from which the search begins.
    """
    n = start.size
    order = start.tolist()
    position = np.empty(n, np.int64)
    position[start] = np.arange(n)
    values = [_agreement(margins, position)]
    for _ in range(max_iter):
        moved = False
        for item in range(n):
            there, costs = _costs_of_places(margins, position, item)
            best = int(np.argmin(costs))
            if costs[best] < -1e-9:
                goal = _place_between(position, item, there, best)
                order.insert(goal, order.pop(int(position[item])))
                position[order] = np.arange(n)
                moved = True
        values.append(_agreement(margins, position))
        if not moved:
            return position, np.array(values), True
    return position, np.array(values), False


def _costs_of_places(margins: csr_array, position: IntArray, item: int) -> tuple[IntArray, FloatArray]:
    """Positions of the items that meet this one, in order, and the cost of standing before each and after the last.

    The cost is the change of disagreements against where the item stands now.
    """
    rivals = margins.indices[margins.indptr[item] : margins.indptr[item + 1]]
    margin = margins.data[margins.indptr[item] : margins.indptr[item + 1]]
    by_place = np.argsort(position[rivals])
    there, margin = position[rivals][by_place], margin[by_place]
    # Standing behind a rival costs the margin over it.
    behind = np.concatenate([[0.0], np.cumsum(margin)])
    now = int(np.searchsorted(there, position[item]))
    return there, behind - behind[now]


def _place_between(position: IntArray, item: int, there: IntArray, place: int) -> int:
    """Where to insert an item, once taken out, so that `place` of its rivals stand before it."""
    goal = int(there[0]) if place == 0 else int(there[place - 1]) + 1
    return goal - (1 if goal > position[item] else 0)


def _agreement(margins: csr_array, position: IntArray) -> float:
    """Half of the margins' sum over pairs in the order: rises by one where a disagreement ends."""
    rows = np.repeat(np.arange(position.size), np.diff(margins.indptr))
    return float(margins.data[position[rows] < position[margins.indices]].sum()) / 2


def count_worse_choices(answers: Rankings, position: IntArray) -> tuple[IntArray, IntArray]:
    """At each stage of each ranking: how many better items are left (n_answers,), and how many items are."""
    better, left = np.zeros(answers.n_answers, np.int64), np.ones(answers.n_answers, np.int64)
    for block in answers.blocks:
        places, length = position[answers.item[block.row]], block.row.shape[1]
        for stage in range(length):
            after = np.arange(length) > block.last[:, stage][:, None]
            better[block.row[:, stage]] = (after & (places < places[:, stage][:, None])).sum(axis=1)
            left[block.row[:, stage]] = 1 + after.sum(axis=1)
    return better, left


def fit_dispersion(better: IntArray, left: IntArray) -> float:
    """θ whose expected number of better items left is that of the rankings."""
    lengths, counts = np.unique(left, return_counts=True)
    total = float(better.sum())

    def surplus(theta: float) -> float:
        powers = np.exp(-theta * lengths)
        means = np.exp(-theta) / (1 - np.exp(-theta)) - lengths * powers / (1 - powers)
        return float((counts * means).sum()) - total

    if surplus(LEAST_DISPERSION) <= 0:  # as many as at random
        return LEAST_DISPERSION
    if surplus(LARGEST_DISPERSION) >= 0:
        return LARGEST_DISPERSION
    return float(brentq(surplus, LEAST_DISPERSION, LARGEST_DISPERSION))


def position_variances(margins: csr_array, position: IntArray, theta: float) -> FloatArray:
    """Variance of each item's position (N,), the others in place."""
    n = position.size
    variances = np.empty(n)
    for item in range(n):
        there, costs = _costs_of_places(margins, position, item)
        weights = np.exp(-theta * (costs - costs.min()))
        # Between two rivals an item may stand at any place.
        ends = np.concatenate([[0], there, [n - 1]])
        widths = np.maximum(np.diff(ends), 1)
        middles = (ends[1:] + ends[:-1]) / 2
        shares = weights * widths / (weights * widths).sum()
        mean = float(shares @ middles)
        variances[item] = float(shares @ ((middles - mean) ** 2 + (widths**2 - 1) / 12))
    return variances


class DispersionModel(RankingModel):
    """What Mallows' model keeps."""

    dispersion_: FloatArray


@estimator
class Kemeny(DispersionModel):
    """The order that disagrees least with the rankings, by local search; Mallows' model.

    The score of an item is the share of the others that it stands above.

    Facts
    -----
    Assumes: every worker errs alike, and a pair is as easily exchanged as any other
    Fails with: workers who guess, items of the same strength, very many items
    Cost: O(pairs in rankings) a pass over the items
    Paper: Kemeny 1959, Daedalus; Mallows 1957, Biometrika
    """

    slug = "kemeny"
    climbs = True
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("dispersion", "1", low=LEAST_DISPERSION, high=LARGEST_DISPERSION),
    )

    max_iter: int = 100

    def _fit(self, answers: Rankings, gold: FloatArray | None) -> Found:  # noqa: ARG002
        n = answers.n_items
        counts = np.maximum(answers.answers_per_item, 1)
        borda = np.bincount(answers.item, borda_points(answers), n) / counts
        names = np.argsort(np.argsort(np.array(answers.items.cast("string").to_pylist(), object)))
        start = np.lexsort((names, -borda, answers.group))  # equal items by name, whatever the order of rows
        margins = count_margins(answers)[start][:, start].tocsr()
        margins.sort_indices()
        at, values, converged = search_order(margins, np.arange(n), self.max_iter)
        position = np.empty(n, np.int64)
        position[start] = at
        theta = fit_dispersion(*count_worse_choices(answers, position))
        variance = np.empty(n)
        variance[start] = position_variances(margins, at, theta)
        last = max(n - 1, 1)
        arrays = {
            "score": 1 - position / last,
            "score_variance": variance / last**2,
            "dispersion": np.array([theta]),
        }
        return Found(arrays, values, values.size, converged)

    def _log_density(self, answers: Rankings) -> FloatArray:
        at = positions(answers.items, self._names["items"])
        score = np.where(at >= 0, self.score_[at], 0.5)
        better, left = count_worse_choices(answers, np.argsort(np.argsort(-score, kind="stable"), kind="stable"))
        theta = float(self.dispersion_[0])
        whole = np.log(-np.expm1(-theta * left)) - np.log(-np.expm1(-theta))
        log_probability: FloatArray = -theta * better - whole
        return log_probability
