"""Copies: two workers who give the same answers to the same tasks, beyond what the truth and their skill explain.

Of two workers who agree on nearly all of many tasks, either both know the class or one copies the other. What everyone
else says tells the two apart: where the others are sure of the class that both name, agreement is no surprise; where
both give an answer that nobody else gives, it is. If only the truth joins a and b, b gives a's answer l to a task with

    p = Σ_k q[k] A_a[k, l] A_b[k, l] / Σ_k q[k] A_a[k, l],   q the posterior of the task by the others;

if b copies a share c of answers, with c + (1 - c) p. The likelihood ratio of c to the share κ that any two workers of
this crowd have in common beyond the truth, because of hard tasks and the like, is

    Π_tasks  [c + (1 - c) p] / [κ + (1 - κ) p]  where they agree,   (1 - c) / (1 - κ)  where they do not.

Its mean is at most 1 for any two whom no more than κ joins, and so is the mean over several c: 1 / ratio is a p-value,
by Markov's inequality, for any number of tasks (an e-value; V. Vovk and R. Wang 2021, "E-values: calibration,
combination and applications", Annals of Statistics 49). Unlike the test of groups (`dependence.groups`) it loses no
task to choosing whom to test, and answers that nobody else gives weigh most. It is corrected for all pairs that share
enough tasks (`bonferroni_pair_weights`).

What it cannot see is the copy of somebody who is nearly always right, whom labels alone cannot tell from an expert.
Copies that outvote the few others on their tasks pass for experts too, unless `groups.join_identical_workers` lets them
count once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.dependence.excess_agreement import MARGIN, SHRINK
from crowdwise.kernels.pair_agreement import copy_log_ratios

if TYPE_CHECKING:
    from crowdwise.kernels.pair_agreement import IndependenceModel
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["copy_p_values"]

FEWEST = 30  # tasks that two must share
ALIKE = 0.9  # share of them with the same answer, from which on one may copy the other
COPIED = np.array([0.8, 0.95, 0.999])  # shares of answers that may be copied
ENOUGH = 60  # shared tasks from which on more of them get a pair no more of the level
MOST_USUAL = 0.6  # share of answers that any two workers are taken to have in common beyond the truth


def copy_p_values(model: IndependenceModel, tasks: IntArray, place: IntArray, sums: FloatArray) -> FloatArray:
    """Of every two workers (m, m), that neither copies the other: corrected for all pairs, 1 where it is not asked.

    Parameters
    ----------
    tasks, place
        As for `kernels.pair_agreement.pair_sums`.
    sums : (7, m, m)
        What that gave.
    """
    shared, same = sums[:2]
    pairs = shared >= FEWEST
    alike = pairs & (same >= ALIKE * shared)
    np.fill_diagonal(alike, False)
    found = np.ones(shared.shape)
    if not alike.any():
        return found
    # Copies are no part of what is usual: they may be most of what is shared. A mean, not a median as elsewhere: most
    # pairs may share one task or two.
    shared_else, same_else, expected_else = (float(table[~alike].sum()) for table in sums[:3])
    usual = MARGIN + min(max(same_else - expected_else, 0.0) / (shared_else - expected_else + SHRINK), MOST_USUAL)
    ratio = copy_log_ratios(model, tasks, place, shared.shape[0], COPIED, usual)
    ratio = np.concatenate([ratio, np.moveaxis(ratio, 1, 2)])  # either may be the copy
    most = ratio.max(axis=0)
    log_mean = most + np.log(np.exp(ratio - most).mean(axis=0))
    weight = bonferroni_pair_weights(shared, count_answers(model, tasks, place))
    found[alike] = np.exp(-np.maximum(log_mean[alike] + np.log(weight[alike]), 0.0))
    return found


def count_answers(model: IndependenceModel, tasks: IntArray, place: IntArray) -> IntArray:
    """Answers (m,) of each worker who has a place to the given tasks."""
    asked = np.zeros(model.task_ptr.size - 1, np.bool_)
    asked[tasks] = True
    mine = place[model.worker[np.repeat(asked, np.diff(model.task_ptr))]]
    return np.bincount(mine[mine >= 0], minlength=int(place.max()) + 1)


def bonferroni_pair_weights(shared: FloatArray, answers: IntArray) -> FloatArray:
    """Share (m, m) of the level that each pair has, 0 where two share too few tasks; all pairs together have 1.

    A copy has done the same tasks as its source: the weights go by the square of the shared tasks (no more of them than
    `ENOUGH`, which show a copy anyhow) as a share of all that the two have done. They rest on who did what, not on the
    answers, which leaves the correction valid (weighted Bonferroni).

    >>> shared = np.array([[0, 50, 30], [50, 0, 30], [30, 30, 0]])
    >>> bonferroni_pair_weights(shared, np.array([50, 50, 80])).round(2)[0].tolist()
    [0.0, 0.94, 0.03]
    """
    both = np.maximum(answers[:, None] + answers[None, :] - shared, 1)
    weight = np.where(shared >= FEWEST, (np.minimum(shared, ENOUGH) * shared / both) ** 2, 0.0)
    np.fill_diagonal(weight, 0.0)
    return np.asarray(2 * weight / max(weight.sum(), 1e-300))
