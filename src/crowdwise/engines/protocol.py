"""What every engine offers: the passes over the labels, and the statistics they return.

| pass | adds to class k of a task | counts |
|---|---|---|
| `e_step` | log A[w, k, l] | Σ q[t, k] per worker, class and label |
| `e_step_votes` | bonus[w, l] where k = l | Σ q[t, l] per worker and label |
| `accumulate` | nothing: values are given | Σ values[t, k] per worker, class and label |
| `count_against_vote_shares` | nothing: q is the share of votes | Σ q[t, k] per worker, class and label |

The NumPy engine says each in a few lines and is the specification of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from crowdwise.kernels.confusion_rows import NO_GOLD, log_rows

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Engine", "Prepared", "Statistics"]


@dataclass(frozen=True)
class Statistics:
    """What one pass found. Statistics of parts of the tasks add up to those of the whole.

    Attributes
    ----------
    log_likelihood
        Log-probability of the labels (and of the gold truths) under the parameters of the pass; 0 where it had none.
    class_counts : (K,)
        Σ_t q[t, k].
    counts : (M, K, K) [worker, truth, label]; (M, K) [worker, label] from `e_step_votes`
        Expected answers.
    """

    log_likelihood: float
    class_counts: FloatArray
    counts: FloatArray

    def __add__(self, other: Statistics) -> Statistics:
        return replace(
            self,
            log_likelihood=self.log_likelihood + other.log_likelihood,
            class_counts=self.class_counts + other.class_counts,
            counts=self.counts + other.counts,
        )

    def log_rows(self, pseudo: FloatArray) -> Any:
        """Log of the rows of confusion matrices from counts and pseudo-counts, made where the counts lie.

        An engine may return a table of its own that its `e_step` takes and that NumPy reads as (M, K, K).
        """
        return log_rows(self.counts, pseudo)

    def sum_over_labels(self) -> FloatArray:
        """Expected right answers of each worker (M,), from a pass of votes."""
        correct: FloatArray = self.counts.sum(axis=1)
        return correct


class Prepared(Protocol):
    """Labels as an engine has laid them out, ready for passes. One thread at a time."""

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""

    @property
    def n_workers(self) -> int:
        """Number of workers."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    def e_step(
        self, log_prior: FloatArray, log_table: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model with a confusion matrix per worker.

        Parameters
        ----------
        log_prior : (S,)
            Log-probability of each state of the truth: the K classes, or where classes have kinds those of the first
            class, then those of the second, as many for each.
        log_table : (M, S, K) [worker, truth, label]
            log A.
        gold
            Known class of each task, -1 where unknown; `NO_GOLD` for none.
        out : (N, S), optional
            Where to store the posterior; it is not stored otherwise.
        """

    def e_step_votes(
        self, log_prior: FloatArray, bonus: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model whose label l speaks for class l alone.

        Parameters
        ----------
        bonus : (M, K) [worker, label]
            log P(l | truth l) - log P(l | another truth). What a label says whatever the truth is left out of the
            log-likelihood: it is a sum over `(worker, label)` that the caller adds.
        """

    def accumulate(self, values: FloatArray) -> Statistics:
        """Σ of `values[t, :]` (N, S) over each worker's tasks, by the label given, where the posterior is known."""

    def count_against_vote_shares(self, otherwise: FloatArray, gold: IntArray = NO_GOLD) -> Statistics:
        """The same where the posterior is the share of votes, which is not kept.

        Parameters
        ----------
        otherwise : (K,)
            The posterior of a task without labels.
        """

    def posterior_variance(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How undecided the posterior is about each worker's labels: Σ q(1-q), (M, K) twice.

        By class k over all of the worker's labels, and of the class named over the labels that name it.
        """


class Engine(Protocol):
    """Lays labels out, once for all passes over them, and runs the passes."""

    def lay_out(self, labels: CrowdLabels, n_states: int | None) -> Any:
        """The labels in the order that the passes read; never changed, and free of references to `labels`."""

    def make_passes(self, layout: Any) -> Prepared:
        """Passes over a layout, with memory of their own."""
