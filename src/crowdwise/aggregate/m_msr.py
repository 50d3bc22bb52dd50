"""M-MSR: skills from agreements of which some are corrupted.

The generative story. Worker w gives the truth with probability p[w], otherwise one of the other K-1 classes, all alike
(one coin), with skill s = (K p - 1)/(K - 1); some workers answer as they please. Two honest workers agree beyond chance
by s[i] s[j] on average, so |C[i,j]| / |s[i]| is worker j's size |s[j]|, whatever the honest partner i. Each worker has
at most F corrupt partners: the F largest and the F smallest of these ratios are dropped before they are averaged.

Q. Ma and A. Olshevsky (2020), "Adversarial crowdsourcing through robust rank-one matrix completion", NeurIPS.

| equation | here |
|---|---|
| C = K/(K-1) · share of agreement - 1/(K-1) | `fitting.rank_one.pairwise_agreement` |
| drop up to F ratios above and up to F below one's own value, average the rest | `trimmed_means` |
| v from u, then u from v, until u vᵀ stays | `estimate_skill_sizes` |
| signs from the signs of C | `estimate_skill_signs` |
| F = half of the least number of partners, less 1 | `max_corrupt_partners` |
| weights log((K - 1) p / (1 - p)) of the final vote | Bayes' rule with the accuracies |

An iteration costs O(P log P) for P co-labelling pairs, the final vote O(labels).

Departures: both vectors start from ones, where the paper draws them, so that nothing depends on chance. Sizes are kept
at 1/√N and above, N the number of tasks, so that no ratio is infinite. The scale of u against v is settled within each
connected part of the crowd. F is lowered for a worker whose partners it would leave none of. Signs are the leading
eigenvector of the signs of C, from ones. The paper gives the vote; the confidence is Bayes' rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import AccuracyAggregator
from crowdwise.fitting.parameter_checks import check_optional_count
from crowdwise.fitting.rank_one import (
    fit_given_accuracies,
    majority_signs,
    normalise_within_parts,
    pairwise_agreement,
    skills_to_accuracies,
)

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.fitting.rank_one import PairValues
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MMsr"]

UNDECIDED = 1e-6  # a worker whose entry is smaller, of mean square 1, is taken to be better than chance
SIGN_ROUNDS = 50  # of power iteration: signs settle long before the vector does, and rounding is not blown up to one


def max_corrupt_partners(partners: IntArray) -> int:
    """F from the number of partners of each worker: as many as the least connected one can bear."""
    fewest = int(partners[partners > 0].min(initial=np.iinfo(np.int64).max)) if partners.any() else 0
    return max(fewest // 2 - 1, 0)


def trimmed_means(row: IntArray, ratio: FloatArray, own: FloatArray, trim: IntArray) -> FloatArray:
    """Mean of each row's ratios, (M,), less up to `trim` of those above `own` and of those below, the furthest first.

    Parameters
    ----------
    row : (E,)
        Whose ratio it is.
    ratio : (E,)
        The ratios.
    own, trim : (M,)
        Each row's present value, which stays where all its ratios are dropped or it has none, and F.
    """
    n_rows = own.size
    order = np.lexsort((ratio, row))
    row, ratio = row[order], ratio[order]
    size = np.bincount(row, minlength=n_rows)
    place = np.arange(row.size) - (np.cumsum(size) - size)[row]
    below = np.bincount(row, ratio < own[row], n_rows)
    above = np.bincount(row, ratio > own[row], n_rows)
    kept = (place >= np.minimum(trim, below)[row]) & (place < (size - np.minimum(trim, above))[row])
    total = np.bincount(row, np.where(kept, ratio, 0.0), n_rows)
    number = np.bincount(row, kept, n_rows)
    return np.where(number > 0, total / np.maximum(number, 1), own)


def estimate_skill_sizes(
    pairs: PairValues, *, corrupted: int, floor: float, max_iter: int, tol: float
) -> tuple[FloatArray, int, bool]:
    """Sizes |s| (M,); iterations; whether no size moved by more than `tol` in the last one."""
    row, column = np.concatenate([pairs.first, pairs.second]), np.concatenate([pairs.second, pairs.first])
    size = np.abs(np.concatenate([pairs.value, pairs.value]))
    trim = np.minimum(corrupted, np.maximum(np.bincount(row, minlength=pairs.n_workers) - 1, 0) // 2)
    part = pairs.parts()
    left, right = np.ones(pairs.n_workers), np.ones(pairs.n_workers)
    found = np.ones(pairs.n_workers)
    for n_iter in range(1, max_iter + 1):
        right = np.maximum(trimmed_means(row, size / left[column], right, trim), floor)
        left = np.maximum(trimmed_means(row, size / right[column], left, trim), floor)
        scale = np.sqrt(np.bincount(part, left * left) / np.bincount(part, right * right))[part]
        following = left / np.sqrt(scale)
        moved = float(np.abs(following - found).max())
        found = following
        if moved <= tol:
            return found, n_iter, True
    return found, max_iter, False


def estimate_skill_signs(pairs: PairValues) -> FloatArray:
    """The sign of each skill, (M,): that of the leading eigenvector of sign C, most of a part being positive."""
    matrix = pairs.matrix(np.sign(pairs.value))
    degree = np.maximum(abs(matrix).sum(axis=1), 1)
    part = pairs.parts()
    vector = np.ones(pairs.n_workers)
    for _ in range(SIGN_ROUNDS):
        half_way = 0.5 * (vector + (matrix @ vector) / degree)  # so that a negative eigenvalue cannot lead
        vector, _ = normalise_within_parts(half_way, part)
    signs: FloatArray = np.where(vector < -UNDECIDED, -1.0, 1.0)
    return signs * majority_signs(signs, part)


@estimator
class MMsr(AccuracyAggregator):
    """Consensus with one skill for every worker, from trimmed means of their agreements.

    Facts
    -----
    Assumes: one skill for every worker, from agreements of which the most extreme are dropped
    Fails with: pairs that share a handful of tasks, workers who favour some class
    Cost: O(P log P) an iteration for P pairs of workers who share a task
    Paper: Ma & Olshevsky 2020, NeurIPS

    Parameters
    ----------
    corrupted : int, 0 or more; optional
        Most corrupt partners F of any worker. By default half of the least number of partners, less 1: with few
        partners nothing can be trimmed.
    tol : float
        Stop when no skill moves by more than this.

    Notes
    -----
    Needs workers who share many tasks with many others; every pair counts the same, on however many tasks it was
    observed. Who shares with nobody has the mean accuracy of the others; where no two share a task, it is the majority
    vote. The corrupt must be at most F among anyone's partners.
    """

    slug = "m-msr"

    corrupted: int | None = None
    max_iter: int = 1000
    tol: float = 1e-10

    def _check(self) -> None:
        check_optional_count("corrupted", self.corrupted, low=0)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        pairs = pairwise_agreement(labels)
        partners = np.bincount(np.concatenate([pairs.first, pairs.second]), minlength=labels.n_workers)
        corrupted = max_corrupt_partners(partners) if self.corrupted is None else self.corrupted
        floor = 1 / np.sqrt(labels.n_tasks)
        size, n_iter, converged = estimate_skill_sizes(
            pairs, corrupted=corrupted, floor=floor, max_iter=self.max_iter, tol=self.tol
        )
        skill = np.clip(size * estimate_skill_signs(pairs), -1, 1)
        fit = fit_given_accuracies(labels, known, skills_to_accuracies(labels, pairs, skill), name=self.slug)
        return replace(fit, n_iter=n_iter, converged=converged)
