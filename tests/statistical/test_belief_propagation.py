"""Belief propagation on crowds of Kim et al. 2022, figures 2 and 3: better than mean field, and calibrated.

The table `belief-inference` has all settings of the figures with 50 seeds each; here are the ends of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, expit

import crowdwise as cw
from crowdwise.simulate.coins import one_coin


def mean_field(labels: Any, alpha: tuple[float, float]) -> Any:
    """Kim et al. 2022, equations 16 and 27-29, one coin, two classes."""
    right = wrong = np.zeros(labels.n_workers)
    said = np.where(labels.label == 1, 1.0, -1.0)
    for _ in range(300):
        bonus = digamma(alpha[0] + right) - digamma(alpha[1] + wrong)
        odds = np.bincount(labels.task, said * bonus[labels.worker], minlength=labels.n_tasks)
        q = np.where(labels.label == 1, expit(odds)[labels.task], expit(-odds)[labels.task])
        right = np.bincount(labels.worker, q, minlength=labels.n_workers)
        wrong = labels.labels_per_worker - right
    return np.stack([expit(-odds), expit(odds)], axis=1)


def log_score(posterior: Any, truth: Any) -> float:
    return float(np.log(np.maximum(posterior[np.arange(truth.size), truth], 1e-300)).mean())


@pytest.mark.parametrize(
    ("truth_alpha", "alpha", "n_spammers"),
    [
        ((0.2, 0.1), (0.2, 0.1), 0),
        ((1.0, 0.5), (1.0, 0.5), 0),
        ((2.0, 1.0), (2.0, 1.0), 0),
        ((2.0, 1.0), (2.0, 0.8), 1),
        ((2.0, 1.0), (2.0, 1.6), 1),
        ((2.0, 1.0), (2.0, 1.4), 5),
    ],
    ids=str,
)
def test_better_than_mean_field(truth_alpha: Any, alpha: Any, n_spammers: int) -> None:
    """Gains over 50 seeds are 0.2 to 2, with a standard error of 0.1 at most."""
    gains = []
    for seed in range(4):
        crowd = one_coin(alpha=truth_alpha, n_spammers=n_spammers, random_state=seed)
        model = cw.BeliefPropagation(alpha=alpha, damping=0.3).fit(crowd.labels)
        gains.append(log_score(model.posterior_, crowd.truth) - log_score(mean_field(crowd.labels, alpha), crowd.truth))
    assert np.mean(gains) > 0.1


def test_posterior_is_calibrated() -> None:
    """The mean of the highest posterior is the accuracy, to within three standard errors of it."""
    sure, right = [], []
    for seed in range(5):
        crowd = one_coin(alpha=(1.0, 0.5), random_state=seed)
        posterior = cw.BeliefPropagation(alpha=(1.0, 0.5)).fit(crowd.labels).posterior_
        sure.append(posterior.max(axis=1))
        right.append(posterior.argmax(axis=1) == crowd.truth)
    assert np.mean(right) == pytest.approx(np.mean(sure), abs=0.02)


@pytest.mark.parametrize(("labels_per_task", "n_workers"), [(3, 750), (5, 100)])
def test_intervals_cover(labels_per_task: int, n_workers: int) -> None:
    held = []
    for seed in range(3):
        crowd = one_coin(n_workers=n_workers, labels_per_task=labels_per_task, random_state=seed)
        table = cw.BeliefPropagation().fit(crowd.labels).workers(0.9)
        low, high = table["skill_low"].to_numpy(), table["skill_high"].to_numpy()
        held.append((low <= crowd.skill) & (crowd.skill <= high))
    assert 0.85 <= np.mean(np.concatenate(held)) <= 0.95


def test_exact_agrees_with_samples_within_their_error() -> None:
    labels = one_coin(random_state=0).labels
    exact = cw.BeliefPropagation().fit(labels).posterior_
    sampled = []
    for seed in range(4):
        accuracy = np.random.default_rng(seed).beta(2, 1, 400)[:, None, None]
        coins = accuracy * np.eye(2) + (1 - accuracy) * (1 - np.eye(2))
        sampled.append(cw.BeliefPropagation(prior=coins).fit(labels).posterior_)
    noise = np.abs(sampled[0] - sampled[1]).mean()
    assert np.abs(np.mean(sampled, axis=0) - exact).mean() < noise < 0.05
