"""Rank-one methods on crowds with known parameters: recovery, its rate, intervals, and what each is made for.

Seeds are fixed, so a false alarm can come only with another random stream or other code. The statistics measured over
other seeds are given in each test.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.statistical.test_coverage import coins, coverage

import crowdwise as cw
from crowdwise.simulate import simulate_workers
from crowdwise.simulate.workers import symmetric_confusion

pytestmark = pytest.mark.usefixtures("compiled", "fewer_sweeps")
METHODS = pytest.mark.parametrize("slug", ["kos", "ghosh-svd", "dalvi", "sml", "pgd", "m-msr"])


def fitted(slug: str, labels: Any) -> Any:
    return cw.method(slug).load()().fit(labels)


def skill_error(slug: str, n_tasks: int, seed: int) -> float:
    accuracy = np.random.default_rng(seed).uniform(0.5, 0.95, 12)
    simulation = simulate_workers(symmetric_confusion(accuracy, 3), n_tasks, 6, random_state=seed)
    return float(np.abs(fitted(slug, simulation.labels).skill_ - accuracy).mean())


@METHODS
def test_the_error_falls_like_the_square_root(slug: str) -> None:
    """2 in theory. Measured: 1.91 to 1.95 (sd .04 to .08); error with 2,000 tasks .0125 to .0138 (sd .0005)."""
    few, many = (np.mean([skill_error(slug, n_tasks, seed) for seed in range(24)]) for n_tasks in (500, 2000))
    assert 1.45 < few / many < 2.8
    assert many < 0.018


@METHODS
def test_intervals_hold_the_truth(slug: str) -> None:
    """Nine in ten of the 90 % intervals, 300 workers (standard error .017). Measured of 900: .91 to .92."""
    found = coverage(cw.method(slug).load(), coins, 3, 300, 30, 5)
    assert 0.85 <= found <= 0.95


def test_the_meta_learner_finds_rates_and_imbalance() -> None:
    """Two coins, three in ten tasks of the first class.

    Measured: error of the share .003 (sd .002), of the matrices .0055 (.001); of those of one coin .07 (.011).
    """
    generator = np.random.default_rng(0)
    rates = generator.uniform(0.55, 0.95, (15, 2))
    crowd = np.stack([np.stack([rates[:, 0], 1 - rates[:, 0]], 1), np.stack([1 - rates[:, 1], rates[:, 1]], 1)], 1)
    simulation = simulate_workers(crowd, 20_000, 8, prior=[0.3, 0.7], random_state=1)
    model = fitted("sml", simulation.labels)
    assert abs(model.prior_[0] - 0.3) < 0.03
    assert np.abs(model.confusion_ - crowd).mean() < 0.015
    assert np.abs(fitted("pgd", simulation.labels).confusion_ - crowd).mean() > 0.05


def test_trimmed_means_bear_workers_who_answer_together() -> None:
    """Eight of twenty-five give the same answers, at random; everybody answers everything.

    Measured: error of the honest .024 (sd .005) and right answers .995 (.004); by gradient descent, which takes the
    eight for experts, .249 (.020) and .51 (.014).
    """
    generator = np.random.default_rng(2)
    truth = generator.integers(0, 2, 600)
    accuracy = generator.uniform(0.65, 0.9, 17)
    honest = np.where(generator.random((600, 17)) < accuracy, truth[:, None], 1 - truth[:, None])
    together = np.repeat(generator.integers(0, 2, (600, 1)), 8, axis=1)
    task, worker = np.divmod(np.arange(600 * 25), 25)
    labels = cw.CrowdLabels.from_codes(
        task, worker, np.hstack([honest, together]).ravel(), tasks=600, workers=25, classes=2
    )
    robust, plain = fitted("m-msr", labels), fitted("pgd", labels)
    assert np.abs(robust.skill_[:17] - accuracy).mean() < 0.045
    assert (robust.posterior_.argmax(axis=1) == truth).mean() > 0.97
    assert (plain.posterior_.argmax(axis=1) == truth).mean() < 0.7
