"""How far the workers agree, beyond chance or not: share of agreeing pairs, Cohen's and Fleiss' kappa.

All of it is made from edges or from vote counts; nothing here is as large as tasks × workers.
A kappa is undefined (NaN) when chance alone explains everything: all answers in one class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from crowdwise.fitting.parameter_checks import check_count
from crowdwise.kernels.pairs import label_pairs
from crowdwise.labels.engine_choice import choose_engine
from crowdwise.labels.errors import InputError, quote
from crowdwise.metrics.checks import as_array, check_labels, class_positions
from crowdwise.metrics.votes import agreeing_pairs, vote_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.crowd_labels import CrowdLabels
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
    given = as_array(weights, "weights")
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
    >>> from crowdwise.labels.crowd_labels import CrowdLabels
    >>> labels = CrowdLabels.from_codes(
    ...     [0, 0, 1, 1, 2, 2, 3, 3, 3], [0, 1, 0, 1, 0, 1, 0, 1, 2], [0, 0, 0, 0, 1, 1, 1, 0, 1],
    ...     tasks=4, workers=3, classes=2,
    ... )
    >>> pairs = pairwise_kappas(labels)
    >>> pairs.first.tolist(), pairs.second.tolist(), pairs.n_common.tolist(), pairs.kappa.tolist()
    ([0, 0, 1], [1, 2, 2], [4, 1, 1], [0.5, nan, 0.0])
    """
    check_labels(labels)
    check_count("min_common", min_common)
    grave = disagreement_weights(weights, labels.n_classes)
    if choose_engine(labels.n_labels, labels.n_classes) == "numba":
        pairs = _compiled_kappas(labels, grave, nominal=weights is None)
    else:
        pairs = _kappas(labels, grave)
    if min_common > 1:
        enough = pairs.n_common >= min_common
        pairs = PairwiseKappas(pairs.first[enough], pairs.second[enough], pairs.n_common[enough], pairs.kappa[enough])
    return pairs


def _compiled_kappas(labels: CrowdLabels, grave: FloatArray, *, nominal: bool) -> PairwiseKappas:
    from crowdwise.kernels.compiled.agreement import fill_pairwise_kappas, pair_offsets

    edge, ptr = labels.by_worker
    edges = (edge, ptr, labels.task, labels.task_ptr, labels.worker, labels.label)
    offsets = pair_offsets(edges)
    pairs = PairwiseKappas(
        np.repeat(np.arange(labels.n_workers, dtype=np.int32), np.diff(offsets)),
        np.empty(offsets[-1], np.int32),
        np.empty(offsets[-1], np.int64),
        np.empty(offsets[-1], np.float64),
    )
    fill_pairwise_kappas(edges, offsets, grave, nominal, (pairs.second, pairs.n_common, pairs.kappa))
    return pairs


def _kappas(labels: CrowdLabels, grave: FloatArray) -> PairwiseKappas:
    one, two = label_pairs(labels.task_ptr)
    later = labels.worker[one] > labels.worker[two]
    one, two = np.where(later, two, one), np.where(later, one, two)
    different = labels.worker[one] != labels.worker[two]
    one, two = one[different], two[different]
    pairs, pair = np.unique(
        labels.worker[one].astype(np.int64) * labels.n_workers + labels.worker[two], return_inverse=True
    )
    size = labels.n_classes
    said_one, said_two = (
        np.bincount(pair * size + labels.label[edge], minlength=pairs.size * size).reshape(-1, size)
        for edge in (one, two)
    )
    common = np.bincount(pair, minlength=pairs.size)
    observed = np.bincount(pair, grave[labels.label[one], labels.label[two]], pairs.size)
    expected = np.einsum("pk,km,pm->p", said_one, grave, said_two, optimize=True)
    kappa = np.where(expected > 0, 1 - observed * common / np.where(expected > 0, expected, 1), np.nan)
    first, second = (pairs // labels.n_workers).astype(np.int32), (pairs % labels.n_workers).astype(np.int32)
    return PairwiseKappas(first, second, common, kappa)


def _beyond_chance(observed: float, expected: float) -> float:
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")
