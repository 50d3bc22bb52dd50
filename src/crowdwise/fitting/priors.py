"""Priors that several models share: log-densities, constants included, and classes equally likely beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, digamma, gammaln, xlog1py, xlogy

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["beta_log_density", "dirichlet_divergence", "dirichlet_expected_logs", "dirichlet_mean", "uniform_log_prior"]


def beta_log_density(probabilities: FloatArray, smoothing: float) -> float:
    """Σ log Beta(p | 1 + smoothing, 1 + smoothing); 0 without smoothing, where no prior is meant."""
    if smoothing == 0:
        return 0.0
    logs = xlogy(smoothing, probabilities) + xlog1py(smoothing, -probabilities) - betaln(1 + smoothing, 1 + smoothing)
    return float(logs.sum())


def dirichlet_expected_logs(shape: FloatArray, axis: int = -1) -> FloatArray:
    """E[log p] for p ~ Dirichlet(shape), along an axis."""
    logs: FloatArray = digamma(shape) - digamma(shape.sum(axis=axis, keepdims=True))
    return logs


def dirichlet_mean(shape: FloatArray) -> FloatArray:
    """E[p] for p ~ Dirichlet(shape), along the last axis."""
    mean: FloatArray = shape / shape.sum(axis=-1, keepdims=True)
    return mean


def dirichlet_divergence(shape: FloatArray, prior: FloatArray | float, axis: int = -1) -> float:
    """Σ of KL(Dirichlet(shape) || Dirichlet(prior)), each along an axis; `prior` may be one for many."""
    before = np.broadcast_to(prior, shape.shape)
    constants = gammaln(shape.sum(axis=axis)) - gammaln(before.sum(axis=axis))
    cells = gammaln(before) - gammaln(shape) + (shape - before) * dirichlet_expected_logs(shape, axis)
    return float(constants.sum() + cells.sum())


def uniform_log_prior(labels: CrowdLabels, gold: IntArray) -> FloatArray:
    """Logarithm of a class prior (K,) that is the same for all classes that a label or a gold truth names.

    Where rows of confusion matrices are drawn to something, nothing would speak against a class that nobody names.
    """
    named = labels.class_shares > 0
    named[gold[gold >= 0]] = True
    logs: FloatArray = np.where(named, -np.log(named.sum()), -np.inf)
    return logs
