"""Spectral meta-learner: sensitivities and specificities from the covariance of workers.

The generative story. A task's truth is y = ±1, with mean b. Worker w answers f = ±1; she says 1 with probability ψ[w]
where the truth is 1 (sensitivity) and -1 with probability η[w] where it is -1 (specificity), apart from the others. Off
its diagonal the covariance of workers is then v vᵀ with v = √(1-b²) (ψ + η - 1), and their third moment is
-2b/√(1-b²) v⊗v⊗v: the first tells the workers apart, the second how unbalanced the classes are.

F. Parisi, F. Strino, B. Nadler and Y. Kluger (2014), "Ranking and combining multiple predictors without labeled data",
PNAS 111. A. Jaffe, B. Nadler and Y. Kluger (2015), "Estimating the accuracies of multiple classifiers without labeled
data", AISTATS.

| equation | here |
|---|---|
| covariance Q[i,j] of two workers over the tasks they share | `answer_covariances` |
| Q = v vᵀ off the diagonal | `fitting.rank_one.ProjectedGradientDescent` |
| third moment T[i,j,k] = α v[i] v[j] v[k], α = -2b/√(1-b²) | `third_moment`, `class_imbalance` |
| ψ = ½(1 + μ + v √((1-b)/(1+b))), η = ½(1 - μ + v √((1+b)/(1-b))) | `sensitivity_and_specificity` |
| maximum likelihood with ψ and η in place of the sign of Σ f v | Bayes' rule with `confusion_` |

An iteration costs O(co-labelling pairs), all else O(labels · K): α is the least-squares fit over all triples of a task,
which sums of powers give without going through them.

Departures: pairs weigh as many tasks as they share, and only pairs that do are fitted, where the papers have everybody
answer everything. Of the two ways to b in Jaffe et al. the third moment is taken, not the restricted likelihood. K > 2
classes are K problems of one against the rest: ψ[w,k] is the diagonal of the confusion matrix, the rest of a row is
shared out as the worker's false alarms 1 - η[w,l], and the K class shares are scaled to sum to one. No rate is surer
than the worker's n answers with one more for each class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.base import Aggregator
from crowdwise.fitting.categorical_em import ConfusionParameters, fit_confusions
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import MOMENTS
from crowdwise.fitting.one_vs_rest import confusion_from_rates
from crowdwise.fitting.prior_knowledge import PRIOR
from crowdwise.fitting.rank_one import (
    NOTHING,
    PairValues,
    ProjectedGradientDescent,
    equal_starting_skills,
    fit_given_accuracies,
    majority_signs,
    merge_answers,
    skills_to_accuracies,
)
from crowdwise.kernels import pair_counts, vote_shares, worker_answer_sums

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.kernels import PairCounts
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["SpectralMetaLearner"]


def answer_covariances(found: PairCounts, share: FloatArray, kind: int) -> PairValues:
    """Covariance of every two workers' answers, +1 for class `kind` and -1 for another, weighed by shared tasks.

    Parameters
    ----------
    share : (M,)
        Share of each worker's answers that name the class; her mean is 2 share - 1, on all her tasks.
    """
    shared = found.n_shared_tasks
    one, other = share[found.first], share[found.second]
    both = found.counts[:, kind, kind]
    named, named_by_other = found.counts[:, kind, :].sum(axis=1), found.counts[:, :, kind].sum(axis=1)
    value = 4 * (both - one * named_by_other - other * named + shared * one * other) / shared
    return PairValues(found.first, found.second, value, shared, share.size)


def third_moment(task: IntArray, worker: IntArray, centred: FloatArray, vector: FloatArray) -> float | None:
    """Least-squares α of centred[i] centred[j] centred[k] = α v[i] v[j] v[k] over all triples of every task; O(E).

    None where no task has three workers who tell something.
    """
    told = _sum_triple_products(task, vector[worker] * vector[worker])
    seen = _sum_triple_products(task, centred * vector[worker])
    return seen / told if told > NOTHING else None


def _sum_triple_products(task: IntArray, value: FloatArray) -> float:
    """Σ over tasks of Σ_{i<j<k} value[i] value[j] value[k], by sums of powers."""
    first, second, third = (np.bincount(task, value**power) for power in (1, 2, 3))
    return float((first**3 - 3 * first * second + 2 * third).sum()) / 6


def class_imbalance(alpha: float) -> float:
    """The mean b of the truth from α = -2b/√(1-b²)."""
    return float(-alpha / np.sqrt(4 + alpha * alpha))


def sensitivity_and_specificity(mean: FloatArray, vector: FloatArray, balance: float) -> tuple[FloatArray, FloatArray]:
    """Sensitivity ψ and specificity η (M,) from the means μ of the answers, v, and the mean b of the truth."""
    odds = np.sqrt((1 - balance) / (1 + balance))
    return (1 + mean + vector * odds) / 2, (1 - mean + vector / odds) / 2


@estimator
class SpectralMetaLearner(Aggregator):
    """Consensus with a sensitivity and a specificity for every worker, from second and third moments.

    Facts
    -----
    Assumes: every worker has a sensitivity and a specificity; the covariance of workers is rank one
    Fails with: few labels, workers who copy each other, rare classes
    Cost: O(pairs of workers who share a task) an iteration
    Paper: Parisi et al. 2014, PNAS; Jaffe et al. 2015, AISTATS

    Parameters
    ----------
    max_iter : int
        Most steps of the rank-one fit, for each class.
    tol : float
        Stop when no entry of v moves by more than this share of the largest.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task, by Bayes' rule.
    prior_ : (K,)
        Share of each class, from the third moment; from the votes where no task has three answers.
    skill_ : (M,)
        Chance that a worker is right, Σ_k prior_[k] confusion_[w, k, k], where a class that she hardly met is drawn
        towards her accuracy on all.
    n_iter_, converged_
        Steps of the class that took longest, and whether all came to rest.

    Notes
    -----
    Needs workers who share tasks; who shares with nobody has the mean rates of the others. Where no two share a task,
    or no answers vary together, it is the majority vote. Most workers of a connected part of the crowd are taken to be
    better than chance. Third moments of few labels are noisy, and a rare class's sensitivity more so. Workers must not
    choose their tasks by class. Of two workers who share tasks with nobody else, or of some who disagree on the whole,
    several v explain a class equally well: which is found is then rounding, and may follow the order of workers.
    """

    slug = "sml"
    family = MOMENTS
    uses = frozenset({PRIOR})

    max_iter: int = 1000
    tol: float = 1e-10

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        found, answers = pair_counts(labels), merge_answers(labels)
        given = labels.labels_per_worker.astype(np.float64)
        shares = worker_answer_sums(labels) / np.maximum(given, 1)[:, None]
        low, high = 1 / (labels.n_tasks + labels.n_classes), 1 - 1 / (labels.n_tasks + labels.n_classes)
        voted = vote_shares(labels, known.gold).mean(axis=0) if known.class_prior is None else known.class_prior
        prior = np.clip(voted, low, high)
        vectors = np.empty_like(shares)
        sensitivity, specificity = np.empty_like(shares), np.empty_like(shares)
        ends = []
        for kind in range(labels.n_classes):
            pairs = answer_covariances(found, shares[:, kind], kind)
            vector, *end = ProjectedGradientDescent(pairs, low=-1.0, high=1.0).run(
                equal_starting_skills(pairs), max_iter=self.max_iter, tol=self.tol
            )
            ends.append(end)
            part, paired = pairs.parts(), pairs.has_partner
            vectors[:, kind] = vector = np.where(paired, vector * majority_signs(vector, part), 0.0)
            mean = 2 * shares[:, kind] - 1
            if known.class_prior is None:
                centred = 2 * answers.share(labels, kind) - 1 - mean[answers.worker]
                alpha = third_moment(answers.task, answers.worker, centred, vector)
                if alpha is not None:
                    prior[kind] = np.clip((1 + class_imbalance(alpha)) / 2, low, high)
            sensitivity[:, kind], specificity[:, kind] = sensitivity_and_specificity(mean, vector, 2 * prior[kind] - 1)
        if float(np.abs(vectors).max()) <= NOTHING:
            return fit_given_accuracies(
                labels, known, skills_to_accuracies(labels, pairs, vectors[:, 0]), name=self.slug
            )
        least = (1 / (given + labels.n_classes))[:, None]
        sensitivity, false_alarm = (
            np.clip(_fill_missing_rates(rate, given, paired), least, 1 - least)
            for rate in (sensitivity, 1 - specificity)
        )
        table = np.log(confusion_from_rates(sensitivity, false_alarm))
        start = ConfusionParameters(np.log(prior / prior.sum()), table)
        fit = fit_confusions(
            labels,
            known,
            starts=lambda _: [start],
            m_step=lambda _: start,
            log_density=lambda _: 0.0,
            max_iter=1,
            tol=0.0,
            name=self.slug,
        )
        return replace(fit, n_iter=max(end[0] for end in ends), converged=all(end[1] for end in ends))


def _fill_missing_rates(rate: FloatArray, given: FloatArray, paired: BoolArray) -> FloatArray:
    """Rates (M, K), those of workers without a pair the mean of the others', weighed by answers."""
    mean = np.average(rate[paired], axis=0, weights=given[paired])
    return np.where(paired[:, None], rate, mean)
