"""Learning from crowds, binary: every worker has a sensitivity and a specificity, with Beta priors.

The generative story. A task is positive with probability p. Worker w says "positive" of a positive task with
probability α[w], her sensitivity, and "negative" of a negative one with probability β[w], her specificity. α and β have
Beta priors; EM finds the highest posterior. More than two classes: one problem for each, "this class" against
"another", and the probabilities are brought to sum to 1.

V. Raykar, S. Yu, L. Zhao, G. Hermosillo Valadez, C. Florin, L. Bogoni and L. Moy (2010), "Learning from crowds", JMLR
11; here without features, as Zheng et al. (2017, VLDB) compare it ("LFC").

| equation (2010) | here |
|---|---|
| (1), (2) sensitivity and specificity | two rows of a confusion matrix |
| section 2.6, Beta priors | `LfcBinary._fit_one_vs_rest` |
| E-step, (9) with a constant p | the engine's `e_step` |
| M-step, (10) with pseudo-counts | `m_step` |

Departures: no classifier; the prevalence p is estimated (its prior is flat). One against the rest is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.aggregate.dawid_skene import log_density, m_step
from crowdwise.engines import prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.categorical_em import compute_skill_beta, fit_confusions, safe_log
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import EM
from crowdwise.fitting.one_vs_rest import confusion_from_rates
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.fitting.skill_intervals import confusion_skill
from crowdwise.kernels import NO_GOLD
from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["LfcBinary"]

UNLIKELY = 1e-9  # every class against the rest: what is left of them then is rounding, and no word on the truth


def binarise_labels(labels: CrowdLabels, positive: int) -> CrowdLabels:
    """The same answers as "another class" (0) or "this class" (1)."""
    return CrowdLabels.from_codes(
        labels.task,
        labels.worker,
        (labels.label == positive).astype(np.int8),
        tasks=labels.tasks,
        workers=labels.workers,
        classes=2,
        on_duplicate="all",
    )


def binarise_knowledge(known: PriorKnowledge, positive: int) -> PriorKnowledge:
    """What is known, for one class against the rest."""
    gold = known.gold if known.gold.size == 0 else np.where(known.gold < 0, -1, known.gold == positive)
    if known.class_prior is None:
        return PriorKnowledge(gold.astype(np.int32))
    share = known.class_prior[positive]
    return PriorKnowledge(gold.astype(np.int32), np.array([1 - share, share]))


def positive_classes(n_classes: int) -> range:
    """The classes that are set against the rest: all, but of two only the second."""
    return range(1, 2) if n_classes == 2 else range(n_classes)


def specificity_and_sensitivity(fit: Fit) -> FloatArray:
    """Specificity and sensitivity (M, 2) of a fitted problem."""
    return np.empty((0, 2)) if fit.confusion is None else np.einsum("wkk->wk", fit.confusion)


def sum_objectives(values: list[FloatArray]) -> FloatArray:
    """Sums by iteration; a problem that has ended stays at its last value."""
    longest = max(each.size for each in values)
    total: FloatArray = np.sum([np.pad(each, (0, longest - each.size), mode="edge") for each in values], axis=0)
    return total


def normalise_one_vs_rest(chance: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Probabilities (N, K) from those of each class against the rest; where all are next to 0, those given."""
    total = chance.sum(axis=1, keepdims=True)
    some = total > UNLIKELY
    shares: FloatArray = np.where(some, chance / np.where(some, total, 1), otherwise)
    return shares


@estimator
class LfcBinary(ClimbingAggregator):
    """Consensus with a sensitivity and a specificity for every worker, by EM.

    Facts
    -----
    Assumes: every worker has a sensitivity and a specificity, with Beta priors; more classes one against the rest
    Fails with: few labels per worker of either kind; classes that are easily confused with some others
    Cost: O(labels) an iteration, for each class where there are more than two
    Paper: Raykar et al. 2010, JMLR 11

    Parameters
    ----------
    right, wrong : float, 0 or more
        Right and wrong answers that every worker counts as having given to either kind of task: sensitivities and
        specificities have a Beta(1 + right, 1 + wrong) prior. 0 and 0 is maximum likelihood.
    max_iter : int
        Most iterations, of each problem.

    Attributes
    ----------
    sensitivity_, specificity_ : (M, K)
        P(says k | is k) and P(says another | is another), for each class k against the rest.
    confusion_ : (M, K, K)
        Sensitivities on the diagonal, and the rest in proportion to how often a class is named falsely, [worker, truth,
        label]. With two classes this is the model itself.
    skill_ : (M,)
        Chance that a worker is right, by her expected answers.
    log_likelihood_, objective_ : (n_iter_,)
        Log-probability of the labels, and with the log-density of the priors added, summed over the problems, at each
        iteration (of a problem that has ended, at its end).

    Notes
    -----
    With many classes, what a wrong answer says about the other classes is lost: use `dawid-skene`. A worker unknown at
    prediction counts as the average of the crowd.

    Examples
    --------
    >>> from crowdwise.labels import CrowdLabels
    >>> labels = CrowdLabels.from_dense([["no", "no", "yes"], ["yes", "yes", "yes"]] * 2)
    >>> model = LfcBinary().fit(labels)
    >>> model.predict().tolist()
    ['no', 'yes', 'no', 'yes']
    >>> model.specificity_[:, 1].round(2).tolist()
    [1.0, 1.0, 0.33]
    """

    slug = "lfc-binary"
    saved = (SavedArray("extra/prevalence", "K", low=0, high=1),)
    family = EM

    right: float = 1.0
    wrong: float = 0.0

    sensitivity_ = FittedArray(
        SavedArray("extra/sensitivity", "M K", low=0, high=1), "P(says k | is k) of each worker and class."
    )
    specificity_ = FittedArray(
        SavedArray("extra/specificity", "M K", low=0, high=1), "P(says another | is another) of each worker and class."
    )

    def _check(self) -> None:
        check_number("right", self.right, low=0)
        check_number("wrong", self.wrong, low=0)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        fits = [
            self._fit_one_vs_rest(binarise_labels(labels, k), binarise_knowledge(known, k))
            for k in positive_classes(labels.n_classes)
        ]
        rates = np.stack([specificity_and_sensitivity(fit) for fit in fits], axis=1)
        prevalence = np.array([fit.prior[1] for fit in fits])
        chance = np.stack([fit.posterior[:, 1] for fit in fits], axis=1)
        if labels.n_classes == 2:
            rates = np.concatenate([rates[:, :, ::-1], rates], axis=1)
            prevalence, chance = np.append(1 - prevalence, prevalence), np.hstack([1 - chance, chance])
        prior = normalise_one_vs_rest(prevalence[None], labels.class_shares)[0]  # every problem may say "another class"
        posterior = normalise_one_vs_rest(chance, prior)
        found = prepare(labels).accumulate(posterior)
        confusion = confusion_from_rates(rates[:, :, 1], 1 - rates[:, :, 0])
        return Fit(
            posterior=posterior,
            prior=prior,
            confusion=confusion,
            skill=confusion_skill(confusion, found.counts, prior),
            skill_beta=compute_skill_beta(labels, known, safe_log(prior), posterior),
            log_likelihood=sum_objectives([fit.log_likelihood for fit in fits]),
            objective=sum_objectives([fit.objective for fit in fits]),
            n_iter=max(fit.n_iter for fit in fits),
            converged=all(fit.converged for fit in fits),
            extra={"specificity": rates[:, :, 0], "sensitivity": rates[:, :, 1], "prevalence": prevalence},
        )

    def _fit_one_vs_rest(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        """EM for one class against the rest."""
        pseudo = np.array([[[self.right, self.wrong], [self.wrong, self.right]]], np.float64)
        return fit_confusions(
            labels,
            known,
            starts=lambda prepared: [
                m_step(prepared.count_against_vote_shares(labels.class_shares, known.gold), pseudo)
            ],
            m_step=lambda found: m_step(found, pseudo),
            log_density=lambda parameters: log_density(parameters, pseudo),
            **self._climb_options,
        )

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        rates = self._append_unknown_worker(np.stack([self.specificity_, self.sensitivity_], axis=2))
        chance = np.empty((labels.n_tasks, labels.n_classes))
        for k in range(labels.n_classes):
            share = self.extra_["prevalence"][k]
            right, wrong = rates[:, k], 1 - rates[:, k]
            table = np.stack([right[:, 0], wrong[:, 0], wrong[:, 1], right[:, 1]], axis=1).reshape(-1, 2, 2)
            with np.errstate(divide="ignore"):
                log_prior, log_table = np.log([1 - share, share]), np.log(table)
            pair = np.empty((labels.n_tasks, 2))
            prepare(binarise_labels(labels, k)).e_step(log_prior, log_table, NO_GOLD, pair)
            chance[:, k] = pair[:, 1]
        return normalise_one_vs_rest(chance, self.prior_)
