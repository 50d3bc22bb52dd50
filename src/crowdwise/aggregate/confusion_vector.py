"""Confusion vector: every worker has one accuracy for each true class.

The generative story. The truth k of a task is drawn from the class prior. Worker w gives it with probability
a[w, k]; otherwise one of the other K-1 classes, all alike. a[w, k] has a Beta(1 + smoothing, 1 + smoothing)
prior, flat by default. For K = 2 this is Dawid–Skene (two coins).

| equation | here |
|---|---|
| Ibrahim et al. 2025, "confusion vector": A(k, k) = a_k, A(k, l) = (1 - a_k)/(K-1) | `log_confusion_table` |
| a[w,k] = Σ_{label = k} q[t,k] / Σ q[t,k] | `m_step` |
| E-step | the engine's `e_step` |

Departures: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.categorical_em import ConfusionParameters, fit_confusions
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import SmoothingAggregator
from crowdwise.fitting.priors import beta_log_density

if TYPE_CHECKING:
    from crowdwise.engines import Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["ConfusionVector"]


def log_confusion_table(accuracy: FloatArray, error: FloatArray) -> FloatArray:
    """Log of P(label | truth) as [worker, truth, label] from accuracies (M, K) and what they lack to 1.

    Both are given: 1 less an accuracy next to 1 is rounding, which depends on the order of classes and tasks.
    """
    n_classes = accuracy.shape[1]
    with np.errstate(divide="ignore"):
        wrong = np.log(error / max(n_classes - 1, 1))
        table = np.repeat(wrong[:, :, None], n_classes, axis=2)
        table[:, np.arange(n_classes), np.arange(n_classes)] = np.log(accuracy)
    return table


def m_step(found: Statistics, smoothing: float) -> ConfusionParameters:
    """Accuracies and prior of highest posterior; a class that a worker never met has accuracy 1/K."""
    n_classes = found.class_counts.size
    own = np.eye(n_classes, dtype=np.bool_)
    correct = np.where(own, found.counts, 0.0).sum(axis=2) + smoothing
    wrong = np.where(own, 0.0, found.counts).sum(axis=2) + smoothing
    total = correct + wrong
    known = total > 0
    accuracy = np.divide(correct, total, out=np.full(total.shape, 1 / n_classes), where=known)
    error = np.divide(wrong, total, out=np.full(total.shape, 1 - 1 / n_classes), where=known)
    with np.errstate(divide="ignore"):
        log_prior = np.log(found.class_counts / found.class_counts.sum())
    return ConfusionParameters(log_prior, log_confusion_table(accuracy, error))


def log_density(parameters: ConfusionParameters, smoothing: float) -> float:
    """Σ log Beta(a[w, k] | 1 + smoothing, 1 + smoothing), constants included; 0 without smoothing."""
    return beta_log_density(np.exp(np.einsum("wkk->wk", parameters.log_table)), smoothing)


@estimator
class ConfusionVector(SmoothingAggregator):
    """Consensus with one accuracy for every worker and true class, by EM.

    Facts
    -----
    Assumes: every worker has one accuracy for each true class; errors fall alike
    Fails with: errors of one class that go mostly to one other
    Cost: O(labels × K) an iteration
    Paper: Dawid & Skene 1979 with K parameters; Liu & Wang 2012

    Parameters
    ----------
    smoothing : float, 0 or more
        Pseudo-count of right and of wrong answers of each worker and class: a Beta(1 + smoothing, 1 + smoothing)
        prior. 0 is maximum likelihood.

    Attributes
    ----------
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l]; each row's errors are spread evenly.
    skill_ : (M,)
        Chance that a worker is right: Σ_k prior_[k] confusion_[w, k, k], where a class that she hardly met is drawn
        towards her accuracy on all.

    Notes
    -----
    Between `one-coin` and `dawid-skene` in what it can say and in how many labels it needs. A worker unknown at
    prediction counts as the average of the crowd.
    """

    slug = "confusion-vector"

    def _online_settings(self) -> dict[str, Any] | None:
        return {}

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        return fit_confusions(
            labels,
            known,
            starts=lambda prepared: [
                m_step(prepared.count_against_vote_shares(labels.class_shares, known.gold), self.smoothing)
            ],
            m_step=lambda found: m_step(found, self.smoothing),
            log_density=lambda parameters: log_density(parameters, self.smoothing),
            **self._climb_options,
        )
