"""Coupled CPD: confusion matrices that explain how every three workers answered.

The generative story is Dawid and Skene's, looked at through triplets: the joint answers of three workers to the tasks
all of them share have the law T = Σ_k d[k] A[:, k] ∘ B[:, k] ∘ C[:, k], a canonical polyadic decomposition, which is
unique where a pair's law is not. Matrices and prior are those whose laws are nearest to what triplets answered, in
squares, over all triplets at once.

P. A. Traganitis, A. Pagès-Zamora and G. B. Giannakis (2018), "Blind multiclass ensemble classification", IEEE
Transactions on Signal Processing 66.

| equation | here |
|---|---|
| min Σ ‖T̂ − [[A D, B, C]]‖², columns of A and d on the simplex | `kernels.triple_error` is its value |
| one matrix at a time, the others kept | `kernels.triple_sweep` |
| which triplets | `choose_triplets` |

Memory: O(triplets × K³).

Departures: only the triplets that share most are used, `triplets` for each of at most `max_workers` workers, instead
of all; they are weighed by the tasks they share, or count alike as in the paper (`weighting="equal"`). Matrices are
improved by projected gradient steps instead of ADMM: the error then never grows. First and second moments are left out
of the sum, as the triplets' tables hold them. The start is the confusions against the majority vote. A class prior that
is given is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.fitting import moment_method_steps as moments
from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import ClimbingAggregator, MomentAggregator
from crowdwise.fitting.parameter_checks import check_choice, check_count
from crowdwise.kernels import PairCounts, Triples, triple_counts, triple_error, triple_sweep

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.moment_method_steps import CoreAnswers
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["CoupledCpd"]

STEPS = 10  # projected gradient steps on one matrix before the next has its turn
CELLS = 2**24  # most cells of all triplets' tables: 128 MiB


class Factors(NamedTuple):
    """The prior (K,) and the matrices (C, K, K) [worker, truth, label]."""

    prior: FloatArray
    confusion: FloatArray


def choose_triplets(pairs: PairCounts, n_workers: int, each: int) -> IntArray:
    """For each worker the triplets (T, 3) with her in which even the pair that shares least shares most."""
    shared = np.zeros((n_workers, n_workers))
    shared[pairs.first, pairs.second] = shared[pairs.second, pairs.first] = pairs.n_shared_tasks
    above = np.triu_indices(n_workers, 1)
    chosen = set()
    for worker in range(n_workers):
        least = np.minimum(np.minimum(shared[worker][:, None], shared[worker]), shared)[above]
        for best in np.argsort(-least, kind="stable")[:each]:
            if least[best] > 0:
                chosen.add(tuple(sorted((worker, int(above[0][best]), int(above[1][best])))))
    return np.array(sorted(chosen), np.int64).reshape(-1, 3)


def count_triplets(labels: CrowdLabels, shared: CoreAnswers, each: int) -> tuple[Triples, IntArray] | None:
    """The joint answers of the chosen triplets, and which of the core have enough of them; None where too few do."""
    size = shared.classes.size
    workers = choose_triplets(
        shared.pairs, shared.workers.size, max(1, min(each, CELLS // (shared.workers.size * size**3)))
    )
    counts = triple_counts(labels, shared.workers[workers])
    counts = counts[:, shared.classes[:, None, None], shared.classes[:, None], shared.classes]
    total = counts.sum(axis=(1, 2, 3))
    answers = np.bincount(workers.ravel(), weights=np.repeat(total, 3), minlength=shared.workers.size)
    enough = np.flatnonzero(answers >= moments.ENOUGH * size**2)
    if enough.size < moments.FEWEST:
        return None
    kept = total > 0
    share = counts[kept] / total[kept, None, None, None]
    return Triples(workers[kept], share, total[kept] / total.sum()), enough


def fit_triplets(
    triples: Triples, first: Factors, *, fixed: bool, max_iter: int, tol: float, name: str
) -> Climb[Factors]:
    """Rounds of descent from the factors given, the prior kept if fixed; the objective is minus the squared error."""

    def step(factors: Factors) -> tuple[float, float, Factors]:
        value = -triple_error(triples, *factors)
        return value, value, Factors(*triple_sweep(triples, *factors, n_steps=STEPS, fixed=fixed))

    return climb([first], step, max_iter=max_iter, tol=tol, name=name)


@estimator
class CoupledCpd(MomentAggregator, ClimbingAggregator):
    """Consensus with a confusion matrix for every worker, from the joint answers of triplets.

    Facts
    -----
    Assumes: confusion matrices explain how every three workers answered the tasks they share
    Fails with: few tasks that three workers share, many classes
    Cost: O(triples of workers × K⁴) an iteration
    Paper: Traganitis et al. 2018, IEEE TSP 66

    Parameters
    ----------
    triplets : int
        Most triplets chosen for each worker.
    weighting : "shared-tasks", "equal"
        What a triplet of workers counts for: the tasks they share, or all alike, as in the paper.
    max_iter : int
        Most rounds.
    tol : float
        Stop when a round lowers the mean squared error of a triplet's joint answers by no more than this.

    Attributes
    ----------
    objective_, log_likelihood_ : (n_iter_,)
        The negative squared error at each round, twice: there is no likelihood.

    Notes
    -----
    A third moment needs many more than a second. Gold labels take part in the majority vote that names the classes and
    pin the posterior. Where fewer than three workers have ten answers beside two others' for each cell of their matrix,
    the answer is that of one M-step from the majority vote.

    Examples
    --------
    >>> CoupledCpd().fit(crowd.labels).skill_.round(2).tolist()
    [0.81, 0.81, 0.93, 0.77, 0.76, 0.83, 0.8, 0.85]
    """

    slug = "coupled-cpd"

    triplets: int = 20
    weighting: str = moments.SHARED_TASKS
    max_workers: int = 100
    tol: float = 1e-7

    def _check(self) -> None:
        check_count("triplets", self.triplets)
        check_choice("weighting", self.weighting, moments.WEIGHTINGS)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:

        def estimate_core_confusions(shared: CoreAnswers) -> tuple[moments.CoreEstimate | None, Climb[Factors] | None]:
            chosen = count_triplets(labels, shared, self.triplets)
            if chosen is None:
                return None, None
            triples, enough = chosen
            if self.weighting != moments.SHARED_TASKS:
                triples = triples._replace(weight=np.full(triples.weight.size, 1 / triples.weight.size))
            given = (
                known.class_prior
                if known.class_prior is None
                else moments.apply_floor(known.class_prior[shared.classes])
            )
            prior = moments.estimate_prior_from_pairs(shared.pairs, shared.reference) if given is None else given
            ended = fit_triplets(
                triples,
                Factors(prior, shared.reference),
                fixed=given is not None,
                **self._climb_options,
            )
            prior, confusion = ended.parameters
            order = (
                moments.find_common_row_order(confusion, shared.reference) if given is None else np.arange(prior.size)
            )
            return moments.CoreEstimate(shared.workers[enough], prior[order], confusion[enough][:, order]), ended

        return moments.fit_core(labels, known, self.max_workers, estimate_core_confusions)
