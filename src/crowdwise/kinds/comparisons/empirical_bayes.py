"""Spreads of scores and of workers from the answers: the mode and the spreads in turn.

| equation | here |
|---|---|
| the mode given the spreads | `posterior_mode.find_mode` |
| spread² = mean of (score² + its variance), and so for slopes and biases about their means | `update_priors` |

The second line is the M-step of EM where the posterior is taken for normal about its mode (Laplace). Each spread has an
inverse-gamma prior that counts as `FEW` items or workers of the usual spread, for data from which it cannot be told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.fitting.em import warn_not_converged
from crowdwise.kinds.comparisons.posterior_mode import Objective, Priors, find_mode
from crowdwise.kinds.comparisons.uncertainty import find_rough_variances, find_variances, shift_to_mean

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.kinds.comparisons.likelihood import Parameters
    from crowdwise.kinds.comparisons.uncertainty import LaplaceVariances
    from crowdwise.kinds.fisher_scoring import Ascent
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["Climb", "Estimate", "climb_to_mode", "estimate", "update_priors"]

FEW = 2.0
USUAL = Priors()
MOST_ROUNDS = 30
MOST_SPREAD = 4.0  # where all answers to a pair are alike, any larger spread is as probable
SPREADS = ("spread", "slope_spread", "bias_spread")
RELAXATION = 1.8
ENOUGH = 0.01  # relative change of a spread
SMALL = 0.3  # of a spread: what is below matters little, and EM is slow to find it
ROUGH = 1e-5  # gain per answer at which a mode is good enough for spreads
STEPS = 6  # towards the mode in a round


class Estimate(NamedTuple):
    """The mode, how it was reached with the last spreads, the spreads and the variances."""

    mode: Parameters
    ascent: Ascent
    priors: Priors
    variances: LaplaceVariances


def update_priors(
    mode: Parameters, variances: LaplaceVariances, priors: Priors, learnt: tuple[str, ...], free: BoolArray
) -> Priors:
    """Spreads that fit the mode and its variances; `free` are the items whose scores are not known beforehand."""
    found: dict[str, float] = {}
    if "spread" in learnt and free.any():
        found["spread"] = _spread(mode.score[free] ** 2 + variances.score[free], USUAL.spread)
    if "slope_spread" in learnt:
        found["slope_mean"] = float(mode.slope.mean())
        squares = (mode.slope - found["slope_mean"]) ** 2 + variances.workers["slope"]
        found["slope_spread"] = _spread(squares, USUAL.slope_spread)
    if "bias_spread" in learnt:
        found["bias_mean"] = float(mode.bias.sum() / (mode.bias.size + FEW))
        squares = (mode.bias - found["bias_mean"]) ** 2 + variances.workers["bias"]
        found["bias_spread"] = _spread(squares, USUAL.bias_spread)
    return replace(priors, **found)


class Climb(NamedTuple):
    """The mode, how it was reached with the last spreads, the spreads, and the objective with them."""

    mode: Parameters
    ascent: Ascent
    priors: Priors
    objective: Objective


def climb_to_mode(
    answers: Comparisons,
    parts: tuple[str, ...],
    start: Parameters,
    priors: Priors,
    *,
    learnt: tuple[str, ...],
    pinned: BoolArray | None = None,
    max_iter: int,
    tol: float,
    name: str,
) -> Climb:
    """Mode and spreads; spreads that are not `learnt` stay as they are."""
    free = np.ones(answers.n_items, np.bool_) if pinned is None else ~pinned
    mode, rough = start, max(tol, ROUGH)
    for _ in range(MOST_ROUNDS if learnt else 0):
        objective = Objective(answers, parts, mode, priors, pinned)
        mode, _ascent = find_mode(objective, mode, max_iter=min(max_iter, STEPS), tol=rough, name=name)
        mode = objective.settle(mode)
        variances = find_rough_variances(objective, mode)
        mean = replace(mode, score=mode.score + shift_to_mean(objective, mode, variances))
        after = update_priors(mean, variances, priors, learnt, free)
        change, priors = _change(priors, after), _go_further(priors, after)
        if change < ENOUGH:
            break
    objective = Objective(answers, parts, mode, priors, pinned)
    mode, ascent = find_mode(objective, mode, max_iter=max_iter, tol=tol, name=name)
    return Climb(objective.settle(mode), ascent, priors, objective)


def estimate(found: Climb, *, max_iter: int, name: str) -> Estimate:
    """The mode with its variances; a warning where it was not reached."""
    if not found.ascent.converged:
        warn_not_converged(f"{name} stopped after {max_iter} iterations while still improving. Raise max_iter.")
    return Estimate(found.mode, found.ascent, found.priors, find_variances(found.objective, found.mode))


def _spread(squares: FloatArray, usual: float) -> float:
    return min(float(np.sqrt((squares.sum() + FEW * usual**2) / (squares.size + FEW))), MOST_SPREAD)


def _go_further(before: Priors, after: Priors) -> Priors:
    """Spreads beyond the M-step's: EM comes nearer by about half of the way in each round."""
    longer = {
        name: min(getattr(before, name) * (getattr(after, name) / getattr(before, name)) ** RELAXATION, MOST_SPREAD)
        for name in SPREADS
    }
    return replace(after, **longer)


def _change(before: Priors, after: Priors) -> float:
    pairs = ((getattr(before, name), getattr(after, name)) for name in SPREADS)
    return max(abs(float(new) - float(old)) / max(float(old), SMALL) for old, new in pairs)
