"""The passes of GLAD against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

from crowdwise.kernels import NO_GOLD, use_threads
from crowdwise.kernels.glad import ability_gradient, truth_posterior
from crowdwise.labels import CrowdLabels


def plain_posterior(labels: CrowdLabels, ability: Any, ease: Any, log_prior: Any, gold: Any) -> tuple[float, Any, Any]:
    odds = ability[labels.worker] * ease[labels.task]
    wrong = log_expit(-odds) - np.log(max(labels.n_classes - 1, 1))
    logits = np.tile(log_prior, (labels.n_tasks, 1))
    for edge, (task, label) in enumerate(zip(labels.task, labels.label, strict=True)):
        added = np.full(labels.n_classes, wrong[edge])
        added[label] = log_expit(odds[edge])
        logits[task] += added
    if gold.size:
        logits[(gold >= 0)[:, None] & (np.arange(labels.n_classes) != gold[:, None])] = -np.inf
    evidence = logsumexp(logits, axis=1)
    posterior = np.exp(logits - evidence[:, None])
    return float(evidence.sum()), posterior, posterior[labels.task, labels.label]


def plain_gradient(labels: CrowdLabels, right: Any, ability: Any, ease: Any) -> tuple[float, Any, Any]:
    odds = ability[labels.worker] * ease[labels.task]
    value = (right * log_expit(odds) + (1 - right) * log_expit(-odds)).sum()
    surprise = right - np.exp(log_expit(odds))
    by_ability = np.bincount(labels.worker, surprise * ease[labels.task], minlength=labels.n_workers)
    by_ease = np.bincount(labels.task, surprise * ability[labels.worker], minlength=labels.n_tasks) * ease
    return float(value), by_ability, by_ease


def crowd_of(n_tasks: int, n_workers: int, n_classes: int, n_labels: int, seed: int) -> tuple[CrowdLabels, Any, Any]:
    generator = np.random.default_rng(seed)
    labels = CrowdLabels.from_codes(
        generator.integers(0, n_tasks - 1, n_labels), generator.integers(0, n_workers - 1, n_labels),
        generator.integers(0, n_classes, n_labels),
        tasks=n_tasks, workers=n_workers, classes=n_classes, on_duplicate="all",
    )  # fmt: skip
    return labels, generator.normal(1, 2, n_workers), np.exp(generator.normal(1, 1, n_tasks))


@pytest.mark.parametrize("with_gold", [False, True], ids=["no gold", "gold"])
@pytest.mark.parametrize("n_classes", [2, 3, 7, 17, 200])
def test_posterior(n_classes: int, with_gold: bool) -> None:
    labels, ability, ease = crowd_of(80, 9, n_classes, 500, n_classes)
    generator = np.random.default_rng(1)
    log_prior = np.log(generator.dirichlet(np.ones(n_classes)))
    gold = np.where(generator.random(80) < 0.3, generator.integers(0, n_classes, 80), -1)
    gold = gold.astype(np.int32) if with_gold else NO_GOLD
    value, posterior, right = truth_posterior(labels, ability, ease, log_prior, gold)
    plain_value, plain, plain_right = plain_posterior(labels, ability, ease, log_prior, gold)
    assert value == pytest.approx(plain_value, rel=1e-11)
    np.testing.assert_allclose(posterior, plain, atol=1e-11)
    np.testing.assert_allclose(right, plain_right, atol=1e-11)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_gradient(scale: float) -> None:
    """Far and near: the product of factors 1 + exp(-|odds|) is folded into a logarithm before it overflows."""
    labels, ability, ease = crowd_of(400, 30, 3, 6_000, 2)
    right = np.random.default_rng(0).random(labels.n_labels)
    value, by_ability, by_ease = ability_gradient(labels, right, ability * scale, ease)
    plain_value, plain_ability, plain_ease = plain_gradient(labels, right, ability * scale, ease)
    assert value == pytest.approx(plain_value, rel=1e-11)
    np.testing.assert_allclose(by_ability, plain_ability, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_ease, plain_ease, rtol=1e-9, atol=1e-9)


def test_lanes_and_threads() -> None:
    labels, ability, ease = crowd_of(9_000, 80, 3, 90_000, 3)
    log_prior = np.log(np.full(3, 1 / 3))
    found = []
    for threads in (1, 2, 5):
        with use_threads(threads):
            value, posterior, right = truth_posterior(labels, ability, ease, log_prior, NO_GOLD)
            found.append((np.array(value), posterior, right, *ability_gradient(labels, right, ability, ease)))
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(first, second)
    plain_value, plain, _ = plain_posterior(labels, ability, ease, log_prior, NO_GOLD)
    assert found[0][0] == pytest.approx(plain_value, rel=1e-11)
    np.testing.assert_allclose(found[0][1], plain, atol=1e-10)
    plain_value, by_ability, by_ease = plain_gradient(labels, found[0][2], ability, ease)
    assert found[0][3] == pytest.approx(plain_value, rel=1e-11)
    np.testing.assert_allclose(found[0][4], by_ability, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found[0][5], by_ease, rtol=1e-9, atol=1e-8)


def test_a_worker_and_a_task_without_labels_feel_no_pull() -> None:
    labels, ability, ease = crowd_of(20, 5, 2, 60, 4)
    _, by_ability, by_ease = ability_gradient(labels, np.full(60, 0.3), ability, ease)
    assert by_ability[-1] == by_ease[-1] == 0
    _, posterior, _ = truth_posterior(labels, ability, ease, np.log([0.2, 0.8]), NO_GOLD)
    np.testing.assert_allclose(posterior[-1], [0.2, 0.8], atol=1e-15)
