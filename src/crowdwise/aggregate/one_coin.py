"""One coin: every worker has one accuracy.

The generative story. The truth of a task is drawn from the class prior. Worker w gives it with probability p[w];
otherwise one of the other K-1 classes, all alike. p[w] has a Beta(1 + smoothing, 1 + smoothing) prior, flat by
default.

| equation | here |
|---|---|
| Ibrahim et al. 2025, "one-coin": A = (p - (1-p)/(K-1)) I + (1-p)/(K-1) 11ᵀ | `categorical_em.one_coin_parameters` |
| p[w] = Σ q[t, label] / n[w] | `m_step` |
| E-step | the engine's `e_step_votes` |

Departures: none. The class prior is learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.categorical_em import fit_votes, one_coin_parameters, safe_log, starting_vote_counts
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import SmoothingAggregator
from crowdwise.fitting.priors import beta_log_density

if TYPE_CHECKING:
    from crowdwise.engines import Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.categorical_em import VoteParameters
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["OneCoin"]


def m_step(found: Statistics, answers: FloatArray, smoothing: float) -> VoteParameters:
    """Accuracies and class prior of highest posterior; a worker without labels is a coin's toss among the classes."""
    correct = found.sum_over_labels() + smoothing
    total = answers + 2 * smoothing
    accuracy = np.divide(correct, total, out=np.full(total.size, 1 / found.class_counts.size), where=total > 0)
    return one_coin_parameters(np.clip(accuracy, 0, 1), safe_log(found.class_counts / found.class_counts.sum()))


def log_density(parameters: VoteParameters, smoothing: float) -> float:
    """Σ log Beta(p[w] | 1 + smoothing, 1 + smoothing), constants included; 0 without smoothing."""
    return beta_log_density(np.exp(parameters.log_right[:, 0]), smoothing)


@estimator
class OneCoin(SmoothingAggregator):
    """Consensus with one accuracy for every worker, by EM.

    Facts
    -----
    Assumes: every worker has one accuracy; errors fall on the other classes alike
    Fails with: workers with a bias towards some class, classes that are easily confused
    Cost: O(labels) an iteration
    Paper: Dawid & Skene 1979 with one parameter; Ghosh et al. 2011

    Parameters
    ----------
    smoothing : float, 0 or more
        Pseudo-count of right and of wrong answers: a Beta(1 + smoothing, 1 + smoothing) prior. 0 is maximum
        likelihood.

    Attributes
    ----------
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l]: the accuracy on the diagonal, the rest spread evenly.
    skill_ : (M,)
        Accuracy of each worker.

    Notes
    -----
    The model has no place for a bias, or for a pair of classes that are confused. Sturdy where labels are few. A worker
    unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> OneCoin().fit(labels).skill_.round(2).tolist()
    [1.0, 1.0, 0.5]
    """

    slug = "one-coin"

    def _online_settings(self) -> dict[str, Any] | None:
        return {}

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        answers = labels.labels_per_worker.astype(np.float64)
        fit, _ = fit_votes(
            labels,
            known,
            starts=lambda: [m_step(starting_vote_counts(labels, known.gold), answers, self.smoothing)],
            m_step=lambda found, _: m_step(found, answers, self.smoothing),
            log_density=lambda parameters: log_density(parameters, self.smoothing),
            **self._climb_options,
            of_accuracies=lambda accuracies, now: one_coin_parameters(accuracies, now.log_prior),
        )
        return fit
