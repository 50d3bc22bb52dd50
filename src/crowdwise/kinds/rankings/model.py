"""What every method for rankings shares: two tables, and how far workers agree with the consensus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.agreement import nearness_agreement
from crowdwise.kinds.item_model import ItemModel
from crowdwise.kinds.item_scores import beta_share
from crowdwise.kinds.model import Found, check_level
from crowdwise.kinds.rankings.answers import Rankings
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.labels.types import FloatArray

__all__ = ["RankingModel", "agreement_with"]


class RankingModel(ItemModel[Rankings]):
    """Base of the methods for rankings.

    Attributes
    ----------
    score_ : (N,)
        Of the items; the higher, the better.
    score_variance_ : (N,)
        Of the scores.
    group_ : (N,)
        Group of each item: no ranking joins items of different groups, not even through others.
    worker_agreement_ : (M,)
        Share of the pairs in a worker's rankings that the consensus has in the same order.

    Examples
    --------
    >>> from crowdwise.kinds import read_rankings
    >>> rankings = read_rankings({"worker": ["ann"] * 3 + ["bob"] * 3, "item": ["a", "b", "c"] * 2,
    ...                           "rank": [1, 2, 3, 1, 3, 2]})
    """

    kind: ClassVar[str] = "rankings"
    example: ClassVar[str] = ">>> {name}().fit(rankings).consensus()['item'].to_pylist()[0]\n'a'"
    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("worker_agreement", "M", low=0, high=1 + 1e-9),)
    worker_agreement_: FloatArray

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers (items placed), reliability and its interval.

        The reliability is the chance that the worker puts two items in the order of the consensus; 0.5 is guessing.
        """
        self._check_fitted()
        middle, low, high = self._reliability(check_level(level))
        columns = {
            "worker": self._names["workers"],
            "n_answers": self.answers_per_worker_,
            "reliability": middle,
            "reliability_low": low,
            "reliability_high": high,
        }
        return native_table(columns, self.table_kind_)

    # ---- what a method may give ---------------------------------------------------------------------------

    def _reliability(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By the share of pairs in the order of the consensus, each item placed counting as one trial."""
        share = np.minimum(self.worker_agreement_, 1)
        return beta_share(share * self.answers_per_worker_, (1 - share) * self.answers_per_worker_, level)

    # ---- the rest -----------------------------------------------------------------------------------------

    def _remember(self, answers: Rankings, found: Found) -> None:
        super()._remember(answers, found)
        self.group_ = answers.group.astype(np.int64)
        self.worker_agreement_ = agreement_with(answers, self.score_)

    def _predict_table(self, answers: Rankings) -> Any:
        """The consensus of these rankings alone."""
        return type(self)(**self.get_params(deep=False)).fit(answers).consensus()

    def _agreement(self, answers: Rankings) -> Agreement:
        at = positions(answers.items, self._names["items"])
        known = (at >= 0) & (self.answers_per_item_[at] > 0)
        share = agreement_of_rankings(answers, np.where(known, self.score_[at], np.nan))
        first = np.unique(answers.ranking, return_index=True)[1]
        return nearness_agreement(answers.worker[first], answers.task[first], share, np.full(share.size, 0.5))


def agreement_with(answers: Rankings, score: FloatArray) -> FloatArray:
    """Share of the pairs in each worker's rankings that the scores have in the same order (M,); 0.5 of none."""
    worker = answers.worker[np.unique(answers.ranking, return_index=True)[1]]
    right, pairs = (np.bincount(worker, each, answers.n_workers) for each in _count_ordered_pairs(answers, score))
    share: FloatArray = np.where(pairs > 0, right / np.maximum(pairs, 1), 0.5)
    return share


def agreement_of_rankings(answers: Rankings, score: FloatArray) -> FloatArray:
    """The same share of each ranking (R,); NaN where no pair of its items has scores."""
    right, pairs = _count_ordered_pairs(answers, score)
    share: FloatArray = np.where(pairs > 0, right / np.maximum(pairs, 1), np.nan)
    return share


def _count_ordered_pairs(answers: Rankings, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pairs of each ranking (R,) that the scores have in the same order, and all; those without scores left out.

    Pairs are taken stage by stage: an item against all that come after it.
    """
    right, pairs = np.zeros(answers.n_rankings), np.zeros(answers.n_rankings)
    for block in answers.blocks:
        values, ranking = score[answers.item[block.row]], answers.ranking[block.row[:, 0]]
        length = values.shape[1]
        for stage in range(length - 1):
            ahead = 0.5 + 0.5 * np.sign(values[:, stage][:, None] - values)
            after = (np.arange(length) > block.last[:, stage][:, None]) & np.isfinite(ahead)
            right[ranking] += np.where(after, ahead, 0).sum(axis=1)
            pairs[ranking] += after.sum(axis=1)
    return right, pairs
