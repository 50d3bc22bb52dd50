"""When the labels cannot tell the classifier from the workers: warnings, in plain words, with the consequence."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import listed
from crowdwise.metrics.dominance import not_dominant

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["NotIdentifiable", "contrast", "crowd_confusion", "unanchored", "warn_of"]

ANCHOR = 0.75  # a task of which the classifier is this sure stands for its class
EXPERT = 0.9  # a worker of whose answers "k" at least this share is right is an expert of k
FEWEST_ANSWERS = 10  # answers "k" without which nobody is called an expert of it: a matrix may still be at its start
FLAT = 0.01  # contrast (a squared correlation) under which the classifier hardly tells some classes apart


class NotIdentifiable(UserWarning):
    """The labels may not tell the classifier from the workers."""


def crowd_confusion(confusion: FloatArray, answers: FloatArray) -> FloatArray:
    """The crowd's mean matrix (K, K), each worker weighed by her answers."""
    mean: FloatArray = np.average(confusion, axis=0, weights=np.maximum(answers, 1e-12))
    return mean


def contrast(f: FloatArray) -> float:
    """How well the classifier's outputs (N, K) tell the classes apart: 1 if all are sure, 0 if one is constant.

    The smallest eigenvalue of D^-½ Fᵀ F D^-½ / N with D the outputs' means. Its determinant is 0 with it, which is what
    002's log det guards against, but unlike the determinant it depends neither on the number nor the shares of classes.
    """
    shares = np.maximum(f.mean(axis=0), 1e-12)
    return float(np.linalg.eigvalsh(f.T @ f / len(f) / np.sqrt(np.outer(shares, shares)))[0])


def unanchored(f: FloatArray, confusion: FloatArray, said: IntArray) -> list[int]:
    """Classes with neither an anchor (a task that the classifier is sure of) nor an expert (002).

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


def warn_of(model: Any, answers: CrowdLabels, f: FloatArray) -> None:
    """Warn of what the workers' matrices and the classifier's outputs on the training tasks say against believing them.

    Classes that nobody named are left out: nothing is claimed of them.
    """
    used = np.flatnonzero(answers.class_shares)
    names = [answers.classes[int(k)].as_py() for k in used]
    confusion = model.confusion_[:, used][:, :, used]
    # Matrices that few steps have moved still look like their start; what the classifier's outputs count does not.
    counts = [np.bincount(answers.label, f[answers.task, k], answers.n_classes)[used] for k in used]
    counted = np.array(counts) / np.maximum(np.sum(counts, axis=1, keepdims=True), 1e-12)
    weak = sorted({*not_dominant(crowd_confusion(confusion, model.labels_per_worker_)), *not_dominant(counted)})
    reasons: list[str] = []
    if weak:
        reasons.append(
            f"the crowd as a whole says {listed([names[k] for k in weak])} no more often when it is true than when "
            "something else is (its mean confusion matrix is not diagonally dominant), so classes may have been swapped"
        )
    if contrast(f[:, used]) < FLAT:
        reasons.append("what the classifier says hardly tells some classes apart")
    pairs = answers.worker.astype(np.int64) * answers.n_classes + answers.label
    said = np.bincount(pairs, minlength=answers.n_workers * answers.n_classes).reshape(-1, answers.n_classes)
    alone = unanchored(f[:, used], confusion, said[:, used])
    if alone:
        reasons.append(
            f"there is neither a task that is surely {listed([names[k] for k in alone])} nor a worker who is an expert "
            "of it"
        )
    if reasons:
        warnings.warn(
            f"{model.slug}: the classifier and the workers may not be told apart: {'; '.join(reasons)}. Check some "
            "tasks by hand before trusting the result.",
            NotIdentifiable,
            stacklevel=5,
        )
