"""What the others say of a task: the consensus that each label is held against, made without the worker who gave it.

Workers are dealt into folds, the busiest into different ones. For each fold, Dawid–Skene is fitted to the labels of
all other folds, and its posterior stands beside the labels of the fold: no label has had a part in what it is compared
with, nor has any other label of the same worker. With ten workers or fewer each has a fold of her own; with more, a
label also misses the few who share its fold.

Cost: as many fits as folds, of a few dozen iterations each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.reference import fit_crowd

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["consensus", "others_say"]

FOLDS = 10
SMOOTHING = 1.0  # one answer of each kind to each class: workers of few labels are not taken for perfect
STEPS = 30  # of EM
TOLERANCE = 1e-6  # gain per label at which EM stops before


def consensus(labels: CrowdLabels) -> FloatArray:
    """Posterior of each task (N, K), by Dawid–Skene with a little smoothing and few iterations."""
    return fit_crowd(labels, smoothing=SMOOTHING, steps=STEPS, tolerance=TOLERANCE)[1]


def others_say(labels: CrowdLabels, seed: int) -> tuple[FloatArray, BoolArray]:
    """Posterior of each label's task by the others (S, K), and where there are others at all (S,)."""
    chance = np.random.default_rng(seed).random(labels.n_workers)
    order = np.lexsort((chance, -labels.labels_per_worker))
    fold = np.empty(labels.n_workers, np.int64)
    fold[order] = np.arange(labels.n_workers) % FOLDS
    of_label = fold[labels.worker]
    posterior = np.empty((labels.n_labels, labels.n_classes))
    told = np.zeros(labels.n_labels, np.bool_)
    for number in np.unique(of_label):
        mine = of_label == number
        rest = labels.keep(~mine)
        if not rest.n_labels:
            posterior[mine] = 1 / labels.n_classes
            continue
        posterior[mine] = consensus(rest)[labels.task[mine]]
        told[mine] = rest.labels_per_task[labels.task[mine]] > 0
    return posterior, told
