"""Whether "80 % sure" is right 80 % of the time: the reliability table and the calibration error."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from crowdwise.fitting.parameter_checks import check_count
from crowdwise.metrics.checks import posterior_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

MOST_BINS = 10**6

__all__ = [
    "Reliability",
    "bin_predictions",
    "expected_calibration_error",
    "mean_gap",
    "reliability_table",
    "wilson_interval",
]


class Reliability(NamedTuple):
    """One entry for each bin of confidence: tasks with `low < confidence <= high`.

    `confidence` (mean in the bin) and `accuracy` are NaN where the bin holds no task.
    """

    low: FloatArray
    high: FloatArray
    n_tasks: IntArray
    confidence: FloatArray
    accuracy: FloatArray


def reliability_table(truth: npt.ArrayLike, posterior: npt.ArrayLike, *, n_bins: int = 15) -> Reliability:
    """Confidence against accuracy, in bins of equal width over (0, 1].

    The confidence of a task is its largest probability, its predicted class the first that has it.

    Parameters
    ----------
    truth, posterior : arrays (n_tasks,) and (n_tasks, n_classes)
        As in `log_loss`.
    n_bins
        Number of bins; 15 is the habit since Guo et al. (2017).

    Examples
    --------
    >>> table = reliability_table([0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]], n_bins=2)
    >>> table.n_tasks.tolist(), round(float(table.confidence[1]), 4), round(float(table.accuracy[1]), 4)
    ([0, 3], 0.7333, 0.6667)
    """
    true, rows = posterior_rows(truth, posterior)
    return bin_predictions(np.minimum(rows.max(axis=1), 1.0), rows.argmax(axis=1) == true, n_bins)


def bin_predictions(confidence: FloatArray, right: BoolArray, n_bins: int = 15) -> Reliability:
    """The table of any predictions: how sure each was, and whether it was right."""
    check_count("n_bins", n_bins, high=MOST_BINS)
    edges = np.linspace(0, 1, n_bins + 1)
    at = np.searchsorted(edges[1:], confidence, side="left")
    n = np.bincount(at, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        mean_confidence = np.bincount(at, confidence, n_bins) / n
        mean_right = np.bincount(at, right, n_bins) / n
    return Reliability(edges[:-1], edges[1:], n, mean_confidence, mean_right)


def expected_calibration_error(truth: npt.ArrayLike, posterior: npt.ArrayLike, *, n_bins: int = 15) -> float:
    """Mean distance of confidence to accuracy over the bins of `reliability_table`, weighted by their tasks.

    0 is perfect, 1 the worst. The value depends on the bins: compare only at the same `n_bins`.

    Parameters
    ----------
    truth, posterior, n_bins
        As in `reliability_table`.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger. On calibration of modern neural networks. ICML 2017, equation 3.

    Examples
    --------
    >>> round(expected_calibration_error([0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]), 4)
    0.3333
    """
    return mean_gap(reliability_table(truth, posterior, n_bins=n_bins))


def mean_gap(table: Reliability) -> float:
    """Mean distance of confidence to accuracy over the filled bins, weighted by what they hold."""
    filled = table.n_tasks > 0
    gaps = np.abs(table.confidence - table.accuracy)[filled]
    return float(np.average(gaps, weights=table.n_tasks[filled]))


def wilson_interval(share: FloatArray, n: npt.ArrayLike, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of shares seen in n, low and high.

    Examples
    --------
    >>> low, high = wilson_interval(np.array([1.0]), [10])
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (0.787, 1.0)
    """
    z, n = float(ndtri((1 + level) / 2)), np.asarray(n)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
