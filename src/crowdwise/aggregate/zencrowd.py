"""ZenCrowd: one reliability for every worker, every class equally likely beforehand.

The generative story. A task's truth is any class, all alike. Worker w gives it with probability r[w]; otherwise
one of the others. Reliabilities are learnt by EM, starting from the same trust in everyone.

G. Demartini, D. E. Difallah and P. Cudré-Mauroux (2012), "ZenCrowd: leveraging probabilistic reasoning and
crowdsourcing techniques for large-scale entity linking", WWW.

| equation | here |
|---|---|
| section 4.3, worker factors: P(label | truth, r) | `fitting.categorical_em.one_coin_parameters` |
| section 4.5, EM: r[w] = mean posterior of w's labels | `m_step` |
| E-step | the engine's `e_step_votes` |

Departures: the paper links entities, with factors for "at most one link" and "same as" between candidates; here
a task has one truth among K classes and those factors fall away. For K > 2 a wrong answer falls on the other
K-1 classes alike, as in Zheng et al. (2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.categorical_em import VoteParameters, fit_votes, one_coin_parameters
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import EM
from crowdwise.fitting.parameter_checks import check_number

if TYPE_CHECKING:
    from crowdwise.engines import Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["ZenCrowd"]


def m_step(found: Statistics, answers: FloatArray, log_prior: FloatArray, start: float) -> VoteParameters:
    """Reliability: mean posterior of a worker's labels; the start for a worker without labels."""
    reliability = np.divide(found.counts.sum(axis=1), answers, out=np.full(answers.size, start), where=answers > 0)
    return one_coin_parameters(np.clip(reliability, 0, 1), log_prior)


@estimator
class ZenCrowd(ClimbingAggregator):
    """Consensus with one reliability for every worker and no class prior, by EM.

    Facts
    -----
    Assumes: every worker has one reliability; all classes are equally likely beforehand
    Fails with: unbalanced classes, workers with a bias towards some class
    Cost: O(labels) an iteration
    Paper: Demartini et al. 2012, WWW

    Parameters
    ----------
    reliability : float in (0, 1)
        Trust in every worker before any label is seen.

    Attributes
    ----------
    prior_ : (K,)
        Uniform.
    confusion_ : (M, K, K)
        The reliability on the diagonal, the rest spread evenly, at [worker, truth, label].
    skill_ : (M,)
        Reliability of each worker.
    log_likelihood_, objective_ : (n_iter_,)
        Log-probability of the labels at each iteration.

    Notes
    -----
    A worker unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> ZenCrowd(max_iter=1, tol=0).fit(labels).predict_proba()[0].round(2).tolist()
    [0.8, 0.2]
    """

    slug = "zencrowd"
    family = EM

    reliability: float = 0.8

    def _check(self) -> None:
        check_number("reliability", self.reliability, low=0, high=1, above=True)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        answers = labels.labels_per_worker.astype(np.float64)
        log_prior = np.full(labels.n_classes, -np.log(labels.n_classes))
        start = one_coin_parameters(np.full(labels.n_workers, float(self.reliability)), log_prior)
        fit, _ = fit_votes(
            labels,
            known,
            starts=lambda: [start],
            m_step=lambda found, _: m_step(found, answers, log_prior, self.reliability),
            log_density=lambda _: 0.0,
            **self._climb_options,
            of_accuracies=lambda accuracies, now: one_coin_parameters(accuracies, now.log_prior),
        )
        return fit
