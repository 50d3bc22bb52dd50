"""Fusion in stages: every group decides on its opinion by itself, and then speaks as one worker.

Ibrahim et al. 2025, "DS model for dependent classifiers": hierarchical label fusion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import safe_log
from crowdwise.fitting.crowd_model import TIE
from crowdwise.kernels import log_rows, vote_winners
from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.dependence.group_labels import GroupedLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["decide_opinions", "fit_each_group", "opinion_labels"]


def fit_each_group(
    opinions: GroupedLabels, groups: IntArray, fit: Callable[[CrowdLabels], tuple[FloatArray, FloatArray]] | None
) -> tuple[FloatArray, FloatArray]:
    """Each group fitted to its own labels: log P(label | opinion) (M, K, K), and its opinions' shares (J, K).

    Parameters
    ----------
    groups : (M,)
        Group of each worker, -1 for those in none, whose rows are uniform.
    fit
        Confusion matrices and class shares of a group's labels; None for the vote of its members.
    """
    size = opinions.joint.n_classes
    table = np.full((groups.size, size, size), -np.log(size))
    shares = np.empty((opinions.ptr.size - 1, size))
    for group in range(shares.shape[0]):
        members = np.flatnonzero(groups == group)
        own = opinions.labels_of_group(group, members)
        if fit is None:
            winners = vote_winners(own.vote_counts())
            table[members] = log_rows(prepare(own).accumulate(winners).counts, np.zeros((1, size, size)))
            shares[group] = winners.mean(axis=0)
        else:
            confusion, shares[group] = fit(own)
            table[members] = safe_log(confusion)
    return table, shares


def decide_opinions(chance: FloatArray | IntArray) -> FloatArray:
    """1 at the most probable class of each row (P, K), and 1 everywhere where several are: the group says nothing."""
    winners = chance >= chance.max(axis=1, keepdims=True) - TIE
    decided: FloatArray = np.where(winners.sum(axis=1, keepdims=True) > 1, 1.0, winners)
    return decided


def opinion_labels(opinions: GroupedLabels, decided: FloatArray) -> CrowdLabels:
    """Labels of those who are alone, and the opinions (P, K) that were decided on; groups are the last J workers."""
    alone, n_groups = opinions.alone, opinions.ptr.size - 1
    speaks = np.flatnonzero(decided.sum(axis=1) == 1)
    group = np.repeat(np.arange(n_groups), np.diff(opinions.ptr))
    return CrowdLabels.from_codes(
        np.concatenate([alone.task, opinions.task[speaks]]),
        np.concatenate([alone.worker, alone.n_workers + group[speaks]]),
        np.concatenate([alone.label, decided[speaks].argmax(axis=1)]),
        tasks=alone.n_tasks,
        workers=alone.n_workers + n_groups,
        classes=alone.classes,
        on_duplicate="all",
    )
