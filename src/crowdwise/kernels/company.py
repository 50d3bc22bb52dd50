"""How often workers agree, and how often they would if only the truth, as outsiders tell it, joined them.

For two workers of a task, the truth is what the other voices say: P(k | others) ∝ prior[k] Π_u A[u, k, label], over the
labels that speak for companies other than those of the two. Given the truth the two are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Voices", "copies_pass", "mates_pass", "pairs_pass"]


MOST_TOTAL = 1 / 0.9  # of chances relative to the likeliest class, for the others to be sure of it


@dataclass(frozen=True)
class Voices:
    """Labels, who speaks for whom, and what the voices are worth.

    Attributes
    ----------
    task_ptr : (N + 1,)
        Edges of each task.
    worker, label : (S,)
        Of each edge.
    voice : (S,)
        The edge of the same task that speaks for this worker's company; their own where alone.
    log_prior : (K,)
    log_table : (M, K, K) [worker, label, truth]
        Finite.
    """

    task_ptr: IntArray
    worker: IntArray
    label: IntArray
    voice: IntArray
    log_prior: FloatArray
    log_table: FloatArray


def pairs_pass(voices: Voices, tasks: IntArray, place: IntArray, size: int) -> FloatArray:
    """Sums over the tasks that every two of `size` workers share, (7, size, size), symmetric.

    Shared tasks; those with the same answer, seen and expected; those on which both answer otherwise than the others
    are sure of, seen and expected; and of these those with the same answer, seen and expected.

    Parameters
    ----------
    tasks
        Positions of the tasks to go through.
    place : (M,)
        Row of each worker in the sums; -1 for one who is left out.
    """
    out = np.zeros((7, size, size))
    rows = voices.task_ptr, voices.worker, voices.label, voices.voice
    _pairs(*rows, voices.log_prior, voices.log_table, np.exp(voices.log_table), tasks, place, out)
    both: FloatArray = out + out.transpose(0, 2, 1)
    return both


def mates_pass(voices: Voices, tasks: IntArray, place: IntArray, mates: BoolArray) -> FloatArray:
    """Sums over the tasks that a worker shares with any of their mates, (3, size).

    Tasks; in each, the share of their mates there who give the same answer, seen and expected.

    Parameters
    ----------
    mates : (size, size)
        Whether the column is a mate of the row.
    """
    out = np.zeros((3, mates.shape[0]))
    rows = voices.task_ptr, voices.worker, voices.label, voices.voice
    _mates(*rows, voices.log_prior, voices.log_table, np.exp(voices.log_table), tasks, place, mates, out)
    return out


def copies_pass(
    voices: Voices, tasks: IntArray, place: IntArray, size: int, copied: FloatArray, usual: float
) -> FloatArray:
    """Log-likelihood ratio (C, size, size) that the column copies the row, rather than only shares the truth with it.

    On a task where the row says l, the column says the same with chance p if only the truth joins the two; if the
    column copies a share c of answers, with c + (1 - c) p. The ratio is that of c to the share `usual`.

    Parameters
    ----------
    copied : (C,)
        Shares c, above `usual` and below 1.
    usual
        Share of answers that any two workers have in common beyond the truth.
    """
    out = np.zeros((copied.size, size, size))
    rows = voices.task_ptr, voices.worker, voices.label, voices.voice
    _copies(*rows, voices.log_prior, voices.log_table, np.exp(voices.log_table), tasks, place, copied, usual, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _hear(
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    voice: IntArray,
    log_prior: FloatArray,
    log_table: FloatArray,
    task: int,
    every: FloatArray,
) -> None:
    """Log-probability of each class and all that the task's voices say."""
    every[:] = log_prior
    for edge in range(task_ptr[task], task_ptr[task + 1]):
        if voice[edge] == edge:
            for k in range(every.size):
                every[k] += log_table[worker[edge], label[edge], k]


@njit(cache=True, nogil=True, error_model="numpy")
def _expect(
    one: int,
    two: int,
    worker: IntArray,
    label: IntArray,
    voice: IntArray,
    log_table: FloatArray,
    table: FloatArray,
    every: FloatArray,
    chance: FloatArray,
) -> tuple[float, float, float, int]:
    """Chance that the workers of two edges of a task agree, that both differ from the others, and both of these.

    Last, the class that the others are sure of, or -1.
    """
    n_classes = every.size
    one_voice, two_voice = voice[one], voice[two]
    most, best = -np.inf, 0
    for k in range(n_classes):
        chance[k] = every[k] - log_table[worker[one_voice], label[one_voice], k]
        if two_voice != one_voice:
            chance[k] -= log_table[worker[two_voice], label[two_voice], k]
        if chance[k] > most:
            most, best = chance[k], k
    total = 0.0
    for k in range(n_classes):
        chance[k] = np.exp(chance[k] - most)
        total += chance[k]
    same, wrong, off = 0.0, 0.0, 0.0
    for k in range(n_classes):
        off += chance[k] * (1 - table[worker[one], best, k]) * (1 - table[worker[two], best, k])
    for answer in range(n_classes):
        both = 0.0
        for k in range(n_classes):
            both += chance[k] * table[worker[one], answer, k] * table[worker[two], answer, k]
        same += both
        if answer != best:
            wrong += both
    return same / total, off / total, wrong / total, best if total < MOST_TOTAL else -1


@njit(cache=True, nogil=True, error_model="numpy")
def _pairs(
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    voice: IntArray,
    log_prior: FloatArray,
    log_table: FloatArray,
    table: FloatArray,
    tasks: IntArray,
    place: IntArray,
    out: FloatArray,
) -> None:
    every, chance = np.empty(log_prior.size), np.empty(log_prior.size)
    for task in tasks:
        _hear(task_ptr, worker, label, voice, log_prior, log_table, task, every)
        for one in range(task_ptr[task], task_ptr[task + 1]):
            first = place[worker[one]]
            for two in range(one + 1, task_ptr[task + 1]):
                second = place[worker[two]]
                if first < 0 or second < 0 or first == second:
                    continue
                same, off, wrong, best = _expect(one, two, worker, label, voice, log_table, table, every, chance)
                agree = label[one] == label[two]
                out[0, first, second] += 1.0
                out[1, first, second] += agree
                out[2, first, second] += same
                if best < 0:
                    continue
                out[3, first, second] += label[one] != best and label[two] != best
                out[4, first, second] += off
                out[5, first, second] += agree and label[one] != best
                out[6, first, second] += wrong


@njit(cache=True, nogil=True, error_model="numpy")
def _mates(
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    voice: IntArray,
    log_prior: FloatArray,
    log_table: FloatArray,
    table: FloatArray,
    tasks: IntArray,
    place: IntArray,
    mates: BoolArray,
    out: FloatArray,
) -> None:
    every, chance = np.empty(log_prior.size), np.empty(log_prior.size)
    for task in tasks:
        _hear(task_ptr, worker, label, voice, log_prior, log_table, task, every)
        for one in range(task_ptr[task], task_ptr[task + 1]):
            first = place[worker[one]]
            if first < 0:
                continue
            met, seen, expected = 0, 0.0, 0.0
            for two in range(task_ptr[task], task_ptr[task + 1]):
                second = place[worker[two]]
                if second < 0 or not mates[first, second]:
                    continue
                same, _, _, _ = _expect(one, two, worker, label, voice, log_table, table, every, chance)
                met += 1
                seen += label[one] == label[two]
                expected += same
            if met:
                out[0, first] += 1.0
                out[1, first] += seen / met
                out[2, first] += expected / met


@njit(cache=True, nogil=True, error_model="numpy")
def _copies(
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    voice: IntArray,
    log_prior: FloatArray,
    log_table: FloatArray,
    table: FloatArray,
    tasks: IntArray,
    place: IntArray,
    copied: FloatArray,
    usual: float,
    out: FloatArray,
) -> None:
    n_classes = log_prior.size
    every, chance = np.empty(n_classes), np.empty(n_classes)
    apart = np.log((1 - copied) / (1 - usual))
    again = np.empty(np.diff(task_ptr).max(), np.bool_)  # a worker's second answer to a task is no further evidence
    for task in tasks:
        begin = task_ptr[task]
        for one in range(begin, task_ptr[task + 1]):
            again[one - begin] = False
            for two in range(begin, one):
                again[one - begin] |= worker[one] == worker[two]
        _hear(task_ptr, worker, label, voice, log_prior, log_table, task, every)
        for one in range(task_ptr[task], task_ptr[task + 1]):
            first = place[worker[one]]
            for two in range(task_ptr[task], task_ptr[task + 1]):
                second = place[worker[two]]
                if first < 0 or second < 0 or first == second or again[one - begin] or again[two - begin]:
                    continue
                if label[one] != label[two]:
                    out[:, first, second] += apart
                    continue
                one_voice, two_voice = voice[one], voice[two]
                most = -np.inf
                for k in range(n_classes):
                    chance[k] = every[k] - log_table[worker[one_voice], label[one_voice], k]
                    if two_voice != one_voice:
                        chance[k] -= log_table[worker[two_voice], label[two_voice], k]
                    most = max(most, chance[k])
                alone, both = 0.0, 0.0
                for k in range(n_classes):
                    says = np.exp(chance[k] - most) * table[worker[one], label[one], k]
                    alone += says
                    both += says * table[worker[two], label[two], k]
                same = both / max(alone, 1e-300)
                for c in range(copied.size):
                    out[c, first, second] += np.log((copied[c] + (1 - copied[c]) * same) / (usual + (1 - usual) * same))
