"""Who should label the tasks of which group, so that errors fall on all groups alike.

Workers may treat groups of tasks differently: A[w, z] is the confusion matrix of worker w on tasks of group z. Tasks of
group z are labelled by worker w with probability p[w, z], n labels a task; the expected labels are as accurate as they
can be among the assignments that are fair:

    max Σ_z share[z] Σ_w p[w, z] accuracy[w, z]
    Σ_w p[w, z] = n,   0 ≤ p ≤ 1,   Σ_z share[z] p[w, z] ≤ most of the tasks that w labels,
    |Σ_w p[w, z] A[w, z][k, l] − Σ_w p[w, z'] A[w, z'][k, l]| ≤ n × tolerance   for all groups, truths k and labels l.

A linear program. N. Goel and B. Faltings (2019), "Crowdsourcing with fairness, diversity and budget constraints", AIES;
as told in Ibrahim et al. 2025, "Taking bias into account", who note that it needs the truth of some tasks: without any,
A[w, z] is not known, for what a crowd gets wrong of a group alike looks right.

| in the paper | here |
|---|---|
| expected accuracy of the assignment | the objective |
| fairness: error rates of the groups differ by at most a tolerance | `tolerance`, for every kind of error |
| diversity: nobody labels more than a share | `most` |
| budget: labels of a task | `labels_per_task` |

Departures: one price for all labels. Cost: a program of workers × groups unknowns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from crowdwise.fitting.parameter_checks import as_numbers, check_count, check_number, check_shares
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["assign_fairly", "group_confusions"]


def group_confusions(
    worker: IntArray,
    label: IntArray,
    truth: IntArray,
    group: IntArray,
    shape: tuple[int, int, int],
    smoothing: float = 1.0,
) -> FloatArray:
    """Confusion matrices (M, G, K, K) [worker, group, truth, label] from labels whose tasks have a known truth.

    Parameters
    ----------
    worker, label, truth, group : (n,)
        Of each label: who gave it, what it says, the truth of its task, and the group of its task.
    shape
        M, G, K.
    smoothing
        Answers of each kind that count as given beforehand: half to the diagonal, so that who has few is taken for
        somewhat better than a guess.
    """
    n_workers, n_groups, n_classes = shape
    counts = np.full((n_workers, n_groups, n_classes, n_classes), smoothing / 2)
    counts += smoothing / 2 * n_classes * np.eye(n_classes)
    np.add.at(counts, (worker, group, truth, label), 1)
    rates: FloatArray = counts / counts.sum(axis=3, keepdims=True)
    return rates


def assign_fairly(
    confusion: Any, *, prior: Any, group_shares: Any, labels_per_task: int, most: float = 1.0, tolerance: float = 0.0
) -> FloatArray:
    """The chance p (M, G) that a worker labels a task of each group.

    Parameters
    ----------
    confusion : (M, G, K, K) [worker, group, truth, label]
        How each worker labels tasks of each group.
    prior : (K,)
        Shares of the classes.
    group_shares : (G,)
        Shares of the groups among the tasks.
    labels_per_task
        n: labels that each task gets.
    most
        Largest share of the tasks that one worker labels.
    tolerance
        By how much the mean error rates of two groups may differ, for each kind of error; 1 asks nothing.

    Examples
    --------
    >>> fair, unfair = np.eye(2) * 0.6 + 0.2, np.array([[1.0, 0.0], [0.3, 0.7]])
    >>> matrices = np.array([[fair, fair], [np.eye(2), unfair]])
    >>> known = {"prior": [0.5, 0.5], "group_shares": [0.5, 0.5], "labels_per_task": 1}
    >>> assign_fairly(matrices, **known, tolerance=1.0).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    >>> assign_fairly(matrices, **known).round(2).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    matrices, classes, shares = as_numbers(confusion, "confusion"), as_numbers(prior, "prior"), group_shares
    if matrices.ndim != 4 or matrices.shape[2:] != (classes.size, classes.size):
        raise InputError(
            f"confusion has shape {matrices.shape}; it must be (workers, groups, classes, classes) for the "
            f"{classes.size} classes of prior."
        )
    check_shares("confusion", matrices)
    shares = as_numbers(shares, "group_shares")
    n_workers, n_groups = matrices.shape[:2]
    if shares.shape != (n_groups,):
        raise InputError(f"group_shares has shape {shares.shape}; it must have one for each of the {n_groups} groups.")
    check_count("labels_per_task", labels_per_task)
    check_number("most", most, low=0, high=1, above=True)
    check_number("tolerance", tolerance, low=0, high=1)
    gain = np.einsum("wgkk,k,g->wg", matrices, classes, shares)
    same_number = np.kron(np.ones((1, n_workers)), np.eye(n_groups))
    limits = [np.kron(np.eye(n_workers), shares[None])]
    bounds = [np.full(n_workers, most)]
    for one in range(n_groups):
        for two in range(one):
            difference = np.zeros((classes.size**2, n_workers, n_groups))
            difference[:, :, one] = np.moveaxis(matrices[:, one].reshape(n_workers, -1), 1, 0)
            difference[:, :, two] = -np.moveaxis(matrices[:, two].reshape(n_workers, -1), 1, 0)
            rows = difference.reshape(classes.size**2, -1)
            limits += [rows, -rows]
            bounds += [np.full(len(rows), labels_per_task * tolerance + 1e-9)] * 2
    found = linprog(
        -gain.ravel(),
        A_ub=np.concatenate(limits),
        b_ub=np.concatenate(bounds),
        A_eq=same_number,
        b_eq=np.full(n_groups, float(labels_per_task)),
        bounds=(0, 1),
    )
    if found.x is None:
        raise InputError(
            f"No assignment of {labels_per_task} labels a task is fair to {tolerance:g} where nobody labels more than "
            f"{most:.0%} of the tasks. Allow a larger tolerance, more tasks a worker, or fewer labels."
        )
    chances: FloatArray = np.abs(np.clip(found.x.reshape(n_workers, n_groups), 0, 1))  # no -0
    return chances
