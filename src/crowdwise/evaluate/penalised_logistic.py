"""Multinomial logistic regression with a Gaussian prior on its coefficients, and its leave-one-out predictions.

The score of class k for task i is Σ_j design[i, k, j] coefficient[j]: a coefficient may be shared by all classes (a
temperature) or belong to one of them (a bias). Newton's method finds the mode. One Newton step from the mode gives the
coefficients without task i, and so what the model would have said of a task that it had not seen (Rad and Maleki 2020,
"A scalable estimate of the out-of-sample prediction error via approximate leave-one-out", JRSS B 82).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["LogisticFit", "fit_logistic", "leave_one_out_scores", "softmax"]

MAX_STEPS = 50
SETTLED = 1e-8  # rise of the log posterior, in nats, below which the mode is found
SHORTEST_STEP = 1e-6


class LogisticFit(NamedTuple):
    """The mode, and the Hessian of the negative log posterior there."""

    coefficients: FloatArray
    hessian: FloatArray


def softmax(scores: FloatArray) -> FloatArray:
    """Probabilities from scores, over the last axis."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities: FloatArray = raised / raised.sum(axis=-1, keepdims=True)
    return probabilities


def fit_logistic(design: FloatArray, truth: IntArray, mean: FloatArray, precision: FloatArray) -> LogisticFit:
    """Mode of the coefficients under independent Gaussian priors.

    Parameters
    ----------
    design : (n, K, J)
    truth : (n,)
        Class of each task.
    mean, precision : (J,)
        Of the prior; the precision is above 0.

    Examples
    --------
    >>> biases = np.broadcast_to(np.eye(2), (4, 2, 2))
    >>> fit = fit_logistic(biases, np.array([0, 0, 0, 1]), np.zeros(2), np.full(2, 1e-6))
    >>> softmax(biases[0] @ fit.coefficients).round(3).tolist()
    [0.75, 0.25]
    """
    coefficients = mean.astype(np.float64)
    value = _log_posterior(design, truth, coefficients, mean, precision)
    rows = np.arange(truth.size)
    observed = design[rows, truth].sum(axis=0)
    for _ in range(MAX_STEPS):
        probabilities, hessian = _probabilities_and_hessian(design, coefficients, precision)
        expected = np.einsum("nk,nkj->j", probabilities, design)
        step = np.linalg.solve(hessian, observed - expected - precision * (coefficients - mean))
        length = 1.0
        while True:
            candidate = coefficients + length * step
            reached = _log_posterior(design, truth, candidate, mean, precision)
            if reached >= value or length < SHORTEST_STEP:
                break
            length /= 2
        if reached <= value + SETTLED:
            break
        coefficients, value = candidate, reached
    return LogisticFit(coefficients, _probabilities_and_hessian(design, coefficients, precision)[1])


def leave_one_out_scores(design: FloatArray, truth: IntArray, fit: LogisticFit) -> FloatArray:
    """Scores (n, K) of each task by the coefficients that the other tasks would have given.

    With S = X H⁻¹ Xᵀ of a task, W the covariance of its class and r = p - y, its scores move by S (I - W S)⁻¹ r.
    """
    n, n_classes, n_coefficients = design.shape
    root = np.linalg.cholesky(fit.hessian)
    whitened = np.linalg.solve(root, design.reshape(-1, n_coefficients).T).T.reshape(design.shape)
    leverage = whitened @ np.moveaxis(whitened, 1, 2)
    scores: FloatArray = design @ fit.coefficients
    probabilities = softmax(scores)
    residual = probabilities.copy()
    residual[np.arange(n), truth] -= 1
    covariance = probabilities[:, :, None] * (np.eye(n_classes) - probabilities[:, None, :])
    moved = leverage @ np.linalg.solve(np.eye(n_classes) - covariance @ leverage, residual[:, :, None])
    scores += moved[:, :, 0]
    return scores


def _log_posterior(
    design: FloatArray, truth: IntArray, coefficients: FloatArray, mean: FloatArray, precision: FloatArray
) -> float:
    scores = design @ coefficients
    highest = scores.max(axis=1)
    totals = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
    fitted = scores[np.arange(truth.size), truth] - totals
    return float(fitted.sum() - 0.5 * (precision * (coefficients - mean) ** 2).sum())


def _probabilities_and_hessian(
    design: FloatArray, coefficients: FloatArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Probabilities (n, K), and the Hessian of the negative log posterior (J, J)."""
    probabilities = softmax(design @ coefficients)
    centred = design - np.einsum("nk,nkj->nj", probabilities, design)[:, None, :]
    weighed = (np.sqrt(probabilities)[:, :, None] * centred).reshape(-1, coefficients.size)
    hessian: FloatArray = weighed.T @ weighed + np.diag(precision)
    return probabilities, hessian
