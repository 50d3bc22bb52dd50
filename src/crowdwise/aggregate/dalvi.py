"""Eigenvector of ratios: skills from the mean agreement of workers, freed of who met whom.

The generative story. Worker w gives the truth with probability p[w], otherwise one of the other K-1 classes, all alike
(one coin), with skill s = (K p - 1)/(K - 1). Over the tasks that two workers share, their coded answers multiply to
s[i] s[j] on average. With S[i,j] = 1 where two workers met, E C = diag(s) S diag(s). Where the graph of who met whom
expands well, S ≈ b bᵀ; then C ≈ (s b)(s b)ᵀ, and the skills are one leading eigenvector over the other.

N. Dalvi, A. Dasgupta, R. Kumar and V. Rastogi (2013), "Aggregating crowdsourced binary ratings", WWW.

| equation | here |
|---|---|
| C = UᵀU over GᵀG entry by entry, of the answers U and the graph G | `fitting.rank_one.pairwise_agreement` |
| leading eigenvectors of C and of S, times the roots of their eigenvalues | `scaled_leading_eigenvector` |
| s = one over the other | `eigenvector_ratio_skills` |
| the vote weighed by skill | Bayes' rule with the accuracies |

Of the paper's two estimators this is the one with the eigenvector of the ratios C. The other, the ratio of the
eigenvectors of UᵀU and GᵀG, is led astray by a few busy workers. An iteration costs O(co-labelling pairs), the final
vote O(labels).

Departures: the diagonals of C and S hold a worker's agreement with herself, which says nothing of her skill. Here that
of S is b[i]², at most the paper's 1, and that of C is S[i,i] s[i]². The estimate is then exact where S is rank one off
its diagonal (every two workers met), and has a bias where it is not. The paper is for two classes; the coding +1,
-1/(K-1) makes it hold for K. Parts of the crowd that never meet are fitted apart. The paper gives the vote; the
confidence is Bayes' rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import AccuracyAggregator
from crowdwise.fitting.rank_one import fit_given_accuracies, majority_signs, pairwise_agreement, skills_to_accuracies

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.sparse import csr_array

    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.fitting.rank_one import PairValues
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Dalvi"]


def scaled_leading_eigenvector(
    matrix: csr_array[Any],
    diagonal: Callable[[FloatArray], FloatArray],
    shift: FloatArray,
    part: IntArray,
    *,
    max_iter: int,
    tol: float,
) -> tuple[FloatArray, int, bool]:
    """Leading eigenvector of each part of the crowd times the root of its eigenvalue, (M,); iterations; converged.

    Parameters
    ----------
    matrix : (M, M)
        Symmetric, with an empty diagonal.
    diagonal
        The diagonal (M,), given the factor found so far.
    shift : (M,)
        Added to the diagonal while iterating, the same within a part, so that its highest eigenvalue leads.

    Notes
    -----
    Power iteration from equal entries. 0 for a part whose highest eigenvalue is not positive.
    """

    def sum_over_part(values: FloatArray) -> FloatArray:
        return np.bincount(part, values).astype(np.float64)[part]

    unit: FloatArray = 1 / np.sqrt(sum_over_part(np.ones(part.size)))
    factor = np.sqrt(np.maximum(sum_over_part(unit * (matrix @ unit)), 0)) * unit
    for n_iter in range(1, max_iter + 1):
        product = matrix @ unit + diagonal(factor) * unit
        before, factor = factor, np.sqrt(np.maximum(sum_over_part(unit * product), 0)) * unit
        product += shift * unit
        size = np.sqrt(sum_over_part(product * product))
        following: FloatArray = np.where(size > 0, product / np.where(size > 0, size, 1), unit)
        moved = max(float(np.abs(following - unit).max()), float(np.abs(factor - before).max()))
        unit = following
        if moved <= tol:
            return factor, n_iter, True
    return factor, max_iter, False


def eigenvector_ratio_skills(pairs: PairValues, *, max_iter: int, tol: float) -> tuple[FloatArray, int, bool]:
    """Skills (M,), 0 for a worker who met nobody; iterations of the longer search; whether both converged."""
    part = pairs.parts()

    def divide_by_meetings(agreements: FloatArray) -> FloatArray:
        ratio: FloatArray = np.divide(agreements, meetings, out=np.zeros(part.size), where=meetings > 0)
        return ratio

    def diagonal_of_meetings(factor: FloatArray) -> FloatArray:
        return np.minimum(factor * factor, 1)

    def diagonal_of_agreements(factor: FloatArray) -> FloatArray:
        return diagonal_of_meetings(meetings) * diagonal_of_meetings(divide_by_meetings(factor))

    meetings, *met = scaled_leading_eigenvector(
        pairs.matrix(np.ones(pairs.value.size)),
        diagonal_of_meetings,
        np.zeros(part.size),
        part,
        max_iter=max_iter,
        tol=tol,
    )
    half = np.bincount(part, meetings * meetings)[part] / 2  # no eigenvalue of C is beyond the highest of S
    agreements, *agreed = scaled_leading_eigenvector(
        pairs.matrix(pairs.value), diagonal_of_agreements, half, part, max_iter=max_iter, tol=tol
    )
    return divide_by_meetings(agreements), max(met[0], agreed[0]), bool(met[1] and agreed[1])


@estimator
class Dalvi(AccuracyAggregator):
    """Consensus with one skill for every worker, from the eigenvector of their mean agreements.

    Facts
    -----
    Assumes: one skill for every worker: the eigenvector of who agrees over that of who met
    Fails with: groups of workers who hardly meet, who copy each other or favour some class
    Cost: O(pairs of workers who share a task) an iteration
    Paper: Dalvi et al. 2013, WWW

    Parameters
    ----------
    max_iter, tol : int, float
        Of each of the two eigenvectors: most iterations, and the move of an entry at which to stop, the vector having
        length 1, or the root of its eigenvalue.

    Attributes
    ----------
    n_iter_, converged_
        Iterations of the longer of the two, and whether both came to rest.

    Notes
    -----
    Needs workers who share tasks; who shares with nobody has the mean accuracy of the others. Where no two share a
    task, or all agree no more than chance, it is the majority vote. Most workers of a connected part of the crowd are
    taken to be better than chance. Where groups of workers hardly meet, S is far from rank one.
    """

    slug = "dalvi"

    max_iter: int = 1000
    tol: float = 1e-10

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        pairs = pairwise_agreement(labels)
        found, n_iter, converged = eigenvector_ratio_skills(pairs, max_iter=self.max_iter, tol=self.tol)
        skill = np.clip(found, -1, 1) * majority_signs(found, pairs.parts())
        fit = fit_given_accuracies(labels, known, skills_to_accuracies(labels, pairs, skill), name=self.slug)
        return replace(fit, n_iter=n_iter, converged=converged)
