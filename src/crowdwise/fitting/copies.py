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
combination and applications", Annals of Statistics 49). Unlike the test of groups (`fitting.company`) it loses no task
to choosing whom to test, and answers that nobody else gives weigh most. It is corrected for all pairs that share enough
tasks.

What it cannot see is the copy of somebody who is nearly always right, nor several copies of one worker where tasks have
so few other labels that the copies pass for the truth. Labels alone cannot tell either from experts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.excess import MARGIN, SHRINK
from crowdwise.kernels.company import copies_pass

if TYPE_CHECKING:
    from crowdwise.kernels.company import Voices
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["copy_p_values"]

FEWEST = 20  # tasks that two must share
ALIKE = 0.9  # share of them with the same answer, from which on one may copy the other
COPIED = np.array([0.8, 0.95, 0.999])  # shares of answers that may be copied
MOST_USUAL = 0.6  # share of answers that any two workers are taken to have in common beyond the truth


def copy_p_values(voices: Voices, tasks: IntArray, place: IntArray, sums: FloatArray) -> FloatArray:
    """Of every two workers (m, m), that neither copies the other: corrected for all pairs, 1 where it is not asked.

    Parameters
    ----------
    tasks, place
        As for `kernels.company.pairs_pass`.
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
    ratio = copies_pass(voices, tasks, place, shared.shape[0], COPIED, usual)
    most = ratio.max(axis=0)
    log_mean = most + np.log(np.exp(ratio - most).mean(axis=0))
    either = np.maximum(log_mean, log_mean.T)[alike]  # either may be the copy: two tests a pair
    found[alike] = np.minimum(np.exp(-np.maximum(either, 0.0)) * np.count_nonzero(pairs), 1.0)
    return found
