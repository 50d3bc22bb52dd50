"""Tasks of two groups, features that betray the group, and workers of whom some are unfair to one of them.

The truth has nothing to do with the group: what a classifier makes of the group, it has learnt from the workers. Two
classes, 1 being the favourable one. Every worker is right with a chance of their own; an unfair one turns a favourable
answer to a task of group 1 into the other with the chance `bias`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.fair_assignment import assign_fairly, group_confusions
from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["GroupedTasks", "draw_grouped_tasks"]

N_FEATURES = 4  # that speak of the truth
APART = 0.8  # of the classes' means in each of these, in standard deviations
CONCENTRATION = 20.0  # pseudo-answers of the distribution of the workers' accuracies
MOST = 0.5  # of the tasks, that one worker labels where workers are chosen


@dataclass(frozen=True, eq=False)
class GroupedTasks:
    """Features (N, F), truths and groups (N,) of tasks; and the labels of a crowd, of training tasks."""

    x: FloatArray
    truth: IntArray
    group: IntArray


def draw_grouped_tasks(
    data: dict[str, Any], crowd: dict[str, Any], seed: int
) -> tuple[GroupedTasks, GroupedTasks, CrowdLabels]:
    """Training tasks, test tasks, and the labels of the training tasks.

    Parameters
    ----------
    data
        `train` and `test`, numbers of tasks.
    crowd
        `n_workers`; `labels_per_task`; `skill`, mean accuracy; `unfair`, the share of unfair workers, whose mean
        accuracy may be `unfair_skill` before they are unfair; `bias`;
        `assignment`: "random"; "accurate", the workers who seem best; or "fair", as `audit.fair_assignment` says, both
        by the truth of `gold` tasks that everyone labels beforehand.
    """
    rng = np.random.default_rng(seed)
    train, test = (_draw_tasks(data[part], rng) for part in ("train", "test"))
    confusion = _draw_workers(crowd, rng)
    dense = _draw_answers(train, confusion, rng)
    chosen = _choose_workers(train, dense, crowd, confusion, rng)
    task, worker = np.nonzero(chosen)
    labels = CrowdLabels.from_codes(
        task, worker, dense[task, worker], tasks=train.truth.size, workers=crowd["n_workers"], classes=2
    )
    return train, test, labels


def _draw_tasks(number: int, rng: np.random.Generator) -> GroupedTasks:
    truth, group = rng.integers(2, size=(2, number))
    speaks = rng.normal(size=(number, N_FEATURES)) + APART * truth[:, None]
    betrays = rng.normal(size=(number, 1)) * 0.5 + group[:, None]
    return GroupedTasks(np.hstack([speaks, betrays]), truth, group)


def _draw_workers(crowd: dict[str, Any], rng: np.random.Generator) -> FloatArray:
    """Confusion matrices (M, 2, 2, 2) [worker, group, truth, label]."""
    size = crowd["n_workers"]
    unfair = np.arange(size) < round(crowd["unfair"] * size)
    skill = np.where(unfair, crowd.get("unfair_skill", crowd["skill"]), crowd["skill"])
    right = rng.beta(skill * CONCENTRATION, (1 - skill) * CONCENTRATION)
    confusion = np.empty((size, 2, 2, 2))
    confusion[:] = np.stack([np.stack([right, 1 - right], 1), np.stack([1 - right, right], 1)], 1)[:, None]
    turned = crowd["bias"] * confusion[unfair, 1, :, 1]
    confusion[unfair, 1, :, 1] -= turned
    confusion[unfair, 1, :, 0] += turned
    return confusion


def _draw_answers(tasks: GroupedTasks, confusion: FloatArray, rng: np.random.Generator) -> IntArray:
    """What every worker would say of every task (N, M)."""
    favourable = confusion[:, tasks.group, tasks.truth, 1].T
    answers: IntArray = (rng.random(favourable.shape) < favourable).astype(np.int64)
    return answers


def _choose_workers(
    tasks: GroupedTasks, dense: IntArray, crowd: dict[str, Any], confusion: FloatArray, rng: np.random.Generator
) -> BoolArray:
    """Whose labels of each task (N, M) are asked for."""
    n_workers, each = crowd["n_workers"], crowd["labels_per_task"]
    chances = np.full((n_workers, 2), each / n_workers)
    if crowd["assignment"] != "random":
        gold = _draw_tasks(crowd["gold"], rng)
        answers = _draw_answers(gold, confusion, rng)
        row, worker = np.indices(answers.shape)
        known = group_confusions(
            worker.ravel(), answers.ravel(), gold.truth[row.ravel()], gold.group[row.ravel()], (n_workers, 2, 2)
        )
        chances = assign_fairly(
            known,
            prior=[0.5, 0.5],
            group_shares=[0.5, 0.5],
            labels_per_task=each,
            most=MOST,
            tolerance=0.0 if crowd["assignment"] == "fair" else 1.0,
        )
    # Systematic sampling: as many workers for each task as the chances sum to, each with their own chance.
    order = rng.permutation(n_workers)
    ends = np.cumsum(chances[order][:, tasks.group], axis=0).T
    offset = rng.random((tasks.truth.size, 1))
    counted = np.floor(ends + offset)
    chosen = np.zeros(dense.shape, np.bool_)
    chosen[:, order] = np.diff(counted, axis=1, prepend=np.floor(offset)) > 0
    return chosen
