"""Spammers by covariance: who does not vary with anybody.

The labels of a spammer are independent of everyone's, so that her cross-covariances are 0; those of honest workers are
low rank, for they vary together only as the truth does:

    C = V Vᵀ + D,   V of M × K, D diagonal,   rows of V near 0 for spammers.

P. Traganitis and G. Giannakis (2021), "Identifying spammers to boost crowdsourced classification", ICASSP; as told in
Ibrahim et al. 2025, "Flagging spammers with cross-covariances".

| step | here |
|---|---|
| sample cross-covariances of workers who share tasks | `label_covariances` |
| S1: recover V | `recover_low_rank_rows`, `low_rank_factorisation.factorise_low_rank` |
| S2: cluster the rows of V by k-means | `find_covariance_spammers` |
| S3: the cluster whose head has the norm closest to 0 is spam | `find_covariance_spammers` |

Assumes that workers are independent given the truth, that there are both honest workers and spammers, and that one
cluster of rows is spam: in a crowd without spammers it still removes the weakest, and a worker of few labels is near 0
as well, for nothing is known of her. It is a way to prune before EM, not a test; `find_spammers` is the test.

Cost: O(pairs of labels that share a task × K + M² K² sweeps).

Departures. The slides write the covariance of two scalar labels; here it is that of the classes' indicators, summed
over classes, P(agree) - Σ_k P(k) P'(k), which is the same up to a factor for two classes and does not depend on how
classes are ordered. Pairs count by the tasks they share, and the prior of a row is what makes ‖v‖² at most a label's
variance. Two clusters, as the slides name spammers and honest workers; the number is not given there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.low_rank_factorisation import factorise_low_rank
from crowdwise.fitting.parameter_checks import check_random_state
from crowdwise.kernels import pair_counts, worker_answer_sums
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["MOST_WORKERS", "find_covariance_spammers", "label_covariances", "recover_low_rank_rows"]

MOST_WORKERS = 3000  # workers × workers is held several times


def label_covariances(labels: CrowdLabels) -> tuple[FloatArray, FloatArray]:
    """Σ_k cov(1[label = k], 1[label' = k]) of every two workers over the tasks they share, and how many those are.

    Both (M, M) and symmetric, 0 on the diagonal and where no task is shared.
    """
    pairs = pair_counts(labels)
    shared = pairs.n_shared_tasks
    joint = pairs.counts / shared[:, None, None]
    by_chance = (joint.sum(axis=2) * joint.sum(axis=1)).sum(axis=1)
    values = np.zeros((labels.n_workers, labels.n_workers))
    weights = np.zeros_like(values)
    for matrix, entries in ((values, np.trace(joint, axis1=1, axis2=2) - by_chance), (weights, shared)):
        matrix[pairs.first, pairs.second] = entries
        matrix[pairs.second, pairs.first] = entries
    return values, weights


def recover_low_rank_rows(labels: CrowdLabels) -> FloatArray:
    """V (M, K): a row for each worker, near 0 for spammers and for those of whom little is known."""
    if labels.n_workers > MOST_WORKERS:
        raise InputError(
            f"There are {labels.n_workers:,} workers; the covariance method holds workers × workers, for at most "
            f"{MOST_WORKERS:,}. Select the busiest, or use find_spammers."
        )
    n_classes = labels.n_classes
    values, weights = label_covariances(labels)
    if np.unique(values[weights > 0]).size < 2:
        raise InputError(
            "The covariance method needs at least three workers who share tasks and differ; these labels have none."
        )
    answers = worker_answer_sums(labels)
    total = answers.sum(axis=1)
    shares = answers / np.maximum(total, 1)[:, None]
    variance = float(np.average(1 - (shares**2).sum(axis=1), weights=total))
    # The noise of an entry is about variance² / shared, and a row's prior variance, K of which make a label's variance.
    return factorise_low_rank(values, weights, n_classes, variance * n_classes)


def find_covariance_spammers(labels: CrowdLabels, *, random_state: int = 0) -> BoolArray:
    """The workers (M,) that the covariance method removes: those in the cluster of rows of V nearest 0.

    Parameters
    ----------
    random_state
        Of k-means.

    Examples
    --------
    >>> from crowdwise.simulate.adversaries import spammers
    >>> crowd = spammers(n_tasks=500, n_workers=8, n_classes=3, share=0.25, random_state=0)
    >>> np.flatnonzero(find_covariance_spammers(crowd.labels)).tolist()
    [6, 7]
    """
    check_random_state(random_state)
    rows = recover_low_rank_rows(labels)
    if np.unique(rows.round(12), axis=0).shape[0] < 2:
        return np.zeros(labels.n_workers, np.bool_)
    from sklearn.cluster import KMeans

    clusters = KMeans(2, n_init=10, random_state=random_state).fit(rows)
    spam: BoolArray = clusters.labels_ == np.linalg.norm(clusters.cluster_centers_, axis=1).argmin()
    return spam
