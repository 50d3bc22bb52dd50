"""Rank-one completion by projected gradient descent: skills from the agreements that were observed.

The generative story. Worker w gives the truth with probability p[w], otherwise one of the other K-1 classes, all alike
(one coin). Her skill is s = (K p - 1)/(K - 1). Two workers who share tasks agree beyond chance by s[i] s[j] on average;
who meets whom is arbitrary. The skills complete the matrix of agreements, of which only some entries are observed.

Y. Ma, A. Olshevsky, C. Szepesvári and V. Saligrama (2018), "Gradient descent for sparse rank-one matrix completion for
crowd-sourced aggregation of sparsely interacting workers", ICML; longer in JMLR 21 (2020).

| equation | here |
|---|---|
| C[i,j], agreement beyond chance on the N[i,j] shared tasks | `fitting.rank_one.pairwise_agreement` |
| ½ Σ N[i,j] (C[i,j] - s[i] s[j])² | `fitting.rank_one.squared_loss` |
| s ← projection of s + step Σ_j N[i,j] (C[i,j] - s[i] s[j]) s[j] | `fitting.rank_one.ProjectedGradientDescent` |
| weights log((K - 1) p / (1 - p)) of the final vote | Bayes' rule with the accuracies |

An iteration costs O(co-labelling pairs), the final vote O(labels).

Departures: the paper's constant step is one for each worker, the inverse of the loss's curvature along her axis,
halved where the loss would rise: the same descent, in fewer steps. It starts from the same skill for everybody, the
square root of the mean agreement, so that nothing depends on chance. The paper gives the vote; the confidence is
Bayes' rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import AccuracyAggregator, ClimbingAggregator
from crowdwise.fitting.rank_one import (
    ProjectedGradientDescent,
    equal_starting_skills,
    fit_given_accuracies,
    majority_signs,
    pairwise_agreement,
    skills_to_accuracies,
    squared_loss,
)

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.fitting.rank_one import PairValues
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["RankOneCompletion"]


def fit_rank_one(pairs: PairValues, *, low: float, max_iter: int, tol: float, name: str) -> Climb[FloatArray]:
    """Descend from equal skills; the objective is the loss below zero, so that it climbs.

    Parameters
    ----------
    low
        Least skill, -1/(K - 1): that of a worker who is never right.
    tol
        Stop when a step lowers the loss by no more.
    """
    descent = ProjectedGradientDescent(pairs, low=low, high=1.0)

    def step(skill: FloatArray) -> tuple[float, float, FloatArray]:
        loss = squared_loss(pairs, skill)
        return -loss, -loss, descent.step(skill, loss)

    return climb([equal_starting_skills(pairs)], step, max_iter=max_iter, tol=tol, name=name)


@estimator
class RankOneCompletion(AccuracyAggregator, ClimbingAggregator):
    """Consensus with one skill for every worker, fitted to how often workers agree.

    Facts
    -----
    Assumes: one skill for every worker; the matrix of their agreements is rank one, completed by gradient descent
    Fails with: workers who share few tasks, copy each other or favour some class
    Cost: O(pairs of workers who share a task) an iteration
    Paper: Ma et al. 2018, ICML

    Parameters
    ----------
    max_iter : int
        Most steps.
    tol : float
        Stop when a step lowers the loss by no more than this per label.

    Attributes
    ----------
    objective_, log_likelihood_ : (n_iter_,)
        -½ Σ N[i,j] (C[i,j] - s[i] s[j])² at each step, which is also the log-likelihood of the agreements, were they
        normal, up to a constant.

    Notes
    -----
    Needs workers who share tasks; who shares with nobody has the mean accuracy of the others. Where no two share a
    task, or all agree no more than chance, it is the majority vote. Skills are found up to one sign for each connected
    part of the crowd: most workers are taken to be better than chance. In a part where workers fall into two groups
    that meet only across (a single pair, say) the skills are not determined; equal ones are taken.

    Examples
    --------
    >>> RankOneCompletion().fit(labels).skill_.round(2).tolist()
    [0.83, 0.83, 0.5]
    """

    slug = "pgd"

    max_iter: int = 1000
    tol: float = 1e-12

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        pairs = pairwise_agreement(labels)
        low = -1 / (labels.n_classes - 1)
        ended = fit_rank_one(pairs, low=low, max_iter=self.max_iter, tol=self.tol * labels.n_labels, name=self.slug)
        skill = ended.parameters * majority_signs(ended.parameters, pairs.parts())
        return fit_given_accuracies(
            labels, known, skills_to_accuracies(labels, pairs, skill), name=self.slug
        ).attach_climb_history(ended)
