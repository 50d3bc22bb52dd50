"""What theorems need to tell the truth from the workers: a dominant mean matrix, classes that stand apart, anchors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["class_separation", "crowd_confusion", "find_non_dominant", "find_unanchored"]

ANCHOR = 0.75  # a task of which anyone (a classifier, a posterior) is this sure stands for its class
EXPERT = 0.9  # a worker of whose answers "k" at least this share is right is an expert of k
FEWEST_ANSWERS = 10  # answers "k" without which nobody is called an expert of it: a matrix may still be at its start


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
    return float(np.linalg.eigvalsh(f.T @ f / len(f) / np.sqrt(np.outer(shares, shares)))[0])


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
