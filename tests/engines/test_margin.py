"""The passes of max-margin votes against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import tiny_labels

from crowdwise.kernels import use_threads
from crowdwise.kernels.max_margin_votes import Margins, gibbs_update_weights, sum_votes_and_logs
from crowdwise.simulate import simulate


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_sums(n_classes: int) -> None:
    generator = np.random.default_rng(n_classes)
    labels = tiny_labels(n_classes, 1, n_tasks=7, n_workers=4, repeats=True)
    weights, table = generator.normal(size=4), generator.normal(size=(4, n_classes, n_classes))
    votes, logs = np.zeros((7, n_classes)), np.zeros((7, n_classes))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        votes[task, label] += weights[worker]
        logs[task] += table[worker, :, label]
    for found, plain in zip(sum_votes_and_logs(labels, weights, table), (votes, logs), strict=True):
        np.testing.assert_allclose(found, plain, atol=1e-13)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_the_gaussian_conditionals(n_classes: int) -> None:
    """Precision and mean of the last worker's weight from the whole quadratic form, which is written out here."""
    generator = np.random.default_rng(n_classes)
    labels = tiny_labels(n_classes, 3, n_tasks=9, n_workers=4, repeats=True)
    truths = generator.integers(0, n_classes, 9)
    rivals = (truths + 1) % n_classes
    bend, cost, variance, margin = generator.gamma(1.0, size=9), 0.3, 1.7, 2.0
    gains = np.zeros((9, 4))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        gains[task, worker] += float(label == truths[task]) - float(label == rivals[task])
    weights = generator.normal(size=4)
    noise = generator.normal(size=4)
    lack = margin - gains @ weights
    found = gibbs_update_weights(labels, weights, noise, Margins(truths, rivals, lack, bend, cost, variance))
    np.testing.assert_allclose(lack, margin - gains @ found, atol=1e-12)
    precision = np.eye(4) / variance + (gains * bend[:, None]).T @ gains
    pull = gains.T @ (cost + bend * margin)
    now = weights.copy()
    for worker in range(4):
        rest = pull[worker] - precision[worker] @ now + precision[worker, worker] * now[worker]
        now[worker] = rest / precision[worker, worker] + noise[worker] / np.sqrt(precision[worker, worker])
    np.testing.assert_allclose(found, now, atol=1e-12)


def test_threads_change_nothing() -> None:
    labels = simulate("one-coin", n_tasks=20_000, n_workers=50, n_classes=3, labels_per_task=5, random_state=0).labels
    table = np.random.default_rng(0).normal(size=(50, 3, 3))
    with use_threads(1):
        one = sum_votes_and_logs(labels, table[:, 0, 0], table)
    with use_threads(3):
        three = sum_votes_and_logs(labels, table[:, 0, 0], table)
    for first, second in zip(one, three, strict=True):
        np.testing.assert_array_equal(first, second)
