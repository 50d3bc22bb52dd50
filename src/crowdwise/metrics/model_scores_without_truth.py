"""Judging a model with no truth at hand: against the workers, and by labels that were held out."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import expit

from crowdwise.fitting.parameter_checks import check_count
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.metrics.agreement import disagreement_weights, pairwise_kappas
from crowdwise.metrics.checks import as_array, check_choice, check_confusions, check_labels, check_rows, class_positions
from crowdwise.metrics.votes import agreeing_pairs, class_numbers, vote_matrix

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.metrics.agreement import Weights

__all__ = ["agreement_ratio", "discrepancy_ratio", "held_out_log_likelihood", "model_kappas"]

# Edges gathered at once in the held-out likelihood: a few megabytes for tens of classes.
BLOCK = 2**16


def model_kappas(
    predicted: npt.ArrayLike, labels: CrowdLabels, *, weights: Weights = None, min_common: int = 1
) -> FloatArray:
    """Cohen's kappa of a model's predictions with each worker (n_workers,), over the tasks of that worker.

    NaN for a worker who shares fewer than `min_common` answers with the model, or where kappa is undefined.

    Parameters
    ----------
    predicted : array (n_tasks,)
        Class positions; -1, None or NaN for no prediction.
    labels, weights, min_common
        As in `pairwise_kappas`.

    Examples
    --------
    >>> from crowdwise.labels.crowd_labels import CrowdLabels
    >>> labels = CrowdLabels.from_codes(
    ...     [0, 0, 1, 1, 2, 3], [0, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 0], tasks=4, workers=2, classes=2
    ... )
    >>> model_kappas([0, 0, 1, 1], labels).tolist()
    [0.5, 0.0]
    """
    said = _predictions(predicted, labels)
    grave = disagreement_weights(weights, labels.n_classes)
    asked = said[labels.task] >= 0
    worker, label, model = labels.worker[asked], labels.label[asked], said[labels.task[asked]]
    check_count("min_common", min_common)
    shape = (labels.n_workers, labels.n_classes)
    row = worker.astype(np.int64) * labels.n_classes
    by_model = np.bincount(row + model, minlength=shape[0] * shape[1]).reshape(shape)
    by_worker = np.bincount(row + label, minlength=shape[0] * shape[1]).reshape(shape)
    n = by_worker.sum(axis=1)
    observed = np.bincount(worker, grave[model, label], minlength=labels.n_workers)
    expected = ((by_model @ grave) * by_worker).sum(axis=1)
    kappa = np.full(labels.n_workers, np.nan)
    defined = (n >= min_common) & (expected > 0)
    kappa[defined] = 1 - observed[defined] * n[defined] / expected[defined]
    return kappa


def agreement_ratio(
    predicted: npt.ArrayLike, labels: CrowdLabels, *, weights: Weights = None, min_common: int = 2
) -> float:
    """Agreement ratio Δ of Learn2Agree (Wang et al.), eq. 10: above 1, the model beats the average worker.

    Δ = mean over workers of σ(κ(model, worker)) / mean over pairs of workers of σ(κ(worker, other)), with
    Cohen's κ and the logistic σ, which keeps both means above zero.

    *The reading.* The equation divides the sum over pairs by C(J, 2), the number of *unordered* pairs,
    while its index j ≠ j' could be read as every ordered pair, twice as many terms; Δ would then be halved.
    The text calls the denominator "the average agreement between annotators", and so it is here. The
    paper's table 1 confirms it: its four annotators, each scored as a model against the other three, have
    ratios r around 1, not ½, and the mean of 2r / (1 + r) is 1 to the printed digits, as it must be for
    means. To score a worker the same way, take their labels out of `labels` first.

    *Sparse crowds* (the paper's are complete): a κ is taken over the tasks in common, only pairs who
    labelled a task in common count, and those with fewer than `min_common` or with an undefined κ are left
    out, on both sides. A κ on one task is either 0 or undefined, hence the default of 2.

    Parameters
    ----------
    predicted : array (n_tasks,)
        Class positions; -1, None or NaN for no prediction.
    labels
        Who said what.
    weights
        As in `cohen_kappa`; the paper has none.
    min_common
        Answers that two must have in common to count.

    Returns
    -------
    float
        Above zero; NaN if no worker or no pair of workers has a κ.

    References
    ----------
    Wang, Gao, Fan, Hu, Lam, Lane & Bianchi-Berthouze. Learn2Agree: fitting with multiple annotators without
    objective ground truth. Equation 10.

    Lovchinsky et al. Discrepancy ratio: evaluating model performance when even experts disagree on the truth.
    ICLR 2020.

    Examples
    --------
    >>> from crowdwise.labels.crowd_labels import CrowdLabels
    >>> labels = CrowdLabels.from_codes(
    ...     [0, 0, 1, 1, 2, 2, 3, 3], [0, 1] * 4, [0, 0, 0, 1, 1, 1, 1, 1], tasks=4, workers=2, classes=2
    ... )
    >>> round(agreement_ratio([0, 0, 1, 1], labels), 4)
    1.0872
    """
    with_model = model_kappas(predicted, labels, weights=weights, min_common=min_common)
    with_others = pairwise_kappas(labels, weights=weights, min_common=min_common).kappa
    with_model, with_others = with_model[~np.isnan(with_model)], with_others[~np.isnan(with_others)]
    if with_model.size == 0 or with_others.size == 0:
        return float("nan")
    return float(expit(with_model).mean() / expit(with_others).mean())


def discrepancy_ratio(
    predicted: npt.ArrayLike,
    labels: CrowdLabels,
    *,
    discrepancy: Literal["mismatch", "absolute", "squared"] = "mismatch",
    values: npt.ArrayLike | None = None,
) -> float:
    """Discrepancy of model and workers over that of the workers among themselves: below 1, the model wins.

    For each task with two answers or more: the mean discrepancy of the prediction to its answers, and the
    mean discrepancy over the pairs of its answers. The ratio is the mean of the first over the mean of the
    second, over the same tasks, each counting once. After Lovchinsky et al. (2020), as Wang et al.
    (Learn2Agree) describe it: "the model-annotator vs. the annotator-annotator", with e.g. the absolute
    error. Their papers have the same workers on every task; the weighting of tasks with unequal numbers is
    ours.

    Parameters
    ----------
    predicted : array (n_tasks,)
        Class positions; -1, None or NaN for no prediction: the task is left out.
    labels
        Who said what.
    discrepancy
        "mismatch": 1 if the classes differ. "absolute", "squared": of the difference of the classes' numbers.
    values : array (n_classes,), optional
        The number of each class; by default its name, if all names are numbers.

    Returns
    -------
    float
        From zero up; NaN if no task counts, or if the workers never disagree and nor does the model;
        infinite if only the model does.

    References
    ----------
    As in `agreement_ratio`.

    Examples
    --------
    >>> from crowdwise.labels.crowd_labels import CrowdLabels
    >>> labels = CrowdLabels.from_codes(
    ...     [0, 0, 0, 1, 1, 1], [0, 1, 2] * 2, [0, 0, 1, 1, 1, 1], tasks=2, workers=3, classes=2
    ... )
    >>> round(discrepancy_ratio([0, 1], labels), 4), round(discrepancy_ratio([1, 1], labels), 4)
    (0.5, 1.0)
    """
    check_choice(discrepancy, ("mismatch", "absolute", "squared"), "discrepancy")
    said = _predictions(predicted, labels)
    n = labels.labels_per_task
    counted = (said >= 0) & (n > 1)
    if not counted.any():
        return float("nan")
    if discrepancy == "mismatch":
        to_model = (said[labels.task] != labels.label).astype(np.float64)
        agree, pairs = agreeing_pairs(vote_matrix(labels))
        among = 1 - agree[counted] / pairs[counted]
    else:
        numbers = class_numbers(labels, values, labels.n_classes, f"discrepancy={discrepancy!r}")
        given = numbers[labels.label]
        to_model = np.abs(numbers[said[labels.task]] - given)  # -1 wraps, and is not counted
        if discrepancy == "squared":
            to_model = to_model**2
        among = _mean_pair_difference(labels, given, squared=discrepancy == "squared")[counted]
    model = np.bincount(labels.task, to_model, minlength=labels.n_tasks)[counted] / n[counted]
    above, below = float(model.mean()), float(among.mean())
    if below <= 0:
        return float("inf") if above > 0 else float("nan")
    return above / below


def held_out_log_likelihood(
    q: npt.ArrayLike, confusion: npt.ArrayLike, held_out: CrowdLabels, *, floor: float = 0.0
) -> float:
    """Mean log probability of labels that the model did not see, in nats: the higher, the better.

    For each held-out label l of worker w on task t: `log Σ_k q[t, k] · confusion[w, k, l]`.

    Parameters
    ----------
    q : array (n_tasks, n_classes)
        Posterior of the truth, from the labels that were *not* held out.
    confusion : array (n_workers, n_classes, n_classes)
        `[worker, truth, label]`; each row sums to one.
    held_out
        The labels hidden from the fit, as `labels.split()` gives them (all names kept).
    floor
        A smaller probability counts as this one. With 0, one label that the model calls impossible makes the
        result -inf: smooth the model, or set a floor to compare models that are not smoothed.

    Examples
    --------
    >>> from crowdwise.labels.crowd_labels import CrowdLabels
    >>> hidden = CrowdLabels.from_codes([0, 1], [0, 0], [0, 0], tasks=2, workers=1, classes=2)
    >>> round(held_out_log_likelihood([[1, 0], [0.5, 0.5]], [[[0.8, 0.2], [0.2, 0.8]]], hidden), 4)
    -0.4581
    """
    check_labels(held_out, "held_out")
    if not isinstance(floor, Real) or not 0 <= floor < 1:
        raise InputError(f"floor is {quote(floor)}; it must be a number in [0, 1).")
    if held_out.n_labels == 0:
        raise InputError("No label is held out. Hold some out with `labels.split(held_out=0.2)`.")
    posterior, worker_model = as_array(q, "q"), check_confusions(confusion, "confusion")
    n_classes = held_out.n_classes
    for what, shape, wanted in (
        ("q", posterior.shape, (held_out.n_tasks, n_classes)),
        ("confusion", worker_model.shape, (held_out.n_workers, n_classes, n_classes)),
    ):
        if shape != wanted:
            raise InputError(
                f"{what} has shape {shape}; the held-out labels ask for {wanted}. Fit on labels with "
                "the same tasks, workers and classes (`labels.split()` keeps them)."
            )
    asked, who = held_out.labels_per_task > 0, np.flatnonzero(held_out.labels_per_worker)
    check_rows(posterior[asked], "q", np.flatnonzero(asked))
    check_rows(worker_model[who], "confusion", who)
    total = 0.0
    with np.errstate(divide="ignore"):
        for start in range(0, held_out.n_labels, BLOCK):
            edges = slice(start, start + BLOCK)
            said = worker_model[held_out.worker[edges], :, held_out.label[edges]]
            chance = np.einsum("sk,sk->s", posterior[held_out.task[edges]], said)
            total += float(np.log(np.maximum(chance, floor)).sum())
    return total / held_out.n_labels


def _mean_pair_difference(labels: CrowdLabels, given: FloatArray, *, squared: bool) -> FloatArray:
    """Mean, over each task's pairs of answers, of the absolute or squared difference of their numbers."""
    n, size = labels.labels_per_task, labels.n_tasks
    pairs = np.maximum(n * (n - 1) / 2, 1)
    # Differences stay when the task's first answer is taken off; unanimous tasks are then exactly zero.
    shifted = given - given[labels.task_ptr[labels.task]]
    if squared:
        total = np.bincount(labels.task, shifted, minlength=size)
        spread = n * np.bincount(labels.task, shifted**2, minlength=size) - total**2
        return np.asarray(spread / pairs, np.float64)
    order = np.lexsort((shifted, labels.task))
    rank = np.arange(labels.n_labels) - labels.task_ptr[labels.task]
    # In ascending order an answer is the larger of `rank` pairs and the smaller of the others.
    signed = (2 * rank - n[labels.task] + 1) * shifted[order]
    return np.asarray(np.bincount(labels.task, signed, minlength=size) / pairs, np.float64)


def _predictions(predicted: npt.ArrayLike, labels: CrowdLabels) -> IntArray:
    check_labels(labels)
    said = class_positions(predicted, "predicted")
    if said.size != labels.n_tasks:
        raise InputError(
            f"predicted has {said.size} entries and the labels {labels.n_tasks} tasks; give one for "
            "each task, in the order of `labels.tasks`, -1 for no prediction."
        )
    strange = np.flatnonzero(said >= labels.n_classes)
    if strange.size:
        raise InputError(
            f"predicted holds a class that the labels do not have (there are {labels.n_classes}): "
            f"rows {listing(strange.tolist())}."
        )
    return said
