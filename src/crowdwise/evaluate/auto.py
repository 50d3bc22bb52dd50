"""Auto: a consensus without choosing a method, and a confidence that allows for shared errors.

No method is best everywhere, and without a truth one cannot see which is best here. But one can hide some labels and
see which method predicts them. Auto does so for a shortlist of methods that make different assumptions. Those that the
hidden labels do not tell apart from the best stay; each gets the weight with which together they predict best
(stacking) and is fitted to all labels. The posterior is the average of theirs, each tempered for errors that the
workers of a task share (`likelihood_tempering`).

Y. Yao, A. Vehtari, D. Simpson and A. Gelman (2018), "Using stacking to average Bayesian predictive distributions",
Bayesian Analysis 13, 917-1007, for the weights. C. C. Holmes and S. G. Walker (2017), "Assigning a value to a power
likelihood in a general Bayesian model", Biometrika 104, 497-503, for tempered likelihoods.

| step | here |
|---|---|
| labels hidden in turn, P = Σ_k q[t,k] A[w,k,l] | `held_out.predict_held_out` |
| kept: behind the best by less than two standard errors | `auto_members.weigh_members` |
| weights: max Σ log Σ_m w[m] P[m] (Yao et al. 2018) | `stacking.stacking_weights` |
| posterior = Σ_m w[m] temper(q[m]) | `auto_members.combine_members` |
| with gold: that posterior, made without it, corrected by regression | `gold_calibration.calibrate_from_gold` |

The shortlist is two hierarchical models (a matrix for each worker, and one accuracy for each), mean field, which learns
the class shares, EBCC for classes with subtypes, and minimax entropy, weakly and strongly regularised, for tasks that
split the crowd. The members are not told gold answers: how far to trust them is learnt from these afterwards. What was
chosen on data with a truth, and how: `benchmarks/auto_generalisation.py` and docs/choosing.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines import prepare
from crowdwise.evaluate.auto_members import SHORTLIST, combine_members
from crowdwise.evaluate.gold_calibration import FEWEST_GOLD, GoldCalibration, calibrate_from_gold
from crowdwise.evaluate.held_out import (
    predict_answers,
    shrink_answer_table,
)
from crowdwise.evaluate.likelihood_tempering import (
    ExpectedWrong,
    temper_posterior,
    wrong_count_interval,
    wrong_count_moments,
    wrong_interval_from_gold,
)
from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import COMBINATION
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.prior_knowledge import GOLD, KNOWN_WORKERS, PRIOR, PriorKnowledge
from crowdwise.fitting.saved_arrays import MOST_LABELS, SavedArray
from crowdwise.fitting.variational import compute_skill
from crowdwise.kernels import NO_GOLD
from crowdwise.labels.errors import InputError
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Auto"]


@estimator
class Auto(Aggregator):
    """Consensus by the methods that predict hidden labels best, with a confidence that allows for shared errors.

    Facts
    -----
    Assumes: the methods that predict hidden labels best are near the truth together; workers share some of their errors
    Fails with: most workers share a mistake: no hidden label tells
    Cost: several fits of each method on its shortlist, to at most 100,000 labels, and one to all labels
    Paper: stacking: Yao et al. 2018, Bayesian Analysis 13; tempering: Holmes & Walker 2017, Biometrika 104

    Parameters
    ----------
    random_state : int
        For the labels that are hidden, the sample of tasks, and the members' starts.

    Attributes
    ----------
    prior_ : (K,)
        Share of each class among the tasks with labels: the mean posterior before tempering, or the shares given.
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l], under the consensus, drawn towards the crowd by a few answers.
    weights_ : (members,)
        Weight of each member of the shortlist.

    Notes
    -----
    `league()` is the table by which it decided. With more than 100,000 labels, members compete on a sample of tasks,
    and those that stay are fitted to all. Where classes are so many that a label has a hundred cells of the workers'
    matrices to fill, one accuracy a worker is all that is learnt. New tasks are judged by Bayes' rule with the members'
    class prior and `confusion_`, tempered alike; with gold, calibrated alike.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> crowd = simulate("dawid-skene", n_tasks=150, n_workers=12, n_classes=3, labels_per_task=5, random_state=3)
    >>> model = Auto().fit(crowd.labels)
    >>> model.league().column_names
    ['method', 'weight', 'held_out', 'standard_error']
    """

    slug = "auto"
    saved = (
        SavedArray("extra/scores", f"{len(SHORTLIST)} 2", missing=True),
        SavedArray("extra/members_prior", "K", low=0, sums_to_one=True),
        SavedArray("extra/class_prior", "K", low=0, sums_to_one=True, together="class prior"),
        SavedArray("extra/wrong", "2 2", low=0, high=MOST_LABELS),
        *GoldCalibration.saved,
    )
    family = COMBINATION
    uses = frozenset({GOLD, PRIOR, KNOWN_WORKERS})
    random = True
    plug_in = True
    numpy_cost = 8  # minimax entropy is among its members

    random_state: int = 0

    weights_ = FittedArray(
        SavedArray("extra/weights", str(len(SHORTLIST)), low=0, sums_to_one=True),
        "Weight of each member of the shortlist.",
    )

    def league(self) -> Any:
        """Table of the members, best first: weight, mean log-probability of hidden labels and its standard error."""
        self._check_fitted()
        scores = self.extra_["scores"]
        order = [place for place in np.argsort(-scores[:, 0], kind="stable") if not np.isnan(scores[place, 0])]
        columns = {
            "method": [SHORTLIST[place].name for place in order],
            "weight": self.weights_[order],
            "held_out": scores[order, 0],
            "standard_error": scores[order, 1],
        }
        return native_table(columns, self.kind_)

    def expected_wrong(self, level: float = 0.9) -> ExpectedWrong:
        """How many answers of the consensus are wrong, with an interval and what it rests on.

        Parameters
        ----------
        level
            Probability of the interval for chance alone, in (0, 1); the range of how far errors are shared comes on
            top of it.

        Notes
        -----
        Tasks without labels and gold answers do not count.
        """
        self._check_fitted()
        check_number("level", level, low=0, high=1, above=True)
        moments = self.extra_["wrong"]
        truth = self.extra_.get("gold_truth", np.empty(0))
        if truth.size >= FEWEST_GOLD:
            wrong = int((self._decide(self.extra_["gold_cross_fitted"]) != truth).sum())
            return ExpectedWrong(
                *wrong_interval_from_gold(wrong, truth.size, int(moments[0, 0]), level),
                f"From {truth.size:,} gold answers, of which {wrong:,} were decided wrongly when held out, if the "
                "gold tasks are like the others.",
            )
        rests_on = f"the labels and {truth.size:,} gold answers" if truth.size else "the labels alone"
        return ExpectedWrong(
            float(moments[0, 1]),
            *wrong_count_interval(moments, level, len(self.classes_)),
            f"From {rests_on}: the low end if workers err independently of each other, the high end if they share "
            "errors as much as in nearly all crowds with known answers that this was measured on.",
        )

    def _check_restored(self) -> None:
        super()._check_restored()
        if self.extra_["wrong"][:, 0].max() > self.posterior_.shape[0]:
            raise InputError("extra/wrong counts more tasks than there are")
        unscored = np.isnan(self.extra_["scores"])
        if (unscored[:, 0] != unscored[:, 1]).any():
            raise InputError("extra/scores lacks a score of a member, or its error")
        if "gold_weights" in self.extra_:
            GoldCalibration.from_arrays(self.extra_, self.posterior_)  # every member must have a name

    def _keeps_unlabelled_tasks(self) -> bool:
        return True  # its members leave them out

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        found = combine_members(labels, replace(known, gold=NO_GOLD), self.random_state)
        self._members = found.models
        posterior, judged = found.posterior, labels.labels_per_task > 0
        extra: dict[str, Any] = {"weights": found.weights, "scores": found.scores, "members_prior": found.prior}
        if known.class_prior is not None:
            extra["class_prior"] = known.class_prior
        if known.gold.size:
            # A task without labels says nothing of how far labels can be trusted.
            calibrated = calibrate_from_gold(
                labels, posterior, np.where(judged, known.gold, -1), random_state=self.random_state
            )
            told = known.gold >= 0
            posterior = calibrated.posterior
            posterior[told] = np.eye(labels.n_classes)[known.gold[told]]
            judged &= ~told
            extra |= calibrated.to_arrays()
        extra["wrong"] = wrong_count_moments(posterior[judged], found.independent[judged])
        labelled = labels.labels_per_task > 0
        # Tempering makes single tasks less sure, not the classes more alike.
        sharp = posterior if known.gold.size else found.independent
        prior = sharp[labelled].mean(axis=0) if known.class_prior is None else known.class_prior
        counts = prepare(labels).accumulate(sharp).counts
        if known.worker_counts is not None:
            counts = counts + known.worker_counts
        skill, skill_beta = compute_skill(labels, known, posterior, prior)
        return Fit(
            posterior=posterior,
            prior=prior,
            confusion=shrink_answer_table(counts),
            skill=skill,
            skill_beta=skill_beta,
            extra=extra,
        )

    def _predict_answers(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray | None:
        """As the members do together, where they are at hand."""
        found = [
            weight * predict_answers(member, labels, task, worker) for weight, member in getattr(self, "_members", [])
        ]
        return np.sum(found, axis=0) if found else None

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        posterior = temper_posterior(
            self._posterior_with_prior(self.extra_["members_prior"], labels),
            labels.labels_per_task,
            class_prior=self.extra_.get("class_prior"),
        )
        if "gold_weights" not in self.extra_:
            return posterior
        return GoldCalibration.from_arrays(self.extra_, self.posterior_).predict(labels, posterior)
