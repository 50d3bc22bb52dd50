"""Who gives the same answers as another, where answers can be so many things that chance hardly repeats one.

For two workers, count the questions that both answered and to which the first gave an unusual answer: one that makes up
no more than 5 % of all answers. If nobody copied, the second gives that very answer with a chance p of about its share
among all answers, or among the others' answers to this question where that is more; so the number of equal answers is
about Poisson with mean Σ p, and large numbers have a small p-value (times the pairs that were tested). Since careful
workers meet more often than strangers, more than half of such answers must be equal as well.

Not told: who copied from whom; and a common source, as a model that drew both, from a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammainc

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["EqualPair", "find_equal_pairs"]

UNUSUAL = 0.05  # share of all answers that an answer has at most, to be telling
FEWEST = 5  # equal answers of two workers
MOST_EQUAL = 0.5  # share of them that must be equal
LARGEST = 50  # workers who gave one answer to one question, beyond which it tells nothing


class EqualPair(NamedTuple):
    """Two workers, their equal answers, how many could have been, and how many chance makes likely."""

    first: int
    second: int
    equal: int
    shared: int
    expected: float
    p_value: float


def find_equal_pairs(worker: IntArray, question: IntArray, said: IntArray, level: float) -> list[EqualPair]:
    """Pairs of workers with far more equal unusual answers than chance makes, the surest first.

    Parameters
    ----------
    worker, question, said : (n,)
        Who answered, what was asked, and a number for each different answer.
    level
        Chance of naming anyone in a crowd where nobody copies.
    """
    share = (np.bincount(said) / max(said.size, 1))[said]
    telling = share <= UNUSUAL
    pairs = _equal_answers(worker[telling], question[telling], said[telling])
    counts: dict[tuple[int, int], int] = {}
    for first, second in pairs:
        counts[first, second] = counts.get((first, second), 0) + 1
    candidates = [pair for pair, number in counts.items() if number >= FEWEST]
    if not candidates:
        return []
    asked = {who: np.flatnonzero(worker == who) for who in {who for pair in candidates for who in pair}}
    popularity = _share_among_others(question, said)
    n_pairs = max(np.unique(worker).size * (np.unique(worker).size - 1) / 2, 1)
    found = []
    for first, second in candidates:
        rows = asked[first]
        rows = rows[telling[rows] & np.isin(question[rows], question[asked[second]])]
        expected = float(np.maximum(share[rows], popularity[rows]).sum())
        equal = counts[first, second]
        p_value = min(float(gammainc(equal, max(expected, 1e-12))) * n_pairs, 1.0)  # P(Poisson ≥ equal)
        if equal >= MOST_EQUAL * rows.size and p_value <= level:
            found.append(EqualPair(first, second, equal, int(rows.size), expected, p_value))
    return sorted(found, key=lambda pair: (pair.p_value, pair.first, pair.second))


def _equal_answers(worker: IntArray, question: IntArray, said: IntArray) -> list[tuple[int, int]]:
    """Two workers for every equal answer, the smaller first; answers that many gave are passed over."""
    order = np.lexsort((worker, said, question))
    keys = question[order].astype(np.int64) * (int(said.max(initial=0)) + 1) + said[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if keys.size else np.empty(0, np.int64)
    sizes = np.diff(np.r_[starts, keys.size])
    pairs = []
    for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
        if size > LARGEST:
            continue
        who = np.unique(worker[order[start : start + size]]).tolist()
        pairs += [(first, second) for place, first in enumerate(who) for second in who[place + 1 :]]
    return pairs


def _share_among_others(question: IntArray, said: IntArray) -> FloatArray:
    """Of each answer (n,), the share of it among the answers to its question by all but two who gave it."""
    keys = question.astype(np.int64) * (int(said.max(initial=0)) + 1) + said
    _, at, same = np.unique(keys, return_inverse=True, return_counts=True)
    answers = np.bincount(question)[question]
    share: FloatArray = np.maximum(same[at] - 2, 0) / np.maximum(answers - 2, 1)
    return share
