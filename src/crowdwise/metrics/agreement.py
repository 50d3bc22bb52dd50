"""How far the workers agree, beyond chance or not: share of agreeing pairs, Cohen's and Fleiss' kappa.

All of it is made from edges or from vote counts; nothing here is as large as tasks × workers.
A kappa is undefined (NaN) when chance alone explains everything: all answers in one class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from crowdwise.labels.errors import InputError, quote
from crowdwise.metrics.checks import class_positions
from crowdwise.metrics.votes import agreeing_pairs, vote_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.metrics.votes import Votes

__all__ = [
    "PairwiseKappas",
    "Weights",
    "cohen_kappa",
    "disagreement_weights",
    "fleiss_kappa",
    "observed_agreement",
    "pairwise_kappas",
]

Weights: TypeAlias = "Literal['linear', 'quadratic'] | npt.ArrayLike | None"
# The worker-major order (edge, ptr), then the edges by task (task, task_ptr, worker, label).
Edges: TypeAlias = "tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]"


class PairwiseKappas(NamedTuple):
    """One entry for each pair of workers who labelled a task in common, sorted; `first < second`.

    `n_common` counts the pairs of answers they have in common, `kappa` is NaN where undefined.
    """

    first: IntArray
    second: IntArray
    n_common: IntArray
    kappa: FloatArray


def observed_agreement(votes: Votes) -> float:
    """Chance that two answers to one task agree, averaged over the tasks with two answers or more.

    Each task counts once, however many answers it has. NaN if no task has two answers.

    Parameters
    ----------
    votes
        `CrowdLabels`, or vote counts (n_tasks, n_classes).

    Examples
    --------
    >>> observed_agreement([[3, 0], [2, 1], [1, 0]])
    0.6666666666666666
    """
    agree, pairs = agreeing_pairs(vote_matrix(votes))
    paired = pairs > 0
    return float(np.mean(agree[paired] / pairs[paired])) if paired.any() else float("nan")


def fleiss_kappa(votes: Votes) -> float:
    """Fleiss' kappa: agreement of many interchangeable raters beyond chance.

    `(P - E) / (1 - E)` with P the `observed_agreement` and E = Σ_k p_k². With the same number of answers
    for each task this is Fleiss (1971). With unequal numbers it is Gwet's (2014) generalisation: P is
    averaged over tasks with two answers or more; p_k is the mean over all labelled tasks of the task's
    share of answers k, so that each task counts once. An answer that a worker gives twice counts as two
    answers.

    Parameters
    ----------
    votes
        `CrowdLabels`, or vote counts (n_tasks, n_classes).

    Returns
    -------
    float
        At most 1; 0 is chance. NaN if no task has two answers or all answers are the same.

    References
    ----------
    Fleiss. Measuring nominal scale agreement among many raters. Psychological Bulletin 76, 1971.
    Gwet. Handbook of inter-rater reliability, 4th edition, 2014, chapter 2.

    Examples
    --------
    >>> round(fleiss_kappa([[3, 0], [2, 1], [0, 3]]), 4)
    0.55
    """
    counts = vote_matrix(votes)
    n = np.asarray(counts.sum(axis=1), np.float64)
    labelled = n > 0
    if not labelled.any():
        return float("nan")
    shares = counts.data / np.repeat(n, np.diff(counts.indptr))
    p = np.bincount(counts.indices, shares, minlength=counts.shape[1]) / labelled.sum()
    return _beyond_chance(observed_agreement(votes), float(p @ p))


def disagreement_weights(weights: Weights, n_classes: int) -> FloatArray:
    """How grave it is to say one class for another (n_classes, n_classes); zero on the diagonal.

    >>> disagreement_weights("quadratic", 3).tolist()
    [[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]]
    """
    at = np.arange(n_classes, dtype=np.float64)
    gap = np.abs(at[:, None] - at[None, :])
    if weights is None:
        return (gap > 0).astype(np.float64)
    if isinstance(weights, str):
        if weights not in ("linear", "quadratic"):
            raise InputError(f"weights is {quote(weights)}; it must be None, 'linear', 'quadratic' or a matrix.")
        return gap if weights == "linear" else gap**2
    given = np.asarray(weights)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.dtype.kind not in "iuf":
        raise InputError(f"weights must be a square matrix of numbers; its shape is {given.shape}.")
    if given.shape[0] < n_classes:
        raise InputError(f"weights is for {given.shape[0]} classes; the labels have {n_classes}.")
    if not (np.isfinite(given).all() and (given >= 0).all() and (np.diagonal(given) == 0).all()):
        raise InputError(
            "weights must be weights of disagreement: finite, none below 0, and 0 on the diagonal "
            "(turn weights of agreement around: largest weight minus weight)."
        )
    return given[:n_classes, :n_classes].astype(np.float64)


def cohen_kappa(first: npt.ArrayLike, second: npt.ArrayLike, *, weights: Weights = None) -> float:
    """Cohen's kappa of two raters: agreement beyond what their own class shares would give by chance.

    Parameters
    ----------
    first, second : arrays (n_tasks,)
        Class positions; -1, None or NaN for no answer. Tasks that either did not answer are left out.
    weights
        None: every disagreement is as grave. "linear", "quadratic": by the distance of the classes in their
        order. A matrix (n_classes, n_classes): weights of *disagreement* (Cohen 1968).

    Returns
    -------
    float
        At most 1; 0 is chance. NaN if no task is in common or both always gave the same one class.

    References
    ----------
    Cohen. A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20, 1960.
    Cohen. Weighted kappa. Psychological Bulletin 70, 1968.

    Examples
    --------
    >>> cohen_kappa([0, 0, 1, 1], [0, 0, 1, 0])
    0.5
    >>> round(cohen_kappa([0, 1, 2, 2], [0, 2, 2, 1], weights="quadratic"), 4)
    0.6364
    """
    one, two = class_positions(first, "first"), class_positions(second, "second")
    if one.size != two.size:
        raise InputError(
            f"first has {one.size} answers and second has {two.size}; give both one for each task, "
            "with -1 for no answer."
        )
    both = (one >= 0) & (two >= 0)
    if not both.any():
        return float("nan")
    one, two = one[both], two[both]
    n_classes = int(max(one.max(), two.max())) + 1
    counts = np.bincount(one * n_classes + two, minlength=n_classes**2)
    table = counts.reshape(n_classes, n_classes) / one.size
    grave = disagreement_weights(weights, n_classes)
    expected = float(table.sum(axis=1) @ grave @ table.sum(axis=0))
    return 1 - float((grave * table).sum()) / expected if expected > 0 else float("nan")


def pairwise_kappas(labels: CrowdLabels, *, weights: Weights = None, min_common: int = 1) -> PairwiseKappas:
    """Cohen's kappa of every two workers who labelled tasks in common, over those tasks.

    Takes time in proportion to the pairs of answers to the same task, and memory to workers × classes plus
    the pairs of workers found. Workers without a common task do not appear. Of a worker who answered a task
    more than once every answer is paired with the other worker's; a worker is never paired with themself.

    Parameters
    ----------
    labels
        Who said what.
    weights
        As in `cohen_kappa`; the classes stand in the order of `labels.classes`.
    min_common
        Leave out pairs with fewer answers in common.

    Examples
    --------
    >>> from crowdwise.labels.model import CrowdLabels
    >>> labels = CrowdLabels.from_codes(
    ...     [0, 0, 1, 1, 2, 2, 3, 3, 3], [0, 1, 0, 1, 0, 1, 0, 1, 2], [0, 0, 0, 0, 1, 1, 1, 0, 1],
    ...     tasks=4, workers=3, classes=2,
    ... )
    >>> pairs = pairwise_kappas(labels)
    >>> pairs.first.tolist(), pairs.second.tolist(), pairs.n_common.tolist(), pairs.kappa.tolist()
    ([0, 0, 1], [1, 2, 2], [4, 1, 1], [0.5, nan, 0.0])
    """
    if min_common < 1:
        raise InputError(f"min_common is {min_common}; it must be at least 1.")
    grave = disagreement_weights(weights, labels.n_classes)
    edge, ptr = labels.by_worker
    edges = (edge, ptr, labels.task, labels.task_ptr, labels.worker, labels.label)
    offsets = _pair_offsets(edges)
    pairs = PairwiseKappas(
        np.repeat(np.arange(labels.n_workers, dtype=np.int32), np.diff(offsets)),
        np.empty(offsets[-1], np.int32),
        np.empty(offsets[-1], np.int64),
        np.empty(offsets[-1], np.float64),
    )
    _fill_pairs(edges, offsets, grave, weights is None, (pairs.second, pairs.n_common, pairs.kappa))
    if min_common > 1:
        enough = pairs.n_common >= min_common
        pairs = PairwiseKappas(pairs.first[enough], pairs.second[enough], pairs.n_common[enough], pairs.kappa[enough])
    return pairs


def _beyond_chance(observed: float, expected: float) -> float:
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


@njit(cache=True, nogil=True)
def _pair_offsets(edges: Edges) -> IntArray:
    """Where each worker's pairs with later workers begin."""
    edge, ptr, task, task_ptr, worker, _ = edges
    n_workers = ptr.size - 1
    offsets = np.zeros(n_workers + 1, np.int64)
    seen_by = np.full(n_workers, -1, np.int64)
    for one in range(n_workers):
        found = 0
        for at in range(ptr[one], ptr[one + 1]):
            what = task[edge[at]]
            for other in range(task_ptr[what], task_ptr[what + 1]):
                two = worker[other]
                if two > one and seen_by[two] != one:
                    seen_by[two] = one
                    found += 1
        offsets[one + 1] = offsets[one] + found
    return offsets


@njit(cache=True, nogil=True)
def _fill_pairs(
    edges: Edges,
    offsets: IntArray,
    grave: FloatArray,
    nominal: bool,
    out: tuple[IntArray, IntArray, FloatArray],
) -> None:
    """For each worker: margins against each later co-worker, then kappa, then the margins wiped."""
    edge, ptr, task, task_ptr, worker, label = edges
    second, n_common, kappa = out
    n_workers, n_classes = ptr.size - 1, grave.shape[0]
    common = np.zeros(n_workers, np.int64)
    observed = np.zeros(n_workers, np.float64)
    said_one = np.zeros((n_workers, n_classes), np.int32)
    said_two = np.zeros((n_workers, n_classes), np.int32)
    for one in range(n_workers):
        cursor = offsets[one]
        for at in range(ptr[one], ptr[one + 1]):
            what, k = task[edge[at]], label[edge[at]]
            for other in range(task_ptr[what], task_ptr[what + 1]):
                two = worker[other]
                if two > one:
                    if common[two] == 0:
                        second[cursor] = two
                        cursor += 1
                    common[two] += 1
                    observed[two] += grave[k, label[other]]
                    said_one[two, k] += 1
                    said_two[two, label[other]] += 1
        second[offsets[one] : cursor].sort()
        for pair in range(offsets[one], cursor):
            two = second[pair]
            n = common[two]
            expected = float(n) * n if nominal else 0.0
            for k in range(n_classes):
                if said_one[two, k] == 0:
                    continue
                if nominal:
                    expected -= float(said_one[two, k]) * said_two[two, k]
                else:
                    for m in range(n_classes):
                        expected += float(said_one[two, k]) * said_two[two, m] * grave[k, m]
            n_common[pair] = n
            kappa[pair] = 1 - observed[two] * n / expected if expected > 0 else np.nan
            common[two] = 0
            observed[two] = 0
            said_one[two] = 0
            said_two[two] = 0
