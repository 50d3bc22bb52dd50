"""CBCC: workers belong to communities, whose confusion matrices are the prior of their members'.

The generative story. Shares of C communities are drawn from a Dirichlet, and each worker w falls into one, c. The rows
of her confusion matrix are drawn around the community's: A[w, k, :] ~ Dirichlet(α[c, k, :]). Class shares, truths and
labels follow as in BCC. A worker with few labels is judged by the company she seems to keep.

M. Venanzi, J. Guiver, G. Kazai, P. Kohli and M. Shokouhi (2014), "Community-based Bayesian aggregation models for
crowdsourcing", WWW.

| the model and its inference | here |
|---|---|
| q(community of w), q(A[w] given the community), best given expected answers | `membership_posterior` |
| q(truths) | the engine's `e_step` on E[log A], averaged over communities |
| community matrices, highest posterior | `update_community_alpha` |
| the evidence bound, which every iteration raises | `step` in `CommunityBcc._fit` |

Departures: the inference is variational EM. Rows are Dirichlet around α[c] where the paper has soft-max of Gaussian
scores, so that a worker's rows can be integrated given her community; truths and shares have mean-field posteriors; the
α, which hold both the mean and the spread of a community, are points of highest posterior under Gamma priors of shape 2
(found by Minka's fixed point, stretched as long as the bound does not fall). The paper runs expectation propagation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln, logsumexp

from crowdwise.engines import prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import RowPriorAggregator
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.fitting.priors import dirichlet_divergence, dirichlet_expected_logs, dirichlet_mean
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.fitting.variational import (
    compute_skill,
    diagonal_prior,
    make_log_class_share_function,
    predict_new,
)

if TYPE_CHECKING:
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["CommunityBcc"]

SHAPE = 2.0  # of the Gamma priors of α: none is drawn to 0
LENGTHS = 0.5 ** np.arange(6)  # of the fixed point's own step that are tried before it is given up
LONGEST = 64.0
FARTHEST = 50.0  # logarithm of α
MOST_COMMUNITIES = 1000  # every worker has a chance of each


@dataclass(frozen=True)
class CommunityState:
    """What an iteration hands to the next.

    Attributes
    ----------
    tasks : (K,)
        Expected number of tasks of each class.
    answers
        Expected answers.
    alpha : (C, K, K) [community, truth, label]
        Dirichlet parameters of members' rows.
    sizes : (C,)
        Dirichlet parameters of the communities' shares.
    marginals : (M, C)
        Log-probability of each worker's expected answers in each community.
    stretch : (C,)
        How far beyond the fixed point's own step the next one of α is tried.
    """

    tasks: FloatArray
    answers: ExpectedAnswers
    alpha: FloatArray
    sizes: FloatArray
    marginals: FloatArray
    stretch: FloatArray


class ExpectedAnswers:
    """Expected answers (M, K, K) [worker, truth, label] and those that are not 0, which alone need functions of Γ.

    Attributes
    ----------
    active : (M,)
        Who has answers at all.
    """

    def __init__(self, counts: FloatArray) -> None:
        self.counts, self.size = counts, counts.shape[0]
        flat, rows = counts.reshape(self.size, -1), counts.sum(axis=2)
        self.worker, self.cell = np.nonzero(flat)
        self.number = flat[self.worker, self.cell]
        self.row_worker, self.row = np.nonzero(rows)
        self.row_number = rows[self.row_worker, self.row]
        self.active = rows.sum(axis=1) > 0

    def log_marginal(self, alpha: FloatArray) -> FloatArray:
        """Log-probability (M,) of each worker's answers, rows integrated, where these have Dirichlets α (K, K)."""
        cells, mass = alpha.ravel(), alpha.sum(axis=1)
        gains = gammaln(cells[self.cell] + self.number) - gammaln(cells)[self.cell]
        costs = gammaln(mass[self.row] + self.row_number) - gammaln(mass)[self.row]
        logs: FloatArray = np.bincount(self.worker, gains, self.size).astype(np.float64)
        logs -= np.bincount(self.row_worker, costs, self.size)
        return logs

    def expected_log_rows(self, alpha: FloatArray) -> FloatArray:
        """E[log A] of each worker (M, K, K) whose rows have the prior α (K, K)."""
        cells, mass = alpha.ravel(), alpha.sum(axis=1)
        table = np.tile(digamma(cells), (self.size, 1))
        table[self.worker, self.cell] = digamma(cells[self.cell] + self.number)
        totals = np.tile(digamma(mass), (self.size, 1))
        totals[self.row_worker, self.row] = digamma(mass[self.row] + self.row_number)
        logs: FloatArray = table.reshape(self.counts.shape) - totals[:, :, None]
        return logs

    def fixed_point_step(self, alpha: FloatArray, weight: FloatArray, rate: FloatArray) -> FloatArray:
        """Minka's fixed point from α (K, K) where workers are members with this weight (M,), in logarithms."""
        cells, mass = alpha.ravel(), alpha.sum(axis=1)
        gains = digamma(cells[self.cell] + self.number) - digamma(cells)[self.cell]
        up = np.bincount(self.cell, weight[self.worker] * gains, cells.size).reshape(alpha.shape)
        costs = digamma(mass[self.row] + self.row_number) - digamma(mass)[self.row]
        down = np.bincount(self.row, weight[self.row_worker] * costs, mass.size)
        goal: FloatArray = np.log((SHAPE - 1 + alpha * up) / (rate + down[:, None]))
        return goal


def assign_communities_by_agreement(counts: FloatArray, n_communities: int) -> FloatArray:
    """Workers in communities of equal size by their share of right answers; equals stay together: (M, C).

    Who has no answers belongs to none.
    """
    from scipy.stats import rankdata  # takes most of a second to import

    right, total = np.einsum("wkk->w", counts), counts.sum(axis=(1, 2))
    active = total > 0
    rank = rankdata(np.round((right[active] + 1) / (total[active] + 2), 9)) - 0.5
    place = np.minimum(rank / rank.size * n_communities, n_communities - 1).astype(int)
    groups = np.zeros((total.size, n_communities))
    groups[active] = np.eye(n_communities)[place]
    return groups


def community_alpha_from_members(counts: FloatArray, chance: FloatArray, prior: FloatArray) -> FloatArray:
    """α (C, K, K) with the mean of the members' answers and the spread of the prior (K, K) [truth, label]."""
    answers = np.einsum("wc,wkl->ckl", chance, counts) + prior
    alpha: FloatArray = answers / answers.sum(axis=2, keepdims=True) * prior.sum(axis=1, keepdims=True)
    return alpha


def log_marginals(answers: ExpectedAnswers, alpha: FloatArray) -> FloatArray:
    """Log-probability (M, C) of each worker's answers in each community."""
    return np.stack([answers.log_marginal(each) for each in alpha], axis=1)


def membership_posterior(marginals: FloatArray, log_shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The best q(community) (M, C), and the logarithm of the sum (M,) that makes it one."""
    totals = logsumexp(log_shares + marginals, axis=1, keepdims=True)
    return np.exp(log_shares + marginals - totals), totals[:, 0]


def average_log_rows(answers: ExpectedAnswers, alpha: FloatArray, chance: FloatArray) -> FloatArray:
    """E[log A] of each worker (M, K, K) [worker, truth, label], averaged over communities."""
    log_table = np.zeros_like(answers.counts)
    for c, prior in enumerate(alpha):
        log_table += chance[:, c, None, None] * answers.expected_log_rows(prior)
    return log_table


def posterior_mean_rows(counts: FloatArray, alpha: FloatArray, chance: FloatArray) -> FloatArray:
    """E[A] of each worker (M, K, K) [worker, truth, label], averaged over communities."""
    rows = np.zeros_like(counts)
    for c, prior in enumerate(alpha):
        shape = counts + prior
        rows += chance[:, c, None, None] * shape / shape.sum(axis=2, keepdims=True)
    return rows


def log_density(alpha: FloatArray, prior: FloatArray) -> float:
    """Log-density of α under Gamma priors of shape 2 with the means `prior`."""
    rate = SHAPE / prior
    cells = SHAPE * np.log(rate) - gammaln(SHAPE) + (SHAPE - 1) * np.log(alpha) - rate * alpha
    return float(cells.sum())


def update_community_alpha(
    answers: ExpectedAnswers,
    chance: FloatArray,
    marginals: FloatArray,
    alpha: FloatArray,
    prior: FloatArray,
    stretch: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """α of a higher posterior given who is a member, its marginals, and how far to try next; each community by itself.

    Minka's fixed point creeps where workers have few answers each. Its step is stretched, in logarithms, twice as far
    each time that this still raises the posterior (Salakhutdinov and Roweis 2003, "Adaptive overrelaxed bound
    optimization methods", ICML), and begins anew with its own length where it no longer does. With expected answers
    below one that may be too far as well: then it is halved.
    """
    risen, reached, following = alpha.copy(), marginals.copy(), np.ones_like(stretch)
    for c, current in enumerate(alpha):
        weight, before = np.where(answers.active, chance[:, c], 0), np.log(current)
        step = answers.fixed_point_step(current, weight, SHAPE / prior) - before
        height = float(weight @ marginals[:, c]) + log_density(current, prior)
        for length in (stretch[c], *LENGTHS):
            trial = np.exp(np.clip(before + length * step, -FARTHEST, FARTHEST))
            found = answers.log_marginal(trial)
            if float(weight @ found) + log_density(trial, prior) >= height:
                risen[c], reached[:, c], following[c] = trial, found, min(2 * length, LONGEST)
                break
    return risen, reached, following


@estimator
class CommunityBcc(RowPriorAggregator):
    """Consensus where workers belong to communities with a confusion matrix each.

    Facts
    -----
    Assumes: workers belong to communities, whose confusion matrices are the prior of their members'
    Fails with: workers all alike or all different, copying workers
    Cost: O(labels × K + workers × communities × K²) an iteration
    Paper: Venanzi et al. 2014, WWW

    Parameters
    ----------
    n_communities : int
        Most communities; those that are not needed stay nearly empty.
    right, wrong : float, above 0
        Means, on the diagonal and off it, of the pseudo-counts that a community is to its members.
    share_prior, community_prior : float, above 0
        Pseudo-count of each class, and of each community, in the Dirichlet priors of their shares.

    Attributes
    ----------
    community_ : (M, C)
        Probability that a worker belongs to a community.
    community_confusion_ : (C, K, K)
        Mean matrix of a community's members, [community, truth, label].
    log_likelihood_, objective_ : (n_iter_,)
        The E-step's value, and the bound on the log-evidence with the log-density of the communities' matrices.

    Notes
    -----
    Communities start as workers of like agreement with the votes. Where workers are all alike, one community is enough.
    A worker unknown at prediction counts as a member of each community by its share.

    Examples
    --------
    >>> CommunityBcc(n_communities=2).fit(labels).community_.shape
    (3, 2)
    """

    slug = "cbcc"
    saved = (
        SavedArray("extra/alpha", "C K K", low=SMALLEST),
        SavedArray("extra/sizes", "C", low=SMALLEST),
        SavedArray("extra/counts", "M K K", low=0),
        SavedArray("extra/log_table", "M K K", low=-np.inf, logarithms=True),
        SavedArray("extra/log_prior", "K", low=-np.inf, logarithms=True),
    )

    n_communities: int = 4
    share_prior: float = 1.0
    community_prior: float = 1.0
    tol: float = 1e-5

    community_ = FittedArray(
        SavedArray("extra/community", "M C", low=0, sums_to_one=True),
        "Probability that a worker belongs to a community, (M, C).",
    )

    @property
    def community_confusion_(self) -> FloatArray:
        """Mean matrix of each community, (C, K, K) [community, truth, label]."""
        self._check_fitted()
        return dirichlet_mean(self.extra_["alpha"])

    def _check(self) -> None:
        check_count("n_communities", self.n_communities, high=MOST_COMMUNITIES)
        super()._check()
        for name in ("share_prior", "community_prior"):
            check_number(name, getattr(self, name), low=0, above=True)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        prepared, n_classes = prepare(labels), labels.n_classes
        prior = diagonal_prior(self.right, self.wrong, n_classes)
        pseudo = np.full(n_classes, float(self.share_prior))
        prior_of = make_log_class_share_function(pseudo, known)
        given = np.zeros((1, 1, 1)) if known.worker_counts is None else known.worker_counts

        def step(current: CommunityState) -> tuple[float, float, CommunityState]:
            log_prior, loss = prior_of(current.tasks)
            log_shares = dirichlet_expected_logs(current.sizes)
            answers = current.answers
            chance, totals = membership_posterior(current.marginals, log_shares)
            table = average_log_rows(answers, current.alpha, chance)
            found = prepared.e_step(log_prior, table, known.gold)
            value = found.log_likelihood + float((given * table).sum())
            # The divergence of q(community, A) from its prior, which these q make the answers' share less the total.
            loss += float((answers.counts * table).sum() - totals[answers.active].sum())
            loss += dirichlet_divergence(current.sizes, self.community_prior)
            height = value - loss + log_density(current.alpha, prior)
            answers = ExpectedAnswers(found.counts + given)
            marginals = log_marginals(answers, current.alpha)
            chance, _ = membership_posterior(marginals, log_shares)
            risen = update_community_alpha(answers, chance, marginals, current.alpha, prior, current.stretch)
            sizes = self.community_prior + chance[answers.active].sum(axis=0)
            return height, value, CommunityState(found.class_counts, answers, risen[0], sizes, *risen[1:])

        votes = prepared.count_against_vote_shares(labels.class_shares, known.gold)
        answers = ExpectedAnswers(votes.counts + given)
        chance = assign_communities_by_agreement(answers.counts, self.n_communities)
        alpha = community_alpha_from_members(answers.counts, chance, prior)
        start = CommunityState(
            votes.class_counts,
            answers,
            alpha,
            self.community_prior + chance.sum(axis=0),
            log_marginals(answers, alpha),
            np.ones(self.n_communities),
        )
        ended = self._climb(start, step, labels)
        last = ended.parameters
        chance, _ = membership_posterior(last.marginals, dirichlet_expected_logs(last.sizes))
        table = average_log_rows(last.answers, last.alpha, chance)
        log_prior, _ = prior_of(last.tasks)
        posterior = np.empty((labels.n_tasks, n_classes))
        prepared.e_step(log_prior, table, known.gold, posterior)
        class_counts = pseudo + last.tasks
        shares = class_counts / class_counts.sum() if known.class_prior is None else known.class_prior
        skill, skill_beta = compute_skill(labels, known, posterior, shares, calibrated=False)
        return Fit(
            posterior=posterior,
            prior=shares,
            confusion=posterior_mean_rows(last.answers.counts, last.alpha, chance),
            skill=skill,
            skill_beta=skill_beta,
            extra={
                "community": chance,
                "alpha": last.alpha,
                "sizes": last.sizes,
                "counts": last.answers.counts,
                "log_table": table,
                "log_prior": log_prior,
            },
        ).attach_climb_history(ended)

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        sizes = self.extra_["sizes"]
        stranger = np.einsum("c,ckl->kl", sizes / sizes.sum(), self.community_confusion_)
        table = np.concatenate([self.extra_["log_table"], np.log(stranger)[None]])
        return predict_new(labels, self.extra_["log_prior"], table)
