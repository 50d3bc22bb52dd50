"""The share of its comparisons that an item wins: what a model of the opponents and of the workers must beat.

A tie is half a win. `strength` comparisons won by half are added to each item's. The score is the log-odds of this
share w, so that of two items the first wins with odds of (w / (1 - w)) / (w' / (1 - w')), which holds if both met
opponents of all strengths (James 1981, "log5"); its variance is 1 / (n w (1 - w)), with n comparisons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.comparisons.model import ComparisonModel
from crowdwise.kinds.model import Found

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.labels.types import FloatArray

__all__ = ["WinRate"]


@estimator
class WinRate(ComparisonModel):
    """The share of its comparisons that an item wins.

    The scores of `consensus` are these shares; `score_` has their log-odds.

    Facts
    -----
    Assumes: every item met opponents of all strengths, and workers are alike
    Fails with: items that met strong or weak opponents alone, workers who guess
    Cost: O(answers)
    Paper: folklore

    Parameters
    ----------
    strength : float, above 0
        How many comparisons, half of them won, are added to those of each item.
    """

    slug = "win-rate"

    strength: float = 2.0

    def _check(self) -> None:
        check_number("strength", self.strength, low=0, above=True)

    def _fit(self, answers: Comparisons, gold: FloatArray | None) -> Found:  # noqa: ARG002
        won = 0.5 + 0.5 * answers.outcome
        wins = np.bincount(answers.left, won, answers.n_items) + np.bincount(answers.right, 1 - won, answers.n_items)
        counts = answers.answers_per_item + self.strength
        share = (wins + self.strength / 2) / counts
        score, variance = logit(share), 1 / (counts * share * (1 - share))
        ties = (float((answers.outcome == 0).sum()) + 0.5) / (answers.n_answers + 1) if answers.has_ties else 0.0
        graph, nothing, ones = answers.graph, np.zeros(answers.n_workers), np.ones(answers.n_workers)
        arrays = {
            "score": score,
            "score_variance": variance,
            "worker_slope": ones,
            "worker_bias": nothing,
            "worker_quality": ones,
            **{f"worker_{part}_variance": nothing for part in ("slope", "bias", "quality")},
            "tie": np.array([2 * ties / (1 - ties)]),
            "spread": np.array([max(float(np.sqrt((score**2).mean())), 1e-3)]),
            "pair_variance": variance[graph.first] + variance[graph.second],
        }
        return Found(arrays)

    def _shown(self, score: FloatArray) -> FloatArray:
        share: FloatArray = expit(score)
        return share
