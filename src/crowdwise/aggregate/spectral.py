"""Spectral Dawid–Skene: three groups of workers see the truth independently; a tensor power method, then EM.

The generative story is Dawid and Skene's. Workers are dealt into three groups; the mean answer of a group to a task
is a view of its truth, with mean C[:, k] when the truth is k, and the three views are independent given the truth.
Their cross-moments of order two and three then determine every group's C and the class prior; a worker's matrix
follows from how she answers beside the groups she is not in. This is where EM starts.

Y. Zhang, X. Chen, D. Zhou and M. I. Jordan (2014), "Spectral methods meet EM: a provably optimal algorithm for
crowdsourcing", NeurIPS 27 (and JMLR 17, 2016).

| step | here |
|---|---|
| partition into three groups, group aggregated labels Z | `deal_into_three_groups`, `group_views` |
| M₂, M₃ from Z′_a, Z′_b and Z_c | `moments_of_third_view` |
| whitening, robust tensor power method | `estimate_third_view`, `tensor_power_method` |
| C_c and the prior, classes put in order | `estimate_third_view`, `estimate_group_matrices` |
| C_i of every worker from E[z_i ⊗ Z_a] | `estimate_worker_matrices` |
| probabilities at least δ = 10⁻⁶, EM | `moment_estimates.complete_parameters`, `categorical_em.fit_confusions` |

Departures: the groups are dealt by rank instead of at random, so that the order of rows does not matter and groups are
alike. A group's view of a task is the mean of the answers it has, not their sum over the size of the group, and a
moment is taken over the tasks where all its views are. The power method starts from every class, not from random
vectors. Columns are matched with the groups' confusions against the majority vote, not by their largest entry. A
worker's matrix is drawn from both groups she is not in. EM runs to convergence, and where the moments cannot be
inverted it starts from the majority vote.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.aggregate.dawid_skene import m_step
from crowdwise.fitting.categorical_em import fit_confusions
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator
from crowdwise.fitting.method_facts import MOMENTS
from crowdwise.fitting.moment_method_steps import (
    ENOUGH,
    CoreEstimate,
    complete_parameters,
    find_common_row_order,
    normalise_rows,
    rank_workers_by_shared_answers,
    starting_counts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.engines import Prepared
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.categorical_em import ConfusionParameters
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["SpectralDawidSkene"]

GROUPS = 3
SINGULAR = 1e-6  # least ratio of singular values at which a moment is inverted
POWER_STEPS = 100  # most steps of the power method, which converges quadratically: a dozen are mostly enough
STILL = 1e-14  # a step smaller than this is rounding


class CrossMoments(NamedTuple):
    """Cross-moments of three views a, b, c: E[a bᵀ], E[a cᵀ], E[b cᵀ] (K, K) and E[a ⊗ b ⊗ c] (K, K, K)."""

    ab: FloatArray
    ac: FloatArray
    bc: FloatArray
    abc: FloatArray


def deal_into_three_groups(order: IntArray) -> IntArray:
    """Group of each worker (M,), dealt in the order given: 0, 1, 2, 2, 1, 0, and so on."""
    hand = np.concatenate([np.arange(GROUPS), np.arange(GROUPS)[::-1]])
    group = np.empty_like(order)
    group[order] = hand[np.arange(order.size) % hand.size]
    return group


def group_views(labels: CrowdLabels, group: IntArray, classes: IntArray) -> FloatArray:
    """Mean answer of each group to each task (3, N, k) over the classes named; zeros where a group has none."""
    place = np.zeros(labels.n_classes, np.int64)
    place[classes] = np.arange(classes.size)
    cell = (group[labels.worker] * labels.n_tasks + labels.task) * classes.size + place[labels.label]
    shape = (GROUPS, labels.n_tasks, classes.size)
    views = np.bincount(cell, minlength=np.prod(shape)).reshape(shape).astype(np.float64)
    views /= np.maximum(views.sum(axis=2, keepdims=True), 1)
    return views


def cross_moments(a: FloatArray, b: FloatArray, c: FloatArray) -> CrossMoments | None:
    """Mean products of views (N, K), each over the tasks where its views are; None where hardly any has all three."""
    has_a, has_b, has_c = a.any(axis=1), b.any(axis=1), c.any(axis=1)
    together = np.count_nonzero(has_a & has_b & has_c)
    if together < ENOUGH * a.shape[1] ** 2:
        return None
    return CrossMoments(
        a.T @ b / np.count_nonzero(has_a & has_b),
        a.T @ c / np.count_nonzero(has_a & has_c),
        b.T @ c / np.count_nonzero(has_b & has_c),
        np.stack([(one[:, None] * b).T @ c for one in a.T]) / together,
    )


def moments_of_third_view(found: CrossMoments) -> tuple[FloatArray, FloatArray] | None:
    """M₂ = C W Cᵀ and M₃ = Σ w C[:, k]^⊗3 of view c: the other views turned into its own; None if they cannot be."""
    if any(np.linalg.cond(moment) * SINGULAR > 1 for moment in (found.ab, found.ac, found.bc)):
        return None
    turn_a = np.linalg.solve(found.ab.T, found.bc).T  # C_c C_a⁻¹ = E[c bᵀ] E[a bᵀ]⁻¹
    turn_b = np.linalg.solve(found.ab, found.ac).T
    second = turn_a @ found.ab @ turn_b.T
    third = np.einsum("ijk,ai,bj->abk", found.abc, turn_a, turn_b, optimize=True)
    return (second + second.T) / 2, third


def tensor_power_method(tensor: FloatArray, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (K,) and eigenvectors (K, K) in columns of a tensor that is nearly orthogonal; starts in columns."""
    size = tensor.shape[0]
    values, vectors = np.zeros(size), np.zeros((size, size))
    left = tensor.copy()
    for found in range(size):
        tried = starts / np.linalg.norm(starts, axis=0)
        for _ in range(POWER_STEPS):
            image = np.einsum("ijk,js,ks->is", left, tried, tried)
            length = np.linalg.norm(image, axis=0)
            before, tried = tried, np.where(length > SINGULAR, image / np.maximum(length, SINGULAR), tried)
            if np.abs(tried - before).max() < STILL:
                break
        value = np.einsum("ijk,is,js,ks->s", left, tried, tried, tried)
        best = int(value.argmax())
        values[found], vectors[:, found] = value[best], tried[:, best]
        left -= value[best] * np.einsum("i,j,k->ijk", *3 * [vectors[:, found]])
    return values, vectors


def estimate_third_view(found: CrossMoments) -> tuple[FloatArray, FloatArray] | None:
    """Prior (K,) and matrix C (K, K) [label, truth] of view c, classes in no order; None where moments are singular."""
    turned = moments_of_third_view(found)
    if turned is None:
        return None
    second, third = turned
    spread, axes = np.linalg.eigh(second)
    if spread[0] <= SINGULAR * spread[-1]:
        return None
    whitening = axes / np.sqrt(spread)
    tensor = np.einsum("abk,ai,bj,kl->ijl", third, whitening, whitening, whitening, optimize=True)
    # Averaging over the order of the three views takes away what noise has made unsymmetric.
    tensor = np.mean([tensor.transpose(turn) for turn in permutations(range(GROUPS))], axis=0)
    values, vectors = tensor_power_method(tensor, whitening.T)
    if values.min() <= SINGULAR:
        return None
    return values**-2, (axes * np.sqrt(spread)) @ vectors * values


def estimate_group_matrices(views: FloatArray, references: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Prior (K,) and the groups' matrices (3, K, K) [group, truth, label], classes in the order of the references."""
    priors, matrices = [], []
    for group in range(GROUPS):
        a, b = (other for other in range(GROUPS) if other != group)
        moments = cross_moments(views[a], views[b], views[group])
        found = None if moments is None else estimate_third_view(moments)
        if found is None:
            return None
        prior, matrix = found[0], normalise_rows(found[1].T)
        order = find_common_row_order(matrix[None], references[group][None])
        priors.append(prior[order])
        matrices.append(matrix[order])
    prior = np.mean(priors, axis=0)
    return prior / prior.sum(), np.stack(matrices)


def estimate_worker_matrices(
    beside: FloatArray, group: IntArray, prior: FloatArray, matrices: FloatArray
) -> FloatArray | None:
    """Matrices (M, K, K) [worker, truth, label] from Σ Z ⊗ z over each worker's tasks (3, M, K, K), groups first."""
    if any(np.linalg.cond(matrix) * SINGULAR > 1 for matrix in matrices) or prior.min() <= SINGULAR:
        return None
    confusion = np.zeros_like(beside[0])
    for other, matrix in enumerate(matrices):
        outside = group != other
        confusion[outside] += np.linalg.inv(matrix.T) @ beside[other, outside] / prior[:, None]
    return normalise_rows(confusion)


def estimate_confusions(
    labels: CrowdLabels, prepared: Prepared, known: PriorKnowledge, votes: FloatArray
) -> CoreEstimate | None:
    """Matrices of the workers with enough answers beside others', and the prior; None where moments are missing.

    `votes` (M, K, K) [worker, truth, label] counts answers against the majority vote.
    """
    classes = np.flatnonzero(labels.class_shares)
    order, beside_others = rank_workers_by_shared_answers(labels, known.gold)
    group = deal_into_three_groups(order)
    views = group_views(labels, group, classes)
    named = votes[:, classes[:, None], classes]
    found = estimate_group_matrices(
        views, np.stack([normalise_rows(named[group == one].sum(axis=0)) for one in range(GROUPS)])
    )
    if found is None:
        return None
    prior, matrices = found
    beside = np.stack([prepared.accumulate(pad_view(view, labels.n_classes, classes)).counts for view in views])
    confusion = estimate_worker_matrices(beside[:, :, classes[:, None], classes], group, prior, matrices)
    if confusion is None:
        return None
    core = np.flatnonzero(beside_others >= ENOUGH * classes.size**2)
    return CoreEstimate(core, prior, confusion[core]) if core.size else None


def pad_view(view: FloatArray, n_classes: int, classes: IntArray) -> FloatArray:
    """A view (N, k) over the classes named, with zeros for the others."""
    whole = np.zeros((view.shape[0], n_classes))
    whole[:, classes] = view
    return whole


@estimator
class SpectralDawidSkene(ClimbingAggregator):
    """Dawid–Skene by EM from a start that is found by the method of moments.

    Facts
    -----
    Assumes: every worker has a confusion matrix; EM starts from the moments of three groups of workers
    Fails with: few labels per task, rare classes; and as dawid-skene
    Cost: O(labels × K + tasks × K³) for the start, then O(labels × K) an iteration
    Paper: Zhang et al. 2014, NeurIPS

    Parameters
    ----------
    max_iter : int
        Most iterations of EM.

    Attributes
    ----------
    log_likelihood_, objective_ : (n_iter_,)
        Log-probability of the labels at each iteration; the first is that of the moments.

    Notes
    -----
    Fails, by starting from the majority vote, where few tasks have answers from all three groups or where a class is
    so rare that moments cannot be inverted; and as `DawidSkene` does. Gold labels take part in the vote that names
    the classes, and in EM; a given prior is kept in EM.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> sizes = {"n_tasks": 2000, "n_workers": 8, "n_classes": 3, "labels_per_task": None}
    >>> crowd = simulate("dawid-skene", **sizes, skill=0.8, random_state=1)
    >>> model = SpectralDawidSkene().fit(crowd.labels)
    >>> model.skill_.round(2).tolist()
    [0.81, 0.81, 0.94, 0.77, 0.76, 0.84, 0.8, 0.85]
    >>> crowd.skill.round(2).tolist()
    [0.8, 0.82, 0.94, 0.77, 0.78, 0.84, 0.8, 0.84]
    """

    slug = "spectral"
    family = MOMENTS

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        no_pseudo = np.zeros((1, labels.n_classes, labels.n_classes))

        def starts(prepared: Prepared) -> Iterator[ConfusionParameters]:
            votes = starting_counts(labels, prepared, known)
            yield complete_parameters(
                labels, prepared, known, votes, estimate_confusions(labels, prepared, known, votes.counts)
            )

        return fit_confusions(
            labels,
            known,
            starts=starts,
            m_step=lambda found: m_step(found, no_pseudo),
            log_density=lambda _: 0.0,
            **self._climb_options,
        )
