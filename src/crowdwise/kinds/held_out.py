"""Which method foretells answers best that it has not seen: a league without a truth, for any kind."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.estimator_parameters import clone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crowdwise.kinds.answers import Answers
    from crowdwise.kinds.model import KindModel
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["HeldOutScore", "choose_by_held_out", "held_out_folds", "keep_unless_better", "score_held_out"]

FOLDS = 5


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
