"""MultiSPA: a worker's confusion matrix from the corners of her joint answers with others.

The generative story is Dawid and Skene's. For two workers, R = A D Bᵀ (D the class prior on the diagonal). So every
column of R, made to sum to 1, is a mixture of the columns of A: column l is what the first worker says when the
second says l. If for every class some worker names it only when it is true ("class expert"), the columns of A are
among those columns: they are the corners of the cloud. Successive projection finds them, worker by worker.

S. Ibrahim, X. Fu, N. Kargas and K. Huang (2019), "Crowdsourcing via pairwise co-occurrences: identifiability and
algorithms", NeurIPS 32.

| equation | here |
|---|---|
| Z_m = [R_m1, R_m2, …], columns made to sum to 1 | `stack_joint_answers` |
| MultiSPA: the longest column, project it away, again | `find_corners` |
| rows of all workers in one order | `fitting.moment_method_steps.align_rows_of_each` |
| d from R = A D Bᵀ | `fitting.moment_method_steps.estimate_prior_from_pairs` |

Departures: a column seen n times counts `DRAW` answers of the worker's own shares of labels beside, as the longest of
many noisy columns is else always one that was seen once; what this changes goes with 1/n.
The order of the columns is the one most like the worker's confusions against the majority vote. Only workers with
enough answers beside others' are estimated; the rest are completed as `fitting.moment_method_steps` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import MomentAggregator
from crowdwise.fitting.moment_method_steps import CoreEstimate, align_rows_of_each, estimate_prior_from_pairs, fit_core

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.moment_method_steps import CoreAnswers
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.kernels import PairCounts
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["MultiSpa"]

DRAW = 5.0  # answers of her own shares that a column counts beside those it was seen in
FLAT = 1e-9  # squared length below which what is left of the cloud is rounding


def stack_joint_answers(blocks: FloatArray, draw: float) -> FloatArray:
    """The columns (K, n) of a worker's joint answers (n_partners, K, K) [partner, her label, the other's]."""
    seen = blocks.sum(axis=1)
    own = blocks.sum(axis=(0, 2))
    near = blocks + draw * (own / own.sum())[None, :, None]
    cloud: FloatArray = near.transpose(1, 0, 2)[:, seen > 0] / (seen[seen > 0] + draw)
    return cloud


def find_corners(cloud: FloatArray, n_corners: int) -> IntArray | None:
    """Positions of the corners among columns (K, n) by successive projection; None where it is flat before all."""
    left = cloud.copy()
    chosen = []
    for _ in range(n_corners):
        length = np.einsum("ln,ln->n", left, left)
        longest = int(length.argmax())
        if length[longest] <= FLAT:
            return None
        chosen.append(longest)
        direction = left[:, longest] / np.sqrt(length[longest])
        left -= np.outer(direction, direction @ left)
    return np.array(chosen)


def matrices_from_corners(pairs: PairCounts, reference: FloatArray, draw: float = DRAW) -> tuple[FloatArray, BoolArray]:
    """Matrices (C, K, K) [worker, truth, label] from joint answers or exact moments, and who has one of her own.

    A worker whose cloud is flat, as that of one who says the same whatever the truth, keeps her reference.
    """
    n_workers, n_classes = reference.shape[:2]
    worker = np.concatenate([pairs.first, pairs.second])
    order = np.argsort(worker, kind="stable")
    ptr = np.searchsorted(worker[order], np.arange(n_workers + 1))
    confusion, found = reference.copy(), np.zeros(n_workers, np.bool_)
    for one in range(n_workers):
        mine = order[ptr[one] : ptr[one + 1]]
        as_first, as_second = mine[mine < pairs.first.size], mine[mine >= pairs.first.size] - pairs.first.size
        blocks = np.concatenate([pairs.counts[as_first], np.moveaxis(pairs.counts[as_second], 1, 2)])
        if not blocks.any():
            continue
        cloud = stack_joint_answers(blocks, draw)
        chosen = find_corners(cloud, n_classes)
        if chosen is not None:
            confusion[one], found[one] = cloud[:, chosen].T, True
    return align_rows_of_each(confusion, reference), found


def estimate_confusions(shared: CoreAnswers) -> CoreEstimate | None:
    """Matrices of the core's workers and the class prior; None where nobody's cloud has corners."""
    confusion, found = matrices_from_corners(shared.pairs, shared.reference)
    if not found.any():
        return None
    prior = estimate_prior_from_pairs(shared.pairs, confusion)
    return CoreEstimate(shared.workers[found], prior, confusion[found])


@estimator
class MultiSpa(MomentAggregator):
    """Consensus with a confusion matrix for every worker, from the corners of joint answers.

    Facts
    -----
    Assumes: a worker's matrix is the corners of their joint answers with others
    Fails with: no class experts, few shared tasks
    Cost: O(pairs of workers × K³), once
    Paper: Ibrahim et al. 2019, NeurIPS

    Attributes
    ----------
    prior_ : (K,)
        Share of each class; that given as `class_prior`, which the matrices do not depend on.
    log_likelihood_ : (1,)
        Log-probability of the labels under what was found.

    Notes
    -----
    Class experts are workers who name a class only when it is true, for every class. A moment's error falls with the
    square root of the tasks that two workers share. As a start for `DawidSkene(init="multi-spa")` it need only be near.
    Gold labels take part in the majority vote that names the classes and pin the posterior. Where fewer than three
    workers share enough tasks, the answer is that of one M-step from the majority vote.

    Examples
    --------
    >>> model = MultiSpa().fit(crowd.labels)
    >>> float((model.posterior_.argmax(axis=1) == crowd.truth).mean().round(3))
    0.999
    >>> model.skill_.round(2).tolist()
    [0.75, 0.77, 0.82, 0.72, 0.71, 0.78, 0.75, 0.8]

    Nobody here is a class expert: the corners lie too far inside.
    """

    slug = "multi-spa"

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        return fit_core(labels, known, self.max_workers, lambda shared: (estimate_confusions(shared), None))
