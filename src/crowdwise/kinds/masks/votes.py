"""Votes over pixels: of workers who count alike, and of workers who count as they agree with the others.

Weighted majority, until the weights no longer change:

| equation | here |
|---|---|
| share of votes v[x] = Σ_m w[m] y[m, x] / Σ_m w[m]; the consensus is v > ½ | `vote_shares` |
| Dice coefficient d[m] of worker m's masks with the consensus, over all their tasks | `agree_with_consensus` |
| weight w[m] = log(d[m] / (1 - d[m])), at least a hundredth | `weigh_workers` |

The log-odds are what a vote counts in Nitzan & Paroush 1982 where a worker is right with probability d. The Dice
coefficient stands in for that probability because most pixels are outside, where everybody is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdwise.fitting.em import warn_not_converged
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.masks.model import MaskModel, put_gold
from crowdwise.kinds.masks.pixel_patterns import find_patterns
from crowdwise.kinds.masks.soft_levels import pack_levels
from crowdwise.kinds.model import Found

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from crowdwise.kinds.masks.answers import Masks
    from crowdwise.kinds.masks.pixel_patterns import PixelPatterns
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["MajorityMask", "WeightedMajorityMask", "share_of_votes"]

LEAST_WEIGHT = 0.01  # of a worker who agrees with nobody: a task that they alone answered has their answer
MOST_AGREEMENT = 0.99


def share_of_votes(answers: Masks, weight: FloatArray, otherwise: float) -> Iterator[FloatArray]:
    """Weighted share of the votes for each pixel (height, width), task by task; `weight` has one for each answer."""
    for task in range(answers.n_tasks):
        first, last = int(answers.task_ptr[task]), int(answers.task_ptr[task + 1])
        shape = int(answers.height[task]), int(answers.width[task])
        if first == last:
            yield np.full(shape, otherwise)
            continue
        total = np.zeros(shape)
        for row in range(first, last):
            total[answers.mask(row)] += weight[row]
        yield total / weight[first:last].sum()


def mean_share_inside(answers: Masks) -> float:
    """Share of pixels inside, over all answers."""
    inside = sum(int(answers.mask(row).sum()) for row in range(answers.n_answers))
    return (inside + 1) / (int((answers.height * answers.width)[answers.task].sum()) + 2)


class VoteModel(MaskModel):
    """Base of votes: their shares are no probabilities, and workers are judged by the mask that won."""

    def _references(self, task: int) -> list[FloatArray]:
        return [(self._soft(task) > 0.5).astype(np.float64)]


@estimator
class MajorityMask(VoteModel):
    """Inside is what more than half of a task's workers put inside.

    Facts
    -----
    Assumes: workers are alike, and draw as often too much as too little
    Fails with: workers who guess or always draw too large, few answers to a task
    Cost: O(pixels of all answers)
    Paper: folklore
    """

    slug = "majority"

    def _fit(self, answers: Masks, gold: Any) -> Found:  # noqa: ARG002
        votes = share_of_votes(answers, np.ones(answers.n_answers), mean_share_inside(answers))
        arrays: dict[str, Any] = {"levels": pack_levels(votes)}
        return Found(arrays)

    def _infer_soft(self, answers: Masks) -> Iterator[FloatArray]:
        return share_of_votes(answers, np.ones(answers.n_answers), float(self.share_inside_[0]))


class WeightedVoteModel(VoteModel):
    """What a weighted vote keeps besides."""

    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("weight", "M", low=SMALLEST),)
    weight_: FloatArray


@estimator
class WeightedMajorityMask(WeightedVoteModel):
    """A vote in which workers count by how well their masks agree with the consensus.

    Facts
    -----
    Assumes: workers who agree with the others are right
    Fails with: three workers or fewer to a task: whoever counts most decides alone; workers who copy
    Cost: O(pixels of all answers), and O(patterns × answers) an iteration
    Paper: Nitzan & Paroush 1982, International Economic Review

    Attributes
    ----------
    weight_ : (M,)
        What a vote of the worker counts.
    """

    slug = "weighted-majority"
    uses = frozenset({"gold"})

    max_iter: int = 100
    tol: float = 1e-6

    def _fit(self, answers: Masks, gold: dict[int, BoolArray] | None) -> Found:
        seen = find_patterns(answers, answers.worker, gold)
        weight, n_iter, converged = np.ones(answers.n_workers), 0, False
        while n_iter < self.max_iter and not converged:
            before = weight
            weight = weigh_workers(agree_with_consensus(seen, before))
            converged = bool(np.abs(weight - before).max() <= self.tol)
            n_iter += 1
        if not converged and self.tol > 0:
            warn_not_converged(f"{self.slug} stopped after {n_iter} iterations. Raise max_iter, or raise tol.")
        fields = share_of_votes(answers, weight[answers.worker], mean_share_inside(answers))
        arrays: dict[str, Any] = {"levels": pack_levels(put_gold(fields, gold)), "weight": weight}
        return Found(arrays, n_iter=n_iter, converged=converged)

    def _infer_soft(self, answers: Masks) -> Iterator[FloatArray]:
        weight = np.append(self.weight_, np.average(self.weight_, weights=self.answers_per_worker_))
        return share_of_votes(answers, weight[self._positions_of_workers(answers)], float(self.share_inside_[0]))

    def _worker_columns(self, level: float) -> dict[str, Any]:  # noqa: ARG002
        return {"weight": self.weight_}


def agree_with_consensus(seen: PixelPatterns, weight: FloatArray) -> FloatArray:
    """Dice coefficient (M,) of each worker's masks with the weighted vote, or with the truth where it is known."""
    given = weight[seen.worker]
    chosen = seen.sum_answers(given * seen.inside) > 0.5 * seen.sum_answers(given)
    taken = np.where(np.isnan(seen.known), chosen, seen.known == 1)[seen.pattern]
    count = seen.count[seen.pattern]
    both, total = (
        np.bincount(seen.worker, count * each, weight.size)
        for each in (2.0 * (seen.inside & taken), seen.inside.astype(np.float64) + taken)
    )
    # One pixel more on both sides: who never found anything agrees where there is nothing.
    return np.asarray((both + 1) / (total + 1))


def weigh_workers(agreement: FloatArray) -> FloatArray:
    """Weights (M,) from Dice coefficients: their log-odds, kept between a least and a largest one."""
    inside: FloatArray = np.clip(agreement, LEAST_WEIGHT, MOST_AGREEMENT)
    return np.maximum(np.log(inside / (1 - inside)), LEAST_WEIGHT)
