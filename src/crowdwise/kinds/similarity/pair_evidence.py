"""What answers say of pairs of items, given how workers answer, and how workers answer, given the pairs.

Worker w says "same" of two items of one cluster with probability a[w], their sensitivity, and of two items of different
clusters with probability b[w], one less their specificity. Only log-odds count for the items:

| equation | here |
|---|---|
| λ of an answer: log a / b if "same" was said, else log (1 - a) / (1 - b) | `answer_weights` |
| weight of a pair: Σ λ of its answers | `pair_weights` |
| log P(answers) if all pairs were different: Σ log b or log (1 - b) | `log_likelihood_if_different` |
| a = (s μ + Σ P(same) said) / (s + Σ P(same)), b likewise: mode of the Beta prior of mean μ | `update_rates` |

The prior is worth s answers, and its mean μ is the crowd's rate: `pool_rates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betaln, xlogy

from crowdwise.kernels.pair_messages import lay_out_pairs
from crowdwise.kinds.pair_graph import PairGraph

if TYPE_CHECKING:
    from crowdwise.kernels.pair_messages import PairEdges
    from crowdwise.kinds.similarity.answers import Similarities
    from crowdwise.kinds.similarity.gold_links import GoldLinks
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "CERTAIN",
    "Counts",
    "Evidence",
    "Rates",
    "RatesPrior",
    "count_answers",
    "evidence_beyond_mode",
    "lay_out_evidence",
    "log_prior",
    "pool_rates",
    "update_rates",
]

CERTAIN = 30.0  # log-odds of a known pair, and the largest of any pair in products: e^-30 is still apart from 0

# Answers "same" and "different" that are added to those of the whole crowd about items of one cluster, and of others:
# otherwise one pair alone, found different, might as well be the same to workers who are always wrong.
ADDED = ((3.0, 1.0), (1.0, 3.0))


class Rates(NamedTuple):
    """How often each worker (M,) says "same" of items of one cluster, and of items of different ones."""

    same: FloatArray
    different: FloatArray


class RatesPrior(NamedTuple):
    """Beta priors of the two rates: answers "same" and "different" that each is worth."""

    same: tuple[float, float]
    different: tuple[float, float]


class Counts(NamedTuple):
    """Expected answers "same" and "different" of each worker, (M, 2), about pairs of one cluster, and of others."""

    same: FloatArray
    different: FloatArray


@dataclass(frozen=True)
class Evidence:
    """Answers about pairs, with items in the order of their names.

    Attributes
    ----------
    item : (N,)
        Position among the answers' items of each item here.
    graph
        The pairs that were asked about or are known, of items as they are here.
    pair, worker, same : (n_answers,)
        Each answer: its pair, who gave it, and whether they said "same".
    group : (N,)
        Group of each item; nothing is known of pairs of different groups.
    known : (P,)
        Log-odds of pairs that are known, 0 for others.
    pinned : (N,)
        Known cluster of each item from 0, or -1.
    """

    item: IntArray
    graph: PairGraph
    pair: IntArray
    worker: IntArray
    same: BoolArray
    n_workers: int
    group: IntArray
    known: FloatArray
    pinned: IntArray

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.item.size)

    @cached_property
    def edges(self) -> PairEdges:
        """The pairs, twice each, sorted by item."""
        return lay_out_pairs(self.graph.first, self.graph.second, self.n_items)

    @cached_property
    def group_sizes(self) -> IntArray:
        """Number of items in each group."""
        return np.bincount(self.group)

    def answer_weights(self, rates: Rates) -> FloatArray:
        """Log-odds that each answer (n,) gives to "the items are in one cluster"."""
        said, other = np.log(rates.same / rates.different), np.log((1 - rates.same) / (1 - rates.different))
        return np.where(self.same, said[self.worker], other[self.worker])

    def pair_weights(self, rates: Rates) -> FloatArray:
        """Log-odds that the answers about each pair (P,) give to "the items are in one cluster"."""
        return self.known + np.bincount(self.pair, self.answer_weights(rates), self.graph.n_pairs)

    def log_likelihood_if_different(self, rates: Rates) -> float:
        """Log-probability of all answers if no two items were in one cluster."""
        said, other = np.log(rates.different), np.log1p(-rates.different)
        return float(np.where(self.same, said[self.worker], other[self.worker]).sum())


def lay_out_evidence(answers: Similarities, gold: GoldLinks | None = None) -> Evidence:
    """Answers, and what is known beforehand, with items in the order of their names."""
    names = np.asarray(answers.items.cast("string").to_pylist(), object)
    item = np.argsort(names, kind="stable")
    rank = np.empty_like(item)
    rank[item] = np.arange(item.size)
    left, right, same = (np.empty(0, np.int64),) * 3 if gold is None else (rank[gold.left], rank[gold.right], gold.same)
    graph = PairGraph.of(
        np.concatenate([rank[answers.left], left]), np.concatenate([rank[answers.right], right]), item.size
    )
    n = answers.n_answers
    known = np.zeros(graph.n_pairs)
    known[graph.pair[n:]] = np.where(same, CERTAIN, -CERTAIN)
    pinned = np.full(item.size, -1, np.int64) if gold is None else gold.cluster[item]
    fixed = np.flatnonzero(pinned >= 0)  # how these belong together is known
    joined = PairGraph.of(
        np.concatenate([graph.first, fixed[:-1]]), np.concatenate([graph.second, fixed[1:]]), item.size
    )
    return Evidence(
        item, graph, graph.pair[:n], answers.worker, answers.same, answers.n_workers, joined.group, known, pinned
    )


def count_answers(evidence: Evidence, together: FloatArray) -> Counts:
    """Expected answers of each worker, where each pair (P,) is of one cluster with this probability."""
    chance = together[evidence.pair]

    def count(weights: FloatArray) -> FloatArray:
        said = np.bincount(evidence.worker, weights * evidence.same, evidence.n_workers)
        return np.column_stack([said, np.bincount(evidence.worker, weights, evidence.n_workers) - said])

    return Counts(count(chance), count(1 - chance))


def pool_rates(counts: Counts, strength: float) -> RatesPrior:
    """Priors about the rates of the crowd as a whole, with a few answers added, most of them right.

    They are worth `strength` answers, but no more than the crowd has given: nothing is known of a rate without answers.
    """
    found = []
    for each, added in zip(counts, ADDED, strict=True):
        yes, no = (float(total) + more for total, more in zip(each.sum(axis=0), added, strict=True))
        worth = min(strength, yes + no) / (yes + no)
        found.append((worth * yes, worth * no))
    return RatesPrior(*found)


def update_rates(counts: Counts, prior: RatesPrior) -> Rates:
    """Modes of the rates' posteriors: Beta(1 + prior's answers + counted ones)."""
    found = []
    for which in ("same", "different"):
        said, (yes, no) = getattr(counts, which), getattr(prior, which)
        found.append((said[:, 0] + yes) / (said.sum(axis=1) + yes + no))
    return Rates(*found)


def log_prior(rates: Rates, prior: RatesPrior) -> float:
    """Log-density of all rates under their priors, Beta(1 + prior's answers)."""
    total = 0.0
    for which in ("same", "different"):
        rate, (yes, no) = getattr(rates, which), getattr(prior, which)
        total += float((yes * np.log(rate) + no * np.log1p(-rate)).sum()) - rate.size * float(betaln(1 + yes, 1 + no))
    return total


def evidence_beyond_mode(counts: Counts, rates: Rates, prior: RatesPrior) -> float:
    """Log-probability of the counted answers with all rates integrated out, less that at the given rates."""
    total = 0.0
    for which in ("same", "different"):
        said, rate, (yes, no) = getattr(counts, which), getattr(rates, which), getattr(prior, which)
        total += float((betaln(1 + yes + said[:, 0], 1 + no + said[:, 1]) - betaln(1 + yes, 1 + no)).sum())
        total -= float((xlogy(said[:, 0], rate) + xlogy(said[:, 1], 1 - rate)).sum())
    return total
