"""Compiled loops of `kernels.family_model`: one task after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.softmax import softmax_row
from crowdwise.kernels.family_model import NEGLIGIBLE
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.family_model import FamilyCounts, FamilyEdges, FamilyParameters
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["expected_counts", "sample_classes"]

TINY = 1e-200  # below which products are scaled up


@njit(cache=True, nogil=True, error_model="numpy")
def _task_class_likelihoods(
    task: int, edges: FamilyEdges, parameters: FamilyParameters, starts: IntArray, joint: FloatArray, weight: FloatArray
) -> tuple[int, float]:
    """Chance of a task's labels: of every class (up to a factor), and in each block of the class and the latent class.

    Returns the number of blocks, and the log of the sum over classes. `starts` gets the first edge of each block and
    the end of the task; `joint` [block, class, latent class] chances up to a factor of the block and class; `weight`
    [class] those of the classes, adding up to one.
    """
    prior, own, follow, latent = parameters
    worker, label, family = edges.worker, edges.label, edges.family
    first, last = edges.task_ptr[task], edges.task_ptr[task + 1]
    n_classes = prior.size
    n_blocks, edge = 0, first
    while edge < last and family[worker[edge]] < 0:
        edge += 1
    alone = edge
    while edge < last:
        starts[n_blocks] = edge
        mine = family[worker[edge]]
        while edge < last and family[worker[edge]] == mine:
            edge += 1
        n_blocks += 1
    starts[n_blocks] = last
    for k in range(n_classes):
        value = np.log(prior[k])
        for e in range(first, alone):
            value += np.log(own[worker[e], k, label[e]])
        for block in range(n_blocks):
            group = family[worker[starts[block]]]
            chance = joint[block, k]
            for z in range(n_classes + 1):
                chance[z] = latent[group, k, z]
            for e in range(starts[block], starts[block + 1]):
                who, said = worker[e], label[e]
                alone_says = (1 - follow[who]) * own[who, k, said]
                top = 0.0
                for z in range(n_classes):
                    chance[z] *= alone_says + (follow[who] if z == said else 0.0)
                    top = max(top, chance[z])
                chance[n_classes] *= alone_says + follow[who] / n_classes
                top = max(top, chance[n_classes])
                if top < TINY:
                    for z in range(n_classes + 1):
                        chance[z] /= top
                    value += np.log(top)
            total = 0.0
            for z in range(n_classes + 1):
                total += chance[z]
            for z in range(n_classes + 1):
                chance[z] /= total
            value += np.log(total)
        weight[k] = value
    most, total = softmax_row(weight)
    return n_blocks, most + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _work_arrays(edges: FamilyEdges, n_classes: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Room for `starts`, `joint` and `weight` of the task with most families."""
    widest = 0
    for task in range(edges.task_ptr.size - 1):
        before, number = -1, 0
        for edge in range(edges.task_ptr[task], edges.task_ptr[task + 1]):
            mine = edges.family[edges.worker[edge]]
            number += mine >= 0 and mine != before
            before = mine
        widest = max(widest, number)
    return np.empty(widest + 1, np.int64), np.empty((widest, n_classes, n_classes + 1)), np.empty(n_classes)


@njit(cache=True, nogil=True, error_model="numpy")
def expected_counts(edges: FamilyEdges, parameters: FamilyParameters, counts: FamilyCounts) -> float:
    """Fill in expected counts; returns the log-likelihood."""
    own, follow = parameters.own, parameters.follow
    n_classes = parameters.prior.size
    starts, joint, weight = _work_arrays(edges, n_classes)
    value = 0.0
    for task in range(edges.task_ptr.size - 1):
        n_blocks, gain = _task_class_likelihoods(task, edges, parameters, starts, joint, weight)
        value += gain
        gold = edges.gold[task]
        if gold >= 0:
            value += np.log(weight[gold])
            weight[:] = 0.0
            weight[gold] = 1.0
        for k in range(n_classes):
            if weight[k] < NEGLIGIBLE:
                continue
            counts.classes[k] += weight[k]
            for e in range(edges.task_ptr[task], starts[0]):
                counts.own[edges.worker[e], k, edges.label[e]] += weight[k]
                counts.followed[edges.worker[e], 0] += weight[k]
            for block in range(n_blocks):
                group = edges.family[edges.worker[starts[block]]]
                for z in range(n_classes + 1):
                    counts.latent[group, k, z] += weight[k] * joint[block, k, z]
                for e in range(starts[block], starts[block + 1]):
                    who, said = edges.worker[e], edges.label[e]
                    alone_says = (1 - follow[who]) * own[who, k, said]
                    after = joint[block, k, said] * follow[who] / (alone_says + follow[who])
                    after += (
                        joint[block, k, n_classes] * follow[who] / n_classes / (alone_says + follow[who] / n_classes)
                    )
                    counts.own[who, k, said] += weight[k] * (1 - after)
                    counts.followed[who, 0] += weight[k] * (1 - after)
                    counts.followed[who, 1] += weight[k] * after
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def sample_classes(
    edges: FamilyEdges, parameters: FamilyParameters, uniform: FloatArray, truth: IntArray, counts: FamilyCounts
) -> None:
    """Fill in one draw of the classes, and the counts that go with it; one random number after the other is used."""
    own, follow = parameters.own, parameters.follow
    n_classes = parameters.prior.size
    starts, joint, weight = _work_arrays(edges, n_classes)
    drawn = 0
    for task in range(edges.task_ptr.size - 1):
        n_blocks = _task_class_likelihoods(task, edges, parameters, starts, joint, weight)[0]
        k = edges.gold[task] if edges.gold[task] >= 0 else _draw_by_inverse_cdf(weight, uniform[drawn])
        drawn += 1
        truth[task] = k
        counts.classes[k] += 1
        for e in range(edges.task_ptr[task], starts[0]):
            counts.own[edges.worker[e], k, edges.label[e]] += 1
            counts.followed[edges.worker[e], 0] += 1
        for block in range(n_blocks):
            z = _draw_by_inverse_cdf(joint[block, k], uniform[drawn])
            drawn += 1
            counts.latent[edges.family[edges.worker[starts[block]]], k, z] += 1
            for e in range(starts[block], starts[block + 1]):
                who, said = edges.worker[e], edges.label[e]
                alone_says = (1 - follow[who]) * own[who, k, said]
                after = follow[who] if z == said else (follow[who] / n_classes if z == n_classes else 0.0)
                drawn += 1
                if uniform[drawn - 1] * (alone_says + after) < after:
                    counts.followed[who, 1] += 1
                else:
                    counts.followed[who, 0] += 1
                    counts.own[who, k, said] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_by_inverse_cdf(chance: FloatArray, uniform: float) -> int:
    """The place at which the sum of chances, which add up to one, passes a number."""
    total = 0.0
    for place in range(chance.size - 1):
        total += chance[place]
        if uniform < total:
            return place
    return chance.size - 1
