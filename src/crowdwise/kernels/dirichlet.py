"""Expected logarithms under Dirichlet posteriors of confusion matrices, and what the posteriors cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

from crowdwise.kernels.block_layout import split_rows, transpose_truth_and_label
from crowdwise.kernels.threads import map_lanes
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["expected_logs"]


def expected_logs(shape: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[log A] of rows A[worker, state, :] ~ Dirichlet(shape), and each worker's Σ KL(Dirichlet(shape) || prior).

    Parameters
    ----------
    shape : (M, S, K) [worker, state, label]
        Parameters of the posteriors, above 0.
    prior : (M or 1, C, K)
        Parameters of the priors; one worker for all, or one each. Where S is a multiple of C, the states of a class
        lie together and share its prior.
    """
    if choose_engine(shape.size, 1) == "numpy":
        return _expected_logs(shape, prior)
    from crowdwise.kernels.compiled import dirichlet

    by_label, prior_by_label = transpose_truth_and_label(shape), transpose_truth_and_label(prior)
    out = np.empty_like(by_label)
    losses = np.empty(shape.shape[0])
    ends = split_rows(shape.shape[0], shape.size)
    map_lanes(lambda first, last: dirichlet.expected_logs(first, last, by_label, prior_by_label, out, losses), ends)
    return out.transpose(0, 2, 1), losses


def _expected_logs(concentration: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    before = np.repeat(prior, concentration.shape[1] // prior.shape[1], axis=1)
    mass, mass_before = concentration.sum(axis=2), before.sum(axis=2)
    expected = digamma(concentration) - digamma(mass)[:, :, None]
    rows = gammaln(mass) - gammaln(mass_before) + (gammaln(before).sum(axis=2) - gammaln(concentration).sum(axis=2))
    losses: FloatArray = (rows + ((concentration - before) * expected).sum(axis=2)).sum(axis=1)
    return expected, losses
