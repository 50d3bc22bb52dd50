"""What most workers said of each pair, and clusters from that alone: what a model of the workers must beat.

| method | clusters |
|---|---|
| `components` | items joined by pairs of which most workers said "same", directly or through others |
| `correlation-clustering` | those that agree with the most answers: items move, then whole clusters, while any gains |

The probability that a pair is the same is (same + 1/2) / (answers + 1). Of a draw, `components` says different. An
item's confidence is the mean, over its pairs, of the probability of what the clusters say of them.

N. Bansal, A. Blum and S. Chawla (2004), "Correlation clustering", Machine Learning. The moves are those of V. Blondel
et al. (2008), "Fast unfolding of communities in large networks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.kernels.pair_messages import lay_out_pairs, move_items
from crowdwise.kinds.model import Found
from crowdwise.kinds.pair_graph import PairGraph
from crowdwise.kinds.similarity.model import SimilarityModel, arrays_of
from crowdwise.kinds.similarity.pair_evidence import lay_out_evidence

if TYPE_CHECKING:
    from crowdwise.kinds.similarity.answers import Similarities
    from crowdwise.kinds.similarity.pair_evidence import Evidence
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ConnectedComponents", "CorrelationClustering", "cluster_by_weights"]

PASSES = 100  # over the items, and over the clusters, at most


def count_votes(evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Answers "same" less those "different" of each pair (P,), and the probability of "same"."""
    n_pairs = evidence.graph.n_pairs
    said, every = np.bincount(evidence.pair, evidence.same, n_pairs), np.bincount(evidence.pair, minlength=n_pairs)
    return (2 * said - every).astype(np.float64), (said + 0.5) / (every + 1)


def cluster_by_weights(first: IntArray, second: IntArray, weight: FloatArray, n_items: int) -> IntArray:
    """Clusters (N,) by local search for the highest sum of weights (P,) over pairs within clusters."""
    cluster = np.arange(n_items)
    while True:
        _move_until_settled(first, second, weight, cluster)
        cluster = np.unique(cluster, return_inverse=True)[1]
        size = int(cluster.max(initial=-1)) + 1
        between = PairGraph.of(cluster[first], cluster[second], size)
        apart = between.first != between.second
        sums = np.bincount(between.pair, weight, between.n_pairs)
        merged = np.arange(size)
        if not _move_until_settled(between.first[apart], between.second[apart], sums[apart], merged):
            return cluster
        cluster = merged[cluster]


def _move_until_settled(first: IntArray, second: IntArray, weight: FloatArray, cluster: IntArray) -> int:
    edges = lay_out_pairs(first, second, cluster.size)
    group, most = np.zeros(cluster.size, np.int64), np.array([cluster.size])
    moved = 0
    for _ in range(PASSES):
        now = move_items(edges, weight[edges.pair], cluster, group, most)
        moved += now
        if not now:
            break
    return moved


class VotedClusters(SimilarityModel):
    """Base of methods that make clusters from votes."""

    def _fit(self, answers: Similarities, gold: None) -> Found:  # noqa: ARG002
        evidence = lay_out_evidence(answers)
        votes, chance = count_votes(evidence)
        first, second = evidence.graph.first, evidence.graph.second
        cluster = self._join(first, second, votes, evidence.n_items)
        said = np.where(cluster[first] == cluster[second], chance, 1 - chance)
        n = evidence.n_items
        counts = np.bincount(first, minlength=n) + np.bincount(second, minlength=n)
        confidence = (np.bincount(first, said, n) + np.bincount(second, said, n)) / np.maximum(counts, 1)
        together = (cluster[first] == cluster[second]).astype(np.float64)
        arrays = arrays_of(evidence, together, None, cluster, confidence)
        return Found(arrays | {"pair_same": chance})

    def _join(self, first: IntArray, second: IntArray, votes: FloatArray, n_items: int) -> IntArray:
        raise NotImplementedError


@estimator
class ConnectedComponents(VotedClusters):
    """Items that votes for "same" join, directly or through others.

    Facts
    -----
    Assumes: hardly a vote for "same" is wrong
    Fails with: wrong votes for "same": one joins two clusters
    Cost: O(answers)
    Paper: folklore
    """

    slug = "components"

    def _join(self, first: IntArray, second: IntArray, votes: FloatArray, n_items: int) -> IntArray:
        joined = votes > 0
        return PairGraph.of(first[joined], second[joined], n_items).group


@estimator
class CorrelationClustering(VotedClusters):
    """The clusters that agree with the most answers, by local search; any number of them.

    Facts
    -----
    Assumes: workers are alike, and err as often about items of one cluster as about others
    Fails with: workers who guess or say the opposite, few pairs for each item
    Cost: O(pairs) for each of some dozen passes
    Paper: Bansal et al. 2004, Machine Learning
    """

    slug = "correlation-clustering"

    def _join(self, first: IntArray, second: IntArray, votes: FloatArray, n_items: int) -> IntArray:
        return cluster_by_weights(first, second, votes, n_items)
