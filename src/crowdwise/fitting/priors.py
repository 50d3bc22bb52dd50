"""Priors that several models share: log-densities, constants included, and classes equally likely beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["beta_log_density", "uniform_log_prior"]


def beta_log_density(probabilities: FloatArray, smoothing: float) -> float:
    """Σ log Beta(p | 1 + smoothing, 1 + smoothing); 0 without smoothing, where no prior is meant."""
    if smoothing == 0:
        return 0.0
    logs = xlogy(smoothing, probabilities) + xlog1py(smoothing, -probabilities) - betaln(1 + smoothing, 1 + smoothing)
    return float(logs.sum())


def uniform_log_prior(labels: CrowdLabels, gold: IntArray) -> FloatArray:
    """Logarithm of a class prior (K,) that is the same for all classes that a label or a gold truth names.

    Where rows of confusion matrices are drawn to something, nothing would speak against a class that nobody names.
    """
    named = labels.class_shares > 0
    named[gold[gold >= 0]] = True
    logs: FloatArray = np.where(named, -np.log(named.sum()), -np.inf)
    return logs
