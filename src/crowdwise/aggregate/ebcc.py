"""EBCC: each class is a mixture of subtypes, so that workers may err together.

The generative story. Class shares are drawn from a Dirichlet; class k falls into R subtypes with shares drawn from a
sparse Dirichlet(a/R). A task's class k is drawn from the shares, then its subtype m from those of k. Each worker w who
meets the task says l with probability V[w, k, m, l], a row of her own for every class and subtype, drawn from a
Dirichlet that favours the diagonal. Given the class alone, workers are correlated: some tasks of a class are of a kind
that misleads the same people.

Y. Li, B. Rubinstein and T. Cohn (2019), "Exploiting worker correlation for label aggregation in crowdsourcing", ICML.

| section 4.2, mean-field updates | here |
|---|---|
| q(class, subtype of task) ∝ exp(E log τ + E log π + Σ E log V) | the engine's `e_step` with K × R states |
| ν = α + tasks of a class; η = a/R + tasks of a subtype | `subtype_prior` |
| μ = β + answers | `fitting.variational.fit_dirichlets` |
| the evidence bound, by which restarts are compared | `fitting.variational.maximise_evidence_bound` |

Departures: none in the model. As in the authors' released code, the start splits each task's share of votes over the
subtypes at random, the start that ends with the highest bound is kept, and the prior of the class shares counts the
votes (here plus one task for each class, so that a class without votes has a prior). Fewer restarts than their 40 by
default; every second one splits the posterior of the model without subtypes, from where higher bounds are found that
votes seldom lead to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.estimator_parameters import clone
from crowdwise.fitting.family_bases import RowPriorAggregator
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.fitting.priors import dirichlet_divergence, dirichlet_expected_logs, dirichlet_mean
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.fitting.variational import (
    VariationalState,
    compute_skill,
    confusion_priors,
    diagonal_prior,
    expected_logs_with_average,
    fit_dirichlets,
    maximise_evidence_bound,
    predict_new,
)
from crowdwise.kernels import vote_shares
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crowdwise.engines import Prepared
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["EnhancedBcc"]

MOST_TYPES = 1000  # of each class: tables have as many rows
BLOCK = 1 << 14  # tasks drawn at a time
EMPTY = 1e-12  # tasks of a subtype, all together, below which it is left out


def split_at_random(
    shares: FloatArray, n_subtypes: int, order: tuple[IntArray, IntArray], generator: np.random.Generator
) -> FloatArray:
    """Each task's shares of votes (N, K), split over subtypes by a uniform draw from the simplex: (N, K × R).

    Draws are made for tasks and classes in the order given; a task that is not in it is split evenly.
    """
    tasks, classes = order
    split = np.ones((*shares.shape, n_subtypes))
    for first in range(0, tasks.size, BLOCK):
        some = tasks[first : first + BLOCK]
        split[np.ix_(some, classes)] = generator.standard_exponential((some.size, classes.size, n_subtypes))
    split *= (shares / split.sum(axis=2))[:, :, None]
    return split.reshape(shares.shape[0], -1)


def starting_dirichlets(prepared: Prepared, split: FloatArray, rows_prior: FloatArray) -> VariationalState:
    """Dirichlets given a posterior (N, K × R) of class and subtype."""
    return fit_dirichlets(prepared.accumulate(split), rows_prior)


def drop_empty_subtypes(beliefs: VariationalState, n_classes: int) -> VariationalState:
    """Each class's subtypes from large to small, as many as the class with the most has left.

    A subtype without tasks stays so, its share being a pseudo-count's, and its rows are at their prior: leaving it out
    changes no value.
    """
    tasks = beliefs.tasks.reshape(n_classes, -1)
    left = int((tasks > EMPTY).sum(axis=1).max())
    if left == tasks.shape[1]:
        return beliefs
    order = np.argsort(-tasks, axis=1, kind="stable")[:, :left]
    states = (np.arange(n_classes)[:, None] * tasks.shape[1] + order).reshape(-1)
    return VariationalState(beliefs.tasks[states], beliefs.rows[:, states])


def expected_log_subtype_prior(
    classes: FloatArray, subtype: FloatArray, fixed: FloatArray | None
) -> Callable[[FloatArray], tuple[FloatArray, float]]:
    """Expected log-probability of class and subtype (K × R,) given the expected tasks of each, and the divergence.

    Parameters
    ----------
    classes : (K,)
        Pseudo-counts of the class shares.
    subtype : (R,)
        Pseudo-count of each subtype of a class, the first of which are in use.
    fixed : (K,), optional
        Logarithm of class shares that are known.
    """

    def log_prior_and_divergence(tasks: FloatArray) -> tuple[FloatArray, float]:
        by_class = tasks.reshape(classes.size, -1)
        in_use = by_class.shape[1]
        within = np.tile(subtype, (classes.size, 1))
        within[:, :in_use] += by_class
        loss = dirichlet_divergence(within, subtype)
        logs = fixed
        if logs is None:
            shape = classes + by_class.sum(axis=1)
            loss += dirichlet_divergence(shape, classes)
            logs = dirichlet_expected_logs(shape)
        return (logs[:, None] + dirichlet_expected_logs(within)[:, :in_use]).reshape(-1), loss

    return log_prior_and_divergence


@estimator
class EnhancedBcc(RowPriorAggregator):
    """Consensus where every class has subtypes, on which workers err together.

    Facts
    -----
    Assumes: every class has subtypes, on which workers err together
    Fails with: few labels per worker; workers who err independently, where it is only slower
    Cost: O((labels × K + workers × K²) × subtypes) an iteration
    Paper: Li, Rubinstein & Cohn 2019, ICML

    Parameters
    ----------
    n_subtypes : int
        Most subtypes of a class; those that are not needed stay nearly empty.
    subtype_prior : float, above 0
        Pseudo-count of a class's subtypes, all together: the smaller, the fewer subtypes are used.
    share_prior : "votes" or float, above 0
        Pseudo-count of each class in the Dirichlet prior of the class shares; "votes": one, and the votes.
    n_restarts : int
        Random starts, of which the one that ends with the highest bound is kept.
    max_iter : int
        Most iterations of each.
    random_state : int
        For the starts.

    Attributes
    ----------
    confusion_ : (M, K, K)
        Mean of P(worker says l | truth is k) at [worker, k, l], over subtypes.
    subtype_shares_ : (K, r)
        Mean share of each subtype in its class, for the r subtypes that are not empty in all classes.
    subtype_confusion_ : (M, K, r, K)
        Mean of P(worker says l | truth is k, of subtype m) at [worker, k, m, l].

    Notes
    -----
    There are M × K × R rows to fill. A worker unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> EnhancedBcc(n_subtypes=2).fit(labels).subtype_confusion_.shape
    (3, 2, 2, 2)
    """

    slug = "ebcc"
    saved = (
        SavedArray("extra/subtype_counts", "K S", low=SMALLEST),
        SavedArray("extra/rows", "M K*S K", low=SMALLEST),
        SavedArray("extra/log_prior", "K*S", low=-np.inf, logarithms=True),
    )
    random = True

    n_subtypes: int = 10
    subtype_prior: float = 0.1
    share_prior: Any = "votes"
    n_restarts: int = 4
    random_state: int = 0

    @property
    def subtype_shares_(self) -> FloatArray:
        """Mean share of each subtype in its class, (K, r)."""
        self._check_fitted()
        return dirichlet_mean(self.extra_["subtype_counts"])

    @property
    def subtype_confusion_(self) -> FloatArray:
        """Mean rows of the workers, (M, K, r, K) [worker, truth, subtype, label]."""
        self._check_fitted()
        return _posterior_mean_rows(self.extra_["rows"])

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        n_classes = labels.n_classes
        found = order_by_content(labels, known)
        order = found.tasks.astype(np.int32), found.classes  # and no more of it is kept
        del found
        shares = whole = vote_shares(labels, known.gold)
        if self.n_subtypes > 1 and self.n_restarts > 1:  # before the large tables are made
            whole = clone(self).set_params(n_subtypes=1, n_restarts=1)._fit(labels, known).posterior
        prepared = prepare(labels, n_classes * self.n_subtypes)
        classes = 1 + shares.sum(axis=0) if self.share_prior == "votes" else np.full(n_classes, float(self.share_prior))
        pseudo = np.full(self.n_subtypes, self.subtype_prior / self.n_subtypes)
        prior_of = expected_log_subtype_prior(classes, pseudo, known.log_prior)
        rows_prior = confusion_priors(diagonal_prior(self.right, self.wrong, n_classes), known)
        begin = [values.astype(np.float32) for values in (shares, whole)]  # kept all the while; a start needs no more
        del shares, whole
        ended, states, _ = maximise_evidence_bound(
            labels,
            prepared,
            known.gold,
            starts=self._starts(prepared, begin, order, rows_prior),
            prior_of=prior_of,
            rows_prior=rows_prior,
            **self._climb_options,
            tidy=lambda beliefs: drop_empty_subtypes(beliefs, n_classes),
        )
        tasks = ended.parameters.tasks.reshape(n_classes, -1)
        posterior = states.reshape(labels.n_tasks, *tasks.shape).sum(axis=2)
        del states, prepared  # large
        class_counts = classes + tasks.sum(axis=1)
        prior = class_counts / class_counts.sum() if known.class_prior is None else known.class_prior
        subtype_counts = pseudo[0] + tasks
        weights = subtype_counts / subtype_counts.sum(axis=1, keepdims=True)
        confusion = np.einsum("wkml,km->wkl", _posterior_mean_rows(ended.parameters.rows), weights)
        skill, skill_beta = compute_skill(labels, known, posterior, prior, calibrated=False)
        return Fit(
            posterior=posterior,
            prior=prior,
            confusion=confusion,
            skill=skill,
            skill_beta=skill_beta,
            extra={
                "rows": ended.parameters.rows,
                "subtype_counts": subtype_counts,
                "log_prior": prior_of(ended.parameters.tasks)[0],
            },
        ).attach_climb_history(ended)

    def _starts(
        self, prepared: Prepared, begin: list[Any], order: tuple[IntArray, IntArray], rows_prior: FloatArray
    ) -> Iterator[VariationalState]:
        """The votes, split at random; every second time the posterior of the model without subtypes."""
        for number, generator in enumerate(np.random.default_rng(self.random_state).spawn(self.n_restarts)):
            yield starting_dirichlets(
                prepared, split_at_random(begin[number % 2], self.n_subtypes, order, generator), rows_prior
            )

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        posterior: FloatArray = self._predict_subtypes(labels).reshape(labels.n_tasks, labels.n_classes, -1).sum(axis=2)
        return posterior

    def _state_posterior(self, labels: CrowdLabels) -> FloatArray:
        return self._predict_subtypes(self._align_labels(labels))

    def _predict_subtypes(self, labels: CrowdLabels) -> FloatArray:
        table = expected_logs_with_average(self.extra_["rows"], self.labels_per_worker_)
        return predict_new(labels, self.extra_["log_prior"], table)

    def _check(self) -> None:
        check_count("n_subtypes", self.n_subtypes, high=MOST_TYPES)
        check_count("n_restarts", self.n_restarts)
        super()._check()
        check_number("subtype_prior", self.subtype_prior, low=0, above=True)
        if isinstance(self.share_prior, str):
            if self.share_prior != "votes":
                raise InputError(f"share_prior is {quote(self.share_prior)}; it must be 'votes' or a number above 0.")
        else:
            check_number("share_prior", self.share_prior, low=0, above=True)


def _posterior_mean_rows(rows: FloatArray) -> FloatArray:
    """Means of Dirichlets [worker, truth × subtype, label] as [worker, truth, subtype, label]."""
    n_workers, _, n_classes = rows.shape
    return dirichlet_mean(rows).reshape(n_workers, n_classes, -1, n_classes)
