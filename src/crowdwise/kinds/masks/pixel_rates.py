"""Sensitivity and specificity of workers over pixels: the two steps of EM on patterns, and the prior of the rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logit

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.masks.model import MaskModel
from crowdwise.kinds.masks.pixel_patterns import number_pixels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.kinds.masks.answers import Masks
    from crowdwise.kinds.masks.pixel_patterns import PixelPatterns
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "PseudoPixels",
    "RateModel",
    "Rates",
    "crowd_rates",
    "estimate_rates",
    "expand_log_odds",
    "first_rates",
    "infer_patterns",
    "log_chances",
    "log_prior",
    "share_inside_tasks",
]

FIRST = 0.99999  # sensitivity and specificity at the start, as in Warfield et al.'s program
TINY = 1e-12  # a rate that is exactly 0 or 1 has no logarithm


class Rates(NamedTuple):
    """Sensitivity and specificity of each worker (M,)."""

    sensitivity: FloatArray
    specificity: FloatArray


class PseudoPixels(NamedTuple):
    """Pixels that the prior adds for each worker: hits and misses inside, hits and misses outside."""

    found: float
    missed: float
    left: float
    added: float


def first_rates(n_workers: int) -> Rates:
    """Rates at the start."""
    return Rates(np.full(n_workers, FIRST), np.full(n_workers, FIRST))


def share_inside_tasks(answers: Masks) -> FloatArray:
    """Share of pixels inside, γ (N,), over the answers of each task; of a task without answers that of all."""
    inside = np.array([answers.mask(row).sum() for row in range(answers.n_answers)], np.float64)
    pixels = (answers.height * answers.width).astype(np.float64)
    total = np.bincount(answers.task, inside, answers.n_tasks)
    of_all = inside.sum() / pixels[answers.task].sum()
    share = np.where(answers.answers_per_task > 0, total / (np.maximum(answers.answers_per_task, 1) * pixels), of_all)
    return np.clip(share, TINY, 1 - TINY)


def log_chances(rates: Rates) -> tuple[FloatArray, FloatArray]:
    """Logarithms of what a worker says (M, 2) of a pixel inside, and of one outside: [m, 1] that it is inside."""
    p, q = (np.clip(each, TINY, 1 - TINY) for each in rates)
    return np.log(np.column_stack([1 - p, p])), np.log(np.column_stack([q, 1 - q]))


def infer_patterns(seen: PixelPatterns, rates: Rates, share: FloatArray) -> tuple[float, FloatArray]:
    """Log-probability of the answers and of known truths, and that each pattern is inside (P,)."""
    inside, outside = log_chances(rates)
    said = seen.inside.astype(np.int64)
    one = np.log(share)[seen.task] + seen.sum_answers(inside[seen.worker, said])
    other = np.log1p(-share)[seen.task] + seen.sum_answers(outside[seen.worker, said])
    unknown = np.isnan(seen.known)
    found = np.where(unknown, expit(one - other), seen.known)
    joint = np.where(unknown, np.logaddexp(one, other), np.where(seen.known == 1, one, other))
    return float(seen.count @ joint), found


def estimate_rates(
    worker: IntArray, here: FloatArray, there: FloatArray, said: FloatArray, n_workers: int, prior: PseudoPixels
) -> Rates:
    """Rates of the workers from expected pixels inside (`here`) and outside (`there`), and `said` inside of both.

    Parameters
    ----------
    here, there : (E,)
        Expected pixels of each edge.
    said : (E,)
        1 where the worker put them inside, 0 elsewhere.
    """
    found, inside, left, outside = (
        np.bincount(worker, each, n_workers) for each in (here * said, here, there * (1 - said), there)
    )
    p, q = inside + prior.found + prior.missed, outside + prior.left + prior.added
    return Rates(
        np.where(p > 0, (found + prior.found) / np.maximum(p, TINY), FIRST),
        np.where(q > 0, (left + prior.left) / np.maximum(q, TINY), FIRST),
    )


def log_prior(rates: Rates, prior: PseudoPixels) -> float:
    """Logarithm of the prior of all rates, less a constant."""
    p, q = (np.clip(each, TINY, 1 - TINY) for each in rates)
    inside = prior.found * np.log(p) + prior.missed * np.log1p(-p)
    return float((inside + prior.left * np.log(q) + prior.added * np.log1p(-q)).sum())


def crowd_rates(seen: PixelPatterns, n_tasks: int, smoothing: float) -> PseudoPixels:
    """`smoothing` images of the mean size, in which a worker does as the crowd does with the majority vote."""
    number = np.bincount(seen.pattern, minlength=seen.task.size)
    chosen = seen.sum_answers(seen.inside.astype(np.float64)) > 0.5 * number
    count, said, true = seen.count[seen.pattern], seen.inside, chosen[seen.pattern]
    sums = np.array([count @ (said & true), count @ (~said & true), count @ (~said & ~true), count @ (said & ~true)])
    size = seen.count.sum() / n_tasks
    sums += 1e-5 * size  # no rate of the crowd is 0 or 1
    inside, outside = (smoothing * size * part.sum() / sums.sum() for part in (sums[:2], sums[2:]))
    return PseudoPixels(
        *(inside * sums[:2] / sums[:2].sum()).tolist(), *(outside * sums[2:] / sums[2:].sum()).tolist()
    )  # fmt: skip


def expand_log_odds(answers: Masks, worker: IntArray, rates: Rates, share: FloatArray) -> Iterator[FloatArray]:
    """Log-odds (height, width) that each pixel is inside, task by task; `worker` (n,) are positions in `rates`."""
    inside, outside = log_chances(rates)
    gain = inside - outside
    for task in range(answers.n_tasks):
        shape = int(answers.height[task]), int(answers.width[task])
        number, bits = number_pixels(answers.masks_of_task(task), shape[0] * shape[1])
        who = worker[answers.task_ptr[task] : answers.task_ptr[task + 1]]
        odds = float(logit(share[task])) + np.where(bits, gain[who, 1], gain[who, 0]).sum(axis=1)
        yield odds[number].reshape(shape)


@estimator
class RateModel(MaskModel):
    """Base of methods whose workers have a sensitivity and a specificity.

    Parameters
    ----------
    smoothing : float, 0 or more
        Images' worth of the crowd's rates that count beside a worker's own.
    """

    uses = frozenset({"gold"})
    climbs = True

    smoothing: float = 0.1

    def _check(self) -> None:
        check_number("smoothing", self.smoothing, low=0)

    def _judge(self, answers: Masks) -> None:
        # The rates that the fit has found stay; only how well they are known is judged.
        rates = self.sensitivity_, self.specificity_
        super()._judge(answers)
        self.sensitivity_, self.specificity_ = rates

    def _with_stranger(self) -> Rates:
        """Rates of the workers, and last those of a stranger: the crowd's."""
        counts = self.answers_per_worker_
        return Rates(
            *(np.append(each, np.average(each, weights=counts)) for each in (self.sensitivity_, self.specificity_))
        )

    def _chance_inside(self, task: int, levels: FloatArray, worker: int) -> FloatArray:  # noqa: ARG002
        p, q = self._with_stranger()
        return np.asarray(levels * p[worker] + (1 - levels) * (1 - q[worker]))

    def _chance_unseen(self, worker: int) -> float:
        p, q = self._with_stranger()
        share = float(self.share_inside_[0])
        return float(share * p[worker] + (1 - share) * (1 - q[worker]))

    def _log_odds(self, answers: Masks) -> Iterator[FloatArray]:
        """Log-odds (height, width) that pixels of new tasks are inside."""
        worker = self._positions_of_workers(answers)
        return expand_log_odds(answers, worker, self._with_stranger(), share_inside_tasks(answers))
