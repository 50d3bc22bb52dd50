"""Known scores of items, lined up with those of a model, and how well a model orders items of known scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaincinv
from scipy.stats import kendalltau, spearmanr

from crowdwise.fitting.parameter_checks import LARGEST, check_number
from crowdwise.kinds.answer_table import open_table

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["align_item_scores", "beta_share", "check_spread", "concordance", "rank_in_groups", "score_items"]

LEAST_SPREAD = 1e-6  # of scores, which are log-odds


def check_spread(name: str, value: float | None, high: float = LARGEST) -> None:
    """Refuse a standard deviation of scores that is no number, or so small that nothing could be learnt."""
    if value is not None:
        check_number(name, value, low=LEAST_SPREAD, high=high)


def beta_share(right: FloatArray, wrong: FloatArray, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of right ones among so many right and wrong (M,), with an even prior, and its interval of this level."""
    right, wrong = right + 1.0, wrong + 1.0
    low, high = (np.asarray(betaincinv(right, wrong, (1 + side * level) / 2), np.float64) for side in (-1, 1))
    return right / (right + wrong), low, high


def align_item_scores(source: Any, items: pa.Array) -> FloatArray:
    """Known scores of items (N,), NaN where unknown; those of other items are left aside.

    Parameters
    ----------
    source
        A mapping from item to score, or a path or table with a column item and a column score.
    """
    if isinstance(source, Mapping) and not {"item", "score"} <= set(source):
        source = {"item": list(source), "score": list(source.values())}
    needs = "Known scores need a column item and a column score."
    table = open_table(source, needs, {"item": None, "value": None})
    found: FloatArray = table.align_known("item", items, table.read_numbers("value"), np.nan, "score")
    return found


def concordance(score: FloatArray, truth: FloatArray) -> float:
    """Share of the pairs of different truth that the scores order rightly, equal scores counting half.

    >>> round(concordance(np.array([1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0])), 3)
    0.833
    """
    pairs = _untied_pairs(truth)
    if not pairs or not _untied_pairs(score):
        return 0.5 if pairs else float("nan")
    surplus = float(kendalltau(score, truth).statistic) * np.sqrt(pairs) * np.sqrt(_untied_pairs(score))
    return float(0.5 + surplus / (2 * pairs))


def score_items(model: Any, truth: Any) -> dict[str, float]:
    """How a fitted model orders items of known scores: concordance, and the correlations of Kendall and Spearman."""
    true = align_item_scores(truth, model._names["items"])
    known = np.isfinite(true)
    score, true = model.score_[known], true[known]
    plain = not _untied_pairs(score) or not _untied_pairs(true)
    return {
        "n_truths": int(known.sum()),
        "concordance": concordance(score, true),
        "kendall": 0.0 if plain else float(kendalltau(score, true).statistic),
        "spearman": 0.0 if plain else float(spearmanr(score, true).statistic),
    }


def rank_in_groups(score: FloatArray, group: IntArray) -> IntArray:
    """Rank of each item among those of its group (N,), 1 for the highest score; equal scores share the better rank."""
    order = np.lexsort((-score, group))
    sorted_group, sorted_score = group[order], score[order]
    first = np.r_[True, sorted_group[1:] != sorted_group[:-1]]
    fresh = first | np.r_[True, sorted_score[1:] != sorted_score[:-1]]
    at = np.arange(order.size)
    start = np.maximum.accumulate(np.where(first, at, 0))
    ranks: IntArray = np.empty(order.size, np.int64)
    ranks[order] = np.maximum.accumulate(np.where(fresh, at, 0)) - start + 1
    return ranks


def _untied_pairs(values: FloatArray) -> float:
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((values.size * (values.size - 1.0) - (counts * (counts - 1)).sum()) / 2)
