"""Expected logarithms under the Dirichlet posteriors of some workers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["expected_logs", "log_gamma_and_digamma"]

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
FAR = 10.0  # from here on the asymptotic series hold to the last digit


@njit(cache=True, nogil=True, error_model="numpy")
def log_gamma_and_digamma(x: float) -> tuple[float, float]:
    """Logarithm of Γ(x) and its derivative for x > 0, by recurrence to where Stirling's series hold."""
    product, inverses = 1.0, 0.0
    while x < FAR:
        product *= x
        inverses += 1.0 / x
        x += 1.0
    log_x = math.log(x)
    inverse = 1.0 / x
    square = inverse * inverse
    tail = inverse * (
        1 / 12
        - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188 - square * 691 / 360360))))
    )
    slope = square * (
        1 / 12
        - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132 - square * 691 / 32760))))
    )
    log_gamma = (x - 0.5) * log_x - x + HALF_LOG_TWO_PI + tail
    if product != 1.0:
        log_gamma -= math.log(product)
    return log_gamma, log_x - 0.5 * inverse - slope - inverses


@njit(cache=True, nogil=True, error_model="numpy")
def expected_logs(
    first: int, last: int, shape: FloatArray, prior: FloatArray, out: FloatArray, losses: FloatArray
) -> None:
    """Some workers' expected logarithms, and the divergence of each worker's rows from the prior."""
    n_labels, n_states = shape.shape[1:]
    n_classes = prior.shape[2]
    kinds = n_states // n_classes
    constants = np.empty(n_classes)
    for worker in range(first, last):
        before = prior[worker if prior.shape[0] > 1 else 0]
        if prior.shape[0] > 1 or worker == first:
            for c in range(n_classes):
                mass, value = 0.0, 0.0
                for label in range(n_labels):
                    mass += before[label, c]
                    value += log_gamma_and_digamma(before[label, c])[0]
                constants[c] = value - log_gamma_and_digamma(mass)[0]
        loss = 0.0
        for state in range(n_states):
            mass = 0.0
            for label in range(n_labels):
                mass += shape[worker, label, state]
            log_gamma, mean = log_gamma_and_digamma(mass)
            loss += log_gamma + constants[state // kinds]
            for label in range(n_labels):
                cell = shape[worker, label, state]
                log_gamma, expected = log_gamma_and_digamma(cell)
                expected -= mean
                loss += (cell - before[label, state // kinds]) * expected - log_gamma
                out[worker, label, state] = expected
        losses[worker] = loss
