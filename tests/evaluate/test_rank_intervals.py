"""Intervals of ranks: they hold the true rank, and tell apart what can be told apart."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.evaluate.held_out import standard_error_over_tasks
from crowdwise.evaluate.rank_intervals import FEWEST_TASKS, rank_intervals, score_covariance


def draw_scores(means: list[float], n_tasks: int, seed: int) -> np.ndarray:
    """Scores of methods on tasks, which share most of their noise."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0, 2, (n_tasks, 1))
    return np.array(means) + shared + generator.normal(0, 1, (n_tasks, len(means)))


def test_intervals_hold_the_true_rank_as_often_as_they_say() -> None:
    means = [0.30, 0.15, 0.14, 0.0, -0.4]
    held = []
    for seed in range(300):
        found = rank_intervals(draw_scores(means, 150, seed), np.ones(150), level=0.9, random_state=seed)
        held.append([low <= rank <= high for rank, low, high in zip(range(1, 6), found.low, found.high, strict=True)])
    assert (np.mean(held, axis=0) >= 0.87).all(), np.mean(held, axis=0)


def test_the_true_best_is_among_the_tied_though_all_are_equal() -> None:
    tied = [rank_intervals(draw_scores([0.0] * 6, 100, seed), np.ones(100)).low == 1 for seed in range(200)]
    assert np.mean([each[0] for each in tied]) >= 0.87
    assert np.mean(tied) >= 0.87


def test_paired_differences_tell_methods_apart_that_single_errors_do_not() -> None:
    scores = draw_scores([0.0, 0.3], 200, 3)
    single = scores.std(axis=0) / np.sqrt(200)
    assert abs(scores.mean(axis=0)[1] - scores.mean(axis=0)[0]) < 2 * np.hypot(*single), "without pairing: not apart"
    found = rank_intervals(scores, np.ones(200))
    assert (found.low.tolist(), found.high.tolist()) == ([2, 1], [2, 1])


def test_methods_that_give_the_same_scores_are_tied() -> None:
    scores = draw_scores([0.0, 5.0], 50, 0)
    found = rank_intervals(scores[:, [0, 1, 1]] + [0, 0, 1e-14], np.ones(50))
    assert (found.low.tolist(), found.high.tolist()) == ([3, 1, 1], [3, 2, 2])


@pytest.mark.parametrize("n_tasks", [1, 2, FEWEST_TASKS - 1])
def test_few_tasks_rank_nothing(n_tasks: int) -> None:
    found = rank_intervals(draw_scores([0.0, 9.0, 99.0], n_tasks, 0), np.ones(n_tasks))
    assert (found.low.tolist(), found.high.tolist()) == ([1, 1, 1], [3, 3, 3])


def test_one_method_is_first() -> None:
    found = rank_intervals(np.ones((30, 1)), np.ones(30))
    assert (found.low.tolist(), found.high.tolist()) == ([1], [1])


def test_the_covariance_is_over_tasks_of_unequal_size() -> None:
    generator = np.random.default_rng(1)
    task = np.sort(generator.integers(0, 40, 200))
    values = generator.normal(size=(200, 2)) + generator.normal(size=40)[task, None]
    sums = np.stack([np.bincount(task, column, minlength=40) for column in values.T], axis=1)
    covariance = score_covariance(sums, np.bincount(task, minlength=40).astype(float))
    assert covariance[0, 0] == pytest.approx(standard_error_over_tasks(task, values[:, 0]) ** 2)
    gap = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert gap == pytest.approx(standard_error_over_tasks(task, values[:, 0] - values[:, 1]) ** 2)


def test_same_seed_same_intervals() -> None:
    scores = draw_scores([0.0, 0.1, 0.2], 80, 5)
    one, two = (rank_intervals(scores, np.ones(80), random_state=4) for _ in range(2))
    assert (one.low == two.low).all()
    assert (one.high == two.high).all()
