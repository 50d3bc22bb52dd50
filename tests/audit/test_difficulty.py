"""How much harder some tasks are than others: errors that come together, and none that do not."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.audit.difficulty import (
    CELLS,
    allocate_draws_over_grid,
    fit_difficulty,
    likeliest_log_matrices_by_level,
    split_errors_by_difficulty,
)
from crowdwise.audit.mislabels import find_mislabels
from crowdwise.labels import CrowdLabels

pytestmark = pytest.mark.usefixtures("compiled")


def crowd(seed: int, hard: float, wrong: int = 0) -> tuple[CrowdLabels, np.ndarray]:
    """Six of thirty workers on each of 600 tasks of three classes; on hard tasks skills are a fifth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 600)
    worker = np.argsort(rng.random((600, 30)), axis=1)[:, :6].ravel()
    task = np.repeat(np.arange(600), 6)
    skill = rng.uniform(0.5, 0.95, 30)[worker] * np.where(rng.random(600) < hard, 0.2, 1.0)[task]
    label = np.where(rng.random(task.size) < skill, truth[task], rng.integers(0, 3, task.size))
    given = truth.copy()
    given[:wrong] = (given[:wrong] + 1) % 3
    return CrowdLabels.from_codes(task, worker, label, tasks=600, workers=30, classes=3), given


def test_errors_keep_their_mean() -> None:
    error, guess = np.array([0.2, 0.4]), np.array([0.6, 0.6])
    for share, h in CELLS:
        easy, hard = split_errors_by_difficulty(error, guess, share, h)
        assert (easy <= error).all()
        assert (hard >= error).all()
        possible = error - share * h * guess > 0.1 * error
        np.testing.assert_allclose(((1 - share) * easy + share * hard)[possible], error[possible])


def test_hard_tasks_are_told_by_errors_that_come_together() -> None:
    mean = {
        hard: [fit_difficulty(*crowd(seed, hard)).weight @ CELLS.prod(axis=1) for seed in (0, 1, 2)]
        for hard in (0, 0.3)
    }
    assert max(mean[0]) < 0.05
    assert min(mean[0.3]) > 0.1  # of 0.24


def test_wrong_answers_do_not_pass_for_hard_tasks() -> None:
    assert fit_difficulty(*crowd(0, 0.0, wrong=30)).weight @ CELLS.prod(axis=1) < 0.05


def test_matrices_and_draws() -> None:
    labels, given = crowd(0, 0.3)
    found = fit_difficulty(labels, given)
    plans = list(allocate_draws_over_grid(labels, found, 199))
    assert sum(plan.draws for plan in plans) == 199
    for plan in plans:
        np.testing.assert_allclose(plan.matrices.sum(axis=2), 1)
    log_prior, table = likeliest_log_matrices_by_level(labels, found)
    assert table.shape == (30, 6, 3)
    assert np.exp(log_prior).sum() == pytest.approx(1)


def test_right_answers_to_hard_tasks_are_not_doubted() -> None:
    alarms = 0
    for seed in range(10):
        labels, given = crowd(seed, 0.3)
        alarms += bool(find_mislabels(labels, truth=dict(enumerate(given.tolist())), random_state=seed).findings)
    assert alarms <= 2
