"""Whether a judge of pairs prefers a side, the longer answer, or itself.

All three are in points of probability, with ties counted as half.

| bias | what it is |
|---|---|
| position | P(prefers the answer shown first) - 1/2, for answers of equal merit |
| length | by how much P(prefers an answer) rises where the answer is twice as long |
| self-preference | P(prefers its own answer) - P(people prefer it), on the same comparisons |

Position: from pairs judged in both orders, half the sum of the two preferences for the side less 1/2, whatever the
answers' merit; where a judge has too few of them, from all comparisons, taken as shown in random order. Length: average
marginal effect of log₂(left / right) in a logistic regression that holds the people's answer, or else that of the other
judges, fixed. Self-preference: mean of the differences; against the other judges where people did not answer.

Intervals are by tasks: answers about one pair of contestants on one task vary together. Held-fixed answers of people or
of other judges measure merit with error, so that merit that goes with length is not removed whole: a length slope is an
upper end where better answers are longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, stdtrit

from crowdwise.judges.agreement_with_people import LEVEL, NOTHING, Estimate

if TYPE_CHECKING:
    from crowdwise.judges.vote_table import PanelVotes
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["JudgeBias", "measure_biases"]

FEWEST = 20  # comparisons, or pairs in both orders, for an estimate
STEPS = 50
RIDGE = 1e-3  # precision of the coefficients' prior: it only keeps separable answers finite


@dataclass(frozen=True)
class JudgeBias:
    """Biases of one judge; NaN where they cannot be told."""

    judge: str
    position: Estimate
    both_orders: bool
    length: Estimate
    self_preference: Estimate
    n_ties: int
    n_comparisons: int


def measure_biases(panel: PanelVotes) -> list[JudgeBias]:
    """Biases of every judge of comparisons; none where votes are no comparisons."""
    rows = panel.columns
    if not rows.compared or rows.left is None or rows.right is None or rows.outcome is None:
        return []
    told = rows.outcome != 9
    n_tasks, n_judges = panel.votes.n_tasks, panel.votes.n_workers
    judge, task, left, right = (each[told] for each in (rows.judge, rows.task, rows.left, rows.right))
    chose_left = (rows.outcome[told] + 1) / 2
    left_is_first = left < right
    chose_first = np.where(left_is_first, chose_left, 1 - chose_left)
    people = _mean_of_people(panel)
    by_judge = np.bincount(task * n_judges + judge, chose_first, n_tasks * n_judges).reshape(n_tasks, n_judges)
    times = np.bincount(task * n_judges + judge, minlength=n_tasks * n_judges).reshape(n_tasks, n_judges)
    lengths = None
    if rows.left_length is not None and rows.right_length is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.log2(rows.left_length[told] / rows.right_length[told])
    found = []
    for at, name in enumerate(panel.judges):
        mine = judge == at
        merit = people.copy()  # preference for the first contestant, by those who are not this judge
        others = np.delete(np.arange(n_judges), at)
        with np.errstate(invalid="ignore"):
            theirs = by_judge[:, others].sum(axis=1) / np.where(
                times[:, others].any(axis=1), times[:, others].sum(axis=1), np.nan
            )
        merit = np.where(np.isnan(merit), theirs, merit)
        position, both = _position_bias(task[mine], left_is_first[mine], chose_left[mine], n_tasks)
        length = NOTHING
        if lengths is not None:
            shown = np.where(left_is_first[mine], merit[task[mine]], 1 - merit[task[mine]])
            length = _length_slope(lengths[mine], shown, chose_left[mine], task[mine])
        own = _self_preference(rows.contestants, _model_of(panel, at), left[mine], right[mine], chose_left[mine],
                               merit[task[mine]], left_is_first[mine], task[mine])  # fmt: skip
        found.append(
            JudgeBias(name, position, both, length, own, int((chose_left[mine] == 0.5).sum()), int(mine.sum()))
        )
    return found


def _model_of(panel: PanelVotes, at: int) -> str:
    return panel.columns.model[at] if panel.columns.model else panel.judges[at]


def _mean_of_people(panel: PanelVotes) -> FloatArray:
    """Mean preference of people for the first contestant of each task, NaN where nobody answered."""
    counts = panel.count_human_labels()
    n = counts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = (
            (counts[:, 0] + counts[:, 1] / 2) / np.where(n > 0, n, np.nan) if counts.shape[1] == 3 else n * np.nan
        )
    return mean


def _cluster_interval(values: FloatArray, task: IntArray) -> Estimate:
    """Mean of values, with an interval by the tasks that they belong to."""
    if values.size < FEWEST:
        return NOTHING
    names, place = np.unique(task, return_inverse=True)
    mean = float(values.mean())
    if names.size < 2:
        return NOTHING
    residual = np.bincount(place, values - mean)
    spread = float(np.sqrt(names.size / (names.size - 1) * (residual**2).sum()) / values.size)
    half = float(stdtrit(names.size - 1, (1 + LEVEL) / 2)) * spread
    return Estimate(mean, mean - half, mean + half, values.size)


def _position_bias(
    task: IntArray, left_is_first: BoolArray, chose_left: FloatArray, n_tasks: int
) -> tuple[Estimate, bool]:
    """Preference for the side shown first less 1/2, and whether it comes from pairs in both orders."""
    mean = []
    for order in (left_is_first, ~left_is_first):
        n = np.bincount(task[order], minlength=n_tasks)
        with np.errstate(invalid="ignore"):
            mean.append(np.bincount(task[order], chose_left[order], n_tasks) / np.where(n > 0, n, np.nan))
    swapped = np.flatnonzero(~np.isnan(mean[0]) & ~np.isnan(mean[1]))
    if swapped.size >= FEWEST:
        return _cluster_interval((mean[0][swapped] + mean[1][swapped]) / 2 - 0.5, swapped), True
    return _cluster_interval(chose_left - 0.5, task), False


def _length_slope(ratio: FloatArray, merit: FloatArray, chose_left: FloatArray, task: IntArray) -> Estimate:
    """Average marginal effect of doubling an answer's length on the chance that it is preferred."""
    fit = np.isfinite(ratio)
    if fit.sum() < FEWEST or np.ptp(ratio[fit]) == 0:
        return NOTHING
    ratio, chose_left, task = ratio[fit], chose_left[fit], task[fit]
    design = np.stack([np.ones(ratio.size), ratio, np.nan_to_num(merit[fit] - 0.5)], axis=1)
    coefficients = np.zeros(3)
    for _ in range(STEPS):
        chance = expit(design @ coefficients)
        weight = chance * (1 - chance)
        hessian = (design * weight[:, None]).T @ design + RIDGE * np.eye(3)
        step = np.linalg.solve(hessian, design.T @ (chose_left - chance) - RIDGE * coefficients)
        coefficients = coefficients + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    chance = expit(design @ coefficients)
    weight = chance * (1 - chance)
    effect = float(coefficients[1] * weight.mean())
    # Delta method: the effect's gradient, and the sandwich of the coefficients by tasks.
    gradient = coefficients[1] * (design * (weight * (1 - 2 * chance))[:, None]).mean(axis=0)
    gradient[1] += weight.mean()
    inverse = np.linalg.inv((design * weight[:, None]).T @ design + RIDGE * np.eye(3))
    names, place = np.unique(task, return_inverse=True)
    scores = np.stack([np.bincount(place, each) for each in (design * (chose_left - chance)[:, None]).T], axis=1)
    influence = scores @ inverse @ gradient
    centred = np.bincount(place, coefficients[1] * weight - effect) / ratio.size
    spread = float(np.sqrt(((influence + centred) ** 2).sum() * names.size / max(names.size - 1, 1)))
    half = float(stdtrit(max(names.size - 1, 1), (1 + LEVEL) / 2)) * spread
    return Estimate(effect, effect - half, effect + half, ratio.size)


def _self_preference(
    contestants: tuple[str, ...],
    model: str,
    left: IntArray,
    right: IntArray,
    chose_left: FloatArray,
    merit: FloatArray,
    left_is_first: BoolArray,
    task: IntArray,
) -> Estimate:
    """How much more often a judge that is also a contestant prefers itself than people, or other judges, do."""
    if model not in contestants:
        return NOTHING
    me = contestants.index(model)
    mine = ((left == me) | (right == me)) & np.isfinite(merit)
    on_left = left[mine] == me
    chose_me = np.where(on_left, chose_left[mine], 1 - chose_left[mine])
    expected = np.where(on_left == left_is_first[mine], merit[mine], 1 - merit[mine])
    return _cluster_interval(chose_me - expected, task[mine])
