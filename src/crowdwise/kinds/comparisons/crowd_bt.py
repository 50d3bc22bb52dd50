"""Bradley and Terry's model with workers who may say the opposite.

The generative story. Scores are normal with mean 0. Worker w finds one of two items better as Bradley and Terry's model
says, and says so with probability ω[w]; else they say the opposite. ω[w] has the prior Beta(right, wrong): an adversary
has ω below one half, and who guesses has one half.

X. Chen, P. N. Bennett, K. Collins-Thompson and E. Horvitz (2013), "Pairwise ranking aggregation in a crowdsourced
setting", WSDM.

| equation | here |
|---|---|
| equation 4: P(left) = ω σ(d) + (1 - ω) σ(-d) | `likelihood.answer_probabilities` |
| equation 5 and the priors | `posterior_mode.Objective` |
| its climb, scores and ω together, by the observed information | `fisher_scoring.climb_by_fisher_scoring` |
| minus the second derivatives of log P | `likelihood.observe_information` |

Departures: a normal prior of scores, whose spread is learnt, in place of a virtual item; a Beta prior of ω; ties
(Davidson), which the exchange leaves as they are; Newton's method in place of alternating gradients; no active
learning.
The objective is not concave: the climb starts from Bradley and Terry's scores and workers of ω at the prior's mean.
`right` and `wrong` leave room for adversaries; on pair_readinglevel Beta(8, 2) predicts held-out answers a little
better and orders by grade a little worse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit, ndtri

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.comparisons.bradley_terry import fit_scores
from crowdwise.kinds.comparisons.empirical_bayes import climb_to_mode, estimate
from crowdwise.kinds.comparisons.gold_scores import pin_gold
from crowdwise.kinds.comparisons.model import ComparisonModel, arrays_of
from crowdwise.kinds.item_scores import check_spread
from crowdwise.kinds.model import Found

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.labels.types import FloatArray

__all__ = ["CrowdBt"]


@estimator
class CrowdBt(ComparisonModel):
    """Scores of items, and how often each worker says what they find.

    Facts
    -----
    Assumes: a worker says the opposite of what they find with a probability of their own, whatever the items
    Fails with: workers who prefer a side, or see differences of other sizes; most workers adversaries
    Cost: O(answers) for each of about fifty products
    Paper: Chen et al. 2013, WSDM

    Parameters
    ----------
    spread : float above 0, or None
        Standard deviation of the scores beforehand; None learns it.
    right, wrong : float, above 1
        Beta prior of the probability to say what one finds.
    """

    slug = "crowd-bt"
    uses = frozenset({"gold"})
    climbs = True

    spread: float | None = None
    right: float = 4.0
    wrong: float = 2.0
    max_iter: int = 200
    tol: float = 1e-8

    def _check(self) -> None:
        check_spread("spread", self.spread)
        check_number("right", self.right, low=1, above=True)
        check_number("wrong", self.wrong, low=1, above=True)

    def _fit(self, answers: Comparisons, gold: FloatArray | None) -> Found:
        start, pinned = pin_gold(gold, self.spread)
        plain = fit_scores(answers, self.spread, start=start, pinned=pinned, tol=1e-6)
        mean = float(logit(self.right / (self.right + self.wrong)))
        first = replace(plain.mode, quality=np.full(answers.n_workers, mean))
        if start is not None:  # the scores of others wait until gold has told the workers apart
            first = replace(first, score=start)
        climb = climb_to_mode(
            answers,
            ("score", "quality", "tie") if answers.has_ties else ("score", "quality"),
            first,
            replace(plain.priors, right=self.right, wrong=self.wrong),
            learnt=("spread",) if self.spread is None else (),
            pinned=pinned,
            max_iter=self.max_iter,
            tol=self.tol,
            name=self.slug,
        )
        found = estimate(climb, max_iter=self.max_iter, name=self.slug)
        return Found(arrays_of(found), found.ascent.objective, len(found.ascent.objective), found.ascent.converged)

    def _reliability(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        share = expit(self._typical_difference())
        reach = float(ndtri((1 + level) / 2)) * np.sqrt(self.worker_quality_variance_)
        middle = logit(np.clip(self.worker_quality_, 1e-12, 1 - 1e-12))
        low, mid, high = (expit(each) for each in (middle - reach, middle, middle + reach))
        return (mid * share + (1 - mid) * (1 - share), low * share + (1 - low) * (1 - share),
                high * share + (1 - high) * (1 - share))  # fmt: skip
