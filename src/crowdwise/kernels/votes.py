"""Shares of votes, task by task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.block_layout import map_tasks, transpose_truth_and_label
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["mean_opinions", "vote_shares", "vote_winners"]


def vote_shares(labels: CrowdLabels, gold: IntArray, weights: FloatArray | None = None) -> FloatArray:
    """Each task's share of votes (N, K), weighed by worker if weights are given.

    Where no vote has weight, the shares of all labels; where the truth is known, the truth.
    """
    if not labels.in_memory:
        found = labels.empty_rows(labels.n_classes)
        for tasks, part in labels.iterate_parts():
            found[tasks] = vote_shares(part, gold[tasks], weights)
        return found
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _vote_shares(labels, gold, weights)
    from crowdwise.kernels.compiled.votes import share_votes

    shares = np.empty((labels.n_tasks, labels.n_classes))
    given = np.ones(labels.n_workers) if weights is None else weights
    map_tasks(labels, share_votes, given, labels.class_shares, gold, shares)
    return shares


def vote_winners(votes: FloatArray | IntArray) -> FloatArray:
    """The class with most votes in each row (N, K), as shares: equal parts of those that tie, as no class is first."""
    most = votes == votes.max(axis=-1, keepdims=True)
    winners: FloatArray = most / most.sum(axis=-1, keepdims=True)
    return winners


def mean_opinions(labels: CrowdLabels, opinions: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Each task's mean (N, K) of what its labels say one by one.

    Parameters
    ----------
    opinions : (M, K, K) [worker, truth, label]
        What a label of a worker says of the truth; sums to one along the truths.
    otherwise : (K,)
        For a task without labels.
    """
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _mean_opinions(labels, opinions, otherwise)
    from crowdwise.kernels.compiled.votes import average_opinions

    means = np.empty((labels.n_tasks, labels.n_classes))
    map_tasks(labels, average_opinions, transpose_truth_and_label(opinions), otherwise, means)
    return means


def _vote_shares(labels: CrowdLabels, gold: IntArray, weights: FloatArray | None) -> FloatArray:
    cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
    weight = None if weights is None else weights[labels.worker]
    votes = np.bincount(cell, weight, labels.n_tasks * labels.n_classes).reshape(labels.n_tasks, labels.n_classes)
    total = votes.sum(axis=1, keepdims=True)
    shares: FloatArray = np.where(total > 0, votes / np.where(total > 0, total, 1), labels.class_shares)
    if gold.size:
        shares[gold >= 0] = np.eye(labels.n_classes)[gold[gold >= 0]]
    return shares


def _mean_opinions(labels: CrowdLabels, opinions: FloatArray, otherwise: FloatArray) -> FloatArray:
    said = opinions[labels.worker, :, labels.label]
    sums = np.stack([np.bincount(labels.task, column, labels.n_tasks) for column in said.T], axis=1)
    given = labels.labels_per_task[:, None]
    means: FloatArray = np.where(given > 0, sums / np.maximum(given, 1), otherwise)
    return means
