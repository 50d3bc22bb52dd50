"""Items in at most K clusters, and workers who say whether two items are in one: the model that two methods fit.

The generative story. Each group of items that pairs join has shares π of K clusters, with the prior Dirichlet(1 + α).
Each item's cluster is drawn from its group's shares. Worker w says "same" of items of one cluster with probability
a[w], of items of different clusters with probability b[w]; both have Beta priors about the crowd's rates. It is the
planted partition of the stochastic block model, with edges of two sorts and rates of each worker, where pairs that were
not asked about say nothing.

| equation | here |
|---|---|
| shares π = (α + Σ beliefs) / (K α + N) of each group | `update_shares` |
| rates | `pair_evidence.update_rates` |
| evidence: log P(answers; θ) + log P(counts) - log P(counts; θ) (Cheeseman and Stutz 1996) | `weigh` |

Rates are learnt in three steps: held at those of a fair crowd while clusters appear, then one pair of rates for all
workers, then those of each. The priors stay where the second step leaves them, so that the third climbs one objective.
K, where not given, is the number of the highest evidence, log P(answers) with θ (rates and shares) integrated out:
first of 1, 2, 3, 4, 6, 8, 12, … until three in a row were worse, then of its neighbours. This looks at no truth.
Clusters that are too many stay empty as long as they are not several times too many. In groups of a few items the
evidence, which messages in short loops give, may favour too few.

Chosen with a look at the truth of simulated crowds: α (0.5 made small groups all one cluster) and that a small group
may have more clusters than K. The strength of the rates' prior was not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, gammaln, xlogy

from crowdwise.kinds.similarity.pair_evidence import (
    Rates,
    RatesPrior,
    count_answers,
    evidence_beyond_mode,
    log_prior,
    pool_rates,
    update_rates,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.similarity.pair_evidence import Evidence
    from crowdwise.labels.types import FloatArray

__all__ = [
    "PartitionState",
    "choose_number",
    "draw_beliefs",
    "expand_shares",
    "log_prior_of",
    "mix_with_chance",
    "start_state",
    "update_parameters",
    "update_shares",
    "weigh",
]

FAIR = 0.75  # right answers of a worker of whom nothing is known yet
SHARE_ANSWERS = 10.0  # α: items that the prior adds to each cluster of a group; few would make small groups all one
LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
WORSE = 3  # numbers of clusters in a row that are worse than the best before the search ends


@dataclass(frozen=True)
class PartitionState:
    """Parameters and what is believed of the pairs.

    Attributes
    ----------
    shares : (G, K)
        Shares of the clusters in each group.
    together : (P,)
        Probability that the items of each pair are in one cluster.
    belief : (N, K)
        Probabilities of each item's cluster.
    prior
        Of the rates; None as long as all workers share them.
    """

    rates: Rates
    shares: FloatArray
    together: FloatArray
    belief: FloatArray
    prior: RatesPrior | None = None

    @property
    def n_clusters(self) -> int:
        """Number of clusters that a group may have."""
        return int(self.shares.shape[1])


def draw_beliefs(evidence: Evidence, n_clusters: int, generator: np.random.Generator) -> FloatArray:
    """Random beliefs (N, K) to begin with, so that clusters can become different."""
    drawn: FloatArray = generator.dirichlet(np.ones(n_clusters), evidence.n_items)
    return drawn


def start_state(evidence: Evidence, n_clusters: int, generator: np.random.Generator) -> PartitionState:
    """Random beliefs, even shares, and workers of a fair crowd."""
    fair = np.full(evidence.n_workers, FAIR)
    shares = np.full((evidence.group_sizes.size, n_clusters), 1 / n_clusters)
    belief = draw_beliefs(evidence, n_clusters, generator)
    return PartitionState(Rates(fair, 1 - fair), shares, np.zeros(evidence.graph.n_pairs), belief)


def expand_shares(evidence: Evidence, shares: FloatArray) -> FloatArray:
    """Probabilities of each item's cluster (N, K) before any answer: its group's shares, or its known cluster."""
    found: FloatArray = shares[evidence.group]
    pinned = np.flatnonzero(evidence.pinned >= 0)
    found[pinned] = 0.0
    found[pinned, evidence.pinned[pinned]] = 1.0
    return found


def update_shares(evidence: Evidence, belief: FloatArray) -> FloatArray:
    """Shares of the clusters of each group (G, K)."""
    sums = _group_sums(evidence, belief) + SHARE_ANSWERS
    shares: FloatArray = sums / sums.sum(axis=1, keepdims=True)
    return shares


def update_parameters(
    evidence: Evidence, state: PartitionState, strength: float, *, pooled: bool = False
) -> PartitionState:
    """Rates and shares of the highest expected log-density; one pair of rates for all workers while `pooled`."""
    counts = count_answers(evidence, state.together)
    shares = update_shares(evidence, state.belief)
    if pooled:
        rates = Rates(*(np.full(evidence.n_workers, yes / (yes + no)) for yes, no in pool_rates(counts, strength)))
        return replace(state, rates=rates, shares=shares)
    prior = state.prior or pool_rates(counts, strength)
    return replace(state, rates=update_rates(counts, prior), shares=shares, prior=prior)


def log_prior_of(state: PartitionState) -> float:
    """Log-density of rates and shares under their priors."""
    n_groups, k = state.shares.shape
    constant = float(gammaln(k * (1 + SHARE_ANSWERS)) - k * gammaln(1 + SHARE_ANSWERS))
    shares: float = SHARE_ANSWERS * float(np.log(state.shares).sum()) + n_groups * constant
    return shares if state.prior is None else shares + log_prior(state.rates, state.prior)


def weigh(evidence: Evidence, state: PartitionState, log_likelihood: float) -> float:
    """Log-probability of the answers with all parameters integrated out, approximately."""
    if state.prior is None:
        return log_likelihood
    gain = evidence_beyond_mode(count_answers(evidence, state.together), state.rates, state.prior)
    sums = _group_sums(evidence, state.belief)
    one = 1 + SHARE_ANSWERS
    k, sizes = state.n_clusters, sums.sum(axis=1)
    gain += float(
        (gammaln(k * one) - gammaln(k * one + sizes) + (gammaln(one + sums) - gammaln(one)).sum(axis=1)).sum()
    )
    return log_likelihood + gain - float(xlogy(sums, state.shares).sum())


def choose_number(evidence: Evidence, n_clusters: int | None, fit: Callable[[int], float]) -> tuple[int, float]:
    """How many clusters a group may have, and the probability that there are clusters that explain anything.

    The number is the one given, if there are so many items, or that of the most evidence. If all items were in one
    cluster, or no two, only how often each worker says "same" would explain the answers: where this has more evidence
    than any clusters, and most answers say that items differ, the clusters found mean little.

    Parameters
    ----------
    fit
        Gives the evidence of a fit with so many.
    """
    least = max(int(evidence.pinned.max(initial=-1)) + 1, 1)
    largest = max(int(evidence.group_sizes.max(initial=1)), least)
    found: dict[int, float] = {}
    doubtful = least == 1 and largest > 1 and 2 * int(evidence.same.sum()) < evidence.same.size
    if doubtful:
        least = 2
    if n_clusters is not None:
        best = max(min(n_clusters, largest), least)
        found[best] = fit(best)
    else:
        best = _climb_ladder(least, largest, found, fit)
    return best, float(expit(found[best] - fit(1))) if doubtful else 1.0


def mix_with_chance(values: FloatArray, real: float, n_clusters: int) -> FloatArray:
    """Probabilities, less sure as far as clusters may explain nothing: then each cluster is as probable as another."""
    return real * values + (1 - real) / n_clusters


def _climb_ladder(least: int, largest: int, found: dict[int, float], fit: Callable[[int], float]) -> int:
    best, worse = least, 0
    for number in sorted({least, min(largest, LADDER[-1]), *(each for each in LADDER if least < each < largest)}):
        found[number] = fit(number)
        best, worse = (number, 0) if found[number] >= found[best] else (best, worse + 1)
        if worse == WORSE:
            break
    while True:  # the numbers between
        near = [each for each in (best - 1, best + 1) if least <= each <= largest and each not in found]
        for number in near:
            found[number] = fit(number)
        following = max([best, *near], key=lambda number: (found[number], -number))
        if following == best:
            return best
        best = following


def _group_sums(evidence: Evidence, belief: FloatArray) -> FloatArray:
    n_groups = evidence.group_sizes.size
    return np.column_stack([np.bincount(evidence.group, column, n_groups) for column in belief.T])
