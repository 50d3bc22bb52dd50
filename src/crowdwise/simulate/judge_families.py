"""Panels of judges in families whose members err together, with their true error correlations.

On every task a family has a hidden number u, uniform from 0 to 1, and the panel has one as well. A worker with accuracy
p takes the panel's number with chance g, the family's with chance s, and a number of their own otherwise, and is wrong
where it is below 1 - p: which keeps each worker's accuracy whatever is shared. Who is wrong by a shared number gives
the wrong class that goes with it. For two workers with chances of error a ≤ b,

    cov(error, error') = w a (1 - b),    w = s² + g² in a family, g² across,

so that the correlation of equals is w. With `sharing="factor"` the numbers are normal and add up (a Gaussian copula):
error where √g² F + √s² F_j + √(1 - g² - s²) ε is below the quantile, and wrong classes are each worker's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from crowdwise.fitting.parameter_checks import as_numbers
from crowdwise.labels.errors import InputError, quote
from crowdwise.simulate.checks import check_count
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import symmetric_confusion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["error_correlations", "judge_families"]

SHARING = ("draw", "factor")


@add_setting_parameters(n_tasks=1000, n_workers=15, n_classes=3, labels_per_task=None)
def judge_families(
    setting: Setting,
    *,
    sizes: Sequence[int] = (5, 5, 5),
    correlation: float | Sequence[float] = 0.5,
    common: float = 0.0,
    accuracy: tuple[float, float] = (0.6, 0.9),
    sharing: str = "draw",
) -> Simulation:
    """Workers in families that err together.

    `extras` holds "error_correlation" (M, M), the true correlations of the workers' errors.

    Parameters
    ----------
    sizes
        Members of each family; workers beyond their sum are in none, and have -1 in `groups`.
    correlation
        What members share beyond what all do, 0 to 1: s², one for all families or one for each.
    common
        What all share, 0 to 1: g².
    accuracy
        Ends of the workers' chances to be right, drawn uniformly between them.
    sharing
        "draw": members give the same wrong answer; "factor": they err on the same tasks, each in their own way.
    """
    rng, n_workers, n_classes = setting.rng, setting.n_workers, setting.n_classes
    if not np.iterable(sizes):
        raise InputError(f"sizes is {quote(sizes)}; it must hold the members of each family.")
    members = [check_count(size, "sizes") for size in sizes]
    if sum(members) > n_workers:
        raise InputError(f"sizes add up to {sum(members)}, but there are {n_workers} workers.")
    if sharing not in SHARING:
        raise InputError(f"sharing is {sharing!r}; it must be one of {', '.join(SHARING)}.")
    ends = as_numbers(accuracy, "accuracy")
    if ends.shape != (2,) or not 0 <= ends[0] <= ends[1] <= 1:
        raise InputError(f"accuracy is {quote(accuracy)}; it must be two numbers from 0 to 1, the lower first.")
    shared = np.asarray(correlation, np.float64)
    if shared.shape not in ((), (1,), (len(members),)):
        raise InputError(f"correlation has shape {shared.shape}; give one number, or one for each family.")
    shared = np.broadcast_to(shared, len(members))
    power = 0.5 if sharing == "draw" else 1.0
    if common < 0 or (shared < 0).any() or common**power + shared.max(initial=0) ** power > 1:
        what = "their square roots" if sharing == "draw" else "they"
        raise InputError(f"correlation and common must not be negative, and {what} must add up to at most 1.")
    groups = np.full(n_workers, -1)
    groups[: sum(members)] = np.repeat(np.arange(len(members)), members)
    family = np.where(groups >= 0, groups, len(members) + np.arange(n_workers))  # a worker in none is one by themself
    weight = np.where(groups >= 0, np.append(shared, 0.0)[groups], 0.0)
    codes, shares = setting.draw_truth()
    right = rng.uniform(*accuracy, n_workers)

    assignment = setting.assign(codes.size)
    task, worker = assignment.task, assignment.worker
    n_families = int(family.max()) + 1
    if sharing == "draw":
        wrong, step = _draw_errors(
            task, family[worker], right[worker], weight[worker], common, codes.size, n_families, n_classes, rng
        )
    else:
        factor, all_alike = rng.standard_normal((codes.size, n_families)), rng.standard_normal(codes.size)
        own = rng.standard_normal(task.size) * np.sqrt(1 - common - weight[worker])
        noise = np.sqrt(common) * all_alike[task] + np.sqrt(weight[worker]) * factor[task, family[worker]] + own
        wrong, step = noise < ndtri(1 - right[worker]), rng.integers(1, n_classes, task.size)
    label = np.where(wrong, (codes[task] + step) % n_classes, codes[task]).astype(np.int32)
    same = (groups[:, None] == groups) & (groups >= 0)
    joint = common + np.where(same, np.sqrt(weight[:, None] * weight), 0.0)
    extras = {"error_correlation": error_correlations(right, joint, sharing)}
    confusion = symmetric_confusion(right, n_classes)
    return Simulation.assemble(assignment, label, codes, confusion, shares, groups=groups, extras=extras)


def _draw_errors(
    task: IntArray,
    family: IntArray,
    right: FloatArray,
    weight: FloatArray,
    common: float,
    n_tasks: int,
    n_families: int,
    n_classes: int,
    rng: np.random.Generator,
) -> tuple[Any, IntArray]:
    """Whether each label is wrong, and by how many classes it is off where it is."""
    whose = rng.random(task.size)
    by_all, by_family = (
        whose < np.sqrt(common),
        (whose >= np.sqrt(common)) & (whose < np.sqrt(common) + np.sqrt(weight)),
    )
    draws = np.where(
        by_all,
        rng.random(n_tasks)[task],
        np.where(by_family, rng.random((n_tasks, n_families))[task, family], rng.random(task.size)),
    )
    steps = np.where(
        by_all,
        rng.integers(1, n_classes, n_tasks)[task],
        np.where(
            by_family,
            rng.integers(1, n_classes, (n_tasks, n_families))[task, family],
            rng.integers(1, n_classes, task.size),
        ),
    )
    return draws < 1 - right, steps


def error_correlations(right: FloatArray, joint: FloatArray, sharing: str = "draw") -> FloatArray:
    """Correlations (M, M) of the errors of workers with these accuracies (M,) who share this much (M, M).

    >>> error_correlations(np.array([0.8, 0.8]), np.full((2, 2), 0.3)).round(2).tolist()
    [[1.0, 0.3], [0.3, 1.0]]
    """
    wrong = 1 - right
    low, high = np.minimum(wrong[:, None], wrong), np.maximum(wrong[:, None], wrong)
    if sharing == "draw":
        covariance = joint * low * (1 - high)
    else:
        from scipy.stats import multivariate_normal  # takes most of a second to import

        covariance = np.zeros_like(joint)
        for one, two in zip(*np.triu_indices(right.size, 1), strict=True):
            if joint[one, two] > 0:
                both = multivariate_normal.cdf(
                    ndtri(wrong[[one, two]]), cov=[[1, joint[one, two]], [joint[one, two], 1]]
                )
                covariance[one, two] = covariance[two, one] = both - wrong[one] * wrong[two]
    spread = np.sqrt(wrong * right)
    found: FloatArray = np.divide(
        covariance, spread[:, None] * spread, out=np.zeros_like(joint), where=spread[:, None] * spread > 0
    )
    np.fill_diagonal(found, 1.0)
    return found
