"""The alternative annotator test of Calderon, Reichart and Dror (2025, ACL): may a judge stand in for a person.

Leave person j out. On every task that j labelled, score j's label and the judge's vote by their agreement with the
labels of the other people. With W_f = 1 where the judge scores at least as well as j, and W_h = 1 where j scores at
least as well as the judge,

| quantity of the paper | here |
|---|---|
| ρ_j = mean of W_f | `advantage` of a person |
| H0: mean of W_h - W_f ≥ ε, by a one-sided t test of the differences | `p_value` |
| false discovery rate, any dependence (Benjamini and Yekutieli 2001) | `reject_by_benjamini_yekutieli` |
| ω = share of the people for whom H0 is rejected | `winning_rate` |
| ρ = mean of ρ_j | `advantage` |

The judge may replace people where ω ≥ 1/2. ε is how much worse the judge may be because a person costs more: the paper
takes .2 for experts, .15 for trained workers and .1 for crowds.

People who labelled fewer than `FEWEST_TASKS` tasks, and tasks with fewer than two people, are left out, as in the
paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

from crowdwise.fitting.parameter_checks import as_numbers, check_count, check_inner_share, check_number
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, is_one_of, quote

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["AlternativeAnnotator", "reject_by_benjamini_yekutieli", "run_alternative_annotator_test"]

FEWEST_TASKS = 30  # of a person, for the t test
LEVEL = 0.05  # false discovery rate
SCORES = ("accuracy", "rmse")


@dataclass(frozen=True, eq=False)
class AlternativeAnnotator:
    """What the test says of one judge.

    Attributes
    ----------
    winning_rate
        ω; NaN where the test cannot be made.
    advantage
        ρ, the chance that the judge agrees with the other people at least as well as a person does.
    epsilon
        ε.
    passes
        Whether ω ≥ 1/2.
    people, n_tasks, p_value, advantages, rejected
        Positions of the people that took part, and for each the tasks, the p-value, ρ_j, and whether H0 is rejected.
    skipped
        Why there is no test, in words; "" where there is one.
    """

    winning_rate: float
    advantage: float
    epsilon: float
    passes: bool
    people: IntArray
    n_tasks: IntArray
    p_value: FloatArray
    advantages: FloatArray
    rejected: BoolArray
    skipped: str = ""


def reject_by_benjamini_yekutieli(p_values: FloatArray, level: float = LEVEL) -> BoolArray:
    """Which hypotheses are rejected at this false discovery rate, whatever their dependence.

    >>> reject_by_benjamini_yekutieli(np.array([0.001, 0.2, 0.011])).tolist()
    [True, False, True]
    """
    n = p_values.size
    order = np.argsort(p_values, kind="stable")
    ranks = np.arange(1, n + 1)
    below = np.flatnonzero(p_values[order] <= ranks / n * (level / (1 / ranks).sum()))
    rejected = np.zeros(n, np.bool_)
    if below.size:
        rejected[order[: below[-1] + 1]] = True
    return rejected


@ignore_underflow
def run_alternative_annotator_test(
    vote: IntArray,
    humans: CrowdLabels,
    *,
    epsilon: float = 0.1,
    score: str = "accuracy",
    values: FloatArray | None = None,
    level: float = LEVEL,
    fewest_tasks: int = FEWEST_TASKS,
) -> AlternativeAnnotator:
    """Test whether a judge may stand in for the people.

    Parameters
    ----------
    vote : (N,)
        The judge's class for each task of `humans`, -1 where there is none.
    humans
        Labels of people.
    epsilon
        ε, at least 0.
    score
        How a label is scored by those of the others: "accuracy", the share that is equal; "rmse", minus the root mean
        squared difference of the classes' `values`.
    level
        False discovery rate over the people.
    fewest_tasks
        Of a person, to take part.
    """
    if not is_one_of(score, SCORES):
        raise InputError(f"score is {quote(score)}; it must be one of {', '.join(SCORES)}.")
    if score == "rmse" and values is None:
        raise InputError('score "rmse" needs classes that are numbers. Use score="accuracy".')
    check_inner_share("level", level)
    check_number("epsilon", epsilon, low=0)
    check_count("fewest_tasks", fewest_tasks)
    epsilon = float(epsilon)
    if not isinstance(humans, CrowdLabels):
        raise InputError(f"humans is {quote(humans)}; give labels, as read_labels reads them.")
    given = as_numbers(vote, "vote")
    if given.shape != (humans.n_tasks,) or not np.isin(given, np.arange(-1, humans.n_classes)).all():
        raise InputError(f"vote must be {humans.n_tasks:,} classes, numbers from -1 to {humans.n_classes - 1}.")
    vote = given.astype(np.int64)
    counts = np.asarray(humans.vote_counts(), np.float64)
    kept = (counts.sum(axis=1) >= 2) & (vote >= 0)
    edge = kept[humans.task]
    task, person, label = humans.task[edge], humans.worker[edge].astype(np.int64), humans.label[edge]
    others = counts[task].copy()
    others[np.arange(task.size), label] -= 1
    theirs, judged = (_score_labels(each, others, score, values) for each in (label, vote[task]))
    # Scores of equal merit may differ by rounding: equal counts of the same divisor do not.
    wins, losses = judged >= theirs, theirs >= judged
    difference = losses.astype(np.float64) - wins
    n = np.bincount(person, minlength=humans.n_workers)
    people = np.flatnonzero(n >= max(fewest_tasks, 2))
    if not people.size:
        return _skip(epsilon, humans, int(n.max(initial=0)), fewest_tasks)
    total = np.bincount(person, difference, humans.n_workers)[people]
    squares = np.bincount(person, difference**2, humans.n_workers)[people]
    size = n[people]
    mean = total / size
    spread = np.sqrt(np.maximum(squares - size * mean**2, 0) / (size - 1))
    # Without any spread the statistic is infinite, with the sign of the mean.
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = (mean - epsilon) / (spread / np.sqrt(size))
    p_value = np.where(np.isnan(statistic), 1.0, stdtr(size - 1, np.nan_to_num(statistic, nan=0.0)))
    advantages = np.bincount(person, wins.astype(np.float64), humans.n_workers)[people] / size
    rejected = reject_by_benjamini_yekutieli(p_value, level)
    rate = float(rejected.mean())
    return AlternativeAnnotator(
        rate, float(advantages.mean()), epsilon, rate >= 0.5, people, size, p_value, advantages, rejected
    )


def _score_labels(label: IntArray, others: FloatArray, score: str, values: FloatArray | None) -> FloatArray:
    """Score of each label by the counts of the others' labels, (n,)."""
    n = others.sum(axis=1)
    if score == "accuracy" or values is None:
        agreed: FloatArray = others[np.arange(label.size), label] / n
        return agreed
    away = (values[label][:, None] - values) ** 2
    scored: FloatArray = -np.sqrt((others * away).sum(axis=1) / n)
    return scored


def _skip(epsilon: float, humans: CrowdLabels, most: int, fewest: int) -> AlternativeAnnotator:
    if humans.n_workers < 2:
        why = "One person alone cannot be compared with other people. Ask two or three people about the same tasks."
    else:
        why = (
            f"Nobody labelled {fewest} tasks that others labelled too (the most are {most}). "
            f"Let the same people label {fewest} tasks or more."
        )
    none = np.zeros(0)
    nobody = np.zeros(0, np.int64)
    return AlternativeAnnotator(
        float("nan"), float("nan"), epsilon, False, nobody, nobody, none, none, none.astype(np.bool_), why
    )
