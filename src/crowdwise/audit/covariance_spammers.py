"""Spammers by covariance: who does not vary with anybody.

The labels of a spammer are independent of everyone's, so that her cross-covariances are 0; those of honest workers are
low rank, for they vary together only as the truth does:

    C = V Vᵀ + D,   V of M × K, D diagonal,   rows of V near 0 for spammers.

P. Traganitis and G. Giannakis (2021), "Identifying spammers to boost crowdsourced classification", ICASSP; as told in
Ibrahim et al. 2025, "Flagging spammers with cross-covariances".

| step | as printed | weighted, the default |
|---|---|---|
| sample cross-covariances of workers who share tasks | `scalar_covariances` | `label_covariances` |
| S1: recover V | `leading_eigenvectors` | `low_rank_factorisation.factorise_low_rank` |

| then | here |
|---|---|
| S2: cluster the rows of V by k-means | `find_covariance_spammers` |
| S3: the cluster whose head has the norm closest to 0 is spam | `find_covariance_spammers` |

Assumes that workers are independent given the truth, that there are both honest workers and spammers, and that one
cluster of rows is spam: in a crowd without spammers it still removes the weakest, and a worker of few labels is near 0
as well, for nothing is known of her. It is a way to prune before EM, not a test; `find_spammers` is the test.

Cost: O(pairs of labels that share a task × K + M² K² sweeps).

Departures. The slides write the covariance of two scalar labels, and leave open how V is recovered, how workers are
compared who share few tasks or none, and the number of clusters. `recovery="eigenvectors"` is the plain reading: labels
are the numbers of their classes, a pair's covariance is over the tasks it shares (0 where it shares none), V is of the
K largest eigenvalues of the matrix without its diagonal, and there are two clusters. It depends on the order of the
classes, and a pair counts alike whether it shares one task or a hundred. `recovery="weighted"` takes the covariance of
the classes' indicators, summed over classes, P(agree) - Σ_k P(k) P'(k), which is the same up to a factor for two
classes; pairs count by the tasks they share, and the prior of a row is what makes ‖v‖² at most a label's variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from crowdwise.audit.low_rank_factorisation import factorise_low_rank
from crowdwise.fitting.parameter_checks import check_choice, check_random_state
from crowdwise.kernels import pair_counts, worker_answer_sums
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.kernels import PairCounts
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = [
    "MOST_WORKERS",
    "find_covariance_spammers",
    "label_covariances",
    "leading_eigenvectors",
    "recover_low_rank_rows",
    "scalar_covariances",
]

MOST_WORKERS = 3000  # workers × workers is held several times
WEIGHTED, EIGENVECTORS = "weighted", "eigenvectors"


def label_covariances(labels: CrowdLabels) -> tuple[FloatArray, FloatArray]:
    """Σ_k cov(1[label = k], 1[label' = k]) of every two workers over the tasks they share, and how many those are.

    Both (M, M) and symmetric, 0 on the diagonal and where no task is shared.
    """
    pairs = pair_counts(labels)
    shared = pairs.n_shared_tasks
    joint = pairs.counts / shared[:, None, None]
    by_chance = (joint.sum(axis=2) * joint.sum(axis=1)).sum(axis=1)
    together = np.trace(joint, axis1=1, axis2=2) - by_chance
    return _symmetric_matrix(pairs, together, labels.n_workers), _symmetric_matrix(pairs, shared, labels.n_workers)


def scalar_covariances(labels: CrowdLabels) -> FloatArray:
    """E[y y'] - E[y] E[y'] of every two workers over the tasks they share, y being the number of the label's class.

    (M, M) and symmetric, 0 on the diagonal and where no task is shared.
    """
    pairs = pair_counts(labels)
    joint = pairs.counts / pairs.n_shared_tasks[:, None, None]
    number = np.arange(labels.n_classes)
    means = joint.sum(axis=2) @ number, joint.sum(axis=1) @ number
    return _symmetric_matrix(
        pairs, np.einsum("pkl,k,l->p", joint, number, number) - means[0] * means[1], labels.n_workers
    )


def _symmetric_matrix(pairs: PairCounts, entries: FloatArray, size: int) -> FloatArray:
    matrix = np.zeros((size, size))
    matrix[pairs.first, pairs.second] = matrix[pairs.second, pairs.first] = entries
    return matrix


def leading_eigenvectors(matrix: FloatArray, rank: int) -> FloatArray:
    """V (M, rank) with V Vᵀ nearest to a symmetric matrix: eigenvectors of the largest eigenvalues, by their roots."""
    values, vectors = np.linalg.eigh(matrix)
    rows: FloatArray = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0))
    return rows


def recover_low_rank_rows(labels: CrowdLabels, recovery: str = WEIGHTED) -> FloatArray:
    """V (M, K): a row for each worker, near 0 for spammers and for those of whom little is known."""
    check_choice("recovery", recovery, (WEIGHTED, EIGENVECTORS))
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
    if recovery == EIGENVECTORS:
        return leading_eigenvectors(scalar_covariances(labels), n_classes)
    answers = worker_answer_sums(labels)
    total = answers.sum(axis=1)
    shares = answers / np.maximum(total, 1)[:, None]
    variance = float(np.average(1 - (shares**2).sum(axis=1), weights=total))
    # The noise of an entry is about variance² / shared, and a row's prior variance, K of which make a label's variance.
    return factorise_low_rank(values, weights, n_classes, variance * n_classes)


def find_covariance_spammers(labels: CrowdLabels, *, recovery: str = WEIGHTED, random_state: int = 0) -> BoolArray:
    """The workers (M,) that the covariance method removes: those in the cluster of rows of V nearest 0.

    Parameters
    ----------
    recovery : "weighted", "eigenvectors"
        How V is found: with pairs counted by the tasks they share, or as the tutorial of Ibrahim et al. 2025 prints it.
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
    rows = recover_low_rank_rows(labels, recovery)
    if np.unique(rows.round(12), axis=0).shape[0] < 2:
        return np.zeros(labels.n_workers, np.bool_)
    from sklearn.cluster import KMeans

    with threadpool_limits(1, "openmp"):  # a row a worker; a forked process has no further threads and would wait
        clusters = KMeans(2, n_init=10, random_state=random_state).fit(rows)
    spam: BoolArray = clusters.labels_ == np.linalg.norm(clusters.cluster_centers_, axis=1).argmin()
    return spam
