"""Confidence intervals of ranks: which methods a score can put in order, and which it cannot.

The score of a method is a mean over labels, and labels of one task go together; so the tasks are what is drawn again.
All methods are scored on the same labels, so differences are paired. For each method j:

| step | here |
|---|---|
| covariance C of the scores of all methods, over tasks | `score_covariance` |
| scores drawn from N(0, C), which is the Gaussian multiplier bootstrap over tasks | `rank_intervals` |
| the `level` quantile c of max over k of abs(difference of j and k) / standard error | `rank_intervals` |
| k is better than j where it leads by more than c standard errors, worse where it is as far behind | `rank_intervals` |
| lowest rank 1 + number of better methods, highest m - number of worse ones | `RankIntervals` |

The true rank of a method lies in its interval with probability `level`; so the true best is among the methods whose
interval begins at 1 with that probability. M. Mogstad, J. P. Romano, A. M. Shaikh and D. Wilhelm (2024), "Inference for
ranks with applications to mobility across neighbourhoods and academic achievement across countries", Review of Economic
Studies 91; multiplier bootstrap of a maximum: V. Chernozhukov, D. Chetverikov and K. Kato (2013), Annals of
Statistics 41.

The workers, and the way the labels are cut into folds, are taken as they are: the intervals are for other tasks of the
same kind, answered by the same workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["LEVEL", "RankIntervals", "rank_intervals", "score_covariance"]

LEVEL = 0.9  # of the intervals
DRAWS = 2000  # of the bootstrap
FEWEST_TASKS = 20  # below which no method is called better than another
SAME = 1e-9  # scores this near are the same but for rounding


@dataclass(frozen=True)
class RankIntervals:
    """Ranks of m methods; 1 is the best.

    Attributes
    ----------
    low, high : (m,)
        Ends of the interval of each method's rank.
    """

    low: IntArray
    high: IntArray


def score_covariance(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    """Covariance (m, m) of mean scores over tasks.

    Parameters
    ----------
    sums : (n_tasks, m)
        Sum of each method's scores on the labels of each task.
    sizes : (n_tasks,)
        Labels of each task.
    """
    total = sizes.sum()
    deviations = sums - sizes[:, None] * (sums.sum(axis=0) / total)
    covariance: FloatArray = deviations.T @ deviations / total**2
    return covariance


def rank_intervals(
    sums: FloatArray, sizes: FloatArray, *, level: float = LEVEL, random_state: int = 0
) -> RankIntervals:
    """Interval of the rank of each method by its mean score; higher scores are better.

    Parameters
    ----------
    sums, sizes
        As for `score_covariance`.
    level
        Probability with which the interval of a method holds its true rank.
    random_state
        For the bootstrap.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> scores = generator.normal([0.5, 0.0, 0.0], 1.0, (400, 3))
    >>> found = rank_intervals(scores, np.ones(400))
    >>> found.low.tolist(), found.high.tolist()
    ([1, 2, 2], [1, 3, 3])
    """
    n_tasks, size = sums.shape
    low, high = np.ones(size, np.int64), np.full(size, size)
    if n_tasks < FEWEST_TASKS or size == 1:
        return RankIntervals(low, high)
    scores, covariance = sums.sum(axis=0) / sizes.sum(), score_covariance(sums, sizes)
    drawn = np.random.default_rng(random_state).multivariate_normal(np.zeros(size), covariance, DRAWS, method="eigh")
    variance = np.diag(covariance)
    for one in range(size):
        lead = scores - scores[one]
        error = np.sqrt(np.maximum(variance + variance[one] - 2 * covariance[one], 0))
        differs = (np.abs(lead) > SAME) & (error > 0)
        if not differs.any():
            continue
        extremes = np.abs(drawn[:, differs] - drawn[:, one, None]) / error[differs]
        limit = np.quantile(extremes.max(axis=1), level)
        low[one] += np.count_nonzero(differs & (lead > limit * error))
        high[one] -= np.count_nonzero(differs & (lead < -limit * error))
    return RankIntervals(low, high)
