"""How good the answer is when the truth is known: classes, probabilities, confusion matrices, skills.

The truth is given as class positions, and -1, None or NaN says that it is unknown: such tasks are left out,
by every function in the same way. The truth comes first, what was predicted second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from crowdwise.fitting.parameter_checks import check_number
from crowdwise.labels.errors import InputError
from crowdwise.metrics.checks import as_array, check_choice, check_confusions, check_rows, known_pairs, posterior_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.types import FloatArray

__all__ = [
    "accuracy",
    "balanced_accuracy",
    "brier",
    "confusion_error",
    "log_loss",
    "macro_f1",
    "skill_correlation",
]

SMALLEST = float(np.finfo(np.float64).eps)


def accuracy(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Share of the tasks with known truth whose class was predicted right.

    Parameters
    ----------
    truth : array (n_tasks,)
        Class positions; -1, None or NaN where unknown.
    predicted : array (n_tasks,)
        Class positions. A task with known truth needs one.

    Examples
    --------
    >>> accuracy([0, 1, 1, -1], [0, 1, 0, 1])
    0.6666666666666666
    """
    true, said = known_pairs(truth, predicted, "predicted")
    return float(np.mean(true == said))


def balanced_accuracy(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Recall of each class that occurs in the truth, averaged over those classes.

    Parameters
    ----------
    truth, predicted : arrays (n_tasks,)
        As in `accuracy`.

    Examples
    --------
    >>> balanced_accuracy([0, 0, 0, 1], [0, 0, 0, 0])
    0.5
    """
    true, said = known_pairs(truth, predicted, "predicted")
    per_class = np.bincount(true)
    right = np.bincount(true[true == said], minlength=per_class.size)
    occurs = per_class > 0
    return float(np.mean(right[occurs] / per_class[occurs]))


def macro_f1(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """F1 of each class that occurs in the truth or in the predictions, averaged over those classes.

    A class that is never right has F1 zero, as in scikit-learn's `f1_score(average="macro")`. Parameters are those of
    `accuracy`.

    Examples
    --------
    >>> round(macro_f1([0, 0, 1, 1], [0, 0, 0, 1]), 4)
    0.7333
    """
    true, said = known_pairs(truth, predicted, "predicted")
    n_classes = int(max(true.max(), said.max())) + 1
    right = np.bincount(true[true == said], minlength=n_classes)
    total = np.bincount(true, minlength=n_classes) + np.bincount(said, minlength=n_classes)
    occurs = total > 0
    return float(np.mean(2 * right[occurs] / total[occurs]))


def log_loss(truth: npt.ArrayLike, posterior: npt.ArrayLike, *, floor: float = SMALLEST) -> float:
    """Mean of -log of the probability given to the truth, in nats.

    Parameters
    ----------
    truth : array (n_tasks,)
        Class positions; -1, None or NaN where unknown.
    posterior : array (n_tasks, n_classes)
        Probability of each class; rows sum to one.
    floor
        A smaller probability is charged as this one, so that one certain error does not decide the mean. The
        default is that of scikit-learn (float64's epsilon, a charge of 36 nats); 0 charges infinity.

    Examples
    --------
    >>> round(log_loss([0, 1], [[0.5, 0.5], [0.2, 0.8]]), 4)
    0.4581
    """
    check_number("floor", floor, low=0, high=1 - 1e-9)
    floor = float(floor)
    true, rows = posterior_rows(truth, posterior)
    given = np.maximum(rows[np.arange(true.size), true], floor)
    with np.errstate(divide="ignore"):
        return float(np.mean(-np.log(given)))


def brier(truth: npt.ArrayLike, posterior: npt.ArrayLike) -> float:
    """Brier score: squared distance to the one-hot truth, *summed* over classes, averaged over tasks.

    This is Brier's own (1950) multi-class convention: 0 is perfect, 2 is certain and wrong. For two classes
    it is twice the score that looks at one class only (scikit-learn: `scale_by_half=False`).

    Parameters
    ----------
    truth, posterior
        As in `log_loss`.

    Examples
    --------
    >>> round(brier([0, 1], [[0.5, 0.5], [0.2, 0.8]]), 4)
    0.29
    """
    true, rows = posterior_rows(truth, posterior)
    given = rows[np.arange(true.size), true]
    return float(np.mean((rows**2).sum(axis=1) - given**2 + (1 - given) ** 2))


def confusion_error(true: npt.ArrayLike, estimate: npt.ArrayLike) -> float:
    """Error of estimated confusion matrices, as in figure 3 and table 1 of Tanno et al. (2019).

    `(M·K)⁻¹ Σ_w Σ_kl (true[w,k,l] - estimate[w,k,l])²`: the *squared* Frobenius norm of each worker's error,
    divided by the number of classes, averaged over workers. The paper's words say "Frobenius norm", its
    formula (section 3.2) squares; the formula is followed. The paper gives the range as [0, 1]; two opposite
    certain rows are at squared distance 2, so the true range is [0, 2]. The paper's table shows this × 100.

    Parameters
    ----------
    true, estimate : arrays (n_workers, n_classes, n_classes)
        `[worker, truth, label]`; each row `[worker, truth, :]` sums to one.

    References
    ----------
    Tanno, Saeedi, Sankaranarayanan, Alexander & Silberman. Learning from noisy labels by regularized
    estimation of annotator confusion. CVPR 2019.

    Examples
    --------
    >>> round(confusion_error([[[1.0, 0.0], [0.0, 1.0]]], [[[0.9, 0.1], [0.0, 1.0]]]), 6)
    0.01
    """
    first, second = check_confusions(true, "true"), check_confusions(estimate, "estimate")
    if first.shape != second.shape:
        raise InputError(
            f"true has shape {first.shape} and estimate {second.shape}; "
            "give the same workers and classes in both, in the same order."
        )
    if first.size == 0:
        raise InputError("There are no confusion matrices to compare. Give at least one worker and one class.")
    distance = check_rows(first, "true") - check_rows(second, "estimate")
    n_workers, n_classes, _ = first.shape
    return float((distance**2).sum() / (n_workers * n_classes))


def skill_correlation(
    true: npt.ArrayLike, estimate: npt.ArrayLike, *, method: Literal["pearson", "spearman"] = "pearson"
) -> float:
    """Correlation, over workers, of the true skill with its estimate.

    Workers with NaN on either side (no labels, no truth) are left out. The correlation is undefined, and NaN
    is returned, if all the skills on one side are equal.

    Parameters
    ----------
    true, estimate : arrays (n_workers,)
        Skills, of any scale.
    method
        "pearson" for the values, "spearman" for the order of the workers (tied skills share the mean rank).

    Examples
    --------
    >>> round(skill_correlation([0.9, 0.7, 0.5], [0.95, 0.6, 0.5]), 4)
    0.9522
    >>> round(skill_correlation([0.9, 0.7, 0.5], [0.95, 0.6, 0.5], method="spearman"), 4)
    1.0
    """
    check_choice(method, ("pearson", "spearman"), "method")
    first, second = _skills(true, "true"), _skills(estimate, "estimate")
    if first.size != second.size:
        raise InputError(f"true has {first.size} skills and estimate has {second.size}; give both one for each worker.")
    both = ~(np.isnan(first) | np.isnan(second))
    if both.sum() < 2:
        raise InputError(
            f"A correlation needs two workers with both skills known; there is {int(both.sum())}. "
            "Give more workers, or compare the skills directly."
        )
    first, second = first[both], second[both]
    if method == "spearman":
        from scipy.stats import rankdata  # takes most of a second to import

        first, second = rankdata(first), rankdata(second)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    x, y = first - first.mean(), second - second.mean()
    return float(np.clip((x @ y) / (np.linalg.norm(x) * np.linalg.norm(y)), -1, 1))


def _skills(given: npt.ArrayLike, what: str) -> FloatArray:
    array = as_array(given, what)
    if array.ndim != 1 or array.dtype.kind not in "fiub" or np.isinf(array).any():
        raise InputError(
            f"{what} must be one finite number (or NaN) for each worker; its shape is {array.shape} "
            f"and its type {array.dtype}."
        )
    return array.astype(np.float64)
