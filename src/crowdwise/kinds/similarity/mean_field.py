"""Clusters of items by a mean field: beliefs about each item, as if items were independent given the answers.

The model is `planted_partition`'s. What climbs is the lower bound of the log-probability of the answers,

    Σ_i Σ_k q[i, k] log (π[k] / q[i, k]) + Σ over pairs of w q[i]·q[j] + log P(answers if all differ) + log priors,

where w is the weight of a pair: its log-odds. Items are visited one after the other, and each belief is the best one
given the others, so that neither a pass nor an update of rates and shares lowers the bound.

| equation | here |
|---|---|
| q[i, k] ∝ π[k] exp(Σ over neighbours of w q[j, k]) | `kernels.pair_messages.pass_mean_field` |
| the bound | `lower_bound` |

J. Daudin, F. Picard and S. Robin (2008), "A mixture model for random graphs", Statistics and Computing. Departures:
pairs that were not asked about say nothing; rates of workers. Beliefs are surer than those of belief propagation, and a
climb ends more often in a poor optimum: the highest of several starts is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_count
from crowdwise.kernels.pair_messages import pass_mean_field
from crowdwise.kinds.model import Found
from crowdwise.kinds.similarity.pair_evidence import lay_out_evidence
from crowdwise.kinds.similarity.partition_model import HELD, POOLED, PartitionModel
from crowdwise.kinds.similarity.planted_partition import (
    choose_number,
    expand_shares,
    log_prior_of,
    start_state,
    update_parameters,
    weigh,
)

if TYPE_CHECKING:
    from crowdwise.fitting.em import Climb
    from crowdwise.kinds.similarity.answers import Similarities
    from crowdwise.kinds.similarity.gold_links import GoldLinks
    from crowdwise.kinds.similarity.pair_evidence import Evidence
    from crowdwise.kinds.similarity.planted_partition import PartitionState
    from crowdwise.labels.types import FloatArray

__all__ = ["PairMeanField"]

NEVER = -1e3  # logarithm of a share that is 0


def lower_bound(evidence: Evidence, state: PartitionState) -> float:
    """The bound at a state, without the priors of rates and shares."""
    q, prior = state.belief, expand_shares(evidence, state.shares)
    entropy = float((xlogy(q, prior) - xlogy(q, q)).sum())
    joined = float(evidence.pair_weights(state.rates) @ _meet(evidence, q))
    return entropy + joined + evidence.log_likelihood_if_different(state.rates)


def pass_beliefs(evidence: Evidence, state: PartitionState) -> PartitionState:
    """The state with every belief renewed."""
    belief = state.belief.copy()
    prior = expand_shares(evidence, state.shares)
    log_prior = np.log(prior, out=np.full(prior.shape, NEVER), where=prior > 0)
    weight = evidence.pair_weights(state.rates)[evidence.edges.pair]
    pass_mean_field(evidence.edges, weight, log_prior, belief)
    belief[evidence.pinned >= 0] = prior[evidence.pinned >= 0]
    return replace(state, belief=belief, together=_meet(evidence, belief))


def warm_up(evidence: Evidence, state: PartitionState, strength: float) -> PartitionState:
    """Passes at fair rates, then at the crowd's; the state in which each worker has their own rates and prior."""
    pinned = evidence.pinned[:, None] >= 0
    state = replace(state, belief=np.where(pinned, expand_shares(evidence, state.shares), state.belief))
    for number in range(HELD + POOLED):
        state = pass_beliefs(evidence, state)
        if number >= HELD:
            state = update_parameters(evidence, state, strength, pooled=number < HELD + POOLED - 1)
    return state


def _meet(evidence: Evidence, belief: FloatArray) -> FloatArray:
    """Probability that the items of each pair (P,) are in one cluster."""
    met: FloatArray = np.einsum("pk,pk->p", belief[evidence.graph.first], belief[evidence.graph.second])
    return met


@estimator
class PairMeanField(PartitionModel):
    """Clusters by a mean field, with a sensitivity and a specificity of each worker.

    Facts
    -----
    Assumes: items fall into clusters, and how a worker errs depends only on whether two items are in one
    Fails with: few pairs for each item, where its beliefs are too sure; hundreds of clusters joined
    Cost: O(pairs × clusters) a pass
    Paper: Daudin et al. 2008, Statistics and Computing

    Parameters
    ----------
    n_starts : int, at least 1
        Random starts, of which the highest bound is kept.
    """

    slug = "mean-field"
    climbs = True

    n_starts: int = 4
    tol: float = 1e-7

    def _check(self) -> None:
        super()._check()
        check_count("n_starts", self.n_starts)

    def _fit(self, answers: Similarities, gold: GoldLinks | None) -> Found:
        evidence = lay_out_evidence(answers, gold)
        fits: dict[int, Climb[PartitionState]] = {}

        def step(state: PartitionState) -> tuple[float, float, PartitionState]:
            likelihood = lower_bound(evidence, state)
            following = update_parameters(evidence, pass_beliefs(evidence, state), self.strength)
            return likelihood + log_prior_of(state), likelihood, following

        # Whole fits, though only their evidence is wanted: among adversaries the best climb may be flat for a hundred
        # passes before it rises, and cut short it loses to fewer clusters.
        def fit(number: int) -> float:
            generator = np.random.default_rng(self.random_state)
            starts = (
                warm_up(evidence, start_state(evidence, number, generator), self.strength)
                for _ in range(self.n_starts if number > 1 else 1)
            )
            fits[number] = climb(starts, step, max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug)
            return weigh(evidence, fits[number].parameters, float(fits[number].log_likelihood[-1]))

        number, real = choose_number(evidence, self.n_clusters, fit)
        found = fits[number]
        state = found.parameters
        best = state.belief.argmax(axis=1), state.belief.max(axis=1)
        arrays = self._arrays(evidence, state, best, number, real)
        return Found(arrays, found.objective, found.n_iter, found.converged)
