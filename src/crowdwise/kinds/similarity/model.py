"""What every method for similarity shares: two tables, pairs, new items by known workers, probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import betaincinv, expit

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.agreement import signed_agreement
from crowdwise.kinds.model import KindModel, check_level
from crowdwise.kinds.similarity.answers import Similarities
from crowdwise.kinds.similarity.gold_links import align_gold
from crowdwise.kinds.similarity.pair_evidence import Rates, RatesPrior, count_answers, pool_rates
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.similarity.gold_links import GoldLinks
    from crowdwise.kinds.similarity.pair_evidence import Evidence
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["SimilarityModel", "arrays_of", "number_clusters"]

UNSURE = 0.7  # mean confidence below which the clusters are hardly worth having


class SimilarityModel(KindModel[Similarities]):
    """Base of the methods for similarity.

    Attributes
    ----------
    cluster_ : (N,)
        Cluster of each item: 0 for the largest, and so on.
    confidence_ : (N,)
        Probability that an item belongs to its cluster.
    group_ : (N,)
        Group of each item: items of different groups are joined by no pair, not even through others, and so are never
        in one cluster.
    sensitivity_beta_, specificity_beta_ : (M, 2)
        Answers right and wrong, the prior's included: the rates of a worker have these Beta distributions.
    crowd_rates_ : (2,)
        Sensitivity and specificity of the crowd: those of a worker who is not known.
    pair_first_, pair_second_, pair_same_, answers_per_pair_ : (P,)
        The pairs that were asked about, and the probability that their items are the same.

    Examples
    --------
    >>> from crowdwise.kinds import read_similarities
    >>> similarities = read_similarities({"worker": ["ann", "bob", "cy"] * 4, "left": ["a"] * 6 + ["b"] * 3 + ["c"] * 3,
    ...                                   "right": ["b"] * 3 + ["c"] * 6 + ["d"] * 3,
    ...                                   "same": ["yes"] * 3 + ["no", "no", "yes"] + ["no"] * 3 + ["yes"] * 3})
    """

    kind: ClassVar[str] = "similarity"
    vocabularies: ClassVar[dict[str, str]] = {"items": "N", "workers": "M"}
    example: ClassVar[str] = ">>> {name}().fit(similarities).consensus()['cluster'].to_pylist()\n[0, 0, 1, 1]"
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("cluster", "N", low=0, codes="N", integer=True),
        SavedArray("confidence", "N", low=0, high=1),
        SavedArray("group", "N", low=0, codes="N", integer=True),
        SavedArray("answers_per_item", "N", low=0, high=2**32, integer=True),
        SavedArray("sensitivity_beta", "M 2", low=SMALLEST),
        SavedArray("specificity_beta", "M 2", low=SMALLEST),
        SavedArray("crowd_rates", "2", low=SMALLEST, high=1),
        SavedArray("pair_first", "P", low=0, codes="N", integer=True),
        SavedArray("pair_second", "P", low=0, codes="N", integer=True),
        SavedArray("pair_same", "P", low=0, high=1),
        SavedArray("answers_per_pair", "P", low=0, high=2**31, integer=True),
    )
    cluster_: IntArray
    confidence_: FloatArray
    group_: IntArray
    answers_per_item_: IntArray
    sensitivity_beta_: FloatArray
    specificity_beta_: FloatArray
    crowd_rates_: FloatArray
    pair_first_: IntArray
    pair_second_: IntArray
    pair_same_: FloatArray
    answers_per_pair_: IntArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task (the item), cluster, confidence and n_answers; with a column group where there are several.

        There is no interval, so that `level` changes nothing.
        """
        self._check_fitted()
        check_level(level)
        return self._table_of_items(
            self._names["items"], self.cluster_, self.confidence_, self.answers_per_item_, self.group_
        )

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, sensitivity and specificity, with their intervals.

        The sensitivity is how often the worker says "same" of two items of one cluster, the specificity how often they
        say "different" of two others. Together they are 1 where the worker guesses, and less where they say the
        opposite.
        """
        self._check_fitted()
        level = check_level(level)
        columns: dict[str, Any] = {"worker": self._names["workers"], "n_answers": self.answers_per_worker_}
        for name in ("sensitivity", "specificity"):
            right, wrong = getattr(self, f"{name}_beta_").T
            columns[name] = right / (right + wrong)
            for side, word in ((-1, "low"), (1, "high")):
                columns[f"{name}_{word}"] = np.asarray(betaincinv(right, wrong, (1 + side * level) / 2), np.float64)
        return native_table(columns, self.table_kind_)

    def pairs(self) -> Any:
        """Table of every pair that was asked about: left, right, same (the probability of it) and n_answers."""
        self._check_fitted()
        return self._table_of_pairs(self._names["items"], self.pair_first_, self.pair_second_, self.pair_same_,
                                    self.answers_per_pair_)  # fmt: skip

    def predict_pairs(self, answers: Any) -> Any:
        """Table of the pairs of new answers by known workers: left, right, same (the probability of it) and n_answers.

        What the fit says of a pair is updated by the new answers: give none that the fit has seen.
        """
        self._check_fitted()
        read = self._read(answers)
        graph = read.graph
        odds = _log_odds(self._chance_of_same(read, graph.first, graph.second))
        rates, worker = self._known_rates(read)
        said, other = np.log(rates.same / rates.different), np.log((1 - rates.same) / (1 - rates.different))
        odds += np.bincount(graph.pair, np.where(read.same, said[worker], other[worker]), graph.n_pairs)
        counts = np.bincount(graph.pair, minlength=graph.n_pairs)
        return self._table_of_pairs(read.items, graph.first, graph.second, np.asarray(expit(odds)), counts)

    def caveat(self) -> str:
        """Say that the answers hardly tell clusters apart, where confidences are low."""
        self._check_fitted()
        mean = float(self.confidence_.mean())
        if mean >= UNSURE:
            return ""
        return (
            "The answers hardly tell the clusters apart: an item belongs to its cluster with a probability of "
            f"{mean:.2f} on average. Ask about more pairs, or ask more workers about each."
        )

    # ---- the rest -----------------------------------------------------------------------------------------

    def _align_gold(self, gold: Any, answers: Similarities) -> GoldLinks:
        return align_gold(gold, answers.items)

    def _table_of_items(
        self, items: Any, cluster: IntArray, confidence: FloatArray, counts: IntArray, group: IntArray
    ) -> Any:
        columns = {"task": items, "cluster": cluster, "confidence": confidence, "n_answers": counts.astype(np.int64)}
        return native_table(columns | ({"group": group} if group.any() else {}), self.table_kind_)

    def _table_of_pairs(self, items: Any, first: IntArray, second: IntArray, same: FloatArray, counts: IntArray) -> Any:
        columns = {"left": items.take(_indices(first)), "right": items.take(_indices(second))}
        return native_table(columns | {"same": same, "n_answers": counts.astype(np.int64)}, self.table_kind_)

    def _known_rates(self, answers: Similarities) -> tuple[Rates, IntArray]:
        """Rates of the model's workers and, last, of a stranger, and the position of each answer's worker."""
        means = [beta[:, 0] / beta.sum(axis=1) for beta in (self.sensitivity_beta_, self.specificity_beta_)]
        same, apart = (np.append(rate, crowd) for rate, crowd in zip(means, self.crowd_rates_, strict=True))
        return Rates(same, 1 - apart), self._positions_of_workers(answers)

    def _chance_of_same(self, answers: Similarities, first: IntArray, second: IntArray) -> FloatArray:
        """Probability that two items are the same (n,), to a model that has not seen these answers.

        Of a pair that it was asked about, its own; of two items of one group, by their clusters and confidences; of
        others, the share of the same among pairs that were asked about.
        """
        n = len(self._names["items"])
        at = positions(answers.items, self._names["items"])
        left, right = at[first].astype(np.int64), at[second].astype(np.int64)
        usual = float(np.average(self.pair_same_, weights=np.maximum(self.answers_per_pair_, 1e-9)))
        known = (left >= 0) & (right >= 0)
        related = known & (self.group_[left] == self.group_[right])
        # An item that is not in its cluster is in any other of its group.
        one_of_each = np.unique(self.cluster_, return_index=True)[1]
        others = np.maximum(np.bincount(self.group_[one_of_each], minlength=n)[self.group_[left]] - 1, 1)
        c, d = self.confidence_[left], self.confidence_[right]
        one = c * d + (1 - c) * (1 - d) / others
        two = (c * (1 - d) + d * (1 - c)) / others + (1 - c) * (1 - d) * np.maximum(others - 1, 0) / others**2
        chance = np.where(related, np.where(self.cluster_[left] == self.cluster_[right], one, two), usual)
        keys = np.minimum(self.pair_first_, self.pair_second_) * n + np.maximum(self.pair_first_, self.pair_second_)
        order = np.argsort(keys)
        wanted = np.minimum(left, right) * n + np.maximum(left, right)
        place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), max(keys.size - 1, 0))]
        return np.where(known & (keys[place] == wanted), self.pair_same_[place], chance)

    def _log_density(self, answers: Similarities) -> FloatArray:
        chance = self._chance_of_same(answers, answers.left, answers.right)
        rates, worker = self._known_rates(answers)
        says_same = chance * rates.same[worker] + (1 - chance) * rates.different[worker]
        return np.log(np.where(answers.same, says_same, 1 - says_same))

    def _agreement(self, answers: Similarities) -> Agreement:
        at = positions(answers.items, self._names["items"])
        left, right = at[answers.left], at[answers.right]
        known = (left >= 0) & (right >= 0) & (self.group_[left] == self.group_[right])
        expected = np.where(known, 2 * self._chance_of_same(answers, answers.left, answers.right) - 1, np.nan)
        said = np.where(answers.same, 1.0, -1.0)
        found = signed_agreement(answers.worker, answers.pair_keys, said, expected, answers.n_workers)
        return replace(found, lean=np.empty(0))  # sensitivity and specificity tell it apart

    def _predict_table(self, answers: Similarities) -> Any:
        """Items of new answers: those that the model knows keep their clusters, and others are placed among them."""
        from crowdwise.kinds.similarity.new_items import place_items

        rates, worker = self._known_rates(answers)
        at = positions(answers.items, self._names["items"])
        cluster, confidence, group = place_items(
            answers, rates, worker, np.where(at >= 0, self.cluster_[at], -1), self.confidence_[at], self.cluster_
        )
        known = at >= 0
        cluster = np.where(known, self.cluster_[at], cluster)
        confidence = np.where(known, self.confidence_[at], confidence)
        return self._table_of_items(answers.items, cluster, confidence, answers.answers_per_item, group)


def number_clusters(group: IntArray, cluster: IntArray) -> IntArray:
    """Numbers of clusters over all groups (N,): 0 for the largest; of equals, the one with the first item."""
    keys = group.astype(np.int64) * (int(cluster.max(initial=0)) + 1) + cluster
    _, first, codes, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(first.size, np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(first.size)
    numbered: IntArray = rank[codes]
    return numbered


def arrays_of(
    evidence: Evidence, together: FloatArray, prior: RatesPrior | None, cluster: IntArray, confidence: FloatArray
) -> dict[str, Any]:
    """What a fit found, under the names by which models keep it.

    Parameters
    ----------
    together : (P,)
        Probability that each pair is of one cluster.
    prior
        Of the rates, whose answers are added to those counted; None for one of each sort.
    cluster, confidence : (N,)
        Cluster of each item within its group, and the probability of it.
    """
    counts = count_answers(evidence, together)
    crowd = [yes / (yes + no) for yes, no in pool_rates(counts, 1.0)]
    added = RatesPrior((1.0, 1.0), (1.0, 1.0)) if prior is None else prior
    back = np.empty_like(evidence.item)
    back[evidence.item] = np.arange(evidence.n_items)
    return {
        "cluster": number_clusters(evidence.group, cluster)[back],
        "confidence": np.clip(confidence, 0.0, 1.0)[back],
        "group": evidence.group.astype(np.int64)[back],
        "sensitivity_beta": counts.same + np.array(added.same),
        "specificity_beta": (counts.different + np.array(added.different))[:, ::-1],
        "crowd_rates": np.array([crowd[0], 1 - crowd[1]]),
        "pair_first": evidence.item[evidence.graph.first],
        "pair_second": evidence.item[evidence.graph.second],
        "pair_same": np.clip(together, 0.0, 1.0),
        "answers_per_pair": np.bincount(evidence.pair, minlength=evidence.graph.n_pairs).astype(np.int64),
    }


def _log_odds(chance: FloatArray) -> FloatArray:
    kept = np.clip(chance, 1e-12, 1 - 1e-12)
    return np.log(kept) - np.log1p(-kept)


def _indices(codes: IntArray) -> Any:
    import pyarrow as pa

    return pa.array(codes)
