"""Log-densities of the priors that several models share, constants included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.special import betaln, xlog1py, xlogy

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["beta_log_density"]


def beta_log_density(probabilities: FloatArray, smoothing: float) -> float:
    """Σ log Beta(p | 1 + smoothing, 1 + smoothing); 0 without smoothing, where no prior is meant."""
    if smoothing == 0:
        return 0.0
    logs = xlogy(smoothing, probabilities) + xlog1py(smoothing, -probabilities) - betaln(1 + smoothing, 1 + smoothing)
    return float(logs.sum())
