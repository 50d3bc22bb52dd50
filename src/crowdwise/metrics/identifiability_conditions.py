"""What theorems need to tell the truth from the workers: a dominant mean matrix, classes that stand apart, anchors.

The sufficiently scattered condition (Huang et al. 2014; Ibrahim et al. 2025, "Towards more realistic conditions") asks
less than anchors or experts do. Rows H (n, K), each what one label of one worker, or one task, says of the K classes,
are sufficiently scattered if their cone holds the second-order cone {x : 1ᵀx ≥ √(K-1) ‖x‖}. By duality: no x with
H x ≥ 0 and 1ᵀx = 1 is longer than 1 (`scatter_radius`). Unit vectors, which H always allows, are as long as 1. For two
classes the condition is that there are experts of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import HalfspaceIntersection, QhullError

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "class_separation",
    "crowd_confusion",
    "expert_radius",
    "find_non_dominant",
    "find_unanchored",
    "scatter_radius",
]

ANCHOR = 0.75  # a task of which anyone (a classifier, a posterior) is this sure stands for its class
EXPERT = 0.9  # a worker of whose answers "k" at least this share is right is an expert of k
FEWEST_ANSWERS = 10  # answers "k" without which nobody is called an expert of it: a matrix may still be at its start

MOST_EXACT = 6  # classes up to which all corners of the dual are gone through; there are too many with more
DIRECTIONS = 50  # in which a far corner is searched for, with more classes


def find_non_dominant(mean: FloatArray) -> list[int]:
    """Classes whose diagonal is not the largest of its column of `mean` [truth, label] (Tanno et al. 2019, theorem 1).

    Tanno et al. 2019 write a[label, truth] and need a[i, i] > a[i, j] for all j ≠ i: of all truths, label i must be
    said most often when i is true.
    """
    others = mean - np.diag(np.diag(mean))
    return [int(k) for k in np.flatnonzero(np.diag(mean) <= others.max(axis=0))]


def crowd_confusion(confusion: FloatArray, answers: FloatArray) -> FloatArray:
    """The crowd's mean matrix (K, K), each worker weighed by their answers."""
    mean: FloatArray = np.average(confusion, axis=0, weights=np.maximum(answers, 1e-12))
    return mean


def class_separation(f: FloatArray) -> float:
    """How well outputs (N, K) of a classifier or model tell classes apart: 1 if all are sure, 0 if one is constant.

    The smallest eigenvalue of D^-½ Fᵀ F D^-½ / N with D the outputs' means. Its determinant is 0 with it, which is what
    Ibrahim et al.'s log det guards against, but unlike the determinant it depends neither on the number nor the shares
    of classes.
    """
    shares = np.maximum(f.mean(axis=0), 1e-12)
    least = np.linalg.eigvalsh(f.T @ f / len(f) / np.sqrt(np.outer(shares, shares)))[0]
    return max(float(least), 0.0)  # which rounding takes below 0


def find_unanchored(f: FloatArray, confusion: FloatArray, said: IntArray) -> list[int]:
    """Classes with neither an anchor (a task that the classifier is sure of) nor an expert (Ibrahim et al. 2025).

    An expert of class k is a worker who says k when, and only when, it is true.

    Parameters
    ----------
    f : (N, K)
        The classifier's outputs.
    confusion : (M, K, K) [worker, truth, label]
    said : (M, K)
        How often each worker gave each label.
    """
    anchors = f.max(axis=0) >= ANCHOR
    only = np.einsum("wkk->wk", confusion) / np.maximum(confusion.sum(axis=1), 1e-12)
    experts = ((only >= EXPERT) & (said >= FEWEST_ANSWERS)).any(axis=0)
    return [int(k) for k in np.flatnonzero(~anchors & ~experts)]


def scatter_radius(rows: FloatArray, random_state: int = 0) -> tuple[float, bool]:
    """Length of the longest x with rows x ≥ 0 and 1ᵀx = 1, and whether it is known to be the longest.

    Not below 1, which is the sufficiently scattered condition. Infinite where the rows do not tell all classes apart.

    Parameters
    ----------
    rows : (n, K)
        None below 0, none 0 throughout; their lengths do not matter.
    random_state
        With more than `MOST_EXACT` classes the longest is searched for, from directions drawn at random: the condition
        fails if a longer one than 1 is found, and may fail if none is.
    """
    size = rows.shape[1]
    rows = rows / rows.sum(axis=1, keepdims=True)
    if np.linalg.matrix_rank(rows, tol=1e-9) < size:
        return np.inf, True
    if size == 2:
        first, second = rows.T
        low = max([-b / (a - b) for a, b in zip(first, second, strict=True) if a > b], default=-np.inf)
        high = min([b / (b - a) for a, b in zip(first, second, strict=True) if b > a], default=np.inf)
        return float(max(np.hypot(low, 1 - low), np.hypot(high, 1 - high))), True
    if size > MOST_EXACT:
        return _search_farthest_corner(rows, random_state), False
    basis = np.linalg.svd(np.ones((1, size)))[2][1:]  # of the plane 1ᵀx = 0; the centre 1/K is inside
    sides = np.column_stack([-rows @ basis.T, -rows.mean(axis=1)])
    try:
        corners = HalfspaceIntersection(np.unique(sides.round(12), axis=0), np.zeros(size - 1)).intersections
    except QhullError:
        return np.inf, True
    if not np.isfinite(corners).all():
        return np.inf, True
    return float(np.linalg.norm(corners @ basis + 1 / size, axis=1).max()), True


def _search_farthest_corner(rows: FloatArray, random_state: int) -> float:
    """The longest x that linear programs find, each in the direction of the last answer, until it stays."""
    size = rows.shape[1]
    generator = np.random.default_rng(random_state)
    longest = 1.0
    for start in generator.normal(size=(DIRECTIONS, size)):
        direction, last = start, 0.0
        while True:
            found = linprog(
                -direction, A_ub=-rows, b_ub=np.zeros(len(rows)), A_eq=np.ones((1, size)), b_eq=[1], bounds=(None, None)
            )
            if found.x is None:
                return float(np.inf)
            length = float(np.linalg.norm(found.x))
            if length <= last * (1 + 1e-9):
                break
            direction, last = found.x, length
        longest = max(longest, last)
    return longest


def expert_radius(n_classes: int) -> float:
    """`scatter_radius` of rows that have one expert of each class, of whose answers the share `EXPERT` is right."""
    wrong = (1 - EXPERT) / (n_classes - 1)
    least = wrong / (EXPERT - wrong)
    return float(np.sqrt((n_classes - 1) * least**2 + (1 + (n_classes - 1) * least) ** 2))
