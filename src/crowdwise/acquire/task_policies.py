"""How much a task is worth another label: one small class for each policy, all tasks at once.

q is the posterior (N, K), A the confusion matrix (K, K) [truth, label] of the worker who would answer.

| policy | worth of task t |
|---|---|
| uniform | the same for all |
| round-robin | minus the number of labels |
| uncertainty | entropy of q[t] |
| margin | 1 - (largest - second largest of q[t]) |
| information-gain | I(answer; truth) = H(p) - Σ_k q[t, k] H(A[k]), p(l) = Σ_k q[t, k] A[k, l] |
| error-reduction | Σ_l max_k q[t, k] A[k, l] - max_k q[t, k]: the expected gain in the chance to be right |

No worth saw a truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from crowdwise.fitting.parameter_checks import check_choice

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TASK_POLICIES", "TaskPolicy", "make_policy", "make_task_policy"]

P = TypeVar("P")


class TaskPolicy(Protocol):
    """What a policy offers."""

    def score(self, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:
        """Worth of each task (N,), from posteriors (N, K), numbers of labels (N,) and the worker's matrix (K, K)."""


class Uniform:
    """Any task."""

    def score(self, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:  # noqa: ARG002
        """Nothing for each."""
        return np.zeros(len(posterior))


class RoundRobin:
    """The task with the fewest labels."""

    def score(self, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:  # noqa: ARG002
        """Minus the number of labels."""
        return -n_labels.astype(np.float64)


class Uncertainty:
    """The task whose posterior has the greatest entropy."""

    def score(self, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:  # noqa: ARG002
        """Entropy in nats."""
        return entropy(posterior)


class Margin:
    """The task whose two best classes are nearest."""

    def score(self, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:  # noqa: ARG002
        """One less the distance of the two."""
        if posterior.shape[1] < 2:
            return np.zeros(len(posterior))
        top = np.partition(posterior, -2, axis=1)
        near: FloatArray = 1 - (top[:, -1] - top[:, -2])
        return near


class InformationGain:
    """The task of whose truth this worker's answer tells most."""

    def score(self, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:  # noqa: ARG002
        """Mutual information of answer and truth, in nats."""
        gain: FloatArray = np.maximum(entropy(posterior @ confusion) - posterior @ entropy(confusion), 0)
        return gain


class ErrorReduction:
    """The task whose consensus this worker's answer is expected to mend most."""

    def score(self, posterior: FloatArray, n_labels: IntArray, confusion: FloatArray) -> FloatArray:  # noqa: ARG002
        """Expected gain in the chance that the consensus is right."""
        joint = posterior[:, :, None] * confusion
        gain: FloatArray = np.maximum(joint.max(axis=1).sum(axis=1) - posterior.max(axis=1), 0)
        return gain


TASK_POLICIES: dict[str, type[TaskPolicy]] = {
    "uniform": Uniform,
    "round-robin": RoundRobin,
    "uncertainty": Uncertainty,
    "margin": Margin,
    "information-gain": InformationGain,
    "error-reduction": ErrorReduction,
}


def make_task_policy(policy: str | TaskPolicy) -> TaskPolicy:
    """A policy by its name, or one of the user's own."""
    return make_policy("policy", policy, TASK_POLICIES)


def make_policy(parameter: str, policy: str | P, policies: dict[str, type[P]]) -> P:
    """A policy of these by its name, or one of the user's own; an error names the parameter."""
    if not isinstance(policy, str) and callable(getattr(policy, "score", None)):
        return policy
    check_choice(parameter, policy, tuple(policies))
    return policies[str(policy)]()


def entropy(shares: FloatArray) -> FloatArray:
    """Entropy along the last axis, in nats."""
    found: FloatArray = -(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=-1)
    return found
