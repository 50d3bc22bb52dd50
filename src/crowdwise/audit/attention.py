"""How far each worker's answers follow the task: a slope, what is usual beside them, and a mixture over the crowd.

In the model of `find_spammers` a worker gives the class with chance s, their *attention*, and else answers by habit.

| quantity | here |
|---|---|
| attention as a slope, Σ_k cov(1[label = k], q_k) / Σ_k var(q_k), the mean of s in the model | `attention_slopes` |
| attention of the others on a worker's tasks: a ratio of weighted sums, shrunk to the crowd's | `attention_of_others` |
| share of the crowd with each relative attention, by EM (nonparametric empirical Bayes) | `fit_attention_mixture` |
| do the labels depend on the others': (n - 1) × Pillai's trace of labels against q, χ² | `measure_label_dependence` |
| worse than chance: the slope against its exact mean and variance over all orders | `measure_label_dependence` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from crowdwise.audit.leave_out_consensus import one_hot
from crowdwise.kernels import outer_sums, worker_answer_sums, worker_sums

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = [
    "AttentionSlopes",
    "LabelDependence",
    "attention_of_others",
    "attention_slopes",
    "fit_attention_mixture",
    "mean_posterior_of_others",
    "measure_label_dependence",
]

STEADY = 5.0  # spread that a slope is shrunk by: that of about ten labels on tasks that the others are sure of
MIXTURE_STEPS = 100  # of EM for the shares of the crowd


@dataclass(frozen=True)
class AttentionSlopes:
    """What each label adds to its worker's slope: `above` (S,) over `spread` (S,); and the workers' slope (M,)."""

    above: FloatArray
    spread: FloatArray
    slope: FloatArray


@dataclass(frozen=True)
class LabelDependence:
    """Of each worker (M,): Pillai's trace times n - 1, its degrees of freedom, and z of the slope under permutation."""

    trace: FloatArray
    freedom: FloatArray
    z: FloatArray

    def p_value(self, strength: FloatArray | float = 0.0) -> FloatArray:
        """Of the hypothesis that the labels depend on what the others say no more than would add so much (M,)."""
        beyond = np.maximum(self.trace - strength, 0.0)
        return np.asarray(np.where(self.freedom > 0, chdtrc(np.maximum(self.freedom, 1), np.maximum(beyond, 0)), 1.0))


def mean_posterior_of_others(labels: CrowdLabels, said: FloatArray) -> FloatArray:
    """Mean of what the others say over each worker's labels (M, K)."""
    number = np.maximum(labels.labels_per_worker, 1)
    return np.stack([worker_sums(labels, column) / number for column in said.T], axis=1)


def attention_slopes(labels: CrowdLabels, said: FloatArray) -> AttentionSlopes:
    """Slopes of the labels on what the others say (S, K)."""
    number = np.maximum(labels.labels_per_worker, 1)
    shares = worker_answer_sums(labels) / number[:, None]
    mean = mean_posterior_of_others(labels, said)
    beside = said[np.arange(labels.n_labels), labels.label]
    above = beside - np.einsum("sk,sk->s", said, shares[labels.worker])
    spread = ((said - mean[labels.worker]) ** 2).sum(axis=1)
    total = worker_sums(labels, spread)
    slope = np.divide(worker_sums(labels, above), total, out=np.zeros_like(total), where=total > 0)
    return AttentionSlopes(above, spread, slope)


def attention_of_others(labels: CrowdLabels, found: AttentionSlopes) -> tuple[FloatArray, float]:
    """Attention of the others on each worker's tasks (M,), and of the crowd on all tasks.

    A ratio of sums over the others' labels, each weighted by the attention of its worker on *other* tasks, so that
    neither spammers lower it nor chance raises it. The weights are slopes shrunk to 0 and lie in [0, 1]: a worker of
    few labels, or of labels beside which the others hardly vary, weighs next to nothing, whatever their slope. Where
    few labels stand beside a worker's, the ratio is shrunk to the crowd's.

    >>> from crowdwise.audit.leave_out_consensus import posterior_from_others
    >>> from crowdwise.simulate.dawid_skene import simulate_crowd
    >>> labels = simulate_crowd(300, 8, 3, None, random_state=0).labels
    >>> usual, overall = attention_of_others(labels, attention_slopes(labels, posterior_from_others(labels)[0]))
    >>> bool(np.abs(usual - overall).max() < 0.1)
    True
    """
    above = worker_sums(labels, found.above)[labels.worker] - found.above
    spread = worker_sums(labels, found.spread)[labels.worker] - found.spread
    weight = np.clip(above / (spread + STEADY), 0.0, 1.0)
    weighted = weight * found.above, weight * found.spread
    total = float(weighted[1].sum())
    overall = float(np.clip(weighted[0].sum() / total, 0.0, 1.0)) if total > 0 else 0.0
    sums = []
    for values in weighted:
        of_task = np.bincount(labels.task, values, labels.n_tasks)
        sums.append(worker_sums(labels, of_task[labels.task] - values))
    usual = (sums[0] + STEADY * overall) / (np.maximum(sums[1], 0.0) + STEADY)
    return np.clip(usual, 0.0, 1.0), overall


def fit_attention_mixture(log_likelihood: FloatArray, base: FloatArray) -> FloatArray:
    """Share of the crowd (G,) at each point of a grid, given the workers' log-likelihoods there (M, G).

    Parameters
    ----------
    base : (G,)
        Pseudo-workers at each point, which hold the shares of a small crowd.

    >>> fit_attention_mixture(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]), np.array([0.5, 0.5])).round(2).tolist()
    [0.64, 0.36]
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    share: FloatArray = base / base.sum()
    for _ in range(MIXTURE_STEPS):
        joint = likelihood * share
        counts = (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0) + base
        share = counts / counts.sum()
    return share


def measure_label_dependence(labels: CrowdLabels, said: FloatArray, found: AttentionSlopes) -> LabelDependence:
    """How each worker's labels vary with what the others say, beyond all orders in which they might be given."""
    number = np.maximum(labels.labels_per_worker, 1).astype(np.float64)
    shares = worker_answer_sums(labels) / number[:, None]
    mean = mean_posterior_of_others(labels, said)
    squares, cross = (
        outer_sums(given, said, labels.worker, labels.n_workers) / number[:, None, None]
        - about[:, :, None] * mean[:, None]
        for given, about in ((said, mean), (one_hot(labels), shares))
    )
    size = np.linalg.eigvalsh(squares)
    rank = (size > 1e-9).sum(axis=1)
    inverse = np.linalg.pinv(squares, rcond=1e-9 / np.maximum(size[:, -1], 1e-9), hermitian=True)
    scaled = np.divide(cross, shares[:, :, None], out=np.zeros_like(cross), where=shares[:, :, None] > 0)
    trace = (number - 1) * np.einsum("mkj,mji,mki->m", cross, inverse, scaled)
    freedom = np.maximum((shares > 0).sum(axis=1) - 1, 0) * rank
    varies = np.einsum("mk,mkk->m", shares, squares) - np.einsum("mk,mkj,mj->m", shares, squares, shares)
    deviation = number * np.sqrt(np.maximum(varies, 0.0) / np.maximum(number - 1, 1))
    z = np.divide(worker_sums(labels, found.above), deviation, out=np.zeros_like(number), where=deviation > 1e-9)
    return LabelDependence(trace, freedom.astype(np.float64), z)
