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
(found by Minka's fixed point, halved until the bound does not fall). The paper runs expectation propagation.
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
from crowdwise.fitting.family_bases import BayesianAggregator
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.fitting.priors import dirichlet_divergence, dirichlet_expected_logs
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.fitting.variational import (
    compute_skill,
    diagonal_prior,
    make_log_class_share_function,
    predict_new,
)
from crowdwise.kernels import expected_logs

if TYPE_CHECKING:
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["CommunityBcc"]

SHAPE = 2.0  # of the Gamma priors of α: none is drawn to 0
HALVINGS = 6  # of a step of α in logarithms that would lower the bound, before it is given up


@dataclass(frozen=True)
class CommunityState:
    """What an iteration hands to the next.

    Attributes
    ----------
    tasks : (K,)
        Expected number of tasks of each class.
    counts : (M, K, K) [worker, truth, label]
        Expected answers.
    alpha : (C, K, K) [community, truth, label]
        Dirichlet parameters of members' rows.
    sizes : (C,)
        Dirichlet parameters of the communities' shares.
    """

    tasks: FloatArray
    counts: FloatArray
    alpha: FloatArray
    sizes: FloatArray


def assign_communities_by_agreement(counts: FloatArray, n_communities: int) -> FloatArray:
    """Workers (M,) in communities of equal size by their share of right answers; equals stay together: (M, C)."""
    from scipy.stats import rankdata  # takes most of a second to import

    right, total = np.einsum("wkk->w", counts), counts.sum(axis=(1, 2))
    rank = rankdata(np.round((right + 1) / (total + 2), 9)) - 0.5
    place = np.minimum(rank / rank.size * n_communities, n_communities - 1).astype(int)
    groups: FloatArray = np.eye(n_communities)[place]
    return groups


def community_alpha_from_members(counts: FloatArray, chance: FloatArray, prior: FloatArray) -> FloatArray:
    """α (C, K, K) with the mean of the members' answers and the spread of the prior (K, K) [truth, label]."""
    answers = np.einsum("wc,wkl->ckl", chance, counts) + prior
    alpha: FloatArray = answers / answers.sum(axis=2, keepdims=True) * prior.sum(axis=1, keepdims=True)
    return alpha


def membership_posterior(counts: FloatArray, alpha: FloatArray, log_shares: FloatArray) -> tuple[FloatArray, float]:
    """The best q(community) (M, C) given expected answers, and the divergence of q(community, A) from its prior."""
    log_chance = np.empty((counts.shape[0], alpha.shape[0]))
    losses = np.empty_like(log_chance)
    for c, prior in enumerate(alpha):
        table, losses[:, c] = expected_logs(counts + prior, prior[None])
        log_chance[:, c] = log_shares[c] + np.einsum("wkl,wkl->w", counts, table) - losses[:, c]
    log_chance -= logsumexp(log_chance, axis=1, keepdims=True)
    chance = np.exp(log_chance)
    return chance, float((chance * (log_chance - log_shares + losses)).sum())


def expected_log_rows(counts: FloatArray, alpha: FloatArray, chance: FloatArray) -> FloatArray:
    """E[log A] of each worker (M, K, K) [worker, truth, label], averaged over communities."""
    log_table = np.zeros_like(counts)
    for c, prior in enumerate(alpha):
        log_table += chance[:, c, None, None] * expected_logs(counts + prior, prior[None])[0]
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


def update_community_alpha(counts: FloatArray, chance: FloatArray, alpha: FloatArray, prior: FloatArray) -> FloatArray:
    """α of a higher posterior given who is a member, by Minka's fixed point; each community by itself."""
    rate = SHAPE / prior
    risen = np.empty_like(alpha)
    for c, current in enumerate(alpha):
        weight = chance[:, c]

        def log_posterior_of_alpha(trial: FloatArray, weight: FloatArray = weight) -> float:
            cells = (gammaln(trial + counts) - gammaln(trial)).sum(axis=(1, 2))
            mass = trial.sum(axis=1)
            rows = (gammaln(mass) - gammaln(mass + counts.sum(axis=2))).sum(axis=1)
            return float(weight @ (cells + rows)) + log_density(trial, prior)

        mass = current.sum(axis=1)
        up = np.einsum("w,wkl->kl", weight, digamma(current + counts) - digamma(current))
        down = np.einsum("w,wk->k", weight, digamma(mass + counts.sum(axis=2)) - digamma(mass))
        goal = np.log((SHAPE - 1 + current * up) / (rate + down[:, None]))
        before, height = np.log(current), log_posterior_of_alpha(current)
        risen[c] = current
        for halving in range(HALVINGS):
            trial = np.exp(before + 0.5**halving * (goal - before))
            if log_posterior_of_alpha(trial) >= height:
                risen[c] = trial
                break
    return risen


@estimator
class CommunityBcc(BayesianAggregator):
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
    right: float = 4.0
    wrong: float = 1.0
    share_prior: float = 1.0
    community_prior: float = 1.0

    community_ = FittedArray(
        SavedArray("extra/community", "M C", low=0, sums_to_one=True),
        "Probability that a worker belongs to a community, (M, C).",
    )

    @property
    def community_confusion_(self) -> FloatArray:
        """Mean matrix of each community, (C, K, K) [community, truth, label]."""
        self._check_fitted()
        alpha = self.extra_["alpha"]
        rows: FloatArray = alpha / alpha.sum(axis=2, keepdims=True)
        return rows

    def _check(self) -> None:
        check_count("n_communities", self.n_communities)
        for name in ("right", "wrong", "share_prior", "community_prior"):
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
            chance, divergence = membership_posterior(current.counts, current.alpha, log_shares)
            table = expected_log_rows(current.counts, current.alpha, chance)
            found = prepared.e_step(log_prior, table, known.gold)
            value = found.log_likelihood + float((given * table).sum())
            loss += divergence + dirichlet_divergence(current.sizes, self.community_prior)
            height = value - loss + log_density(current.alpha, prior)
            counts = found.counts + given
            chance, _ = membership_posterior(counts, current.alpha, log_shares)
            alpha = update_community_alpha(counts, chance, current.alpha, prior)
            sizes = self.community_prior + chance.sum(axis=0)
            return height, value, CommunityState(found.class_counts, counts, alpha, sizes)

        votes = prepared.count_against_vote_shares(labels.class_shares, known.gold)
        counts = votes.counts + given
        chance = assign_communities_by_agreement(counts, self.n_communities)
        start = CommunityState(
            votes.class_counts,
            counts,
            community_alpha_from_members(counts, chance, prior),
            self.community_prior + chance.sum(axis=0),
        )
        ended = self._climb(start, step, labels)
        last = ended.parameters
        chance, _ = membership_posterior(last.counts, last.alpha, dirichlet_expected_logs(last.sizes))
        table = expected_log_rows(last.counts, last.alpha, chance)
        log_prior, _ = prior_of(last.tasks)
        posterior = np.empty((labels.n_tasks, n_classes))
        prepared.e_step(log_prior, table, known.gold, posterior)
        class_counts = pseudo + last.tasks
        shares = class_counts / class_counts.sum() if known.class_prior is None else known.class_prior
        skill, skill_beta = compute_skill(labels, known, posterior, shares, calibrated=False)
        return Fit(
            posterior=posterior,
            prior=shares,
            confusion=posterior_mean_rows(last.counts, last.alpha, chance),
            skill=skill,
            skill_beta=skill_beta,
            extra={
                "community": chance,
                "alpha": last.alpha,
                "sizes": last.sizes,
                "counts": last.counts,
                "log_table": table,
                "log_prior": log_prior,
            },
        ).attach_climb_history(ended)

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        sizes = self.extra_["sizes"]
        stranger = np.einsum("c,ckl->kl", sizes / sizes.sum(), self.community_confusion_)
        table = np.concatenate([self.extra_["log_table"], np.log(stranger)[None]])
        return predict_new(labels, self.extra_["log_prior"], table)
