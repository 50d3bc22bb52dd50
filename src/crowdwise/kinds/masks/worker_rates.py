"""How often workers put pixels where they belong: shares over tasks, and how well they are known.

Pixels of one mask err together, so an answer counts as one observation of a worker however many pixels it has: errors
of a share come from how it differs between the worker's answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logit, stdtrit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Shares", "add_reference_error", "mean_interval", "means_of_workers", "share_interval", "share_of_workers"]

OWN = 0.5  # answers of the crowd that count beside a worker's own in their share
FEW = 3.0  # answers by which the crowd's spread counts beside a worker's own
LEAST = 1e-6


class Shares(NamedTuple):
    """A share of each worker, the standard error of its log-odds, and the degrees of freedom of that (M,)."""

    share: FloatArray
    error: FloatArray
    freedom: FloatArray


def share_of_workers(worker: IntArray, hits: FloatArray, chances: FloatArray, n_workers: int) -> Shares:
    """Shares of hits in chances, from those of each answer (n,)."""
    hit, chance, number = (
        np.bincount(worker, each, n_workers) for each in (hits, chances, np.ones(worker.size))
    )  # fmt: skip
    total = max(float(chance.sum()), 1.0)
    crowd, mean = float(hit.sum()) / total if hit.sum() > 0 else 0.5, max(total / max(worker.size, 1), 1.0)
    share = (hit + OWN * mean * crowd) / (chance + OWN * mean)
    apart = (hits - share[worker] * chances) / np.maximum(chance / np.maximum(number, 1), 1.0)[worker]
    squares = np.bincount(worker, apart**2, n_workers)
    free = np.maximum(number - 1, 0)
    # Where nobody has two answers, workers differ from the crowd as much as answers do.
    pooled = squares.sum() / free.sum() if free.sum() else float(((share - crowd) ** 2).mean())
    spread = (squares + FEW * pooled) / (free + FEW)
    inside = np.clip(share, LEAST, 1 - LEAST)
    pixel = 0.5 / np.maximum(chance, 1.0)  # no share is known better than to half a pixel
    error = np.sqrt(spread / np.maximum(number, 1) + pixel**2) / (inside * (1 - inside))
    return Shares(np.clip(share, 0.0, 1.0), error, free + FEW)


def add_reference_error(found: list[Shares]) -> Shares:
    """Shares against a soft mask, with what a smaller and a larger one (found[1], found[2]) say of their error."""
    if len(found) == 1:
        return found[0]
    smaller, larger = (logit(np.clip(each.share, LEAST, 1 - LEAST)) for each in found[1:])
    return found[0]._replace(error=np.hypot(found[0].error, (larger - smaller) / 2))


def share_interval(shares: Shares, level: float) -> tuple[FloatArray, FloatArray]:
    """Ends (M,) of intervals that hold the shares with this probability."""
    middle = logit(np.clip(shares.share, LEAST, 1 - LEAST))
    reach = shares.error * stdtrit(shares.freedom, (1 + level) / 2)
    return np.minimum(expit(middle - reach), shares.share), np.maximum(expit(middle + reach), shares.share)


def means_of_workers(worker: IntArray, values: FloatArray, mean: FloatArray) -> FloatArray:
    """Standard error (M,) of the workers' means, from a value for each answer (n,)."""
    number = np.bincount(worker, minlength=mean.size)
    squares = np.bincount(worker, (values - mean[worker]) ** 2, mean.size)
    free = np.maximum(number - 1, 0)
    pooled = squares.sum() / free.sum() if free.sum() else float((mean**2).mean())
    spread = (squares + FEW * pooled) / (free + FEW)
    found: FloatArray = np.sqrt(spread / np.maximum(number, 1))
    return found


def mean_interval(
    mean: FloatArray, error: FloatArray, freedom: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Ends (M,) of intervals that hold means with this probability."""
    reach = error * stdtrit(freedom, (1 + level) / 2)
    return mean - reach, mean + reach
