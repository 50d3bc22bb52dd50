"""Methods with a worker model that all classes share: one-vs-rest, and types of tasks in which classes go together.

The model and its steps are in `set_mixture.py`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdwise.fitting.em import StillImproving, climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_optional_count
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.held_out import held_out_folds, keep_unless_better
from crowdwise.kinds.model import Found
from crowdwise.kinds.multi_label.model import SetModel
from crowdwise.kinds.multi_label.set_mixture import (
    SetParameters,
    as_posterior,
    infer,
    predict_answers,
    start,
    step,
    weigh_answers,
)
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from typing import Any

    from crowdwise.kinds.multi_label.answers import LabelSets
    from crowdwise.kinds.multi_label.model import SetPosterior
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["LabelMixture", "OneVsRest"]

TRIED = (1, 2, 4, 8)  # numbers of types, of which held-out answers choose
SURE = 50.0  # log-odds of what is known
ROUGH = 1e-4  # tolerance of the fits that a choice is made by
FEWEST = 20  # answers to hold some out of


class SharedWorkerModel(SetModel):
    """Base of the methods with abilities of workers and ease of classes.

    Attributes
    ----------
    type_share_, type_profile_ : (L,) and (L, K)
        Share of each type of tasks, and probability that a task of the type has each class.
    ability_ : (M, 2)
        Log-odds by which a worker names classes that are in the set, and leaves out others, beyond the crowd.
    ease_ : (2, K)
        The crowd's log-odds for each class.
    evidence_ : (N, K)
        Log-odds that the answers add to the prior of each class.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"gold"})
    climbs: ClassVar[bool] = True
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("type_share", "L", low=SMALLEST, high=1, sums_to_one=True),
        SavedArray("type_profile", "L K", low=1e-10, high=1 - 1e-10),
        SavedArray("ability", "M 2", low=-1e3, high=1e3),
        SavedArray("ease", "2 K", low=-1e3, high=1e3),
        SavedArray("evidence", "N K", low=-1e9, high=1e9),
    )
    type_share_: FloatArray
    type_profile_: FloatArray
    ability_: FloatArray
    ease_: FloatArray
    evidence_: FloatArray
    max_iter: int
    tol: float

    def _climb(self, answers: LabelSets, gold: FloatArray | None, n_types: int) -> Found:
        about = (answers.member.sum(axis=0) + 1.0) / (answers.n_answers + 2.0)
        went = climb(
            [start(answers, n_types, about)],
            lambda at: step(answers, at, about, gold),
            max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug,
        )  # fmt: skip
        at = went.parameters
        evidence, empty = weigh_answers(answers, answers.worker, at)
        found = infer(evidence, empty, at, gold)
        arrays = {
            "posterior": found.member,
            "exact": found.exact,
            "prior": at.share @ at.profile,
            "type_share": at.share,
            "type_profile": at.profile,
            "ability": at.ability,
            "ease": at.ease,
            "evidence": evidence
            if gold is None
            else np.where(np.isnan(gold), evidence, np.where(gold > 0, 50.0, -50.0)),
        }
        return Found(arrays, went.objective, went.n_iter, went.converged)

    def _fitted_parameters(self) -> SetParameters:
        return SetParameters(self.type_share_, self.type_profile_, self.ability_, self.ease_)

    def _posterior(self, answers: LabelSets, worker: IntArray) -> SetPosterior:
        at = self._fitted_parameters()
        return as_posterior(infer(*weigh_answers(answers, worker, at), at))

    def _log_density(self, answers: LabelSets) -> FloatArray:
        matched = self._match_classes(answers)
        task = positions(answers.tasks, self._names["tasks"])[answers.task]
        evidence = np.where((task >= 0)[:, None], self.evidence_[task], 0.0)
        return predict_answers(matched.member, self._positions_of_workers(answers), evidence, self._fitted_parameters())


class TypesByHeldOut(SharedWorkerModel):
    """What a model keeps of how its number of types was chosen.

    Attributes
    ----------
    held_out_ : (4,)
        Mean log-probability of held-out answers with 1, 2, 4 and 8 types; NaN where none were held out.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("held_out", str(len(TRIED)), missing=True),)
    held_out_: FloatArray


@estimator
class LabelMixture(TypesByHeldOut):
    """Types of tasks in which classes go together, and workers whose ability all classes share.

    A class that often comes with others is believed on fewer votes where they are there. With one type it is
    one-vs-rest.

    Facts
    -----
    Assumes: given the type of a task, its classes come each by themselves; workers name each class by itself
    Fails with: few tasks; sets in which one class rules out another within a type
    Cost: O(answers × K + tasks × K × types) an iteration
    Paper: Dawid & Skene 1979 with a latent class model of the sets (Goodman 1974)

    Parameters
    ----------
    n_types : int, 1 or more, or None
        Types of tasks. None chooses between 1, 2, 4 and 8 by the probability of held-out answers: more types only if
        they gain more than a standard error.
    """

    slug = "label-mixture"

    n_types: int | None = None
    max_iter: int = 300
    tol: float = 1e-6

    def _check(self) -> None:
        check_optional_count("n_types", self.n_types, high=1000)

    def league(self) -> Any:
        """Table of the numbers of types that were tried, and the mean log-probability of a held-out answer."""
        self._check_fitted()
        columns = {"n_types": list(TRIED), "held_out": self.held_out_}
        return native_table(columns | {"chosen": np.array(TRIED) == self.type_share_.size}, self.table_kind_)

    def _fit(self, answers: LabelSets, gold: FloatArray | None) -> Found:
        n_types, means = self.n_types, np.full(len(TRIED), np.nan)
        if n_types is None:
            n_types = 1
            if answers.n_answers >= FEWEST:
                out = held_out_folds(answers) == 0
                scores = [self._score(number, answers.keep(~out), answers.keep(out), gold) for number in TRIED]
                means = np.array([each.mean() for each in scores])
                n_types = TRIED[keep_unless_better(scores)]
        found = self._climb(answers, gold, n_types)
        found.arrays["held_out"] = means
        return found

    def _score(self, n_types: int, seen: LabelSets, hidden: LabelSets, gold: FloatArray | None) -> FloatArray:
        # A choice needs no exact optimum.
        model = LabelMixture(n_types=n_types, max_iter=self.max_iter, tol=max(self.tol, ROUGH))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StillImproving)
            model._remember(seen, model._fit(seen, gold))
        return model._log_density(hidden)


@estimator
class OneVsRest(SharedWorkerModel):
    """Dawid–Skene for each class against the rest, with abilities of workers that all classes share.

    Facts
    -----
    Assumes: classes come each by themselves, and a worker who is good at one class is good at others
    Fails with: classes that go together, of which nothing is made
    Cost: O(answers × K) an iteration
    Paper: Dawid & Skene 1979, Applied Statistics
    """

    slug = "one-vs-rest"

    max_iter: int = 300
    tol: float = 1e-6

    def _fit(self, answers: LabelSets, gold: FloatArray | None) -> Found:
        return self._climb(answers, gold, 1)
