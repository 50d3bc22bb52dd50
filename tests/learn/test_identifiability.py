"""Warnings that the classifier and the workers may not be told apart: when they come, and when they do not."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learn.crowds import crowded

import crowdwise as cw
from crowdwise.labels import CrowdLabels
from crowdwise.learn.identifiability import NotIdentifiable
from crowdwise.metrics.identifiability_conditions import (
    class_separation,
    crowd_confusion,
    find_non_dominant,
    find_unanchored,
)
from crowdwise.simulate.tanno_annotators import pairwise_flippers

QUICK: dict[str, Any] = {"network": "linear", "batch_size": 32, "learning_rate": 0.03, "device": "cpu"}


def test_dominance_is_that_of_theorem_1() -> None:
    # [truth, label]: when 1 is true, 0 is said more often than when 0 is true, although each row's largest is its own.
    mean = np.array([[0.4, 0.3, 0.3], [0.45, 0.5, 0.05], [0.1, 0.1, 0.8]])
    assert (mean.argmax(axis=1) == [0, 1, 2]).all()
    assert find_non_dominant(mean) == [0]
    # The other way round: rows have their largest element elsewhere, but every label is said most when it is true.
    mean = np.array([[0.4, 0.6, 0.0], [0.0, 0.7, 0.3], [0.1, 0.1, 0.8]])
    assert mean[0].argmax() == 1
    assert find_non_dominant(mean) == []
    # An even crowd says nothing of the truth; strictly more is needed.
    assert find_non_dominant(np.full((2, 2), 0.5)) == [0, 1]


def test_dominance_of_000s_own_notation() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a = rng.dirichlet(np.ones(4) * 0.7, size=4).T  # a[label, truth], columns sum to one
        weak = [i for i in range(4) if any(a[i, i] <= a[i, j] for j in range(4) if j != i)]
        assert find_non_dominant(a.T) == weak


def test_the_crowds_mean_weighs_workers_by_answers() -> None:
    confusion = np.array([np.eye(2), 1 - np.eye(2)])
    np.testing.assert_allclose(crowd_confusion(confusion, np.array([3, 1])), [[0.75, 0.25], [0.25, 0.75]])


def test_contrast() -> None:
    sure = np.eye(3)[[0, 0, 0, 0, 1, 2]]
    assert class_separation(sure) == pytest.approx(1)  # whatever the shares of the classes
    assert class_separation(np.tile([0.5, 0.3, 0.2], (9, 1))) == pytest.approx(0, abs=1e-12)
    assert class_separation(0.7 * np.eye(3) + 0.1) == pytest.approx(0.7**2)  # whatever K: the square of the gap
    assert class_separation(0.7 * np.eye(10) + 0.03) == pytest.approx(0.7**2)
    merged = np.array([[0.5, 0.5, 0], [0, 0, 1], [0.5, 0.5, 0]])  # two classes that are never told apart
    assert class_separation(merged) == pytest.approx(0, abs=1e-12)


def test_anchors_and_experts() -> None:
    f = np.array([[0.9, 0.1, 0.0], [0.5, 0.3, 0.2], [0.2, 0.4, 0.4]])
    confusion = np.full((2, 3, 3), 1 / 3)
    often = np.full((2, 3), 20)
    assert find_unanchored(f, confusion, often) == [1, 2]
    confusion[1] = [[0.5, 0.0, 0.5], [0.2, 0.6, 0.2], [0.5, 0.0, 0.5]]  # says 1 only if it is true
    assert find_unanchored(f, confusion, often) == [2]
    assert find_unanchored(f, confusion, np.full((2, 3), 2)) == [1, 2]  # two answers make no expert


@pytest.mark.parametrize("seed", [0, 1])
def test_a_crowd_that_is_not_dominant(seed: int) -> None:
    crowd = pairwise_flippers(600, 5, 10, skill=0.25, random_state=seed)
    assert find_non_dominant(crowd.confusion.mean(axis=0))
    X = np.random.default_rng(1).normal(size=(600, 10)) + 5 * np.eye(10)[crowd.truth]
    with pytest.warns(NotIdentifiable, match="no more often when it is true than when something else is"):
        cw.TraceRegularized(**QUICK, worker_learning_rate=0.1, epochs=25).fit(X, crowd.labels)


def test_a_classifier_that_cannot_tell() -> None:
    data = crowded(60, skill=0.9)
    with pytest.warns(NotIdentifiable, match="hardly tells some classes apart"):
        cw.TraceRegularized(**QUICK, epochs=3).fit(np.ones((60, 2)), data.labels)


def test_a_class_without_anchor_and_expert() -> None:
    # Of the tasks of classes 1 and 2 neither the features nor the workers know which.
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) * 0.3 + np.where(truth == 0, 4, -4)[:, None]
    said = np.where(truth[:, None] == 0, 0, rng.integers(1, 3, size=(90, 4)))
    # A strong penalty, or the matrices stay where they start, at experts.
    model = cw.TraceRegularized(**QUICK, epochs=20, worker_learning_rate=0.1, strength=1.0)
    with pytest.warns(NotIdentifiable, match="neither a task that is surely 1, 2 nor a worker who is an expert"):
        model.fit(X, CrowdLabels.from_dense(said))


@pytest.mark.parametrize("seed", range(6))
def test_no_alarm_for_honest_crowds(seed: int) -> None:
    n_classes, skill = (2, 3, 5)[seed % 3], (0.7, 0.85)[seed // 3]
    data = crowded(200, n_classes, 6, skill=skill, apart=4.0, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotIdentifiable)
        cw.TraceRegularized(**QUICK, epochs=20).fit(data.X, data.labels)


def test_no_alarm_for_a_class_that_nobody_named_or_few_did() -> None:
    data = crowded(200, 3, 6, skill=0.9, apart=4.0, seed=1)
    rare = (data.truth[data.labels.task] < 2) | (data.labels.task < 30)
    names = {"tasks": 200, "workers": 6, "classes": 4}
    some = CrowdLabels.from_codes(data.labels.task[rare], data.labels.worker[rare], data.labels.label[rare], **names)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotIdentifiable)
        cw.TraceRegularized(**QUICK, epochs=20).fit(data.X, some)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
def test_no_alarm_for_labelme() -> None:
    labels = cw.datasets.load("labelme").labels
    X = np.load(Path(os.environ["CROWDWISE_DATA"]) / "labelme" / "features.npz")["X_train"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotIdentifiable)
        cw.TraceRegularized(epochs=10, device="cpu").fit(X, labels)
