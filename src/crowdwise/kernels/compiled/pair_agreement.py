"""Compiled loops of `kernels.pair_agreement`: pairs of labels of a task, one task after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.pair_agreement import MOST_TOTAL
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.pair_agreement import IndependenceModel
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["add_copy_ratios", "add_pair_sums", "add_partner_sums"]


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_log_labels(model: IndependenceModel, task: int, every: FloatArray) -> None:
    """Log-probability of each class and all that the representatives of a task's groups say."""
    for k in range(every.size):
        every[k] = model.log_prior[k]
    for edge in range(model.task_ptr[task], model.task_ptr[task + 1]):
        if model.representative[edge] == edge:
            for k in range(every.size):
                every[k] += model.log_table[model.worker[edge], model.label[edge], k]


@njit(cache=True, nogil=True, error_model="numpy")
def _class_chances_without_pair(
    one: int, two: int, model: IndependenceModel, every: FloatArray, chance: FloatArray
) -> tuple[float, int]:
    """Chance of each class by the other groups, relative to the likeliest; returns their sum and the likeliest."""
    one_says, two_says = model.representative[one], model.representative[two]
    most, best = -np.inf, 0
    for k in range(every.size):
        chance[k] = every[k] - model.log_table[model.worker[one_says], model.label[one_says], k]
        if two_says != one_says:
            chance[k] -= model.log_table[model.worker[two_says], model.label[two_says], k]
        if chance[k] > most:
            most, best = chance[k], k
    total = 0.0
    for k in range(every.size):
        chance[k] = np.exp(chance[k] - most)
        total += chance[k]
    return total, best


@njit(cache=True, nogil=True, error_model="numpy")
def _expected_agreement(
    one: int, two: int, model: IndependenceModel, table: FloatArray, every: FloatArray, chance: FloatArray
) -> tuple[float, float, float, int]:
    """Chance that the workers of two edges of a task agree, that both differ from the others, and both of these.

    Last, the class that the others are sure of, or -1.
    """
    total, best = _class_chances_without_pair(one, two, model, every, chance)
    first, second = model.worker[one], model.worker[two]
    same, wrong, off = 0.0, 0.0, 0.0
    for k in range(every.size):
        off += chance[k] * (1 - table[first, best, k]) * (1 - table[second, best, k])
    for answer in range(every.size):
        both = 0.0
        for k in range(every.size):
            both += chance[k] * table[first, answer, k] * table[second, answer, k]
        same += both
        if answer != best:
            wrong += both
    return same / total, off / total, wrong / total, best if total < MOST_TOTAL else -1


@njit(cache=True, nogil=True, error_model="numpy")
def add_pair_sums(
    model: IndependenceModel, table: FloatArray, tasks: IntArray, place: IntArray, out: FloatArray
) -> None:
    """Add to `out` (7, size, size) what `pair_sums` counts, of every two labels of a task in one order."""
    every, chance = np.empty(model.log_prior.size), np.empty(model.log_prior.size)
    label = model.label
    for task in tasks:
        _sum_log_labels(model, task, every)
        for one in range(model.task_ptr[task], model.task_ptr[task + 1]):
            first = place[model.worker[one]]
            for two in range(one + 1, model.task_ptr[task + 1]):
                second = place[model.worker[two]]
                if first < 0 or second < 0 or first == second:
                    continue
                same, off, wrong, best = _expected_agreement(one, two, model, table, every, chance)
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
def add_partner_sums(
    model: IndependenceModel, table: FloatArray, tasks: IntArray, place: IntArray, partners: BoolArray, out: FloatArray
) -> None:
    """Add to `out` (3, size) what `partner_sums` counts."""
    every, chance = np.empty(model.log_prior.size), np.empty(model.log_prior.size)
    for task in tasks:
        _sum_log_labels(model, task, every)
        for one in range(model.task_ptr[task], model.task_ptr[task + 1]):
            first = place[model.worker[one]]
            if first < 0:
                continue
            met, seen, expected = 0, 0.0, 0.0
            for two in range(model.task_ptr[task], model.task_ptr[task + 1]):
                second = place[model.worker[two]]
                if second < 0 or not partners[first, second]:
                    continue
                met += 1
                seen += model.label[one] == model.label[two]
                expected += _expected_agreement(one, two, model, table, every, chance)[0]
            if met:
                out[0, first] += 1.0
                out[1, first] += seen / met
                out[2, first] += expected / met


@njit(cache=True, nogil=True, error_model="numpy")
def add_copy_ratios(
    model: IndependenceModel,
    table: FloatArray,
    tasks: IntArray,
    place: IntArray,
    copied: FloatArray,
    usual: float,
    out: FloatArray,
) -> None:
    """Add to `out` (C, size, size) the log-ratios of `copy_log_ratios`."""
    every, chance = np.empty(model.log_prior.size), np.empty(model.log_prior.size)
    worker, label = model.worker, model.label
    apart = np.log((1 - copied) / (1 - usual))
    most = 0
    for task in tasks:
        most = max(most, model.task_ptr[task + 1] - model.task_ptr[task])
    again = np.empty(most, np.bool_)
    for task in tasks:
        begin, end = model.task_ptr[task], model.task_ptr[task + 1]
        for one in range(begin, end):
            again[one - begin] = False
            for two in range(begin, one):
                again[one - begin] |= worker[one] == worker[two]
        _sum_log_labels(model, task, every)
        for one in range(begin, end):
            first = place[worker[one]]
            for two in range(begin, end):
                second = place[worker[two]]
                if first < 0 or second < 0 or first == second or again[one - begin] or again[two - begin]:
                    continue
                if label[one] != label[two]:
                    out[:, first, second] += apart
                    continue
                _class_chances_without_pair(one, two, model, every, chance)
                alone, both = 0.0, 0.0
                for k in range(every.size):
                    says = chance[k] * table[worker[one], label[one], k]
                    alone += says
                    both += says * table[worker[two], label[two], k]
                same = both / max(alone, 1e-300)
                for c in range(copied.size):
                    out[c, first, second] += np.log((copied[c] + (1 - copied[c]) * same) / (usual + (1 - usual) * same))
