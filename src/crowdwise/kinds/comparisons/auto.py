"""The method that predicts held-out answers best.

A fifth of the answers is held out. Each candidate is fitted to the rest and gives the held-out answers a probability;
the one with the highest mean log-probability is fitted to all answers. A simpler candidate is kept unless another one
gains more than the standard error of the difference. No truth is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.kinds.comparisons.bradley_terry import BradleyTerry
from crowdwise.kinds.comparisons.crowd_bt import CrowdBt
from crowdwise.kinds.comparisons.model import ComparisonModel
from crowdwise.kinds.comparisons.worker_slope import WorkerSlope
from crowdwise.kinds.held_out import HeldOutChoice, held_out_folds, keep_unless_better
from crowdwise.kinds.model import Found

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.labels.types import FloatArray

__all__ = ["AutoComparisons"]

CANDIDATES: tuple[type[ComparisonModel], ...] = (WorkerSlope, CrowdBt, BradleyTerry)
FEWEST = 20  # answers to hold some out of


@estimator
class AutoComparisons(HeldOutChoice, ComparisonModel):
    """The best of worker-slope, crowd-bt and bradley-terry, by the probability of held-out answers.

    Facts
    -----
    Assumes: answers that are held out are like those that are not
    Fails with: very few answers, of which none can be held out: then worker-slope is taken
    Cost: that of its candidates, twice
    Paper: held-out likelihood (Geisser 1975)
    """

    slug = "auto"
    uses = frozenset({"gold"})
    candidates = CANDIDATES
    saved = HeldOutChoice.choice_arrays(len(CANDIDATES))

    def _fit(self, answers: Comparisons, gold: FloatArray | None) -> Found:
        chosen, means = 0, np.full(len(CANDIDATES), np.nan)
        if answers.n_answers >= FEWEST:
            out = held_out_folds(answers) == 0
            seen, hidden = answers.keep(~out), answers.keep(out)
            scores = []
            for each in CANDIDATES:
                model = each()
                model._remember(seen, model._fit(seen, gold))
                scores.append(model._log_density(hidden))
            means = np.array([each.mean() for each in scores])
            chosen = keep_unless_better(scores)
        best = CANDIDATES[chosen]()._fit(answers, gold)
        best.arrays.update(chosen=np.array([chosen]), held_out=means)
        return Found(best.arrays, best.objective, best.n_iter, best.converged)

    def _reliability(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        found: tuple[FloatArray, FloatArray, FloatArray] = self.chosen_class._reliability(self, level)
        return found
