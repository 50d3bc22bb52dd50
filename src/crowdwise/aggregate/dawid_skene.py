"""Dawid–Skene: every worker has a confusion matrix.

The generative story. The truth of task t is drawn from the class prior. Each worker w who meets t says l with
probability A[w, truth, l], independently of the others given the truth. Rows of A have Dirichlet priors with
pseudo-counts (none for maximum likelihood). The truth is unknown: EM.

A. P. Dawid and A. M. Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM
algorithm", Applied Statistics 28, 20-28.

| equation | here |
|---|---|
| (2.3) A[w,k,l] = Σ_t q[t,k] n[t,w,l] / Σ_l Σ_t q[t,k] n[t,w,l] | `m_step` |
| (2.4) prior[k] = Σ_t q[t,k] / N | `m_step` |
| (2.5) q[t,k] ∝ prior[k] Π_w Π_l A[w,k,l]^n[t,w,l] | the engine's `e_step` |
| (2.7) the likelihood that EM climbs | the engine's `e_step`, `log_density` added |

Departures: the start is the share of votes as in the paper's (3.1), or another, such as the winner of the vote, where
Ibrahim et al. 2025 start; pseudo-counts and known truths are additions. A worker may answer a task more than once (n
counts), as one did in 1979.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from crowdwise.fitting.categorical_em import ConfusionParameters, fit_confusions
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import SmoothingAggregator
from crowdwise.fitting.parameter_checks import as_numbers, check_choice, check_count, check_shares
from crowdwise.fitting.prior_knowledge import GOLD, KNOWN_WORKERS, PRIOR
from crowdwise.fitting.structured_em import pseudo_counts
from crowdwise.kernels import vote_shares, vote_winners
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.engines import Prepared, Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["DawidSkene"]

# Methods whose estimate EM can start from, imported when asked for.
MOMENT_STARTS = {
    "spectral": "spectral:SpectralDawidSkene",
    "coupled-cpd": "coupled_cpd:CoupledCpd",
    "multi-spa": "multi_spa:MultiSpa",
    "cnmf": "cnmf:CoupledNmf",
    "sym-nmf": "sym_nmf:SymmetricNmf",
    "kos": "kos:Kos",
    "ghosh-svd": "ghosh_svd:GhoshSvd",
    "dalvi": "dalvi:Dalvi",
    "sml": "sml:SpectralMetaLearner",
    "pgd": "pgd:RankOneCompletion",
    "m-msr": "m_msr:MMsr",
}


def m_step(found: Statistics, pseudo: FloatArray) -> ConfusionParameters:
    """The highest posterior given expected counts; pseudo-counts [worker, truth, label], one worker for all or each.

    A worker's row for a class that neither labels nor pseudo-counts speak of is uniform.
    """
    with np.errstate(divide="ignore"):
        log_prior = np.log(found.class_counts / found.class_counts.sum())
    return ConfusionParameters(log_prior, found.log_rows(pseudo))


def log_density(parameters: ConfusionParameters, pseudo: FloatArray) -> float:
    """Σ log Dirichlet(A[w, k, :] | 1 + pseudo), constants included; 0 where there are no pseudo-counts at all."""
    if not pseudo.any():
        return 0.0
    n_workers, n_classes = parameters.log_table.shape[:2]
    constants = gammaln(n_classes + pseudo.sum(axis=2)) - gammaln(1 + pseudo).sum(axis=2)
    repeats = n_workers if pseudo.shape[0] == 1 else 1
    if pseudo.shape[0] == 1 and np.ptp(pseudo) == 0:
        weighted = float(pseudo[0, 0, 0]) * float(parameters.log_table.sum())
    else:
        table = parameters.log_table
        weighted = float(np.multiply(pseudo, table, out=np.zeros_like(table), where=pseudo > 0).sum())
    return repeats * float(constants.sum()) + weighted


@estimator
class DawidSkene(SmoothingAggregator):
    """Consensus with a confusion matrix for every worker, by EM.

    Facts
    -----
    Assumes: every worker has a confusion matrix
    Fails with: few labels per worker and class, copying workers, one label per task
    Cost: O(labels × K) an iteration
    Paper: Dawid & Skene 1979, Applied Statistics 28

    Parameters
    ----------
    smoothing : float, 0 or more
        Pseudo-count of every cell of every confusion matrix: a Dirichlet(1 + smoothing) prior on its rows, and
        the estimate is the highest posterior. 0 is maximum likelihood, the method of 1979.
    init : "vote-shares", "majority", "random", the slug of a moment method, array
        Where EM starts: the share of votes; the class with most votes, in equal parts where several tie; the share of
        votes mixed with noise, `n_restarts` times; the estimate of a moment method such as "spectral" or "cnmf"; a
        posterior (N, K) or confusion matrices (M, K, K) [worker, truth, label].
    n_restarts : int
        Random starts, of which the one that ends highest is kept.
    random_state : int
        For random starts.

    Attributes
    ----------
    skill_ : (M,)
        Chance that a worker is right: Σ_k prior_[k] confusion_[w, k, k], where a class that she hardly met is drawn
        towards her accuracy on all.

    Notes
    -----
    A start from the vote's winners ("majority") takes them for certain: a cell of a matrix is then 0 that the shares of
    votes would leave open, and stays 0 without `smoothing`. docs/choosing.md has both on fourteen real crowds.

    Copies count as evidence. Where a worker has only a handful of labels for each class, use `smoothing`, or
    `one-coin`. A worker unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> model = DawidSkene().fit(labels)
    >>> model.predict().tolist()
    ['x', 'y', 'x', 'y']
    >>> model.skill_.round(2).tolist()
    [1.0, 1.0, 0.5]
    """

    slug = "dawid-skene"
    uses = frozenset({GOLD, PRIOR, KNOWN_WORKERS})

    init: Any = "vote-shares"
    n_restarts: int = 10
    random_state: int = 0

    def _check(self) -> None:
        super()._check()
        check_count("n_restarts", self.n_restarts)

    def _keeps_unlabelled_tasks(self) -> bool:
        return not isinstance(self.init, str)  # a posterior to start from has a row for each

    def _online_settings(self) -> dict[str, Any] | None:
        return {}

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        pseudo = pseudo_counts(self.smoothing, labels, known)
        return fit_confusions(
            labels,
            known,
            starts=lambda prepared: self._starting_points(labels, known.gold, prepared, pseudo),
            m_step=lambda found: m_step(found, pseudo),
            log_density=lambda parameters: log_density(parameters, pseudo),
            **self._climb_options,
        )

    def _starting_points(
        self, labels: CrowdLabels, gold: IntArray, prepared: Prepared, pseudo: FloatArray
    ) -> Iterator[ConfusionParameters]:
        if isinstance(self.init, str):
            check_choice("init", self.init, ("vote-shares", "majority", "random", *MOMENT_STARTS))
            if self.init == "vote-shares":
                yield m_step(prepared.count_against_vote_shares(labels.class_shares, gold), pseudo)
                return
            if self.init == "majority":
                yield m_step(prepared.accumulate(vote_winners(vote_shares(labels, gold))), pseudo)
                return
            if self.init in MOMENT_STARTS:
                module, _, name = MOMENT_STARTS[self.init].partition(":")
                found = getattr(importlib.import_module(f"crowdwise.aggregate.{module}"), name)().fit(labels)
                with np.errstate(divide="ignore"):
                    table = np.log(found.confusion_)
                    log_prior = np.log(found.prior_)
                yield ConfusionParameters(log_prior, table)
                return
            shares = vote_shares(labels, gold)
            generator, order = np.random.default_rng(self.random_state), order_by_content(labels)
            for _ in range(self.n_restarts):
                drawn = generator.dirichlet(np.ones(labels.n_classes), order.tasks.size)
                yield m_step(prepared.accumulate((shares + order.restore_posterior(drawn, shares.copy())) / 2), pseudo)
            return
        start = as_numbers(self.init, "init")
        shapes = (labels.n_tasks, labels.n_classes), (labels.n_workers, labels.n_classes, labels.n_classes)
        if start.shape not in shapes:
            raise InputError(
                f"init has shape {start.shape}; it must be 'vote-shares', 'majority', 'random', a posterior of shape "
                f"{shapes[0]} or confusion matrices of shape {shapes[1]} [worker, truth, label]."
            )
        check_shares("init", start)
        if start.ndim == 2:
            yield m_step(prepared.accumulate(start), pseudo)
        else:
            with np.errstate(divide="ignore"):
                table = np.log(start)
            yield ConfusionParameters(np.full(labels.n_classes, -np.log(labels.n_classes)), table)
