"""When the labels cannot tell the classifier from the workers: warnings, in plain words, with the consequence."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import listed

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["NotIdentifiable", "crowd_confusion", "not_dominant", "unanchored", "volume", "warn_of"]

ANCHOR = 0.95  # a task (or a worker's row) this sure of a class stands for it
EXPERT = 0.95
FLAT = 1e-4  # share of the largest volume under which the classifier's outputs hardly span the classes


class NotIdentifiable(UserWarning):
    """The labels may not tell the classifier from the workers."""


def crowd_confusion(confusion: FloatArray, answers: FloatArray) -> FloatArray:
    """The crowd's mean matrix (K, K), each worker weighed by her answers."""
    mean: FloatArray = np.average(confusion, axis=0, weights=np.maximum(answers, 1e-12))
    return mean


def not_dominant(mean: FloatArray) -> list[int]:
    """Classes whose diagonal element is not the largest of its column: 000, theorem 1, needs a[k, k] > a[j, k].

    In 000's notation a[label, truth], its proof compares â[i, i] with â[i, j]: of all truths, label i must be said most
    often when i is true.
    """
    others = mean - np.diag(np.diag(mean))
    return [int(k) for k in np.flatnonzero(np.diag(mean) <= others.max(axis=0))]


def volume(f: FloatArray) -> float:
    """Give det(Fᵀ F / N) over K^-K, its largest value: 1 where classes are equally many and sure, 0 where one lacks."""
    n_classes = f.shape[1]
    sign, log_volume = np.linalg.slogdet(f.T @ f / len(f))
    return float(sign * np.exp(log_volume + n_classes * np.log(n_classes))) if sign > 0 else 0.0


def unanchored(f: FloatArray, confusion: FloatArray) -> list[int]:
    """Classes with neither an anchor (a task that the classifier is sure of) nor an expert (002).

    An expert of class k is a worker who says k when, and only when, it is true.
    """
    anchors = f.max(axis=0) >= ANCHOR
    only = np.einsum("wkk->wk", confusion) / np.maximum(confusion.sum(axis=1), 1e-12)
    experts = (only >= EXPERT).any(axis=0)
    return [int(k) for k in np.flatnonzero(~anchors & ~experts)]


def warn_of(model: Any, answers: CrowdLabels) -> None:
    """Warn of what the fitted model's confusions and posterior say against believing them."""
    names = answers.classes.to_pylist()
    mean = crowd_confusion(model.confusion_, model.labels_per_worker_)
    weak = not_dominant(mean)
    said: list[str] = []
    if weak:
        said.append(
            f"the crowd as a whole says {listed([names[k] for k in weak])} no more often when it is true than when "
            "something else is (its mean confusion matrix is not diagonally dominant), so classes may have been swapped"
        )
    if volume(model.posterior_) < FLAT:
        said.append("what the classifier says hardly tells the classes apart (log det is degenerate)")
    alone = unanchored(model.posterior_, model.confusion_)
    if alone:
        said.append(
            f"{listed([names[k] for k in alone])} has neither a task that is surely of it nor a worker who is "
            "an expert of it"
        )
    if said:
        warnings.warn(
            f"{model.slug}: the classifier and the workers may not be told apart: {'; '.join(said)}. Check some tasks "
            "by hand before trusting the result.",
            NotIdentifiable,
            stacklevel=4,
        )
