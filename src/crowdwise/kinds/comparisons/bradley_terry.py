"""Bradley and Terry's model: every item has a score, and workers are alike.

The generative story. The scores are normal with mean 0 and standard deviation `spread`. Asked about two items whose
scores differ by d, any worker finds the first one better with probability σ(d). Where there are ties, the probabilities
of left, tie and right are proportional to e^(d/2), ν and e^(-d/2).

R. A. Bradley and M. E. Terry (1952), "Rank analysis of incomplete block designs: I", Biometrika 39.
R. R. Davidson (1970), "On extending the Bradley-Terry model to accommodate ties", JASA 65.

| equation | here |
|---|---|
| P(left), P(tie), P(right) | `likelihood.choice_shares` |
| log-likelihood - Σ s² / (2 spread²) | `posterior_mode.Objective` |
| its maximum | `fisher_scoring.climb_by_fisher_scoring`, here Newton's method |
| intervals | `uncertainty.find_variances` |

The objective is strictly concave: there is one optimum, also where an item wins or loses always, or the items fall into
groups. With a very large `spread` it is maximum likelihood. A step costs O(answers) for each of the products that it
takes, about ten.

Departures: the prior, whose spread is learnt from the answers (`empirical_bayes`), is an addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.kinds.comparisons.empirical_bayes import Climb, climb_to_mode, estimate
from crowdwise.kinds.comparisons.gold_scores import pin_gold
from crowdwise.kinds.comparisons.likelihood import Parameters
from crowdwise.kinds.comparisons.model import ComparisonModel, arrays_of
from crowdwise.kinds.comparisons.posterior_mode import Priors
from crowdwise.kinds.item_scores import check_spread
from crowdwise.kinds.model import Found

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["BradleyTerry", "fit_scores"]


def fit_scores(
    answers: Comparisons,
    spread: float | None,
    *,
    start: FloatArray | None = None,
    pinned: BoolArray | None = None,
    max_iter: int = 100,
    tol: float = 1e-12,
) -> Climb:
    """Scores with workers alike, from which other methods may start; `start` has the scores of pinned items."""
    first = Parameters.plain(answers.n_items, answers.n_workers, ties=answers.has_ties)
    if start is not None:
        first = Parameters(start, first.slope, first.bias, first.quality, first.tie)
    return climb_to_mode(
        answers,
        ("score", "tie") if answers.has_ties else ("score",),
        first,
        Priors(spread=1.0 if spread is None else spread),
        learnt=("spread",) if spread is None else (),
        pinned=pinned,
        max_iter=max_iter,
        tol=tol,
        name="bradley-terry",
    )


@estimator
class BradleyTerry(ComparisonModel):
    """Scores of items by Bradley and Terry's model, with Davidson's ties and a prior.

    Facts
    -----
    Assumes: workers are alike, and every item has one score
    Fails with: workers who guess, who mean the opposite, or who prefer a side
    Cost: O(answers) for each of about a hundred products
    Paper: Bradley & Terry 1952, Biometrika; Davidson 1970, JASA

    Parameters
    ----------
    spread : float above 0, or None
        Standard deviation of the scores beforehand; None learns it.
    """

    slug = "bradley-terry"
    uses = frozenset({"gold"})
    climbs = True

    spread: float | None = None
    max_iter: int = 100
    tol: float = 1e-12

    def _check(self) -> None:
        check_spread("spread", self.spread)

    def _fit(self, answers: Comparisons, gold: FloatArray | None) -> Found:
        start, pinned = pin_gold(gold, self.spread)
        climb = fit_scores(answers, self.spread, start=start, pinned=pinned, max_iter=self.max_iter, tol=self.tol)
        found = estimate(climb, max_iter=self.max_iter, name=self.slug)
        return Found(arrays_of(found), found.ascent.objective, len(found.ascent.objective), found.ascent.converged)
