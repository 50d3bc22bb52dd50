"""Which method predicts answers best that it has not seen: a league without a truth, for any kind."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.estimator_parameters import clone
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.model import KindModel
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crowdwise.kinds.answers import Answers
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "HeldOutChoice",
    "HeldOutScore",
    "choose_by_held_out",
    "held_out_folds",
    "keep_unless_better",
    "score_held_out",
]

FOLDS = 5


class HeldOutChoice(KindModel[Any]):
    """Base of the methods that are one of several, chosen by held-out answers.

    Attributes
    ----------
    chosen_ : (1,)
        Position of the method that was chosen among those of `league`.
    held_out_ : one for each candidate
        Mean log-density of held-out answers by each candidate; NaN where it was not tried.
    """

    candidates: ClassVar[tuple[type[KindModel[Any]], ...]]
    chosen_: IntArray
    held_out_: FloatArray

    @staticmethod
    def choice_arrays(number: int) -> tuple[SavedArray, SavedArray]:
        """What is saved of a choice among so many candidates."""
        chosen = SavedArray("chosen", "1", low=0, codes=str(number), integer=True)
        return chosen, SavedArray("held_out", str(number), missing=True)

    @property
    def chosen_class(self) -> Any:
        """The method that was chosen."""
        return self.candidates[int(self.chosen_[0])]

    @property
    def chosen_method(self) -> str:
        """Slug of the method that was chosen."""
        return str(self.chosen_class.slug)

    def league(self) -> Any:
        """Table of method, held_out (mean log-density of a held-out answer) and whether it was chosen."""
        self._check_fitted()
        columns = {
            "method": [each.slug for each in self.candidates],
            "held_out": self.held_out_,
            "chosen": np.arange(len(self.candidates)) == self.chosen_[0],
        }
        return native_table(columns, self.table_kind_)


@dataclass(frozen=True)
class HeldOutScore:
    """Mean log-density of held-out answers under a method, and the standard error of its distance from the best."""

    name: str
    mean: float
    behind: float
    error: float


def held_out_folds(answers: Answers, n_folds: int = FOLDS, random_state: int = 0) -> IntArray:
    """The part (n,) in which each row is held out: drawn in an order of content, whatever the order of rows.

    Rows of one answer, as of a ranking, go together.
    """
    names = np.zeros(answers.n_answers, np.int64)
    for column in answers.answer_columns:
        words = getattr(answers, answers.coded[column]).cast("string").to_pylist()
        ranks = np.argsort(np.argsort(np.asarray(words, object)))
        names = names * len(ranks) + ranks[getattr(answers, column)]
    every, answer = np.unique(names, return_inverse=True)
    folds: IntArray = np.random.default_rng(random_state).permutation(np.arange(every.size) % n_folds)[answer]
    return folds


def score_held_out(
    model: KindModel[Any], answers: Answers, folds: IntArray, parts: Sequence[int] | None = None
) -> FloatArray:
    """Log-density of each answer (n,), under a fit without those of its part; or of the answers of some parts alone."""
    found = np.empty(answers.n_answers)
    for fold in np.unique(folds) if parts is None else parts:
        out = folds == fold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StillImproving)
            fitted = clone(model).fit(answers.keep(~out))
        found[out] = fitted.log_density(answers.keep(out))
    return found if parts is None else found[np.isin(folds, parts)]


def choose_by_held_out(models: Mapping[str, KindModel[Any]], answers: Answers) -> list[HeldOutScore]:
    """The models, best first, by how probable they find answers that they have not seen."""
    folds = held_out_folds(answers)
    scores = {name: score_held_out(model, answers, folds) for name, model in models.items()}
    best = max(scores, key=lambda name: scores[name].mean())
    league = []
    for name, found in scores.items():
        apart = scores[best] - found
        error = float(apart.std(ddof=1) / np.sqrt(apart.size)) if apart.size > 1 else 0.0
        league.append(HeldOutScore(name, float(found.mean()), float(apart.mean()), error))
    return sorted(league, key=lambda each: -each.mean)


def keep_unless_better(scores: list[FloatArray]) -> int:
    """The first of several methods, unless a later one gains more than a standard error; `scores` are log-densities."""
    best = 0
    for number in range(1, len(scores)):
        gain = scores[number] - scores[best]
        if gain.mean() > gain.std() / np.sqrt(max(gain.size, 1)):
            best = number
    return best
