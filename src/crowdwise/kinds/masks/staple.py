"""STAPLE: Dawid–Skene over pixels, with a sensitivity and a specificity for every worker.

The generative story. A pixel of task n is inside with probability γ[n]. Worker m puts a pixel that is inside there with
probability p[m], and leaves one that is outside there with probability q[m], each pixel for itself.

S. K. Warfield, K. H. Zou and W. M. Wells (2004), "Simultaneous truth and performance level estimation (STAPLE): an
algorithm for the validation of image segmentation", IEEE Transactions on Medical Imaging 23.

| equation | here |
|---|---|
| (14)-(16): W = γ a / (γ a + (1 - γ) b), a = Π p^y (1 - p)^(1 - y), b = Π q^(1 - y) (1 - q)^y | `infer_patterns` |
| (18), (19): p[m] = Σ W y / Σ W, q[m] = Σ (1 - W) (1 - y) / Σ (1 - W) | `estimate_rates` |
| γ: share of pixels inside, over the answers to the task | `share_inside_tasks` |
| p = q = .99999 at the start | `first_rates` |

Departures: pixels that the same workers put inside are one pattern, which counts for all of them; the numbers are the
same. Rates are a worker's own over all tasks, where the paper fits each image alone: in simulated crowds that is nearer
to the truth (docs/kinds.md). They have a prior: `smoothing` images in which the worker does as the crowd does with the
majority vote. With one image and `smoothing=0` the method is the paper's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.kinds.masks.model import put_gold
from crowdwise.kinds.masks.pixel_patterns import find_patterns
from crowdwise.kinds.masks.pixel_rates import (
    RateModel,
    crowd_rates,
    estimate_rates,
    expand_log_odds,
    first_rates,
    infer_patterns,
    log_prior,
    share_inside_tasks,
)
from crowdwise.kinds.masks.soft_levels import pack_levels
from crowdwise.kinds.model import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.kinds.masks.answers import Masks
    from crowdwise.kinds.masks.pixel_rates import Rates
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["Staple"]


@estimator
class Staple(RateModel):
    """Dawid–Skene over pixels: a sensitivity and a specificity for every worker, by EM.

    Facts
    -----
    Assumes: a worker errs at each pixel by itself, as often near the outline as far from it
    Fails with: large backgrounds: specificities are near 1, and what a few workers add counts too much
    Cost: O(pixels of all answers), and O(patterns × answers) an iteration
    Paper: Warfield, Zou & Wells 2004, IEEE Transactions on Medical Imaging
    """

    slug = "staple"

    max_iter: int = 500
    tol: float = 1e-6

    def _fit(self, answers: Masks, gold: dict[int, BoolArray] | None) -> Found:
        seen, share = find_patterns(answers, answers.worker, gold), share_inside_tasks(answers)
        prior = crowd_rates(seen, answers.n_tasks, self.smoothing)
        count, said = seen.count[seen.pattern], seen.inside.astype(np.float64)

        def step(rates: Rates) -> tuple[float, float, Rates]:
            likelihood, found = infer_patterns(seen, rates, share)
            here = count * found[seen.pattern]
            following = estimate_rates(seen.worker, here, count - here, said, answers.n_workers, prior)
            return likelihood + log_prior(rates, prior), likelihood, following

        start = first_rates(answers.n_workers)
        ended = climb([start], step, max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug)
        rates = ended.parameters
        fields = map(expit, expand_log_odds(answers, answers.worker, rates, share))
        arrays: dict[str, Any] = {"levels": pack_levels(put_gold(fields, gold))}
        return Found(arrays | rates._asdict(), ended.objective, ended.n_iter, ended.converged)

    def _infer_soft(self, answers: Masks) -> Iterator[FloatArray]:
        return map(expit, self._log_odds(answers))
