"""How much a task is worth another label: one function for each policy, all tasks at once.

q is the posterior (N, K), A the confusion matrix (K, K) [truth, label] of the worker who would answer.

| policy | worth of task t |
|---|---|
| uniform | the same for all |
| round-robin | minus the number of labels |
| uncertainty | entropy of q[t] |
| margin | 1 - (largest - second largest of q[t]) |
| information-gain | I(answer; truth) = H(q[t]) - Σ_l p(l) H(q[t] given l), p(l) = Σ_k q[t, k] A[k, l] |
| error-reduction | Σ_l max_k q[t, k] A[k, l] - max_k q[t, k]: the expected gain in the chance to be right |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.parameter_checks import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TASK_POLICIES", "score_tasks"]


def entropy(posterior: FloatArray) -> FloatArray:
    """Entropy of each row, in nats."""
    logs = np.log(np.maximum(posterior, 1e-300))
    found: FloatArray = -(posterior * logs).sum(axis=-1)
    return found


def compute_uniform(posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
    """The same for all."""
    del n_labels, confusion
    return np.zeros(len(posterior))


def compute_round_robin(posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
    """Fewest labels first."""
    del posterior, confusion
    return -n_labels.astype(np.float64)


def compute_uncertainty(posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
    """Entropy of the posterior."""
    del n_labels, confusion
    return entropy(posterior)


def compute_margin(posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
    """How near the second class is to the first."""
    del n_labels, confusion
    top = np.sort(posterior, axis=1)
    near: FloatArray = 1 - (top[:, -1] - top[:, -2])
    return near


def compute_information_gain(posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
    """Mutual information between the worker's answer and the truth."""
    del n_labels
    joint = posterior[:, :, None] * confusion  # (N, truth, label)
    answer = joint.sum(axis=1)
    noise = posterior @ entropy(confusion)
    gain: FloatArray = np.maximum(entropy(answer) - noise, 0)
    return gain


def compute_error_reduction(posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
    """Expected gain in the chance that the consensus is right."""
    del n_labels
    joint = posterior[:, :, None] * confusion
    gain: FloatArray = np.maximum(joint.max(axis=1).sum(axis=1) - posterior.max(axis=1), 0)
    return gain


TASK_POLICIES: dict[str, Callable[[FloatArray, IntArray, FloatArray], FloatArray]] = {
    "uniform": compute_uniform,
    "round-robin": compute_round_robin,
    "uncertainty": compute_uncertainty,
    "margin": compute_margin,
    "information-gain": compute_information_gain,
    "error-reduction": compute_error_reduction,
}


def score_tasks(policy: str, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
    """Worth of each task (N,) by a policy of this name."""
    check_choice("policy", policy, tuple(TASK_POLICIES))
    return TASK_POLICIES[policy](posterior, n_labels, confusion)
