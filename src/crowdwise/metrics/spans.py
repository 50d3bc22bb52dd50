"""How well spans were found: names in a text, marked word by word with BIO tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.labels.bio_tags import OUTSIDE, parse_tag
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.sequences import Sequences
from crowdwise.metrics.checks import as_array

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

__all__ = ["SpanScores", "span_scores"]


class SpanScores(NamedTuple):
    """Precision, recall and F1 of exact spans, and the counts they are made of."""

    precision: float
    recall: float
    f1: float
    n_right: int
    n_predicted: int
    n_true: int


def span_scores(
    truth: npt.ArrayLike, predicted: npt.ArrayLike, sequences: Sequences | npt.ArrayLike | None = None
) -> SpanScores:
    """Precision, recall and F1 of spans, all types together; a span is right if its type and both ends are.

    A span begins at B-x, and at an I-x that follows neither B-x nor I-x, as the CoNLL shared tasks count them. No span
    goes from one sequence to the next. Where there is nothing to divide by, a score is 0.

    Parameters
    ----------
    truth, predicted : arrays (n_tasks,)
        Tags: O, B-x and I-x, or plain B and I. The truth of every task is needed.
    sequences : Sequences, array (n_tasks,) or None
        Which tasks follow one another: what `read_sequences` gives; or the sequence that each task belongs to, whose
        tasks then stand in their order; or None where all are one sequence.

    References
    ----------
    Tjong Kim Sang and De Meulder (2003), Introduction to the CoNLL-2003 shared task, CoNLL.

    Examples
    --------
    >>> scores = span_scores(["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "I-PER", "O", "B-ORG"])
    >>> scores.precision, scores.recall, scores.f1
    (0.5, 0.5, 0.5)
    """
    true, said = _tags(truth, "truth"), _tags(predicted, "predicted")
    if len(true) != len(said):
        raise InputError(f"truth has {len(true)} tags and predicted has {len(said)}; give both one for each task.")
    found = _sequences(sequences, len(true))
    right = predictions = truths = 0
    for begin, end in zip(found.ptr[:-1], found.ptr[1:], strict=True):
        tasks = found.order[begin:end].tolist()
        expected = _spans([true[task] for task in tasks])
        given = _spans([said[task] for task in tasks])
        right += len(expected & given)
        predictions += len(given)
        truths += len(expected)
    precision, recall = (right / total if total else 0.0 for total in (predictions, truths))
    f1 = 2 * right / (predictions + truths) if predictions + truths else 0.0
    return SpanScores(precision, recall, f1, right, predictions, truths)


def _tags(given: npt.ArrayLike, what: str) -> list[tuple[str, str]]:
    array = np.asarray(given, dtype=object)
    names: list[Any] = array.tolist() if array.ndim == 1 else [given]
    known = {name: parse_tag(name) for name in dict.fromkeys(names)} if _all_text(names) else {}
    strange = [name for name, tag in known.items() if tag is None]
    if strange or (names and not known):
        raise InputError(
            f"{what} must hold tags, one for each task: O, B-x and I-x; it holds {listing(strange or names)}. Give "
            "names, not class positions."
        )
    return [tag for tag in (known[name] for name in names) if tag is not None]


def _all_text(names: Iterable[Any]) -> bool:
    return all(isinstance(name, str) for name in names)


def _sequences(given: Any, n_tasks: int) -> Sequences:
    if given is None:
        return Sequences(np.arange(n_tasks), np.unique([0, n_tasks]))
    found = given if isinstance(given, Sequences) else _group_tasks(as_array(given, "sequences"))
    if found.order.size != n_tasks:
        raise InputError(f"sequences speak of {found.order.size} tasks and truth of {n_tasks}; give the same tasks.")
    return found


def _group_tasks(names: npt.NDArray[Any]) -> Sequences:
    """Tasks of the same sequence together, in the order given."""
    if names.ndim != 1:
        raise InputError(f"sequences must name one sequence for each task; its shape is {quote(names.shape)}.")
    try:
        _, codes = np.unique(names, return_inverse=True)
    except TypeError as error:  # numbers and text together, or nothing
        raise InputError(f"sequences cannot be told apart: {quote(str(error))}. Name all of them as text.") from error
    return Sequences(np.argsort(codes, kind="stable"), np.append(0, np.cumsum(np.bincount(codes))))


def _spans(tags: list[tuple[str, str]]) -> set[tuple[int, int, str]]:
    """First place, place after the last, and type of each span."""
    spans, begin, kind = set(), -1, ""
    for place, (letter, own) in enumerate([*tags, (OUTSIDE, "")]):
        if begin >= 0 and (letter != "I" or own != kind):
            spans.add((begin, place, kind))
            begin = -1
        if letter != OUTSIDE and begin < 0:
            begin, kind = place, own
    return spans
