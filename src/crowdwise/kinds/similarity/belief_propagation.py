"""Clusters of items by belief propagation over the pairs that were asked about.

The model is `planted_partition`'s. Messages between the two items of a pair give the probability that they are in one
cluster, rates and shares are learnt from these, and so on in turns.

A. Decelle, F. Krzakala, C. Moore and L. Zdeborová (2011), "Asymptotic analysis of the stochastic block model for
modular networks and its algorithmic applications", Physical Review E.

| equation | here |
|---|---|
| message i → j [k] ∝ π[k] Π over neighbours l ≠ j of (1 + (e^w - 1) m(l → i)[k]) | `kernels.pair_messages` |
| P(same) of a pair = e^w c / (1 + (e^w - 1) c), c = Σ m(i → j)[k] m(j → i)[k] | `run_messages` |
| log P(answers) ≈ Σ log Z_i - Σ log (1 + (e^w - 1) c) + log P(answers if all differ) (Bethe) | `run_messages` |

On a tree both are exact. Numbers of clusters may be exchanged, and in small groups messages know no difference between
them: `settle` therefore joins items by the probabilities of their pairs, names one item of each cluster as its centre,
and passes messages once more with the centres held apart. What an item's confidence is: the probability that it is with
the centre of its cluster, if the centres are where they are. Departures: no field of pairs that are absent, since pairs
that were not asked about say nothing; rates of workers. Damping was chosen on simulated crowds by whether messages
settle, and the default of the kind by the adjusted Rand index on simulated crowds, whose truth was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.em import warn_not_converged
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.progress_bar import show_progress
from crowdwise.kernels.pair_messages import move_items, pass_messages
from crowdwise.kinds.model import Found
from crowdwise.kinds.similarity.pair_evidence import CERTAIN, lay_out_evidence
from crowdwise.kinds.similarity.partition_model import HELD, POOLED, PartitionModel
from crowdwise.kinds.similarity.planted_partition import (
    choose_number,
    expand_shares,
    log_prior_of,
    start_state,
    update_parameters,
    update_shares,
    weigh,
)

if TYPE_CHECKING:
    from crowdwise.kinds.similarity.answers import Similarities
    from crowdwise.kinds.similarity.gold_links import GoldLinks
    from crowdwise.kinds.similarity.pair_evidence import Evidence, Rates
    from crowdwise.kinds.similarity.planted_partition import PartitionState
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["PairBeliefPropagation"]

DAMPING = ((80, 0.9), (40, 0.75), (15, 0.5))  # from which pass on, and how much
ROUGH, ROUGH_PASSES = 1e-3, 50  # change of messages, and passes, of fits that only weigh a number of clusters
SMALL_GROUP = 12  # items of a group that may have as many clusters as items, whatever K is
LEVEL, LEVEL_PASSES = 1e-3, 20  # change of the objective, in shares of `tol`, over so many passes
SETTLING = 50  # passes with the centres held apart, at most


@dataclass(frozen=True)
class MessageFit:
    """State, the evidence for its number of clusters, and how the passes went."""

    state: PartitionState
    evidence: float
    objective: FloatArray
    converged: bool


def damp(number: int) -> float:
    """Share of an old message that stays in the pass of this number: more, the longer messages go to and fro.

    Messages about answers that contradict each other in a small group may do so for ever.
    """
    return next((share for start, share in DAMPING if number >= start), 0.0)


def run_messages(
    evidence: Evidence, rates: Rates, prior: FloatArray, message: FloatArray, belief: FloatArray, damping: float = 0.0
) -> tuple[FloatArray, float, float]:
    """One pass; the pairs' probabilities (P,), the log-likelihood by Bethe's approximation, and the mean change."""
    factor = np.expm1(np.clip(evidence.pair_weights(rates), -CERTAIN, CERTAIN))
    change, total, meeting = pass_messages(evidence.edges, factor, prior, message, belief, damping)
    together = (1 + factor) * meeting / (1 + factor * meeting)
    total -= float(np.log1p(factor * meeting).sum())
    return together, total + evidence.log_likelihood_if_different(rates), change


def fit_messages(
    evidence: Evidence, n_clusters: int, strength: float, max_iter: int, tol: float, seed: int, name: str
) -> MessageFit:
    """Messages, rates and shares for so many clusters, in turns until messages change no more."""
    state = start_state(evidence, n_clusters, np.random.default_rng(seed))
    belief = np.where(evidence.pinned[:, None] >= 0, expand_shares(evidence, state.shares), state.belief)
    message = belief[evidence.edges.neighbour]
    values: list[float] = []
    converged, likelihood = False, 0.0
    with show_progress(name, max_iter) as advance:
        for number in range(HELD + POOLED + max_iter):
            prior = expand_shares(evidence, state.shares)
            together, likelihood, change = run_messages(
                evidence, state.rates, prior, message, belief, damp(number - HELD - POOLED)
            )
            state = replace(state, together=together, belief=belief)
            if number >= HELD + POOLED:
                values.append(likelihood + log_prior_of(state))
                advance(values[-1])
                converged = len(values) > 1 and (change <= tol or _is_level(values, tol * evidence.pair.size))
                if converged:
                    break
            if number >= HELD and number < HELD + POOLED + max_iter - 1:
                state = update_parameters(evidence, state, strength, pooled=number < HELD + POOLED - 1)
    return MessageFit(state, weigh(evidence, state, likelihood), np.array(values), converged)


def _is_level(values: list[float], tol: float) -> bool:
    """Whether the objective has come to rest, though messages may still turn about what it does not tell apart."""
    return len(values) > LEVEL_PASSES and max(values[-LEVEL_PASSES:]) - min(values[-LEVEL_PASSES:]) <= LEVEL * tol


def settle(
    evidence: Evidence, rates: Rates, n_clusters: int, together: FloatArray, belief: FloatArray, prior: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Cluster (N,) of each item within its group, and the probability of it.

    Parameters
    ----------
    prior : (N, K)
        Of groups in which an item's cluster is known; there these are the clusters.
    """
    cluster = belief.argmax(axis=1)
    known = np.zeros(evidence.group_sizes.size, np.bool_)
    known[evidence.group[evidence.pinned >= 0]] = True
    free, group = ~known[evidence.group], evidence.group.astype(np.int64)
    small = evidence.group_sizes <= SMALL_GROUP
    local = np.unique(group * n_clusters + cluster, return_inverse=True)[1]
    weight = (2 * together - 1)[evidence.edges.pair]
    weight[~free[evidence.edges.neighbour]] = 0.0  # items of groups with known ones stay: no move is worth anything
    most = np.where(small, evidence.group_sizes, n_clusters)
    for _ in range(SETTLING):
        if not move_items(evidence.edges, weight, local, group, most):
            break
    cluster = np.where(free, _number_in_groups(local, evidence.group), cluster)
    wider = int(cluster.max(initial=0)) + 1 - n_clusters
    if wider > 0:
        n_clusters += wider
        belief, prior = (np.pad(each, ((0, 0), (0, wider))) for each in (belief, prior))
    sure = np.zeros((evidence.n_items, n_clusters))
    sure[np.arange(evidence.n_items), cluster] = 1.0
    held = np.where(free[:, None], update_shares(evidence, sure)[evidence.group], prior)
    centre = _find_centres(evidence, np.where(free, local, -1), together)
    held[centre] = sure[centre]
    # Where an item's prior rules a cluster out, its belief does.
    message = (0.9 * sure + 0.1 / n_clusters)[evidence.edges.neighbour]
    found = np.where(free[:, None], sure, belief)
    for number in range(SETTLING):
        _, _, change = run_messages(evidence, rates, held, message, found, damp(number))
        if change < 1e-6:
            break
    cluster = found.argmax(axis=1)
    confidence = found.max(axis=1)
    return cluster, _centre_confidence(evidence, cluster, confidence, centre, together)


def _number_in_groups(local: IntArray, group: IntArray) -> IntArray:
    """Numbers of clusters, from 0 in each group."""
    _, first, codes = np.unique(local, return_index=True, return_inverse=True)
    owner = group[first]  # each cluster's group
    order = np.argsort(owner, kind="stable")
    start = np.searchsorted(owner[order], owner[order], side="left")
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size) - start
    numbered: IntArray = rank[codes]
    return numbered


def _find_centres(evidence: Evidence, cluster: IntArray, together: FloatArray) -> IntArray:
    """The item of each cluster (not -1) with the most pairs that are probably of one cluster."""
    first, second = evidence.graph.first, evidence.graph.second
    value = np.where(cluster[first] == cluster[second], together, 0.0)
    pull = np.bincount(first, value, evidence.n_items) + np.bincount(second, value, evidence.n_items)
    order = np.lexsort((np.arange(pull.size), -np.round(pull, 9), cluster))
    sorted_cluster = cluster[order]
    leads = np.concatenate([[True], sorted_cluster[1:] != sorted_cluster[:-1]]) & (sorted_cluster >= 0)
    return np.asarray(order[leads], np.int64)


def _centre_confidence(
    evidence: Evidence, cluster: IntArray, confidence: FloatArray, centre: IntArray, together: FloatArray
) -> FloatArray:
    """The same, with centres as sure as the others of their cluster are on average; alone, as they are alone."""
    is_centre = np.zeros(evidence.n_items, np.bool_)
    is_centre[centre] = True
    width = int(cluster.max(initial=0)) + 1
    code = np.unique(evidence.group.astype(np.int64) * width + cluster, return_inverse=True)[1]
    others = np.bincount(code, ~is_centre)
    means = np.bincount(code, np.where(is_centre, 0.0, confidence)) / np.maximum(others, 1)
    nearest = np.zeros(evidence.n_items)
    np.maximum.at(nearest, evidence.graph.first, together)
    np.maximum.at(nearest, evidence.graph.second, together)
    found: FloatArray = confidence.copy()
    found[centre] = np.where(others[code[centre]] > 0, means[code[centre]], 1 - nearest[centre])
    return np.minimum(found, 1.0)


@estimator
class PairBeliefPropagation(PartitionModel):
    """Clusters by belief propagation, with a sensitivity and a specificity of each worker.

    Facts
    -----
    Assumes: items fall into clusters, and how a worker errs depends only on whether two items are in one
    Fails with: fewer pairs than the number of clusters asks for, most workers adversaries, hundreds of clusters joined
    Cost: O(pairs × clusters) a pass, and so much memory
    Paper: Decelle et al. 2011, Physical Review E

    Parameters
    ----------
    tol : float
        Stop when a pass changes messages by no more than this on average, or twenty the objective by a thousandth of it
        per answer.
    """

    slug = "belief-propagation"

    tol: float = 1e-5

    def _fit(self, answers: Similarities, gold: GoldLinks | None) -> Found:
        evidence = lay_out_evidence(answers, gold)
        fits: dict[int, MessageFit] = {}

        def fit(number: int) -> float:
            # To choose a number of clusters, rough fits will do.
            rough = (min(ROUGH_PASSES, self.max_iter), max(ROUGH, self.tol))
            passes, tol = rough if self.n_clusters is None else (self.max_iter, self.tol)
            fits[number] = fit_messages(evidence, number, self.strength, passes, tol, self.random_state, self.slug)
            return fits[number].evidence

        number, real = choose_number(evidence, self.n_clusters, fit)
        best = fits[number]
        if self.n_clusters is None:
            best = fit_messages(evidence, number, self.strength, self.max_iter, self.tol, self.random_state, self.slug)
        if not best.converged:
            warn_not_converged(
                f"{self.slug} stopped after {self.max_iter} iterations with messages still changing. Raise max_iter, "
                "or raise tol."
            )
        state = best.state
        prior = expand_shares(evidence, state.shares)
        found = settle(evidence, state.rates, number, state.together, state.belief, prior)
        arrays = self._arrays(evidence, state, found, number, real)
        return Found(arrays, best.objective, len(best.objective), best.converged)
