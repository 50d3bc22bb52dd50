"""What every method for texts shares: nearness of workers, two tables, prediction for new tasks, held-out answers.

A method chooses a text for each task, mostly one of its answers. Everything else is found in the same way for all: how
near the truth each worker's answers are (`nearness.py`), and how near the chosen text is thought to be. Of an answer
that a model has not seen, it says that its distance from the chosen text is drawn from the exponential distribution;
the mean is the worker's mean distance from answers of others, which does not depend on the method. So methods are
compared by how near their texts are to answers that they have not seen, and answers of workers who are near others
count more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.agreement import another_question, nearness_agreement
from crowdwise.kinds.model import Found, KindModel, check_level
from crowdwise.kinds.texts.answers import Texts
from crowdwise.kinds.texts.distances import LONGEST_GRAM, check_distance, measure_pairs
from crowdwise.kinds.texts.nearness import answer_nearness, factor_to_nearness, fit_nearness, level_tasks
from crowdwise.kinds.texts.text_pairs import chance_distance, pair_answers
from crowdwise.kinds.texts.truth import align_true_texts
from crowdwise.kinds.texts.words import compared_words
from crowdwise.labels.errors import InputError
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.texts.text_pairs import TextPairs
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Chosen", "TextCrowd", "TextModel"]

FEW = 5.0  # answers of the crowd that count beside a worker's own in their mean distance
SMALL = 1e-3  # share of the chance distance that a worker's mean distance has at least


class TextCrowd(NamedTuple):
    """What a method chooses from: pairs with their similarities, q of workers (M + 2: a stranger, gold), t of tasks."""

    pairs: TextPairs
    similarity: FloatArray
    q: FloatArray
    t: FloatArray


class Chosen(NamedTuple):
    """A text for each task (N), None without answers; who wrote it (N,), -1 for nobody alone; how near it is (N,)."""

    texts: list[str | None]
    author: IntArray
    confidence: FloatArray | None = None


class TextModel(KindModel[Texts]):
    """Base of the methods for texts.

    Parameters
    ----------
    distance : "gleu", "words", "characters", or a function of two texts
        How far apart two texts are: 1 - GLEU, or the share of words or of characters to edit. A function gives a
        number, 0 for texts that are the same; it is called for pairs of answers to the same task, in either order, and
        for a few pairs of different tasks. Functions are not saved with a model.

    Attributes
    ----------
    text_code_ : (N,)
        Position of the consensus of each task in the vocabulary of texts; -1 without answers.
    confidence_ : (N,)
        How near the truth the consensus is thought to be: 0 for a text of another task, 1 for the truth.
    factor_, factor_spread_ : (M,)
        How near the truth a worker's answers are, as a factor of the similarity of two answers, and its standard error;
        `workers` gives the nearness that follows.
    gram_shares_ : (4,)
        Share of 1, 2, 3 and 4 words among the n-grams that similarities are made of; 1, 0, 0, 0 but for GLEU.
    worker_distance_ : (M,)
        Mean distance of a worker's answers from those of others.
    chance_ : (1,)
        Mean distance of answers to different tasks.
    n_words_ : (T,)
        Words of each text that is a consensus.

    Examples
    --------
    >>> from crowdwise.kinds import read_texts
    >>> texts = read_texts({"task": [1, 1, 1, 2, 2, 2], "worker": ["ann", "bob", "cy"] * 2,
    ...                     "text": ["a small house", "a small home", "a small house by a lake",
    ...                              "it is late", "it is late", "later"]})
    """

    kind: ClassVar[str] = "texts"
    guessed: ClassVar[str] = "how good answers are. Confidence and nearness are"
    vocabularies: ClassVar[dict[str, str]] = {"tasks": "N", "workers": "M", "texts": "T"}
    uses: ClassVar[frozenset[str]] = frozenset({"gold"})
    example: ClassVar[str] = ">>> {name}().fit(texts).consensus()['text'].to_pylist()\n['a small house', 'it is late']"
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("n_words", "T", low=0, high=2**31, integer=True),
        SavedArray("text_code", "N", low=-1, codes="T", integer=True),
        SavedArray("confidence", "N", low=0, high=1),
        SavedArray("answers_per_task", "N", low=0, high=2**31, integer=True),
        SavedArray("factor", "M", low=0, high=1),
        SavedArray("factor_spread", "M", low=0),
        SavedArray("gram_shares", "4", low=0, high=1, sums_to_one=True),
        SavedArray("worker_distance", "M", low=SMALLEST),
        SavedArray("chance", "1", low=SMALLEST),
    )
    distance: str | Callable[[str, str], float]
    n_words_: IntArray
    text_code_: IntArray
    confidence_: FloatArray
    answers_per_task_: IntArray
    factor_: FloatArray
    factor_spread_: FloatArray
    gram_shares_: FloatArray
    worker_distance_: FloatArray
    chance_: FloatArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task, text, confidence (how near the truth it is thought to be, 0 to 1) and n_answers."""
        self._check_fitted()
        check_level(level)
        return self._table_of_texts(self._names["tasks"], self._texts(), self.confidence_, self.answers_per_task_)

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, nearness (to the truth) with its interval, and mean distance from others."""
        self._check_fitted()
        reach = float(ndtri((1 + check_level(level)) / 2)) * self.factor_spread_
        columns = {
            "worker": self._names["workers"],
            "n_answers": self.answers_per_worker_,
            "nearness": factor_to_nearness(self.factor_, self.gram_shares_),
            "nearness_low": factor_to_nearness(self.factor_ - reach, self.gram_shares_),
            "nearness_high": factor_to_nearness(self.factor_ + reach, self.gram_shares_),
            "distance": self.worker_distance_,
        }
        return native_table(columns, self.table_kind_)

    # ---- what a method gives ------------------------------------------------------------------------------

    def _learn(self, crowd: TextCrowd, n_workers: int) -> Found:  # noqa: ARG002
        """What the method finds about workers besides their nearness."""
        return Found({})

    def _choose(self, crowd: TextCrowd) -> Chosen:
        """A text for each task; what `_learn` found stands on the model."""
        raise NotImplementedError

    # ---- the rest -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.distance is not None:  # None is that of a loaded model whose function was not saved
            check_distance(self.distance)

    def _align_gold(self, gold: Any, answers: Texts) -> Any:
        return align_true_texts(gold, answers.tasks)

    def _measure(self) -> str | Callable[[str, str], float]:
        if self.distance is None:
            raise InputError(
                "The distance of this model was a function, which is not saved. Give it again: "
                "model.set_params(distance=…)."
            )
        return self.distance

    def _fit(self, answers: Texts, gold: list[str | None] | None) -> Found:
        n_workers, distance = answers.n_workers, self._measure()
        pairs = _pair_with_gold(answers, answers.worker, n_workers, gold, distance)
        chance = chance_distance(answers, distance)
        if np.isnan(chance):
            chance = float(pairs.distance.max(initial=0.0)) or 1.0
        known = np.full(n_workers + 2, np.nan)
        known[-1] = 1.0
        similarity = 1 - pairs.distance / chance
        near = fit_nearness(pairs, similarity, known)
        near.worker[n_workers] = near.mean
        crowd = TextCrowd(pairs, similarity, near.worker, near.task)
        learnt = self._learn(crowd, n_workers)
        for name, values in learnt.arrays.items():
            setattr(self, f"{name}_", values)
        chosen = self._choose(crowd)
        texts = chosen.texts if gold is None else [
            one if one is not None else other for one, other in zip(gold, chosen.texts, strict=True)
        ]  # fmt: skip
        away = _distances_from(answers, texts, distance)
        names = sorted({text for text in texts if text is not None})
        place = {text: code for code, text in enumerate(names)}
        found = {
            "text_code": np.array([-1 if text is None else place[text] for text in texts], np.int64),
            "n_words": np.array([len(compared_words(text)) for text in names], np.int64),
            "confidence": _confidence(crowd, chosen, answers, away / chance, gold),
            "factor": near.worker[:n_workers],
            "factor_spread": _factor_spread(crowd, n_workers),
            "gram_shares": _gram_shares(pairs.texts, distance),
            "worker_distance": _mean_distances(pairs, n_workers, SMALL * chance),
            "chance": np.array([chance]),
        }
        return replace(learnt, arrays=learnt.arrays | found, names={"texts": pa.array(names, pa.string())})

    def _texts(self) -> list[str | None]:
        known = self._names["texts"].to_pylist()
        return [None if code < 0 else known[code] for code in self.text_code_.tolist()]

    def _predict_table(self, answers: Texts) -> Any:
        worker, distance = self._positions_of_workers(answers), self._measure()
        pairs = _pair_with_gold(answers, worker, self.factor_.size, None, distance)
        similarity = 1 - pairs.distance / self.chance_[0]
        mean = float(np.average(self.factor_, weights=self.answers_per_worker_))
        q = np.concatenate([self.factor_, [mean, 1.0]])
        crowd = TextCrowd(pairs, similarity, q, level_tasks(pairs, similarity, q))
        chosen = self._choose(crowd)
        away = _distances_from(answers, chosen.texts, distance)
        confidence = _confidence(crowd, chosen, answers, away / self.chance_[0], None)
        return self._table_of_texts(answers.tasks, chosen.texts, confidence, answers.answers_per_task)

    def _table_of_texts(self, tasks: Any, texts: list[str | None], confidence: FloatArray, counts: IntArray) -> Any:
        columns = {
            "task": tasks, "text": pa.array(texts, pa.string()), "confidence": confidence, "n_answers": counts,
        }  # fmt: skip
        return native_table(columns, self.table_kind_)

    def _agreement(self, answers: Texts) -> Agreement:
        task = positions(answers.tasks, self._names["tasks"])
        known = [*self._texts(), None]
        texts = [known[place] for place in task]
        other = another_question(answers.worker, answers.task)
        near = -_distances_from(answers, texts, self._measure()) / self.chance_[0]
        beside = replace(answers, task=np.where(other < 0, answers.task, other).astype(np.int32))
        chance = np.where(other < 0, -1.0, -_distances_from(beside, texts, self._measure()) / self.chance_[0])
        return nearness_agreement(answers.worker, answers.task, near, chance)

    def _log_density(self, answers: Texts) -> FloatArray:
        task = positions(answers.tasks, self._names["tasks"])
        known = [*self._texts(), None]
        away = _distances_from(answers, [known[place] for place in task], self._measure())
        mean = float(np.average(self.worker_distance_, weights=self.answers_per_worker_))
        means = np.append(self.worker_distance_, mean)[self._positions_of_workers(answers)]
        # Of a task without a consensus nothing is known but how far answers lie apart by chance.
        away, means = np.where(np.isnan(away), self.chance_[0], away), np.where(np.isnan(away), self.chance_[0], means)
        density: FloatArray = -np.log(means) - away / means
        return density


def _pair_with_gold(
    answers: Texts,
    worker: IntArray,
    n_workers: int,
    gold: list[str | None] | None,
    distance: str | Callable[[str, str], float],
) -> TextPairs:
    """Pairs of answers; a known text is one more answer, by the worker M + 1."""
    task, texts = answers.task, answers.text.to_pylist()
    names = answers.workers.cast(pa.string()).take(pa.array(answers.worker)).to_pylist()
    if gold is not None:
        told = [(place, text) for place, text in enumerate(gold) if text is not None]
        task = np.concatenate([task, [place for place, _ in told]]).astype(np.int64)
        worker = np.concatenate([worker, np.full(len(told), n_workers + 1)])
        order = np.argsort(task, kind="stable")
        texts, names = [*texts, *(text for _, text in told)], [*names, *("" for _ in told)]
        texts, names = [texts[row] for row in order], [names[row] for row in order]
        task, worker = task[order], worker[order]
    return pair_answers(task, worker, texts, names, answers.n_tasks, distance)


def _distances_from(answers: Texts, texts: list[str | None], distance: str | Callable[[str, str], float]) -> FloatArray:
    """Distance of each answer (n,) from the text of its task; NaN where there is none."""
    there = np.array([text is not None for text in texts], np.bool_)
    rows = np.flatnonzero(there[answers.task])
    both = [*answers.text.to_pylist(), *(text or "" for text in texts)]
    task = np.concatenate([answers.task, np.arange(len(texts))])
    found = np.full(answers.n_answers, np.nan)
    found[rows] = measure_pairs(both, task, rows, answers.n_answers + answers.task[rows].astype(np.int64), distance)
    return found


def _mean_distances(pairs: TextPairs, n_workers: int, least: float) -> FloatArray:
    """Mean distance (M,) of workers' answers from those of others, drawn to that of all if they are few."""
    counts = pairs.sum_over_pairs(np.ones(pairs.one.size))
    far = pairs.sum_over_pairs(pairs.distance) / np.maximum(counts, 1)
    rows = (counts > 0) & (pairs.worker < n_workers)
    mean = float(far[rows].mean()) if rows.any() else 1.0
    sums, number = (
        np.bincount(pairs.worker[rows], far[rows], n_workers),
        np.bincount(pairs.worker[rows], minlength=n_workers),
    )
    return np.maximum((sums + FEW * mean) / (number + FEW), least)


def _confidence(
    crowd: TextCrowd, chosen: Chosen, answers: Texts, away: FloatArray, gold: list[str | None] | None
) -> FloatArray:
    """Similarity of the consensus to the truth (N,), by its similarity to answers of other workers than its author.

    One more answer counts, as near the truth as the author's are: the highest of several estimates is too high.
    """
    worker = _rows_of(crowd, answers)
    counted = (chosen.author[answers.task] != worker) & ~np.isnan(away)
    task, q, mean = answers.task[counted], crowd.q[worker[counted]], float(crowd.q[:-1].mean())
    own = np.where(chosen.author < 0, mean, crowd.q[chosen.author])
    there = np.bincount(task, q * (1 - away[counted]), answers.n_tasks) + mean**2 * own * crowd.t
    full = np.bincount(task, q**2, answers.n_tasks) * crowd.t + mean**2 * crowd.t
    found = there / np.maximum(full, 1e-12) if chosen.confidence is None else chosen.confidence
    found = np.clip(found, 0.0, 1.0)
    told = np.zeros(answers.n_tasks, np.bool_) if gold is None else np.array([text is not None for text in gold])
    answered = np.array([text is not None for text in chosen.texts], np.bool_)
    return np.where(told, 1.0, np.where(answered, found, 0.0))


def _rows_of(crowd: TextCrowd, answers: Texts) -> IntArray:
    """The crowd's position of the worker of each answer (n,), without the rows of gold."""
    own: IntArray = crowd.pairs.worker[crowd.pairs.worker != crowd.q.size - 1]
    return own if own.size == answers.n_answers else answers.worker


def _factor_spread(crowd: TextCrowd, n_workers: int) -> FloatArray:
    """Standard error (M,) of the factors of workers, by how much they differ between the answers of a worker."""
    pairs = crowd.pairs
    paired = pairs.sum_over_pairs(np.ones(pairs.one.size)) > 0
    rows = paired & (pairs.worker < n_workers)
    who = pairs.worker[rows]
    each = answer_nearness(*crowd, own_weight=0.0)[rows]
    counts = np.bincount(who, minlength=n_workers)
    off = np.bincount(who, (each - crowd.q[who]) ** 2, n_workers)
    variance = off.sum() / max(float(counts.sum()) - n_workers, 1.0) if rows.any() else 0.25
    return np.sqrt((off + FEW * variance) / (counts + FEW) / np.maximum(counts, 0.5))


def _gram_shares(texts: list[str], distance: str | Callable[[str, str], float]) -> FloatArray:
    orders = np.arange(LONGEST_GRAM)
    if distance != "gleu":
        return np.where(orders == 0, 1.0, 0.0)
    lengths = np.array([len(compared_words(text)) for text in texts])
    counts = np.maximum(lengths[:, None] - orders, 0).sum(axis=0).astype(np.float64)
    shares: FloatArray = counts / counts.sum()
    return shares
