"""Symmetric NMF: one low-rank matrix behind the joint answers of all pairs, turned until it is non-negative.

The generative story is Dawid and Skene's. Stack the workers' matrices: H = [A₁; A₂; …]. The joint answers of all pairs
are the blocks of H D Hᵀ, of rank K, of which only those of workers who share tasks are seen, and never a worker's
with herself. From any factor U of it, U Uᵀ = H D Hᵀ, the matrices follow by a rotation: U Q = H D^½ ≥ 0.

S. Ibrahim and X. Fu (2021), "Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative
matrix factorization", ICML 38.

| step | here |
|---|---|
| missing blocks imputed by least squares over those seen | `squared_error` is its value, `sweep_factors` a round |
| min ‖H − U Q‖², H ≥ 0, QᵀQ = I, by turns | `rotate_to_nonnegative` |
| columns of every block made to sum to 1; d | `normalise_rows`, `estimate_prior_from_pairs` |

Departures: the imputed matrix is never formed. The paper fills missing blocks from others, or by a robust low-rank fit,
and then takes the factor from an eigendecomposition; here the factor itself is fitted to the blocks that are seen, one
worker at a time, weighed by shared tasks, from the confusions against the majority vote, which also hold it with the
weight of `DRAW` joint answers: a worker with few has else a factor of noise, and what this changes goes with 1/N.
Small entries of H are not cut by a threshold that shrinks: the rotation starts near, since the factor does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator, MomentAggregator
from crowdwise.fitting.moment_method_steps import (
    CoreEstimate,
    apply_floor,
    estimate_prior_from_pairs,
    find_common_row_order,
    fit_core,
    normalise_rows,
)

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.moment_method_steps import CoreAnswers
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.kernels import PairCounts
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["SymmetricNmf"]

DRAW = 10.0  # joint answers that hold a worker's factor where it starts
TURNS = 2000  # most steps of the rotation
STILL = 1e-9  # share of what is below zero at which a step has gained nothing: far above rounding


@dataclass(frozen=True)
class ObservedBlocks:
    """The blocks that are seen, worker by worker: each pair stands twice, once for each of the two.

    Attributes
    ----------
    ptr : (C + 1,)
        Worker w's blocks are `ptr[w]:ptr[w + 1]`.
    other : (2P,)
        With whom.
    share : (2P, K, K) [block, her label, the other's]
        Shares of the joint answers.
    weight : (2P,)
        The pair's share of all shared tasks.
    """

    ptr: IntArray
    other: IntArray
    share: FloatArray
    weight: FloatArray


def collect_observed_blocks(pairs: PairCounts, n_workers: int) -> ObservedBlocks:
    """Every pair's shares of joint answers, from both sides."""
    worker, other = np.concatenate([pairs.first, pairs.second]), np.concatenate([pairs.second, pairs.first])
    order = np.lexsort((other, worker))
    share = np.concatenate([pairs.counts, np.moveaxis(pairs.counts, 1, 2)])[order]
    shared = np.tile(pairs.n_shared_tasks, 2)[order]
    share /= shared[:, None, None]
    return ObservedBlocks(
        np.searchsorted(worker[order], np.arange(n_workers + 1)),
        other[order],
        share,
        shared / pairs.n_shared_tasks.sum(),
    )


def squared_error(seen: ObservedBlocks, factor: FloatArray) -> float:
    """Σ over pairs of weight × ‖R̂ − U_m U_nᵀ‖², factor (C, K, K) [worker, label, column]."""
    worker = np.repeat(np.arange(factor.shape[0]), np.diff(seen.ptr))
    left = seen.share - factor[worker] @ np.moveaxis(factor[seen.other], 1, 2)
    return float(np.einsum("p,pab,pab->", seen.weight, left, left)) / 2


def sweep_factors(seen: ObservedBlocks, factor: FloatArray, first: FloatArray, hold: float) -> FloatArray:
    """Every worker's factor in turn the best for those of the others: the objective never falls."""
    made = factor.copy()
    size = factor.shape[1]
    for worker in range(factor.shape[0]):
        mine = slice(seen.ptr[worker], seen.ptr[worker + 1])
        others = made[seen.other[mine]].reshape(-1, size)
        weighed = others * np.repeat(seen.weight[mine], size)[:, None]
        gram = weighed.T @ others + hold * np.eye(size)
        right = seen.share[mine].transpose(1, 0, 2).reshape(size, -1) @ weighed + hold * first[worker]
        made[worker] = np.linalg.solve(gram, right.T).T
    return made


def rotate_to_nonnegative(factor: FloatArray) -> FloatArray:
    """H (C, K, K): the factor turned by the rotation that leaves the least below zero, what is left cut off."""
    stacked = factor.reshape(-1, factor.shape[2])
    turn = np.eye(stacked.shape[1])
    before = np.inf
    for _ in range(TURNS):
        turned = stacked @ turn
        below = float((np.minimum(turned, 0) ** 2).sum())
        if before - below <= STILL * below:
            break
        before = below
        left, _, right = np.linalg.svd(stacked.T @ np.maximum(turned, 0))
        turn = left @ right
    return np.maximum(stacked @ turn, 0).reshape(factor.shape)


def fit_factor(
    seen: ObservedBlocks, first: FloatArray, *, hold: float, max_iter: int, tol: float, name: str
) -> Climb[FloatArray]:
    """Sweeps from the factor given; the objective is minus the squared error and minus hold × ‖U − U⁰‖²."""

    def step(factor: FloatArray) -> tuple[float, float, FloatArray]:
        error = squared_error(seen, factor)
        moved = float(((factor - first) ** 2).sum())
        return -error - hold * moved, -error, sweep_factors(seen, factor, first, hold)

    return climb([first], step, max_iter=max_iter, tol=tol, name=name)


def starting_factor(shared: CoreAnswers) -> FloatArray:
    """A D^½ [worker, label, column] with the confusions against the majority vote, and the prior that fits them."""
    prior = apply_floor(estimate_prior_from_pairs(shared.pairs, shared.reference))
    first: FloatArray = np.einsum("wkl,k->wlk", shared.reference, np.sqrt(prior))
    return first


def confusion_from_factor(
    pairs: PairCounts, factor: FloatArray, reference: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Prior (K,) and matrices (C, K, K) [worker, truth, label] from a factor, classes as in the reference."""
    confusion = normalise_rows(np.einsum("wlk->wkl", rotate_to_nonnegative(factor)))
    confusion = confusion[:, find_common_row_order(confusion, reference)]
    return estimate_prior_from_pairs(pairs, confusion), confusion


@estimator
class SymmetricNmf(MomentAggregator, ClimbingAggregator):
    """Consensus with a confusion matrix for every worker, from one low-rank matrix of joint answers.

    Facts
    -----
    Assumes: one low-rank matrix lies behind the joint answers of all pairs, seen or not
    Fails with: few shared tasks; everyone says everything now and then
    Cost: O(pairs of workers × K³) an iteration
    Paper: Ibrahim & Fu 2021, ICML

    Parameters
    ----------
    max_iter : int
        Most sweeps over the workers.
    tol : float
        Stop when a sweep lowers the mean squared error of a pair's joint answers by no more than this.

    Attributes
    ----------
    prior_ : (K,)
        Share of each class; that given as `class_prior`, which the matrices do not depend on.
    log_likelihood_, objective_ : (n_iter_,)
        Minus the squared error, and with what holds the factor subtracted, at each sweep. There is no likelihood.

    Notes
    -----
    The rotation is settled by what workers never say: where everyone says everything now and then, several are
    possible, and the one nearest to the majority vote is found. Gold labels take part in that vote and pin the
    posterior. Where fewer than three workers share enough tasks, the answer is that of one M-step from the majority
    vote.
    """

    slug = "sym-nmf"

    tol: float = 1e-9

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:

        def estimate_core_confusions(shared: CoreAnswers) -> tuple[CoreEstimate, Climb[FloatArray]]:
            ended = fit_factor(
                collect_observed_blocks(shared.pairs, shared.workers.size),
                starting_factor(shared),
                hold=DRAW / float(shared.pairs.n_shared_tasks.sum()),
                **self._climb_options,
            )
            return CoreEstimate(
                shared.workers, *confusion_from_factor(shared.pairs, ended.parameters, shared.reference)
            ), ended

        return fit_core(labels, known, self.max_workers, estimate_core_confusions)
