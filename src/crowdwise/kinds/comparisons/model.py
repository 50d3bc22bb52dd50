"""What every method for comparisons shares: two tables, new items by known workers, preferences, probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.agreement import Agreement, signed_agreement
from crowdwise.kinds.comparisons.answers import Comparisons
from crowdwise.kinds.comparisons.likelihood import Parameters, answer_probabilities
from crowdwise.kinds.comparisons.posterior_mode import find_mode, objective_of_known_answers
from crowdwise.kinds.comparisons.prompts import split_names
from crowdwise.kinds.comparisons.uncertainty import find_variances
from crowdwise.kinds.item_model import ItemModel
from crowdwise.kinds.item_scores import beta_share
from crowdwise.kinds.model import Found, check_level
from crowdwise.kinds.pair_graph import PairGraph
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.kinds.comparisons.empirical_bayes import Estimate
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ComparisonModel", "arrays_of"]

TINY = 1e-12
LEAST_LEAN = 0.2  # how much more often a worker takes one side of even pairs than the other, for it to matter


class ComparisonModel(ItemModel[Comparisons]):
    """Base of the methods for comparisons.

    Attributes
    ----------
    score_ : (N,)
        Of the items, as log-odds: of two items whose scores differ by d, the higher one is found better with odds of
        e^d by a common worker. Scores of a group of items that comparisons join have the mean 0.
    score_variance_ : (N,)
        Of the scores, by Laplace's approximation.
    group_ : (N,)
        Group of each item: items of different groups were never compared, not even through others.
    worker_slope_, worker_bias_, worker_quality_ : (M,)
        How differences of scores move a worker, their bias to the left side as log-odds, and the probability that they
        say what they find; 1, 0 and 1 where a method has no such thing.
    worker_slope_variance_, worker_bias_variance_, worker_quality_variance_ : (M,)
        Of these by Laplace's approximation; that of the quality on the scale of log-odds.
    tie_ : (1,)
        Davidson's ν: of two equal items, a tie is found with odds of ν to 2.

    Examples
    --------
    >>> from crowdwise.kinds import read_comparisons
    >>> comparisons = read_comparisons({"worker": ["ann", "bob", "cy"] * 3, "left": ["a"] * 6 + ["b"] * 3,
    ...                                 "right": ["b"] * 3 + ["c"] * 6, "label": ["left", "left", "right"] * 3})
    """

    kind: ClassVar[str] = "comparisons"
    example: ClassVar[str] = ">>> {name}().fit(comparisons).consensus()['item'].to_pylist()\n['a', 'b', 'c']"
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("worker_slope", "M"),
        SavedArray("worker_bias", "M"),
        SavedArray("worker_quality", "M", low=0, high=1),
        SavedArray("worker_slope_variance", "M", low=0),
        SavedArray("worker_bias_variance", "M", low=0),
        SavedArray("worker_quality_variance", "M", low=0),
        SavedArray("worker_agreement", "M", low=0, high=2**31),
        SavedArray("tie", "1", low=0),
        SavedArray("spread", "1", low=SMALLEST),
        SavedArray("sided", "1", low=0, high=1, integer=True),
        SavedArray("pair_first", "P", low=0, codes="N", integer=True),
        SavedArray("pair_second", "P", low=0, codes="N", integer=True),
        SavedArray("pair_variance", "P", low=0),
        SavedArray("answers_per_pair", "P", low=0, high=2**31, integer=True),
    )
    worker_slope_: FloatArray
    worker_bias_: FloatArray
    worker_quality_: FloatArray
    worker_slope_variance_: FloatArray
    worker_bias_variance_: FloatArray
    worker_quality_variance_: FloatArray
    worker_agreement_: FloatArray
    tie_: FloatArray
    spread_: FloatArray
    sided_: IntArray
    pair_first_: IntArray
    pair_second_: IntArray
    pair_variance_: FloatArray
    answers_per_pair_: IntArray

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, reliability and position_bias, with their intervals.

        The reliability is the chance that the worker finds the better one of two items whose scores differ as those
        of common pairs do; 0.5 is guessing, less is the opposite. The position bias is the share of left answers
        beyond one half, were both items equally good; it is there if the sides are known.
        """
        self._check_fitted()
        middle, low, high = self._reliability(check_level(level))
        columns: dict[str, Any] = {
            "worker": self._names["workers"],
            "n_answers": self.answers_per_worker_,
            "reliability": middle,
            "reliability_low": low,
            "reliability_high": high,
        }
        if self.sided_[0] and self.worker_bias_variance_.any():
            reach = float(ndtri((1 + level) / 2)) * np.sqrt(self.worker_bias_variance_)
            columns |= {
                "position_bias": expit(self.worker_bias_) - 0.5,
                "position_bias_low": expit(self.worker_bias_ - reach) - 0.5,
                "position_bias_high": expit(self.worker_bias_ + reach) - 0.5,
            }
        return native_table(columns, self.table_kind_)

    def preferences(self) -> Any:
        """Table of every pair that was compared: (prompt,) chosen, rejected, weight, flip_rate and n_answers.

        The flip rate is the probability that the rejected item is the better one after all, given all answers and the
        workers who gave them: the ε of robust DPO (Chowdhury et al. 2024). The weight is 1 - 2 × flip rate.
        """
        self._check_fitted()
        difference = self.score_[self.pair_first_] - self.score_[self.pair_second_]
        chosen = np.where(difference >= 0, self.pair_first_, self.pair_second_)
        rejected = np.where(difference >= 0, self.pair_second_, self.pair_first_)
        flipped = ndtr(-np.abs(difference) / np.sqrt(np.maximum(self.pair_variance_, TINY)))
        prompt, items = split_names(self._names["items"])
        columns: dict[str, Any] = {} if prompt is None else {"prompt": prompt.take(_indices(chosen))}
        columns |= {
            "chosen": items.take(_indices(chosen)),
            "rejected": items.take(_indices(rejected)),
            "weight": 1 - 2 * flipped,
            "flip_rate": flipped,
            "n_answers": self.answers_per_pair_,
        }
        return native_table(columns, self.table_kind_)

    # ---- what a method may give ---------------------------------------------------------------------------

    def _reliability(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Reliability of each worker (M,) and its interval; here by how many answers agree with the consensus."""
        rest = np.maximum(self.answers_per_worker_ - self.worker_agreement_, 0)
        return beta_share(self.worker_agreement_, rest, level)

    # ---- the rest -----------------------------------------------------------------------------------------

    def _remember(self, answers: Comparisons, found: Found) -> None:
        super()._remember(answers, found)
        graph = answers.graph
        self.group_ = graph.group.astype(np.int64)
        self.sided_ = np.array([answers.sided], np.int64)
        self.pair_first_, self.pair_second_ = graph.first.astype(np.int64), graph.second.astype(np.int64)
        self.answers_per_pair_ = np.bincount(graph.pair, minlength=graph.n_pairs).astype(np.int64)
        difference = self.score_[answers.left] - self.score_[answers.right]
        agrees = 0.5 + 0.5 * answers.outcome * np.sign(difference)
        self.worker_agreement_ = np.bincount(answers.worker, agrees, answers.n_workers).astype(np.float64)

    def _typical_difference(self) -> float:
        """Difference of scores of a common pair."""
        difference = np.abs(self.score_[self.pair_first_] - self.score_[self.pair_second_])
        if not difference.size:
            return TINY
        order = np.argsort(difference)
        answers = np.cumsum(self.answers_per_pair_[order].astype(np.float64))
        middle = int(np.searchsorted(answers, answers[-1] / 2))
        return max(float(difference[order[middle]]), TINY)

    def _name_columns(self, items: pa.Array) -> dict[str, Any]:
        prompt, names = split_names(items)
        return {"item": names} if prompt is None else {"prompt": prompt, "item": names}

    def _known_workers(self, answers: Comparisons) -> tuple[Parameters, IntArray]:
        """Parameters of the model's workers and, last, of a stranger, and the position of each answer's worker."""
        weights = np.maximum(self.answers_per_worker_, TINY)

        def with_stranger(values: FloatArray) -> FloatArray:
            return np.append(values, np.average(values, weights=weights))

        quality = logit(np.minimum(with_stranger(self.worker_quality_), 1.0))
        tie = float(np.log(self.tie_[0])) if self.tie_[0] > 0 else -np.inf
        slope, bias = with_stranger(self.worker_slope_), with_stranger(self.worker_bias_)
        return Parameters(self.score_, slope, bias, quality, tie), self._positions_of_workers(answers)

    def _predict_table(self, answers: Comparisons) -> Any:
        """Items of new answers: those that the model knows keep their scores, and others are placed among them."""
        known, worker = self._known_workers(answers)
        at = positions(answers.items, self._names["items"])
        pinned = at >= 0
        score = np.where(pinned, self.score_[at], 0.0)
        variance = np.where(pinned, self.score_variance_[at], self.spread_[0] ** 2)
        if not pinned.all() and answers.n_answers:
            tie = known.tie if np.isfinite(known.tie) or not answers.has_ties else 0.0
            base = Parameters(score, known.slope[worker], known.bias[worker], known.quality[worker], tie)
            objective = objective_of_known_answers(answers, base, float(self.spread_[0]), pinned)
            mode, _ = find_mode(objective, base, max_iter=100, tol=1e-12, name=self.slug)
            found = find_variances(objective, mode)
            score = np.where(pinned, score, mode.score)
            variance = np.where(pinned, variance, found.score)
        group = _join_groups(answers, np.where(pinned, self.group_[at], -1))
        return self._table_of_items(answers.items, score, variance, group, answers.answers_per_item, 0.9)

    def _log_density(self, answers: Comparisons) -> FloatArray:
        known, worker = self._known_workers(answers)
        at = positions(answers.items, self._names["items"])
        score = np.where(at >= 0, self.score_[at], 0.0)
        variance = np.where(at >= 0, self.score_variance_[at], self.spread_[0] ** 2)
        slope = known.slope[worker]
        difference = score[answers.left] - score[answers.right]
        own = np.append(self.worker_slope_variance_, self.worker_slope_variance_.mean())[worker]
        x = slope * difference
        # MacKay's approximation of the mean of a logistic function over a normal distribution.
        unsure = slope**2 * (variance[answers.left] + variance[answers.right]) + own * difference**2
        x = x / np.sqrt(1 + np.pi / 8 * unsure)
        bias = known.bias[worker] if answers.sided else 0.0
        shares = answer_probabilities(x + bias, expit(known.quality[worker]), known.tie)
        chosen = np.choose(1 - answers.outcome.astype(np.intp), shares)
        return np.log(np.maximum(chosen, SMALLEST))

    def _agreement(self, answers: Comparisons) -> Agreement:
        at = positions(answers.items, self._names["items"])
        known = (at >= 0) & (self.answers_per_item_[at] > 0)
        score = np.where(known, self.score_[at], np.nan)
        expected = np.tanh((score[answers.left] - score[answers.right]) / 2)
        question, said = answers.pair_keys, answers.outcome.astype(np.float64)
        if not answers.sided:  # winners and losers: nothing is known of sides, and all outcomes are alike
            return Agreement(answers.worker, question, np.where(np.isfinite(expected), said, np.nan), expected)
        found = signed_agreement(answers.worker, question, said, expected, answers.n_workers)
        return replace(found, sides=("prefers the right", "prefers the left"), least_lean=LEAST_LEAN)


def arrays_of(found: Estimate) -> dict[str, FloatArray]:
    """What a fit found, under the names by which models keep it."""
    mode, variances = found.mode, found.variances
    nothing = np.zeros(mode.slope.size)
    return {
        "score": mode.score,
        "score_variance": variances.centred,
        "worker_slope": mode.slope,
        "worker_bias": mode.bias,
        "worker_quality": expit(mode.quality),
        **{f"worker_{part}_variance": variances.workers.get(part, nothing) for part in ("slope", "bias", "quality")},
        "tie": np.array([np.exp(mode.tie)]),
        "spread": np.array([found.priors.spread]),
        "pair_variance": variances.pair,
    }


def _join_groups(answers: Comparisons, known: IntArray) -> IntArray:
    """Groups of the items of new answers, where items of one of the model's groups (-1: of none) belong together."""
    order = np.argsort(known, kind="stable")
    same = (known[order][1:] == known[order][:-1]) & (known[order][1:] >= 0)
    left = np.concatenate([answers.left, order[:-1][same]])
    right = np.concatenate([answers.right, order[1:][same]])
    return PairGraph.of(left, right, answers.n_items).group


def _indices(codes: IntArray) -> Any:
    import pyarrow as pa

    return pa.array(codes)
