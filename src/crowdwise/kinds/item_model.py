"""What methods share that give items a score: the table of items, its intervals and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.item_scores import align_item_scores, rank_in_groups
from crowdwise.kinds.model import A, KindModel, check_level
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ItemModel"]


class ItemModel(KindModel[A]):
    """Base of the methods for answers that put items in order."""

    vocabularies: ClassVar[dict[str, str]] = {"items": "N", "workers": "M"}
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("score", "N"),
        SavedArray("score_variance", "N", low=0),
        SavedArray("group", "N", low=0, codes="N", integer=True),
        SavedArray("answers_per_item", "N", low=0, high=2**32, integer=True),
    )
    score_: FloatArray
    score_variance_: FloatArray
    group_: IntArray
    answers_per_item_: IntArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of item, score, low, high (the interval that holds the score with probability `level`) and rank.

        The best item comes first. Where answers do not join all items there is a column group, ranks count within a
        group, and scores of different groups cannot be compared. Items below prompts have a column prompt.
        """
        self._check_fitted()
        return self._table_of_items(
            self._names["items"], self.score_, self.score_variance_, self.group_, self.answers_per_item_, level
        )

    def _align_gold(self, gold: Any, answers: Any) -> FloatArray:
        return align_item_scores(gold, answers.items)

    def _table_of_items(
        self, items: pa.Array, score: FloatArray, variance: FloatArray, group: IntArray, counts: IntArray, level: float
    ) -> Any:
        rank = rank_in_groups(score, group)
        order = np.lexsort((rank, group))
        low, high = self._score_interval(score, variance, check_level(level))
        columns: dict[str, Any] = self._name_columns(items)
        columns |= {"score": self._shown(score), "low": low, "high": high, "rank": rank, "n_answers": counts}
        columns |= {"group": group} if group.any() else {}
        ordered = {
            name: column[order] if isinstance(column, np.ndarray) else column.take(pa.array(order))
            for name, column in columns.items()
        }
        return native_table(ordered, self.table_kind_)

    def _name_columns(self, items: pa.Array) -> dict[str, Any]:
        """Columns that name the items."""
        return {"item": items}

    def _score_interval(self, score: FloatArray, variance: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        reach = float(ndtri((1 + level) / 2)) * np.sqrt(variance)
        return self._shown(score - reach), self._shown(score + reach)

    def _shown(self, score: FloatArray) -> FloatArray:
        """Scores as tables show them."""
        return score
