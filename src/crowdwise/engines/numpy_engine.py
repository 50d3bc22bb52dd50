"""The passes in NumPy and SciPy: no compilation, and the specification that the other engines must meet.

All labels are one sparse matrix with a row for each task and a column for each worker and label: its product with a
table gathers, that of its transpose scatters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csc_array, csr_array

from crowdwise.engines.protocol import Statistics
from crowdwise.kernels.confusion_rows import NO_GOLD

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ENGINE"]


@dataclass(frozen=True)
class LabelMatrix:
    """Labels as a matrix: `answers` (N, M × K), and of each label its task, class and column (`cell`)."""

    answers: csr_array
    task: IntArray
    label: IntArray
    cell: IntArray
    n_tasks: int
    n_workers: int
    n_classes: int

    def e_step(
        self, log_prior: FloatArray, log_table: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model with a confusion matrix per worker."""
        rows = log_table.transpose(0, 2, 1).reshape(-1, log_prior.size)
        logits = self.answers @ rows + log_prior
        log_likelihood = softmax_states(logits, log_prior, gold, self.n_classes)
        if out is not None:
            out[:] = logits
        return Statistics(log_likelihood, logits.sum(axis=0), self._scatter(logits))

    def e_step_votes(
        self, log_prior: FloatArray, bonus: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model whose label l speaks for class l alone."""
        logits = self._votes(bonus.reshape(-1)[self.cell]) + log_prior
        log_likelihood = softmax_states(logits, log_prior, gold, self.n_classes)
        if out is not None:
            out[:] = logits
        return Statistics(log_likelihood, logits.sum(axis=0), self._sum_named_class(logits))

    def accumulate(self, values: FloatArray) -> Statistics:
        """Σ of the values over each worker's tasks, by the label given."""
        return Statistics(0.0, values.sum(axis=0), self._scatter(values))

    def count_against_vote_shares(self, otherwise: FloatArray, gold: IntArray = NO_GOLD) -> Statistics:
        """The same where the posterior is the share of votes."""
        votes = self._votes(np.ones(self.cell.size))
        total = votes.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, votes / np.maximum(total, 1), otherwise)
        if gold.size:
            shares[gold >= 0] = np.eye(self.n_classes)[gold[gold >= 0]]
        return self.accumulate(shares)

    def posterior_variance(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ q(1-q), by class over all labels, and of the class named over the labels that name it."""
        variance = posterior * (1 - posterior)
        return self._scatter(variance).sum(axis=2), self._sum_named_class(variance)

    @cached_property
    def _transposed(self) -> csc_array:
        return self.answers.T

    def _scatter(self, values: FloatArray) -> FloatArray:
        counts: FloatArray = (self._transposed @ values).reshape(self.n_workers, self.n_classes, values.shape[1])
        return counts.transpose(0, 2, 1)

    def _votes(self, weights: FloatArray) -> FloatArray:
        cell = self.task.astype(np.int64) * self.n_classes + self.label
        votes = np.bincount(cell, weights, self.n_tasks * self.n_classes)
        return votes.reshape(self.n_tasks, self.n_classes).astype(np.float64)

    def _sum_named_class(self, values: FloatArray) -> FloatArray:
        sums = np.bincount(self.cell, values[self.task, self.label], self.n_workers * self.n_classes)
        return sums.reshape(self.n_workers, self.n_classes).astype(np.float64)


class NumpyEngine:
    """NumPy and SciPy alone."""

    def lay_out(self, labels: CrowdLabels, n_states: int | None) -> LabelMatrix:  # noqa: ARG002
        """The labels as a sparse matrix."""
        cell = labels.worker.astype(np.int64) * labels.n_classes + labels.label
        shape = (labels.n_tasks, labels.n_workers * labels.n_classes)
        answers = csr_array((np.ones(cell.size), cell, labels.task_ptr), shape=shape)
        return LabelMatrix(answers, labels.task, labels.label, cell, labels.n_tasks, labels.n_workers, labels.n_classes)

    def make_passes(self, layout: LabelMatrix) -> LabelMatrix:
        """The matrix itself: its passes keep nothing."""
        return layout


ENGINE = NumpyEngine()


def softmax_states(logits: FloatArray, log_prior: FloatArray, gold: IntArray, n_classes: int) -> float:
    """Turn each task's log-weights (N, S) into its posterior, in place; returns the log-likelihood.

    Each class has as many states, which lie together; gold names the class. Labels that no class allows teach nothing:
    the truth or the prior stands.
    """
    state_class = np.arange(log_prior.size) // (log_prior.size // n_classes)
    known = np.flatnonzero(gold >= 0)
    logits[known] = np.where(state_class == gold[known, None], logits[known], -np.inf)
    highest = logits.max(axis=1)
    impossible = highest == -np.inf
    logits -= np.where(impossible, 0.0, highest)[:, None]
    if impossible.any():
        logits[impossible] = log_prior
        stands = known[impossible[known]]
        logits[stands] = np.where(state_class == gold[stands, None], 0.0, -np.inf)
    np.exp(logits, out=logits)
    mass = logits.sum(axis=1)
    logits /= mass[:, None]
    return float(highest.sum() + np.log(mass).sum())
