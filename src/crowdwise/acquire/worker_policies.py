"""Whom to ask: one small class for each policy, which scores all workers at once; the highest is asked.

a[w] and b[w] are the right and wrong answers of worker w so far, pseudo-counts included, c[w] what an answer costs.

| policy | score of worker w |
|---|---|
| uniform | at random |
| best | a / (a + b), divided by c |
| epsilon-greedy | as best, but at random with chance ε: .5 for the first 100 labels, then .05 (Ibrahim et al. 2025) |
| thompson | a draw from Beta(a, b), divided by c |
| bandit | (a / (a + b) + √(1.5 log t / n[w])) / c, t labels, n[w] of them theirs (Rangi & Franceschetti 2018) |

Where costs differ, a worker is scored by what their answer has above a guess: a / (a + b) - 1/K, at least 0.001. No
score saw a truth; ε and its change are the tutorial's, the 1.5 is the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from crowdwise.acquire.task_policies import make_policy

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["WORKER_POLICIES", "WorkerPolicy", "WorkersSoFar", "make_worker_policy"]

LEAST_USE = 1e-3  # of an answer above a guess: nobody is worth nothing, or cost would not matter


class WorkersSoFar(NamedTuple):
    """What is known of the workers who could be asked.

    Attributes
    ----------
    counts : (M, 2)
        Right and wrong answers, pseudo-counts included.
    n_answers : (M,)
    costs : (M,)
    n_labels, n_classes
        Of the whole stream.
    """

    counts: FloatArray
    n_answers: IntArray
    costs: FloatArray
    n_labels: int
    n_classes: int


class WorkerPolicy(Protocol):
    """What a policy offers."""

    def score(self, workers: WorkersSoFar, rng: np.random.Generator) -> FloatArray:
        """Score of each worker (M,)."""


def value_per_cost(skill: FloatArray, workers: WorkersSoFar) -> FloatArray:
    """Skill, or what it has above a guess for each unit of cost where costs differ."""
    if np.ptp(workers.costs) == 0:
        return skill
    worth: FloatArray = np.maximum(skill - 1 / max(workers.n_classes, 1), LEAST_USE) / workers.costs
    return worth


class AnyWorker:
    """At random."""

    def score(self, workers: WorkersSoFar, rng: np.random.Generator) -> FloatArray:
        """Random numbers."""
        return rng.random(len(workers.counts))


class BestWorker:
    """The most skilled."""

    def score(self, workers: WorkersSoFar, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """Mean skill."""
        return value_per_cost(workers.counts[:, 0] / workers.counts.sum(axis=1), workers)


@dataclass(frozen=True)
class EpsilonGreedy:
    """The most skilled, but anyone with chance ε."""

    early: float = 0.5
    late: float = 0.05
    change: int = 100

    def score(self, workers: WorkersSoFar, rng: np.random.Generator) -> FloatArray:
        """As one of the two policies above."""
        epsilon = self.early if workers.n_labels < self.change else self.late
        policy: WorkerPolicy = AnyWorker() if rng.random() < epsilon else BestWorker()
        return policy.score(workers, rng)


class ThompsonSampling:
    """The most skilled of a draw from what is known of everyone's skill."""

    def score(self, workers: WorkersSoFar, rng: np.random.Generator) -> FloatArray:
        """A draw of each skill."""
        return value_per_cost(rng.beta(workers.counts[:, 0], workers.counts[:, 1]), workers)


class CostBandit:
    """The highest upper bound of skill, for each unit of cost."""

    def score(self, workers: WorkersSoFar, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """Mean skill and how little it is known."""
        spread = np.sqrt(1.5 * np.log(max(workers.n_labels, 2)) / np.maximum(workers.n_answers, 1))
        return value_per_cost(workers.counts[:, 0] / workers.counts.sum(axis=1) + spread, workers)


WORKER_POLICIES: dict[str, type[WorkerPolicy]] = {
    "uniform": AnyWorker,
    "best": BestWorker,
    "epsilon-greedy": EpsilonGreedy,
    "thompson": ThompsonSampling,
    "bandit": CostBandit,
}


def make_worker_policy(policy: str | WorkerPolicy) -> WorkerPolicy:
    """A policy by its name, or one of the user's own."""
    return make_policy("worker_policy", policy, WORKER_POLICIES)
