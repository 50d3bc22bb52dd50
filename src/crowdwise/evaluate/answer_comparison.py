"""The league table of the methods of one kind of answers: by answers hidden from them, and by a truth if there is one.

Every method is fitted to each four fifths of the answers and asked how probable it finds the rest. Methods that do not
tell how probable answers are have a note instead of a score, and can still be compared by a truth.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crowdwise.evaluate.held_out import standard_error_over_tasks
from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.parameter_checks import check_count, check_random_state
from crowdwise.fitting.progress_bar import show_progress_of
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.kinds.answers import check_answers
from crowdwise.kinds.held_out import held_out_folds, score_held_out
from crowdwise.kinds.kind_registry import kind
from crowdwise.labels.errors import CrowdwiseError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.kinds.answers import Answers
    from crowdwise.kinds.kind_registry import KindMethod
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["AnswerComparison", "AnswerStanding", "compare_answers"]

Z90 = 1.645  # standard errors within which a method is not told apart from the best


@dataclass(frozen=True, kw_only=True)
class AnswerStanding:
    """Where one method stands.

    Attributes
    ----------
    held_out
        Mean log-density of a hidden answer; not a number where the method tells none.
    behind, behind_error
        How far the best is ahead, and the standard error of that over tasks.
    scores
        Against the truth, as the kind scores it; empty without one.
    seconds
        Of the fit to all answers.
    note
        Why there is no score.
    """

    method: str
    held_out: float = math.nan
    behind: float = math.nan
    behind_error: float = math.nan
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    note: str = ""

    @property
    def may_be_best(self) -> bool:
        """Whether hidden answers do not tell it apart from the best."""
        return self.behind <= Z90 * self.behind_error


@dataclass(frozen=True)
class AnswerComparison:
    """The standings of the methods of a kind, the best first, those without a score last."""

    kind: str
    standings: tuple[AnswerStanding, ...]

    @property
    def best(self) -> str | None:
        """The method that hidden answers speak for; None where no method has a score."""
        first = self.standings[0]
        return None if math.isnan(first.held_out) else first.method

    @property
    def tied_with_best(self) -> tuple[str, ...]:
        """The other methods that hidden answers do not tell apart from the best."""
        return tuple(each.method for each in self.standings[1:] if each.may_be_best)


@ignore_underflow
def compare_answers(
    answers: Answers, methods: Iterable[str] | None = None, *, folds: int = 5, truth: Any = None, random_state: int = 0
) -> AnswerComparison:
    """Compare the methods of one kind by how probable they find answers hidden from them, and by a truth if given.

    Parameters
    ----------
    answers
        Answers of a kind, as its reader gives them.
    methods
        Slugs; by default all of the kind.
    folds
        Parts into which the answers are cut at random; each is predicted from the others.
    truth
        As the kind's own score takes it: a path, a table, or a mapping.
    random_state
        For the cut.

    Examples
    --------
    >>> from crowdwise.kinds import simulate_values
    >>> crowd = simulate_values(n_tasks=60, n_workers=8, scale=0.5, bias=10, random_state=0)
    >>> compare_answers(crowd.answers, ["mean", "gaussian"]).best
    'gaussian'
    """
    check_answers(answers)
    check_count("folds", folds, low=2)
    check_random_state(random_state)
    if answers.n_answers < folds:
        raise InputError(f"{folds} parts need at least as many answers; there are {answers.n_answers:,}.")
    of_kind = kind(answers.kind)
    chosen = of_kind.methods() if methods is None else [of_kind.method(slug) for slug in dict.fromkeys(methods)]
    if not chosen:
        raise InputError(f"No method is named. There are: {', '.join(each.slug for each in of_kind.methods())}.")
    parts = held_out_folds(answers, folds, random_state)
    standings: list[AnswerStanding] = []
    densities: dict[str, FloatArray] = {}
    with show_progress_of("comparing", len(chosen), "methods") as advance:
        for method in chosen:
            standing, density = _fit_and_score(method, answers, parts, truth)
            standings.append(standing)
            if density is not None:
                densities[method.slug] = density
            advance()
    return AnswerComparison(of_kind.name, _rank(standings, densities, _cluster(answers)))


def _fit_and_score(
    method: KindMethod, answers: Answers, parts: IntArray, truth: Any
) -> tuple[AnswerStanding, FloatArray | None]:
    """Scores against the truth, and the density of every answer under a fit that has not seen it."""
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StillImproving)
            model = method.load()().fit(answers)
    except CrowdwiseError as error:
        return AnswerStanding(method=method.slug, note=str(error)), None
    seconds = time.perf_counter() - started
    scores = {} if truth is None else kind(answers.kind).score(model, truth)
    try:
        density = score_held_out(model, answers, parts)
    except CrowdwiseError as error:
        return AnswerStanding(method=method.slug, scores=scores, seconds=seconds, note=str(error)), None
    return AnswerStanding(method=method.slug, scores=scores, seconds=seconds, held_out=float(density.mean())), density


def _rank(
    standings: list[AnswerStanding], densities: dict[str, FloatArray], cluster: IntArray
) -> tuple[AnswerStanding, ...]:
    best = max(densities, key=lambda slug: densities[slug].mean(), default=None)
    ranked = []
    for each in standings:
        if best is not None and each.method in densities:
            apart = densities[best] - densities[each.method]
            error = standard_error_over_tasks(cluster, apart)
            ranked.append(replace(each, behind=float(apart.mean()), behind_error=error))
        else:
            ranked.append(each)
    return tuple(sorted(ranked, key=lambda each: math.inf if math.isnan(each.behind) else each.behind))


def _cluster(answers: Answers) -> IntArray:
    """What answers go together by (n,): the task, or the first of two items."""
    column = next(name for name in ("task", "left", "item") if name in answers.coded)
    found: IntArray = getattr(answers, column)
    return found
