"""Borda's count: the mean share of the others in a ranking that an item stands above.

| equation | here |
|---|---|
| points in a ranking of L items: (items below + ties / 2) / (L - 1) | `borda_points` |
| score: mean over the rankings that hold the item, with `strength` rankings of one half added | `Borda._fit` |
| variance: of the item's points about their mean and of the prior's, over their number | `Borda._fit` |

J.-C. de Borda (1781), "Mémoire sur les élections au scrutin".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.model import Found
from crowdwise.kinds.rankings.model import RankingModel

if TYPE_CHECKING:
    from crowdwise.kinds.rankings.answers import Rankings
    from crowdwise.labels.types import FloatArray

__all__ = ["Borda", "borda_points"]

EVEN = 1 / 12  # variance of a share that may be anything


def borda_points(answers: Rankings) -> FloatArray:
    """Share of the others in its ranking that each placed item stands above (n_answers,); one half where alone."""
    points = np.full(answers.n_answers, 0.5)
    for block in answers.blocks:
        length = block.row.shape[1]
        if length > 1:
            points[block.row] = (length - 1 - (block.first + block.last) / 2) / (length - 1)
    return points


@estimator
class Borda(RankingModel):
    """Items by the mean share of the others that they stand above.

    Facts
    -----
    Assumes: every list holds items of all strengths, and workers are alike
    Fails with: lists of strong or of weak items alone, workers who guess
    Cost: O(answers)
    Paper: Borda 1781

    Parameters
    ----------
    strength : float, above 0
        How many rankings in which it stands in the middle are added to those of each item.
    """

    slug = "borda"

    strength: float = 1.0

    def _check(self) -> None:
        check_number("strength", self.strength, low=0, above=True)

    def _fit(self, answers: Rankings, gold: FloatArray | None) -> Found:  # noqa: ARG002
        points = borda_points(answers)
        counts = answers.answers_per_item + self.strength
        score = (np.bincount(answers.item, points, answers.n_items) + self.strength / 2) / counts
        squares = np.bincount(answers.item, (points - score[answers.item]) ** 2, answers.n_items)
        variance = (squares + self.strength * EVEN) / counts**2
        return Found({"score": score, "score_variance": variance})
