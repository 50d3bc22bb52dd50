"""Coupled non-negative matrix factorisation: confusion matrices that explain how every two workers answered.

The generative story is Dawid and Skene's, looked at through pairs: two workers' joint answers to the tasks they share
have the law R = A D Bᵀ, where D is the class prior on the diagonal. Matrices and prior are those whose laws are
nearest to the joint answers seen, in Kullback–Leibler divergence, over all pairs at once.

S. Ibrahim, X. Fu, N. Kargas and K. Huang (2019), "Crowdsourcing via pairwise co-occurrences: identifiability and
algorithms", NeurIPS 32.

| equation | here |
|---|---|
| min Σ KL(R̂ ‖ A D Bᵀ), columns of A and d on the simplex | `kl_divergence` is its value, `update_factors` the search |
| every pair counts alike | `weigh_pairs_equally` |
| start from MultiSPA | `multi_spa.matrices_from_corners` |
| update of A and d | `kernels.pairs.pair_e_step`, then rows made to sum to 1 |

Departures: pairs are weighed by the tasks they share, which makes the sum the (composite) likelihood of the pairs'
answers; a pair seen once would else count as much as one seen a hundred times. The paper's sum, in which all pairs
count alike, is `weighting="equal"`. Instead of solving for one worker at a
time by mirror descent, all matrices are updated at once by the multiplicative rule of Lee and Seung, which is EM for
the class behind each joint answer, keeps the constraints by itself and never makes the sum larger. A class prior that
is given is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import xlogy

from crowdwise.aggregate import multi_spa
from crowdwise.fitting import moment_method_steps as moments
from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator, MomentAggregator
from crowdwise.fitting.parameter_checks import check_choice
from crowdwise.kernels import PairCounts, pair_e_step

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.moment_method_steps import CoreAnswers
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["CoupledNmf"]


class Factors(NamedTuple):
    """The prior (K,) and the matrices (C, K, K) [worker, truth, label]."""

    prior: FloatArray
    confusion: FloatArray


def kl_divergence(pairs: PairCounts, factors: Factors) -> float:
    """Σ over pairs of shared tasks × KL(R̂ ‖ A D Bᵀ)."""
    log_likelihood, _, _ = pair_e_step(pairs, factors.prior, factors.confusion)
    return _negative_entropy(pairs) - log_likelihood


def _negative_entropy(pairs: PairCounts) -> float:
    """Σ counts log R̂: what the log-likelihood of the pairs cannot exceed."""
    return float(xlogy(pairs.counts, pairs.counts).sum() - xlogy(pairs.n_shared_tasks, pairs.n_shared_tasks).sum())


def weigh_pairs_equally(pairs: PairCounts) -> PairCounts:
    """The shares R̂ of every pair in place of its counts, so that each weighs 1."""
    return pairs._replace(counts=pairs.counts / pairs.n_shared_tasks[:, None, None])


def starting_factors(shared: CoreAnswers, prior: FloatArray | None) -> Factors:
    """The corners of joint answers, or the confusions against the majority vote where there are none."""
    confusion = moments.apply_floor(multi_spa.matrices_from_corners(shared.pairs, shared.reference)[0], axis=2)
    return Factors(
        moments.apply_floor(moments.estimate_prior_from_pairs(shared.pairs, confusion)) if prior is None else prior,
        confusion,
    )


def update_factors(
    pairs: PairCounts, first: Factors, *, fixed: bool, max_iter: int, tol: float, name: str
) -> Climb[Factors]:
    """Multiplicative updates from the factors given; the objective is the negative divergence.

    Parameters
    ----------
    fixed
        Whether the prior is kept.
    tol
        Gain for each joint answer at which to stop.
    """
    most = _negative_entropy(pairs)

    def step(factors: Factors) -> tuple[float, float, Factors]:
        log_likelihood, class_counts, counts = pair_e_step(pairs, factors.prior, factors.confusion)
        prior = factors.prior if fixed else class_counts / class_counts.sum()
        return log_likelihood - most, log_likelihood, Factors(prior, moments.normalise_rows(counts))

    return climb([first], step, max_iter=max_iter, tol=tol * float(pairs.counts.sum()), name=name)


@estimator
class CoupledNmf(MomentAggregator, ClimbingAggregator):
    """Consensus with a confusion matrix for every worker, from the joint answers of pairs.

    Facts
    -----
    Assumes: confusion matrices explain how every two workers answered the tasks they share
    Fails with: few shared tasks; two classes of unknown shares
    Cost: O(pairs of workers × K³) an iteration
    Paper: Ibrahim et al. 2019, NeurIPS

    Parameters
    ----------
    weighting : "shared-tasks", "equal"
        What a pair of workers counts for: the tasks they share, or all alike, as in the paper.
    tol : float
        Stop when an iteration gains no more than this for each joint answer; for each pair where all count alike.

    Attributes
    ----------
    objective_, log_likelihood_ : (n_iter_,)
        The negative divergence, and the log-likelihood of the pairs' joint answers, at each iteration.

    Notes
    -----
    Pairs alone do not tell everything: with two classes, or where nobody ever rules a class out, several priors explain
    them equally, and the one nearest to the start is found; `class_prior` then helps. Gold labels take part in the
    majority vote that names the classes and pin the posterior. Where fewer than three workers share enough tasks, the
    answer is that of one M-step from the majority vote.
    """

    slug = "cnmf"

    weighting: str = moments.SHARED_TASKS
    tol: float = 1e-7

    def _check(self) -> None:
        check_choice("weighting", self.weighting, moments.WEIGHTINGS)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:

        def estimate_core_confusions(shared: CoreAnswers) -> tuple[moments.CoreEstimate, Climb[Factors]]:
            given = (
                known.class_prior
                if known.class_prior is None
                else moments.apply_floor(known.class_prior[shared.classes])
            )
            ended = update_factors(
                shared.pairs if self.weighting == moments.SHARED_TASKS else weigh_pairs_equally(shared.pairs),
                starting_factors(shared, given),
                fixed=given is not None,
                **self._climb_options,
            )
            prior, confusion = ended.parameters
            order = (
                moments.find_common_row_order(confusion, shared.reference) if given is None else np.arange(prior.size)
            )
            return moments.CoreEstimate(shared.workers, prior[order], confusion[:, order]), ended

        return moments.fit_core(labels, known, self.max_workers, estimate_core_confusions)
