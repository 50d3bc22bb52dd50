"""One pass over the tasks of a crowd whose workers belong to families: expected counts, or one draw of what is hidden.

The model is that of `crowdwise.audit.family_model`. Edges are sorted by task and, within a task, by family, with the
workers who are in none first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FamilyCounts", "FamilyEdges", "expect_families", "sample_hidden"]

TINY = 1e-200  # below which products are scaled up


class FamilyEdges(NamedTuple):
    """Labels of a crowd, sorted by task and family.

    Attributes
    ----------
    task_ptr : (N + 1,)
    worker, label : (S,)
    family : (M,)
        Of each worker, -1 for none; counted from 0.
    gold : (N,)
        Known classes, -1 elsewhere.
    """

    task_ptr: IntArray
    worker: IntArray
    label: IntArray
    family: IntArray
    gold: IntArray


class FamilyCounts(NamedTuple):
    """Counts of what is hidden.

    Attributes
    ----------
    classes : (K,)
    own : (M, K, K) [worker, truth, label]
        Labels that workers gave on their own.
    followed : (M, 2)
        Labels given on their own, and after the family.
    opinions : (J, K, K + 1) [family, truth, opinion]
    """

    classes: FloatArray
    own: FloatArray
    followed: FloatArray
    opinions: FloatArray


def _empty(edges: FamilyEdges, n_classes: int, n_families: int) -> FamilyCounts:
    n_workers = edges.family.size
    return FamilyCounts(
        np.zeros(n_classes),
        np.zeros((n_workers, n_classes, n_classes)),
        np.zeros((n_workers, 2)),
        np.zeros((n_families, n_classes, n_classes + 1)),
    )


def expect_families(
    edges: FamilyEdges, prior: FloatArray, own: FloatArray, follow: FloatArray, opinions: FloatArray
) -> tuple[float, FamilyCounts]:
    """Log-likelihood of the labels, and expected counts.

    Parameters
    ----------
    prior : (K,)
    own : (M, K, K) [worker, truth, label]
    follow : (M,)
    opinions : (J, K, K + 1) [family, truth, opinion]
    """
    counts = _empty(edges, prior.size, opinions.shape[0])
    value = _expect(*edges, prior, own, follow, opinions, *counts)
    return value, counts


def sample_hidden(
    edges: FamilyEdges,
    prior: FloatArray,
    own: FloatArray,
    follow: FloatArray,
    opinions: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, FamilyCounts]:
    """One draw of the classes (N,) of all tasks from their posterior, and the counts that go with it."""
    counts = _empty(edges, prior.size, opinions.shape[0])
    truth = np.empty(edges.task_ptr.size - 1, np.int64)
    uniform = rng.random(2 * edges.worker.size + truth.size)  # an opinion and a cause for each label at the most
    _sample(*edges, prior, own, follow, opinions, uniform, truth, *counts)
    return truth, counts


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(
    first: int,
    last: int,
    worker: IntArray,
    label: IntArray,
    family: IntArray,
    prior: FloatArray,
    own: FloatArray,
    follow: FloatArray,
    opinions: FloatArray,
    starts: IntArray,
    joint: FloatArray,
    weight: FloatArray,
) -> tuple[int, float]:
    """Chance of a task's labels: of every class (up to a factor), and in each block of the class and the opinion.

    Returns the number of blocks, and the log of the sum over classes. `joint` [block, class, opinion] holds chances up
    to a factor of the block and class; `weight` [class] those of the classes, adding up to one.
    """
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
    most = -np.inf
    for k in range(n_classes):
        value = np.log(prior[k])
        for e in range(first, alone):
            value += np.log(own[worker[e], k, label[e]])
        for block in range(n_blocks):
            group = family[worker[starts[block]]]
            chance = joint[block, k]
            for z in range(n_classes + 1):
                chance[z] = opinions[group, k, z]
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
        most = max(most, value)
    total = 0.0
    for k in range(n_classes):
        weight[k] = np.exp(weight[k] - most)
        total += weight[k]
    for k in range(n_classes):
        weight[k] /= total
    return n_blocks, most + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _widest(task_ptr: IntArray, worker: IntArray, family: IntArray) -> int:
    """Most families on a task."""
    widest = 0
    for task in range(task_ptr.size - 1):
        before, number = -1, 0
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            mine = family[worker[edge]]
            number += mine >= 0 and mine != before
            before = mine
        widest = max(widest, number)
    return widest


@njit(cache=True, nogil=True, error_model="numpy")
def _expect(
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    family: IntArray,
    gold: IntArray,
    prior: FloatArray,
    own: FloatArray,
    follow: FloatArray,
    opinions: FloatArray,
    classes: FloatArray,
    own_counts: FloatArray,
    followed: FloatArray,
    opinion_counts: FloatArray,
) -> float:
    n_classes = prior.size
    widest = _widest(task_ptr, worker, family)
    starts, weight = np.empty(widest + 1, np.int64), np.empty(n_classes)
    joint = np.empty((widest, n_classes, n_classes + 1))
    value = 0.0
    for task in range(task_ptr.size - 1):
        first, last = task_ptr[task], task_ptr[task + 1]
        n_blocks, gain = _weigh(first, last, worker, label, family, prior, own, follow, opinions, starts, joint, weight)
        value += gain
        if gold[task] >= 0:
            value += np.log(weight[gold[task]])
            weight[:] = 0.0
            weight[gold[task]] = 1.0
        alone = starts[0] if n_blocks else last
        for k in range(n_classes):
            if weight[k] < 1e-12:
                continue
            classes[k] += weight[k]
            for e in range(first, alone):
                own_counts[worker[e], k, label[e]] += weight[k]
                followed[worker[e], 0] += weight[k]
            for block in range(n_blocks):
                group = family[worker[starts[block]]]
                for z in range(n_classes + 1):
                    opinion_counts[group, k, z] += weight[k] * joint[block, k, z]
                for e in range(starts[block], starts[block + 1]):
                    who, said = worker[e], label[e]
                    alone_says = (1 - follow[who]) * own[who, k, said]
                    after = joint[block, k, said] * follow[who] / (alone_says + follow[who])
                    after += (
                        joint[block, k, n_classes] * follow[who] / n_classes / (alone_says + follow[who] / n_classes)
                    )
                    own_counts[who, k, said] += weight[k] * (1 - after)
                    followed[who, 0] += weight[k] * (1 - after)
                    followed[who, 1] += weight[k] * after
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _sample(
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    family: IntArray,
    gold: IntArray,
    prior: FloatArray,
    own: FloatArray,
    follow: FloatArray,
    opinions: FloatArray,
    uniform: FloatArray,
    truth: IntArray,
    classes: FloatArray,
    own_counts: FloatArray,
    followed: FloatArray,
    opinion_counts: FloatArray,
) -> None:
    n_classes = prior.size
    widest = _widest(task_ptr, worker, family)
    starts, weight = np.empty(widest + 1, np.int64), np.empty(n_classes)
    joint = np.empty((widest, n_classes, n_classes + 1))
    drawn = 0
    for task in range(task_ptr.size - 1):
        first, last = task_ptr[task], task_ptr[task + 1]
        n_blocks, _ = _weigh(first, last, worker, label, family, prior, own, follow, opinions, starts, joint, weight)
        k = gold[task] if gold[task] >= 0 else _pick(weight, uniform[drawn])
        drawn += 1
        truth[task] = k
        classes[k] += 1
        for e in range(first, starts[0] if n_blocks else last):
            own_counts[worker[e], k, label[e]] += 1
            followed[worker[e], 0] += 1
        for block in range(n_blocks):
            z = _pick(joint[block, k], uniform[drawn])
            drawn += 1
            opinion_counts[family[worker[starts[block]]], k, z] += 1
            for e in range(starts[block], starts[block + 1]):
                who, said = worker[e], label[e]
                alone_says = (1 - follow[who]) * own[who, k, said]
                after = follow[who] if z == said else (follow[who] / n_classes if z == n_classes else 0.0)
                drawn += 1
                if uniform[drawn - 1] * (alone_says + after) < after:
                    followed[who, 1] += 1
                else:
                    followed[who, 0] += 1
                    own_counts[who, k, said] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _pick(chance: FloatArray, uniform: float) -> int:
    """The place at which the sum of chances, which add up to one, passes a number."""
    total = 0.0
    for place in range(chance.size - 1):
        total += chance[place]
        if uniform < total:
            return place
    return chance.size - 1
