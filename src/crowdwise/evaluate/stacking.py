"""Weights of methods that together predict hidden labels best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["stacking_weights"]

ROUNDS = 200
SETTLED = 1e-5


def stacking_weights(probabilities: FloatArray) -> FloatArray:
    """Weights w (methods,) on the simplex that maximise Σ_e log Σ_m w[m] p[e, m], by EM.

    Parameters
    ----------
    probabilities : (labels, methods)
        What each method gave each hidden label.

    References
    ----------
    Wolpert (1992), Neural Networks 5; Yao, Vehtari, Simpson & Gelman (2018), Bayesian Analysis 13, "Using stacking to
    average Bayesian predictive distributions".

    Examples
    --------
    >>> stacking_weights(np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])).round(2).tolist()
    [0.71, 0.29]
    """
    n_methods = probabilities.shape[1]
    weights = np.full(n_methods, 1 / n_methods)
    scaled = probabilities / probabilities.max(axis=1, keepdims=True)
    for _ in range(ROUNDS):
        following = weights * (scaled / (scaled @ weights)[:, None]).mean(axis=0)
        moved = float(np.abs(following - weights).max())
        weights = following / following.sum()
        if moved < SETTLED:
            break
    return weights
