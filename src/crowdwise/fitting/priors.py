"""Log-densities of the priors that several models share, constants included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, digamma, gammaln, xlog1py, xlogy

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["beta_log_density", "dirichlet_divergence", "dirichlet_logs"]


def beta_log_density(probabilities: FloatArray, smoothing: float) -> float:
    """Σ log Beta(p | 1 + smoothing, 1 + smoothing); 0 without smoothing, where no prior is meant."""
    if smoothing == 0:
        return 0.0
    logs = xlogy(smoothing, probabilities) + xlog1py(smoothing, -probabilities) - betaln(1 + smoothing, 1 + smoothing)
    return float(logs.sum())


def dirichlet_logs(parameters: FloatArray, axis: int) -> FloatArray:
    """Expected logarithm of each probability under Dirichlet distributions along an axis."""
    logs: FloatArray = digamma(parameters) - digamma(parameters.sum(axis=axis, keepdims=True))
    return logs


def dirichlet_divergence(posterior: FloatArray, prior: FloatArray, axis: int) -> float:
    """Σ of KL(Dirichlet(posterior) || Dirichlet(prior)), each along an axis; `prior` may be one for many."""
    before = np.broadcast_to(prior, posterior.shape)
    constants = (gammaln(posterior.sum(axis=axis)) - gammaln(before.sum(axis=axis))).sum()
    constants -= (gammaln(posterior) - gammaln(before)).sum()
    return float(constants + ((posterior - before) * dirichlet_logs(posterior, axis)).sum())
