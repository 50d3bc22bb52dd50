"""How far apart two texts are: GLEU, edit distances of words and of characters, or a function of the user's.

| distance | of two texts |
|---|---|
| "gleu" | 1 - GLEU (Wu et al. 2016): shared n-grams of 1 to 4 words over those of the longer text |
| "words" | insertions, deletions and substitutions of words, over the words of the longer text |
| "characters" | the same, of characters |

All three are symmetric and lie between 0 and 1. Distances are computed for pairs of answers to the same task, never for
all pairs of texts. GLEU is computed for all pairs together: an n-gram that stands in a text for the second time is a
column of its own, so that the shared n-grams of two texts are the product of two rows of zeros and ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from crowdwise.kinds.texts.words import compared_words
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["DISTANCES", "LONGEST_GRAM", "check_distance", "edit_distance", "gleu", "measure_pairs", "word_error_rate"]

DISTANCES = ("gleu", "words", "characters")
LONGEST_GRAM = 4
LARGEST_DISTANCE = 1e50  # of a function of the user's: squares of distances are summed
MOST_STEPS = 4e9  # of edit distances, 64 at once: about a minute


def gleu(found: str, true: str) -> float:
    """GLEU of two texts, from 0 to 1: n-grams of 1 to 4 words that both have, over those of the longer one.

    >>> gleu("a small house", "a small home")
    0.5
    """
    return 1.0 - float(_gleu_distances([found, true], np.zeros(2, np.int64), np.array([0]), np.array([1]))[0])


def word_error_rate(found: str, true: str) -> float:
    """Edits of words that lead from one text to the other, over the words of the true one.

    >>> word_error_rate("a small house", "a very small home")
    0.5
    """
    one, other = compared_words(found), compared_words(true)
    return edit_distance(one, other) / max(len(other), 1)


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Insertions, deletions and substitutions that lead from one sequence to the other.

    Columns of the table of distances are bits of one number (Myers 1999, Hyyrö 2003): `up` and `down` hold where a
    column grows and falls.

    >>> edit_distance("kitten", "sitting")
    3
    """
    if not one or not other:
        return max(len(one), len(other))
    places: dict[Hashable, int] = {}
    for at, each in enumerate(one):
        places[each] = places.get(each, 0) | 1 << at
    every, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    up, down, distance = every, 0, len(one)
    for each in other:
        same = places.get(each, 0)
        diagonal = (((same & up) + up) ^ up) | same
        grows, falls = down | (every & ~(diagonal | up)), up & diagonal
        distance += bool(grows & last) - bool(falls & last)
        grows, falls = (grows << 1 | 1) & every, (falls << 1) & every
        here = same | down
        up, down = falls | (every & ~(here | grows)), grows & here
    return distance


def check_distance(distance: Any) -> None:
    """Refuse what is neither the name of a distance nor a function."""
    if not callable(distance) and not (isinstance(distance, str) and distance in DISTANCES):
        raise InputError(
            f"distance is {quote(distance)}; it must be {', '.join(map(repr, DISTANCES))} or a function of two texts."
        )


def measure_pairs(
    texts: Sequence[str], task: IntArray, one: IntArray, other: IntArray, distance: str | Callable[[str, str], float]
) -> FloatArray:
    """Distance of each pair (P,) of texts at the positions `one` and `other`; `task` (n,) are their tasks."""
    if distance == "gleu":
        return _gleu_distances(texts, task, one, other)
    measure, readable = (distance, texts) if callable(distance) else _edit_distances(texts, str(distance), one, other)
    known: dict[tuple[Any, Any], float] = {}
    found = np.empty(one.size)
    for at, pair in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        first, second = readable[pair[0]], readable[pair[1]]
        if (first, second) not in known:
            known[first, second] = _check_measured(measure(first, second), first, second)
        found[at] = known[first, second]
    return found


def _edit_distances(
    texts: Sequence[str], distance: str, one: IntArray, other: IntArray
) -> tuple[Callable[[Any, Any], float], list[Any]]:
    forms = [compared_words(text) for text in texts]
    if distance == "characters":
        forms = [tuple(" ".join(words)) for words in forms]
    lengths = np.array([len(form) for form in forms], np.float64)
    if (lengths[one] * lengths[other]).sum() > 64 * MOST_STEPS:
        raise InputError(
            f"The texts are too long to compare all answers of a task by {distance}. Take distance='gleu', or cut the "
            "texts into parts, each a task."
        )
    return lambda first, second: edit_distance(first, second) / max(len(first), len(second), 1), forms


def _check_measured(value: Any, first: Any, second: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= LARGEST_DISTANCE:
        raise InputError(
            f"The distance of {quote(str(first)[:40])} and {quote(str(second)[:40])} is {quote(value)}; it must be a "
            f"number from 0 to {LARGEST_DISTANCE:g}. Mend the function given as distance."
        )
    return number


def _gleu_distances(texts: Sequence[str], task: IntArray, one: IntArray, other: IntArray) -> FloatArray:
    if not one.size:
        return np.empty(0)
    forms = [compared_words(text) for text in texts]
    lengths = np.array([len(form) for form in forms])
    codes: dict[str, int] = {}
    word = np.array([codes.setdefault(each, len(codes)) for form in forms for each in form], np.int64)
    row, column = _number_grams(word, np.repeat(np.arange(lengths.size), lengths), task)
    shape = lengths.size, int(column.max(initial=-1)) + 1
    grams = csr_array((np.ones(row.size, np.int32), (row, column)), shape=shape)
    shared = (grams @ grams.T).tocoo()
    keys = shared.row.astype(np.int64) * lengths.size + shared.col
    order = np.argsort(keys)
    wanted = one.astype(np.int64) * lengths.size + other
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(keys.size - 1, 0))
    same = np.zeros(wanted.size)
    if keys.size:
        hit = keys[order][at] == wanted
        same[hit] = shared.data[order][at][hit]
    total = np.bincount(row, minlength=lengths.size)
    longer = np.maximum(total[one], total[other])
    # Two texts without words are the same.
    return np.where(longer > 0, 1.0 - same / np.maximum(longer, 1), 0.0)


def _number_grams(word: IntArray, row: IntArray, task: IntArray) -> tuple[IntArray, IntArray]:
    """Row and column of each n-gram: columns tell n-grams, tasks, and how often the text had the n-gram before."""
    size = int(word.max(initial=0)) + 1
    gram = np.unique(task[row].astype(np.int64) * size + word, return_inverse=True)[1]
    rows, columns, next_column = [], [], 0
    place = np.arange(word.size)
    for length in range(1, LONGEST_GRAM + 1):
        if length > 1:
            inside = place + length - 1 < word.size
            inside[inside] &= row[place[inside] + length - 1] == row[place[inside]]
            place, gram = place[inside], gram[inside]
            gram = np.unique(gram * size + word[place + length - 1], return_inverse=True)[1]
        if not place.size:
            break
        order = np.lexsort((gram, row[place]))
        fresh = np.ones(order.size, np.bool_)
        fresh[1:] = (np.diff(gram[order]) != 0) | (np.diff(row[place][order]) != 0)
        starts = np.maximum.accumulate(np.where(fresh, np.arange(order.size), 0))
        before = np.arange(order.size) - starts
        column = np.unique(gram[order] * (int(before.max()) + 1) + before, return_inverse=True)[1]
        rows.append(row[place][order])
        columns.append(column + next_column)
        next_column += int(column.max()) + 1
    empty: IntArray = np.empty(0, np.int64)
    return (np.concatenate(rows), np.concatenate(columns)) if rows else (empty, empty)
