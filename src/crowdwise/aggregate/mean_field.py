"""Mean field: Dawid–Skene with Dirichlet priors, and posteriors in place of estimates.

The generative story. Class shares are drawn from a Dirichlet, and so is every row A[w, k, :] of every worker's
confusion matrix. The truth of task t is drawn from the class shares; each worker w who meets t says l with
probability A[w, truth, l]. The posterior of truths, matrices and shares is approximated by a product of one factor
each. With a one-coin prior a worker has one accuracy instead, drawn from a Beta, and her errors are spread evenly.

H. Kim, S. Cho, D. Kim and J. Ok (2022), "Robust deep learning from crowds with belief propagation", AISTATS: deepMF
with no features.

| equation | here |
|---|---|
| (3) the one-coin prior | `make_coin_posterior`, in the E-step of `fitting.categorical_em.fit_votes` |
| (16), (27) log q(truth) = Σ_w E[log A[w, truth, l]] + log prior | the engine's `e_step` on expected logarithms |
| (28), (29) β[w] = α + Σ_t q[t, k] [w said l of t] | `fitting.variational.fit_dirichlets` |
| (26) the evidence bound, which every iteration raises | `fitting.variational.maximise_evidence_bound` |

Departures: the climb starts from the shares of the votes; the authors' program starts from truths of which nothing is
known, which is `start="even"`. The classifier's output, which is the prior of a truth in the paper, is a vector of
class shares with a Dirichlet prior of its own, learnt as the matrices are. The default prior of the rows is the paper's
Dir(2, 1): two right answers, one wrong, the wrong one spread over the K-1 other classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.categorical_em import VoteParameters, fit_votes, one_coin_parameters
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import BayesianAggregator
from crowdwise.fitting.parameter_checks import as_numbers, check_choice, check_number
from crowdwise.fitting.priors import dirichlet_divergence, dirichlet_expected_logs
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.fitting.variational import (
    compute_skill,
    confusion_priors,
    diagonal_prior,
    expected_logs_with_average,
    fit_dirichlets,
    make_log_class_share_function,
    maximise_evidence_bound,
    predict_new,
)
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.engines import Statistics
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["DIRICHLETS", "MeanField", "fit_mean_field", "predict_mean_field"]

RIGHT, WRONG = 2.0, 1.0  # the paper's Dir(2, 1), sections 4 and 5
VOTES, EVEN = "votes", "even"  # where the truths start
# What `fit_mean_field` keeps: posteriors of the matrices and, where no class prior was given, of the class shares.
DIRICHLETS = (
    SavedArray("extra/confusion_counts", "M K K", low=SMALLEST, together="rows"),
    SavedArray("extra/class_counts", "K", low=SMALLEST, together="shares"),
)


def fit_mean_field(
    labels: CrowdLabels,
    known: PriorKnowledge,
    *,
    confusion: FloatArray,
    shares: float,
    max_iter: int,
    tol: float,
    name: str,
    start: str = VOTES,
) -> Fit:
    """Climb from the start; `confusion` are pseudo-counts (K, K) [truth, label], `shares` of each class."""
    prepared = prepare(labels)
    rows_prior = confusion_priors(confusion, known)
    pseudo = np.full(labels.n_classes, float(shares))
    if start == VOTES:
        counted = prepared.count_against_vote_shares(labels.class_shares, known.gold)
    else:
        counted = prepared.accumulate(np.full((labels.n_tasks, labels.n_classes), 1 / labels.n_classes))
    ended, posterior, _ = maximise_evidence_bound(
        labels,
        prepared,
        known.gold,
        starts=[fit_dirichlets(counted, rows_prior)],
        prior_of=make_log_class_share_function(pseudo, known),
        rows_prior=rows_prior,
        max_iter=max_iter,
        tol=tol,
        name=name,
    )
    class_counts = pseudo + ended.parameters.tasks
    prior = class_counts / class_counts.sum() if known.class_prior is None else known.class_prior
    rows = ended.parameters.rows
    skill, skill_beta = compute_skill(labels, known, posterior, prior, calibrated=False)
    return Fit(
        posterior=posterior,
        prior=prior,
        confusion=rows / rows.sum(axis=2, keepdims=True),
        skill=skill,
        skill_beta=skill_beta,
        extra={"confusion_counts": rows} | ({"class_counts": class_counts} if known.class_prior is None else {}),
    ).attach_climb_history(ended)


def predict_mean_field(
    labels: CrowdLabels, prior: FloatArray, extra: dict[str, FloatArray], answers: Any
) -> FloatArray:
    """Posterior of new tasks under the posteriors of matrices and shares."""
    with np.errstate(divide="ignore"):
        log_prior = dirichlet_expected_logs(extra["class_counts"]) if "class_counts" in extra else np.log(prior)
    return predict_new(labels, log_prior, expected_logs_with_average(extra["confusion_counts"], answers))


@dataclass(frozen=True)
class CoinPosterior(VoteParameters):
    """Beta parameters of the workers' accuracies, with the expected logarithms that an E-step takes from them.

    Attributes
    ----------
    coins : (M, 2)
        Of right and of wrong answers.
    tasks : (K,)
        Expected number of tasks of each class.
    """

    coins: FloatArray
    tasks: FloatArray


def make_coin_posterior(coins: FloatArray, tasks: FloatArray, log_prior: FloatArray) -> CoinPosterior:
    """The expected logarithms: of being right, and of each wrong label."""
    n_classes = tasks.size
    logs = dirichlet_expected_logs(coins)
    right, wrong = logs[:, 0], logs[:, 1] - np.log(max(n_classes - 1, 1))
    shape = (coins.shape[0], n_classes)
    return CoinPosterior(
        log_prior, np.broadcast_to(right[:, None], shape), np.broadcast_to(wrong[:, None], shape), coins, tasks
    )


def one_coin_matrices(accuracy: FloatArray, n_classes: int) -> FloatArray:
    """Matrices (M, K, K) with an accuracy (M,) on the diagonal and errors spread evenly."""
    wrong = (1 - accuracy) / max(n_classes - 1, 1)
    matrices = np.repeat(wrong, n_classes**2).reshape(-1, n_classes, n_classes)
    matrices[:, np.arange(n_classes), np.arange(n_classes)] = accuracy[:, None]
    return matrices


def fit_one_coin_mean_field(
    labels: CrowdLabels, known: PriorKnowledge, *, coin: FloatArray, shares: float, max_iter: int, tol: float, name: str
) -> Fit:
    """Climb from the prior itself (Kim et al. 2022, algorithm 1); `coin` are pseudo-counts (2,) of right and wrong."""
    answers = labels.labels_per_worker.astype(np.float64)
    before = np.tile(coin, (labels.n_workers, 1))
    if known.worker_counts is not None:
        right = np.einsum("wkk->w", known.worker_counts)
        before += np.stack([right, known.worker_counts.sum(axis=(1, 2)) - right], axis=1)
    pseudo = np.full(labels.n_classes, float(shares))
    prior_of = make_log_class_share_function(pseudo, known)

    def update_coins(correct: FloatArray, tasks: FloatArray) -> CoinPosterior:
        coins = before + np.stack([correct, answers - correct], axis=1)
        return make_coin_posterior(coins, tasks, prior_of(tasks)[0])

    def m_step(found: Statistics, _: CoinPosterior) -> CoinPosterior:
        return update_coins(np.minimum(found.counts.sum(axis=1), answers), found.class_counts)

    def negative_divergence(beliefs: CoinPosterior) -> float:
        return -prior_of(beliefs.tasks)[1] - dirichlet_divergence(beliefs.coins, before)

    def replace_accuracies(accuracies: FloatArray, now: CoinPosterior) -> CoinPosterior:
        other = one_coin_parameters(accuracies, now.log_prior)
        return replace(now, log_right=other.log_right, log_wrong=other.log_wrong)

    nothing = np.zeros(labels.n_classes)
    start = make_coin_posterior(before, nothing, prior_of(nothing)[0])
    fit, ended = fit_votes(
        labels,
        known,
        starts=lambda: [start],
        m_step=m_step,
        log_density=negative_divergence,
        max_iter=max_iter,
        tol=tol,
        name=name,
        of_accuracies=replace_accuracies,
    )
    class_counts = pseudo + ended.tasks
    skill = ended.coins[:, 0] / ended.coins.sum(axis=1)
    return replace(
        fit,
        prior=class_counts / class_counts.sum() if known.class_prior is None else known.class_prior,
        confusion=one_coin_matrices(skill, labels.n_classes),
        skill=skill,
        extra={"coin_counts": ended.coins} | ({"class_counts": class_counts} if known.class_prior is None else {}),
    )


def predict_one_coin_mean_field(
    labels: CrowdLabels, prior: FloatArray, extra: dict[str, FloatArray], answers: Any
) -> FloatArray:
    """Posterior of new tasks under the posteriors of accuracies and shares; strangers are the crowd's average."""
    with np.errstate(divide="ignore"):
        log_prior = dirichlet_expected_logs(extra["class_counts"]) if "class_counts" in extra else np.log(prior)
    coins = extra["coin_counts"]
    average = np.average(coins[:, 0] / coins.sum(axis=1), weights=answers)
    logs = np.concatenate([dirichlet_expected_logs(coins), np.log([[average, 1 - average]])])
    n_classes = log_prior.size
    wrong = logs[:, 1:, None] - np.log(max(n_classes - 1, 1))
    table = np.where(np.eye(n_classes, dtype=np.bool_), logs[:, :1, None], wrong)
    return predict_new(labels, log_prior, table)


@estimator
class MeanField(BayesianAggregator):
    """Consensus with a posterior of every worker's confusion matrix, by mean-field variational inference.

    Facts
    -----
    Assumes: Dawid-Skene with Dirichlet priors, and posteriors in place of estimates
    Fails with: copying workers, one label per task; the posterior is too sure of itself
    Cost: O(labels × K + workers × K²) an iteration
    Paper: Kim et al. 2022, AISTATS

    Parameters
    ----------
    confusion_prior : array (K, K) [truth, label], or None
        Pseudo-counts, above 0, of the Dirichlet prior of every worker's rows: answers that each worker counts as having
        given. None: 2 right and 1 wrong for each true class, the wrong one spread over the other classes.
    coin_prior : pair (α₁, α₂) above 0, or None
        In place of rows, one Beta(α₁, α₂) accuracy for each worker, errors spread evenly: pseudo-counts of right and of
        wrong answers. The climb then starts from this prior, which must favour right answers.
    share_prior : float, above 0
        Pseudo-count of each class in the Dirichlet prior of the class shares; a million holds them equal.
    start : "votes" or "even"
        Where the climb starts, with rows: truths as the shares of the votes; or all classes equally probable, as in the
        authors' program, so that the prior alone tells right answers from wrong ones.

    Attributes
    ----------
    confusion_counts_ : (M, K, K)
        Parameters of the Dirichlet posterior of the rows of `confusion_`; not with `coin_prior`.
    coin_counts_ : (M, 2)
        With `coin_prior`, parameters of the Beta posterior of the accuracies, right and wrong.

    Notes
    -----
    Too sure of itself: the product of factors does not see that matrices and truths could be wrong together.
    `belief-propagation` and `bcc` with Gibbs sampling are not. A worker unknown at prediction counts as the average of
    the crowd.

    Examples
    --------
    >>> MeanField().fit(labels).confusion_[0].round(2).tolist()
    [[0.79, 0.21], [0.21, 0.79]]
    """

    slug = "mean-field"
    saved = (*DIRICHLETS, SavedArray("extra/coin_counts", "M 2", low=SMALLEST, together="coins"))

    confusion_prior: Any = None
    coin_prior: Any = None
    share_prior: float = 1.0
    start: str = VOTES

    @property
    def confusion_counts_(self) -> FloatArray:
        """Dirichlet parameters of the workers' rows, (M, K, K) [worker, truth, label]."""
        return self._fitted_counts("confusion_counts")

    @property
    def coin_counts_(self) -> FloatArray:
        """Beta parameters of the workers' accuracies, (M, 2)."""
        return self._fitted_counts("coin_counts")

    def _fitted_counts(self, name: str) -> FloatArray:
        self._check_fitted()
        if name not in self.extra_:
            raise AttributeError(f"This mean field has no {name}_: its workers have another prior.")
        counts: FloatArray = self.extra_[name]
        return counts

    def _check_restored(self) -> None:
        super()._check_restored()
        if ("confusion_counts" in self.extra_) == ("coin_counts" in self.extra_):
            raise InputError("there must be either extra/confusion_counts or extra/coin_counts")

    def _check(self) -> None:
        check_number("share_prior", self.share_prior, low=0, above=True)
        check_choice("start", self.start, (VOTES, EVEN))
        if self.coin_prior is not None and self.start != VOTES:
            raise InputError("start is for rows; with coin_prior the climb starts from this prior.")

    def _online_settings(self) -> dict[str, Any] | None:
        if self.coin_prior is not None or self.confusion_prior is not None:
            return None
        return {"shares": self.share_prior}

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        climb: dict[str, Any] = {"shares": self.share_prior, "max_iter": self.max_iter, "tol": self.tol}
        if self.coin_prior is not None:
            return fit_one_coin_mean_field(labels, known, coin=self._coin_pseudo_counts(), name=self.slug, **climb)
        return fit_mean_field(
            labels,
            known,
            confusion=self._confusion_pseudo_counts(labels.n_classes),
            name=self.slug,
            start=self.start,
            **climb,
        )

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        if "coin_counts" in self.extra_:
            return predict_one_coin_mean_field(labels, self.prior_, self.extra_, self.labels_per_worker_)
        return predict_mean_field(labels, self.prior_, self.extra_, self.labels_per_worker_)

    def _coin_pseudo_counts(self) -> FloatArray:
        if self.confusion_prior is not None:
            raise InputError("Give confusion_prior or coin_prior, not both: a worker has rows or one accuracy.")
        given = as_numbers(self.coin_prior, "coin_prior")
        if given.shape != (2,) or not np.isfinite(given).all() or (given <= 0).any():
            raise InputError(f"coin_prior is {quote(self.coin_prior)}; it must be two numbers above 0.")
        return given

    def _confusion_pseudo_counts(self, n_classes: int) -> FloatArray:
        if self.confusion_prior is None:
            return diagonal_prior(RIGHT, WRONG / (n_classes - 1), n_classes)
        given = as_numbers(self.confusion_prior, "confusion_prior")
        if given.shape != (n_classes, n_classes) or not np.isfinite(given).all() or (given <= 0).any():
            raise InputError(
                f"confusion_prior has shape {given.shape}; it must be a matrix of shape {(n_classes, n_classes)} "
                "[truth, label] of pseudo-counts above 0."
            )
        return given
