r"""A text put together of words that workers agree on, by alignment and weighted votes (ROVER, Fiscus 1997).

The answers to a task are aligned word by word into a network: slots in a row, in each of which every answer has a word
or none. In each slot one of the words (or none) is right, all alike before anyone is heard. Worker m has the right one
with probability a_m, and otherwise another word of the slot or one of three that nobody wrote, all alike: without those
three, a worker who is right less than half of the time would speak against their word where there are two.

| step | function |
|---|---|
| network: the answer nearest the others first, then the others by similarity to it, each by edit distance | `align` |
| P(word z is right \| slot) ∝ Π_m a_m if m has z, else (1 - a_m) / (words of the slot + 2) | `word_posterior` |
| a_m = (expected right words + 4) / (words + 5) | `count_right` |
| Σ_slots log Σ_z 1/K Π_m P(word of m \| z) + log prior of a, which the two steps climb | `word_posterior` |

Departures: NIST's ROVER takes the answers as they come and weighs votes by a confidence that recognisers give; here the
weights of workers are found by EM, as those of one coin a worker (Dawid & Skene 1979) in every slot. A word is written
as most of its votes have it (case, blank before it or not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.texts.distances import LONGEST_GRAM
from crowdwise.kinds.texts.model import Chosen, TextModel
from crowdwise.kinds.texts.nearness import answer_nearness
from crowdwise.kinds.texts.words import Word, join_words, split_words
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdwise.kinds.texts.model import TextCrowd
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["WordVotes", "align", "too_long_to_align", "word_posterior"]

RIGHT, WRONG = 4.0, 1.0  # words that count beside a worker's own: mostly right
UNSEEN = 3.0  # wrong words for each slot that nobody wrote; the best of 0 to 100 in simulated crowds
MOST_CELLS = 3e9  # of the tables of alignments, all together: about a minute


class Slots(NamedTuple):
    """Votes for words: slot, worker and candidate of each vote (V,), candidates of each slot (S,) and their task.

    Candidates are numbered over all slots, those of slot s from `first[s]` on; `word` is what a vote writes, None for
    no word.
    """

    slot: IntArray
    worker: IntArray
    candidate: IntArray
    word: list[Word | None]
    first: IntArray
    task: IntArray

    @property
    def sizes(self) -> IntArray:
        """Number of candidates of each slot (S,)."""
        return np.diff(self.first)


def align(texts: Sequence[Sequence[str]]) -> IntArray:
    """Where each text has a word in each slot (n, slots): position of the word in the text, -1 for none.

    The first text makes the first slots. Each next one takes the cheapest way through them: a slot costs the share of
    texts so far that have something else in it, a word between slots 1.

    >>> align([["a", "small", "house"], ["a", "house"]]).tolist()
    [[0, 1, 2], [0, -1, 1]]
    """
    table = np.arange(len(texts[0]))[None]
    for number, words in enumerate(texts[1:], 1):
        votes: list[dict[str | None, float]] = []
        for slot in range(table.shape[1]):
            shares: dict[str | None, float] = {}
            for text, place in enumerate(table[:, slot]):
                said = texts[text][place] if place >= 0 else None
                shares[said] = shares.get(said, 0.0) + 1.0 / number
            votes.append(shares)
        table = _insert(table, _cheapest_way(votes, words))
    return table


def _cheapest_way(votes: list[dict[str | None, float]], words: Sequence[str]) -> list[tuple[int, int]]:
    """Steps (slot, word) through slots and words; -1 where a slot or a word is passed over."""
    skip = np.array([1.0 - shares.get(None, 0.0) for shares in votes])
    passed = np.concatenate([[0.0], np.cumsum(skip)])
    by_word: dict[str, FloatArray] = {}
    for word in dict.fromkeys(words):
        by_word[word] = np.array([1.0 - shares.get(word, 0.0) for shares in votes])
    rows = [passed]
    for word in words:
        between = rows[-1] + 1.0
        if votes:
            # A mismatch is dearer by a hair than to pass over both, so that words that are alike meet.
            between[1:] = np.minimum(between[1:], rows[-1][:-1] + by_word[word] * 1.001)
        rows.append(np.minimum.accumulate(between - passed) + passed)
    steps, slot, place = [], len(votes), len(words)
    while slot or place:
        here = rows[place][slot]
        if slot and place and _same(here, rows[place - 1][slot - 1] + by_word[words[place - 1]][slot - 1] * 1.001):
            slot, place = slot - 1, place - 1
            steps.append((slot, place))
        elif place and _same(here, rows[place - 1][slot] + 1.0):
            place -= 1
            steps.append((-1, place))
        else:
            slot -= 1
            steps.append((slot, -1))
    return steps[::-1]


def _same(one: float, other: float) -> bool:
    return abs(one - other) < 1e-6


def _insert(table: IntArray, steps: list[tuple[int, int]]) -> IntArray:
    """The table of slots with one more text, and slots of its own where it has words between."""
    found: IntArray = np.full((table.shape[0] + 1, len(steps)), -1, np.int64)
    for at, (slot, place) in enumerate(steps):
        if slot >= 0:
            found[:-1, at] = table[:, slot]
        found[-1, at] = place
    return found


def too_long_to_align(texts: Sequence[Sequence[object]], task: IntArray) -> bool:
    """Whether the tables of all alignments together are too large."""
    lengths = np.array([len(text) for text in texts], np.float64)
    longest = np.zeros(int(task.max(initial=0)) + 1)
    np.maximum.at(longest, task, lengths)
    return bool((lengths * longest[task]).sum() * 2 > MOST_CELLS)


def collect_votes(crowd: TextCrowd) -> Slots:
    """The votes of all answers in the slots of their tasks."""
    pairs = crowd.pairs
    words = [split_words(text) for text in pairs.texts]
    if too_long_to_align(words, pairs.task):
        raise InputError(
            "The texts are too long to be aligned word by word. Take weighted-medoid, or cut the texts into parts, "
            "each a task."
        )
    order = np.lexsort((pairs.rank, -np.round(answer_nearness(*crowd), 6), pairs.task))
    slots: list[int] = []
    workers: list[int] = []
    candidates: list[int] = []
    said: list[Word | None] = []
    first, tasks = [0], list[int]()
    bounds = np.searchsorted(pairs.task[order], np.arange(pairs.n_tasks + 1))
    for task in np.flatnonzero(np.diff(bounds)):
        rows = order[bounds[task] : bounds[task + 1]]
        table = align([[word.form for word in words[row]] for row in rows])
        for column in table.T:
            codes: dict[str | None, int] = {}
            for row, place in zip(rows, column, strict=True):
                word = words[row][place] if place >= 0 else None
                code = codes.setdefault(None if word is None else word.form, len(codes))
                slots.append(len(tasks))
                workers.append(int(pairs.worker[row]))
                candidates.append(first[-1] + code)
                said.append(word)
            first.append(first[-1] + len(codes))
            tasks.append(int(task))
    return Slots(np.array(slots), np.array(workers), np.array(candidates), said, np.array(first), np.array(tasks))


def word_posterior(slots: Slots, accuracy: FloatArray) -> tuple[FloatArray, float]:
    """Probability that each candidate is right, and the log-likelihood of all votes; `accuracy` (M,) is a_m."""
    others = (slots.sizes - 1 + UNSEEN)[slots.slot]
    right, wrong = np.log(accuracy)[slots.worker], np.log1p(-accuracy)[slots.worker] - np.log(others)
    base = np.bincount(slots.slot, wrong, slots.sizes.size)
    slot_of = np.repeat(np.arange(slots.sizes.size), slots.sizes)
    score = base[slot_of] + np.bincount(slots.candidate, right - wrong, slot_of.size) - np.log(slots.sizes)[slot_of]
    top = np.maximum.reduceat(score, slots.first[:-1])
    chances = np.exp(score - top[slot_of])
    total = np.add.reduceat(chances, slots.first[:-1])
    return chances / total[slot_of], float((np.log(total) + top).sum())


def log_prior(accuracy: FloatArray) -> float:
    """Logarithm of the prior of the workers, up to a constant."""
    return float((RIGHT * np.log(accuracy) + WRONG * np.log1p(-accuracy)).sum())


def count_right(slots: Slots, posterior: FloatArray, n_workers: int) -> FloatArray:
    """The a_m (M,) that follow from the expected number of right words."""
    right = np.bincount(slots.worker, posterior[slots.candidate], n_workers)
    total = np.bincount(slots.worker, minlength=n_workers)
    return (right + RIGHT) / (total + RIGHT + WRONG)


class AlignedWords(TextModel):
    """What a model of aligned words keeps.

    Attributes
    ----------
    accuracy_ : (M,)
        Probability that a worker has the right word in a slot.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("accuracy", "M", low=1e-12, high=1 - 1e-12),)
    accuracy_: FloatArray

    def _choose(self, crowd: TextCrowd) -> Chosen:
        pairs = crowd.pairs
        if not pairs.texts:
            return Chosen([None] * pairs.n_tasks, np.full(pairs.n_tasks, -1))
        slots = collect_votes(crowd)
        counts = np.bincount(slots.worker, minlength=crowd.q.size)[: self.accuracy_.size]
        mean = float(np.average(self.accuracy_, weights=counts if counts.any() else None))
        posterior, _ = word_posterior(slots, np.concatenate([self.accuracy_, [mean, 1 - 1e-9]]))
        texts: list[str | None] = [None] * pairs.n_tasks
        written = _write_slots(slots, posterior)
        for task, words in written.items():
            texts[task] = join_words(words) if words else None
        fallback = pairs.highest(answer_nearness(*crowd))  # where no word has most votes in any slot
        texts = [pairs.texts[row] if text is None and row >= 0 else text
                 for text, row in zip(texts, fallback.tolist(), strict=True)]  # fmt: skip
        return Chosen(texts, np.full(pairs.n_tasks, -1, np.int64), _share_right(slots, posterior, pairs.n_tasks))


def _write_slots(slots: Slots, posterior: FloatArray) -> dict[int, list[Word]]:
    """The words of each task: the most probable candidate of each slot, written as most of its votes have it."""
    ways: dict[int, dict[Word, float]] = {}
    forms: dict[int, str] = {}
    for candidate, word in zip(slots.candidate.tolist(), slots.word, strict=True):
        if word is not None:
            here = ways.setdefault(candidate, {})
            here[word] = here.get(word, 0.0) + 1.0
            forms[candidate] = word.form
    written: dict[int, list[Word]] = {}
    for slot, task in enumerate(slots.task.tolist()):
        rows = range(int(slots.first[slot]), int(slots.first[slot + 1]))
        best = max(rows, key=lambda each: (round(float(posterior[each]), 6), forms.get(each, "")))
        words = written.setdefault(task, [])
        if best in ways:
            words.append(max(ways[best], key=lambda word: (ways[best][word], word)))
    return written


def _share_right(slots: Slots, posterior: FloatArray, n_tasks: int) -> FloatArray:
    """Expected share (N,) of runs of 1 to 4 slots of a task that are right throughout, as GLEU counts them."""
    right = np.maximum.reduceat(posterior, slots.first[:-1])
    sums, counts, runs, task = np.zeros(n_tasks), np.zeros(n_tasks), np.ones(right.size), slots.task
    for length in range(1, LONGEST_GRAM + 1):
        runs = runs[: right.size - length + 1] * right[length - 1 :]
        inside = task[: runs.size] == task[length - 1 :]
        sums += np.bincount(task[: runs.size], runs * inside, n_tasks)
        counts += np.bincount(task[: runs.size], inside, n_tasks)
    return sums / np.maximum(counts, 1)


@estimator
class WordVotes(AlignedWords):
    """Words that workers agree on, put together: answers aligned word by word, and weighted votes in every place.

    Facts
    -----
    Assumes: answers are the same text with single words wrong, as in transcriptions
    Fails with: free texts, such as translations that put things differently: what is put together is no sentence
    Cost: O(answers × words²) and O(answers × words) an iteration
    Paper: Fiscus 1997, ASRU (ROVER)
    """

    slug = "word-votes"
    climbs = True

    distance: str | Callable[[str, str], float] = "gleu"
    max_iter: int = 100
    tol: float = 1e-6

    def _learn(self, crowd: TextCrowd, n_workers: int) -> Found:
        slots = collect_votes(crowd)

        def step(accuracy: FloatArray) -> tuple[float, float, FloatArray]:
            posterior, likelihood = word_posterior(slots, np.concatenate([accuracy, [0.5, 1 - 1e-9]]))
            return likelihood + log_prior(accuracy), likelihood, count_right(slots, posterior, n_workers + 2)[:-2]

        start = np.full(n_workers, RIGHT / (RIGHT + WRONG))
        went = climb([start], step, max_iter=self.max_iter, tol=self.tol * slots.slot.size, name="word votes")
        return Found({"accuracy": went.parameters}, went.objective, went.n_iter, went.converged)
