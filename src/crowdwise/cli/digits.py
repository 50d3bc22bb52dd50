"""The demo's second act: handwritten digits, five careless workers, one label for each image."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["Digits", "learnt_digits"]

TRAINING = 1300  # of 1,797 images; the others are never labelled
WORKERS, SKILL = 5, 0.4
METHODS = {"majority-vote": "labels taken as they are", "trace": "workers learnt with the classifier"}
PLAN: dict[str, Any] = {"epochs": 30, "learning_rate": 3e-3, "device": "cpu"}  # a few seconds on any machine


@dataclass(frozen=True)
class Digits:
    """What each method made of the digits.

    Attributes
    ----------
    accuracy
        Share of images without labels that each method's classifier gets right, by slug.
    error
        How far its confusion matrices are from the true ones: mean over rows of the total variation, from 0 to 1.
    labels_right
        Share of the labels that were right.
    true, found : (M, K, K) [worker, truth, label]
        The workers' matrices, and what trace regularisation found.
    """

    accuracy: dict[str, float]
    error: dict[str, float]
    labels_right: float
    n_images: int
    n_held_out: int
    true: FloatArray
    found: FloatArray


def learnt_digits(seed: int = 0) -> Digits:
    """Learn scikit-learn's digits from pairwise flippers (Tanno et al. 2019); the same every time."""
    from sklearn.datasets import load_digits

    from crowdwise.learner_registry import learner
    from crowdwise.simulate.annotators import pairwise_flippers

    digits: Any = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    seen, hidden = order[:TRAINING], order[TRAINING:]
    crowd = pairwise_flippers(
        TRAINING, WORKERS, labels_per_task=1, skill=SKILL, truth=digits.target[seen], random_state=seed
    )
    accuracy, error, found = {}, {}, crowd.confusion
    for slug in METHODS:
        model = learner(slug).make(**PLAN, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the truth is known here: the reader sees for themselves
            model.fit(digits.data[seen], crowd.labels)
        accuracy[slug] = model.score(digits.data[hidden], digits.target[hidden])
        error[slug] = float(0.5 * np.abs(model.confusion_ - crowd.confusion).sum(axis=2).mean())
        found = model.confusion_
    return Digits(accuracy, error, crowd.accuracy, TRAINING, len(hidden), crowd.confusion, found)
