"""Which workers form families: partitions of a crowd, compared by the likelihood of the joint model.

A family joins workers whose answers agree beyond what the truth explains. For a partition f,

    score(f) = log P(labels | f, fitted parameters) - log(N) / 2 × (members + K × families),

the criterion of G. Schwarz (1978), with the matrix of a family counted as K numbers, as its prior holds the rest.

The search climbs. Given a partition and truths drawn from its model, the excess agreement of every two workers is
clustered (average linkage); every node of the tree is tried as a family beside those there are; the best set of
disjoint nodes, the best single node, and every family dissolved are the next partitions to be scored. It begins with
nobody in a family and, in small crowds, with everybody in one: where one family outvotes the rest, its errors pass
for the truth, and only the second start sees the family.

Cost: some dozens of fits, on as many tasks as `MOST_COST` allows; workers × workers is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from crowdwise.dependence.family_model import arrange_edges, draw_truths, initialise_family_parameters, run_family_em

if TYPE_CHECKING:
    from crowdwise.kernels.family_model import FamilyEdges, FamilyParameters
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Partition", "renumber_families", "residual_answer_correlations", "sample_tasks", "search_families"]

MOST_COST = 300_000  # labels × K (K + 1) in a pass
STEPS = 15  # of EM, for a score
ROUNDS = 6
PATIENCE = 2  # rounds without gain, as other truths drawn give another tree
TRUTHS = 4  # drawn for the excess agreement
SHRINK = 10.0  # shared tasks without excess that every two workers begin with
MOST_NODES = 40  # tried as families in a round
SMALL = 60  # workers, for the second start


class Partition(NamedTuple):
    """Families (M,), -1 for workers in none, their score, and the parameters of the fit."""

    score: float
    family: IntArray
    parameters: FamilyParameters


def renumber_families(family: IntArray) -> IntArray:
    """Families of at least two, numbered by their first member; -1 for everyone else.

    >>> renumber_families(np.array([7, -1, 3, 7, 5])).tolist()
    [0, -1, -1, 0, -1]
    """
    names, inverse, times = np.unique(family, return_inverse=True, return_counts=True)
    joined = (times[inverse] > 1) & (family >= 0)
    order: dict[int, int] = {}
    found = np.full(family.size, -1)
    for place in np.flatnonzero(joined):
        found[place] = order.setdefault(int(names[inverse[place]]), len(order))
    return found


def sample_tasks(labels: CrowdLabels, most_cost: float, rng: np.random.Generator) -> BoolArray:
    """Tasks (N,) drawn at random, as many as a pass may cost."""
    size = labels.n_classes
    share = most_cost / max(labels.n_labels * size * (size + 1), 1)
    drawn: BoolArray = rng.permutation(labels.n_tasks) < share * labels.n_tasks
    return drawn


def residual_answer_correlations(labels: CrowdLabels, truths: list[IntArray]) -> FloatArray:
    """Correlation of every two workers' answers given the truth (M, M), the mean over draws of the truth.

    Answers are indicators of the classes less their rates for the worker and the true class.
    """
    size, n_workers, n_tasks = labels.n_classes, labels.n_workers, labels.n_tasks
    met = sparse.csr_matrix((np.ones(labels.n_labels), (labels.task, labels.worker)), (n_tasks, n_workers))
    shared = (met.T @ met).toarray()
    total = np.zeros((n_workers, n_workers))
    rows = (labels.task[:, None].astype(np.int64) * size + np.arange(size)).ravel()
    for truth in truths:
        true = truth[labels.task]
        cell = (labels.worker.astype(np.int64) * size + true) * size + labels.label
        counts = np.bincount(cell, minlength=n_workers * size**2).reshape(-1, size, size).astype(np.float64)
        crowd = counts.sum(axis=0) + 1 / size
        counts += 2 * crowd / crowd.sum(axis=1, keepdims=True)
        rest = -(counts / counts.sum(axis=2, keepdims=True))[labels.worker, true]
        rest[np.arange(labels.n_labels), labels.label] += 1
        table = sparse.csr_matrix((rest.ravel(), (rows, np.repeat(labels.worker, size))), (n_tasks * size, n_workers))
        spread = np.bincount(labels.worker, (rest**2).sum(axis=1), n_workers)
        spread = np.sqrt(np.maximum(spread / np.maximum(labels.labels_per_worker, 1), 1e-12))
        total += (table.T @ table).toarray() / (spread[:, None] * spread * (shared + SHRINK))
    return total / len(truths)


class _PartitionSearch:
    """Scores of the partitions that were tried."""

    def __init__(self, labels: CrowdLabels, gold: IntArray, rng: np.random.Generator) -> None:
        drawn = sample_tasks(labels, MOST_COST, rng)
        self.labels = labels if drawn.all() else labels.keep(drawn[labels.task])
        self.n_tasks = np.count_nonzero(self.labels.labels_per_task)
        self.gold, self.rng = np.where(drawn, gold, -1), rng
        self.seen: dict[bytes, Partition] = {}

    def edges(self, family: IntArray) -> FamilyEdges:
        return arrange_edges(self.labels, family, self.gold)

    def score(self, family: IntArray) -> Partition:
        family = renumber_families(family)
        key = family.tobytes()
        if key not in self.seen:
            edges, size = self.edges(family), self.labels.n_classes
            value, parameters = run_family_em(edges, initialise_family_parameters(edges, size), STEPS)
            numbers = np.count_nonzero(family >= 0) + size * (family.max() + 1)
            self.seen[key] = Partition(value - np.log(self.n_tasks) / 2 * numbers, family, parameters)
        return self.seen[key]

    def build_merge_tree(self, partition: Partition) -> tuple[list[IntArray], list[tuple[int, int]], FloatArray]:
        """Members of every node, single workers first; the two parts of those joined; how far each stands out."""
        edges = self.edges(partition.family)
        excess = residual_answer_correlations(
            self.labels, [draw_truths(edges, partition.parameters, self.rng) for _ in range(TRUTHS)]
        )
        distance = 1 - np.clip((excess + excess.T) / 2, -1, 1)
        np.fill_diagonal(distance, 0)
        nodes = [np.array([worker]) for worker in range(excess.shape[0])]
        parts, standing_out = [], []
        for one, two, *_ in linkage(squareform(distance, checks=False), "average"):
            parts.append((int(one), int(two)))
            members = np.concatenate([nodes[int(one)], nodes[int(two)]])
            nodes.append(members)
            inside = excess[np.ix_(members, members)]
            pairs = members.size * (members.size - 1)
            standing_out.append((inside.sum() - np.trace(inside)) / np.sqrt(pairs))
        return nodes, parts, np.array(standing_out)

    def next_partitions(self, now: Partition) -> list[IntArray]:
        """Partitions near one: the best nodes of a tree joined, and each family dissolved."""
        nodes, parts, standing_out = self.build_merge_tree(now)
        n_workers, new = now.family.size, now.family.max() + 1

        def join_nodes(chosen: list[int]) -> IntArray:
            family = now.family.copy()
            for number, node in enumerate(chosen):
                family[nodes[node]] = new + number
            return family

        gain = np.zeros(len(nodes))
        for place in np.argsort(-standing_out, kind="stable")[:MOST_NODES]:
            gain[n_workers + place] = self.score(join_nodes([n_workers + int(place)])).score - now.score
        best, chosen = gain.copy(), [[] if node < n_workers else [node] for node in range(len(nodes))]
        for node, (one, two) in enumerate(parts, n_workers):
            if best[one] + best[two] >= gain[node]:
                best[node], chosen[node] = best[one] + best[two], chosen[one] + chosen[two]
        best_node = n_workers + int(gain[n_workers:].argmax())
        tried = [join_nodes(chosen[-1]), join_nodes([best_node])]
        tried += [np.where(now.family == number, -1, now.family) for number in range(new)]
        return tried

    def climb(self, family: IntArray) -> None:
        now, failed = self.score(family), 0
        for _ in range(ROUNDS):
            best = max((self.score(tried) for tried in self.next_partitions(now)), key=lambda each: each.score)
            failed = failed + 1 if best.score <= now.score else 0
            if failed == PATIENCE:
                break
            now = best if failed == 0 else now


def search_families(
    labels: CrowdLabels, gold: IntArray, rng: np.random.Generator, *, most: int, within: float
) -> list[Partition]:
    """The best partitions of a crowd's workers, at most so many, and within so much of the best score.

    Parameters
    ----------
    gold : (N,)
        Known truths, -1 elsewhere.
    """
    search = _PartitionSearch(labels, gold, rng)
    alone = np.full(labels.n_workers, -1)
    if labels.n_workers < 2:
        return [search.score(alone)]
    search.climb(alone)
    if labels.n_workers <= SMALL:
        search.climb(np.zeros(labels.n_workers, np.int64))
    ranked = sorted(search.seen.values(), key=lambda each: -each.score)[:most]
    return [each for each in ranked if each.score >= ranked[0].score - within]
