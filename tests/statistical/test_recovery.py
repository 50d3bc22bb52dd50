"""Simulate with known parameters, fit, recover.

Seeds are fixed, so a false alarm can come only with another random stream or other code. Bands lie three standard
deviations or more from the mean of their statistic, both measured over ten or twelve other sets of seeds and given
in each test: a false alarm is then about one in a thousand for each test.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import spearmanr

import crowdwise as cw
from crowdwise.simulate import Simulation, simulate, simulate_workers
from crowdwise.simulate.workers import constant_confusion, symmetric_confusion

SEEDS = range(32)


def confusion_error(simulation: Simulation, model: Any) -> float:
    return float(np.abs(model.confusion_ - simulation.confusion).mean())


def halving(make: Any, error: Any, n_tasks: int) -> float:
    """Mean error with n tasks over mean error with four times as many; 2 where it falls like N^-1/2."""
    few = np.mean([error(make(n_tasks, seed)) for seed in SEEDS])
    many = np.mean([error(make(4 * n_tasks, seed)) for seed in SEEDS])
    return float(few / many)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_dawid_skene_error_falls_like_the_square_root(n_classes: int) -> None:
    """2 in theory; 2.13 (K = 2) and 2.02 (K = 4) measured, sd .12 and .04. N^-1/4 would give 1.4, N^-1 would give 4."""

    def make(n_tasks: int, seed: int) -> Simulation:
        return simulate(
            "dawid-skene",
            n_tasks=n_tasks,
            n_workers=8,
            n_classes=n_classes,
            labels_per_task=None,
            skill=0.75,
            seed=seed,
        )

    ratio = halving(make, lambda sim: confusion_error(sim, cw.DawidSkene().fit(sim.labels)), 600)
    assert 1.5 < ratio < 2.6


def test_class_shares_are_recovered() -> None:
    """Largest error measured: dawid-skene .003 (sd .001); confusion-vector .012 (.009) and one-coin .013 (.005),

    which are not what made these labels.
    """
    prior = [0.1, 0.2, 0.7]
    simulation = simulate(
        "dawid-skene", n_tasks=20_000, n_workers=15, n_classes=3, labels_per_task=7, prior=prior, seed=1
    )
    for model, bound in ((cw.DawidSkene(), 0.01), (cw.ConfusionVector(), 0.05), (cw.OneCoin(), 0.03)):
        np.testing.assert_allclose(model.fit(simulation.labels).prior_, prior, atol=bound)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_one_coin_accuracies_are_recovered(n_classes: int) -> None:
    """1,500 labels a worker. Measured: largest error of 40 workers .031 (sd .006), root mean square .013 (.001)."""
    accuracy = np.random.default_rng(0).uniform(0.35 if n_classes > 2 else 0.55, 0.95, 40)
    simulation = simulate_workers(symmetric_confusion(accuracy, n_classes), 12_000, 5, seed=2)
    for model in (cw.OneCoin(), cw.ZenCrowd()):
        error = model.fit(simulation.labels).skill_ - accuracy
        assert np.abs(error).max() < 0.06
        assert np.sqrt((error**2).mean()) < 0.022


def test_one_coin_error_falls_like_the_square_root() -> None:
    def make(n_tasks: int, seed: int) -> Simulation:
        accuracy = np.random.default_rng(seed).uniform(0.5, 0.95, 12)
        return simulate_workers(symmetric_confusion(accuracy, 3), n_tasks, 6, seed=seed)

    # 2 in theory; 1.92 measured, sd .13.
    ratio = halving(make, lambda sim: np.abs(cw.OneCoin().fit(sim.labels).skill_ - sim.skill).mean(), 500)
    assert 1.5 < ratio < 2.6


def glad_recovery(seed: int) -> tuple[float, float, float]:
    """Labels made by GLAD's own model: correlation of abilities, rank correlation of eases, gain over the vote."""
    generator = np.random.default_rng(seed)
    n_tasks, n_workers, per_task = 3000, 40, 10
    ability, ease = generator.normal(1, 1, n_workers), np.exp(generator.normal(0.3, 0.7, n_tasks))
    truth = generator.integers(0, 3, n_tasks)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = generator.permuted(np.tile(np.arange(n_workers), (n_tasks, 1)), axis=1)[:, :per_task].ravel()
    right = generator.random(task.size) < expit(ability[worker] * ease[task])
    wrong = (truth[task] + generator.integers(1, 3, task.size)) % 3
    labels = cw.CrowdLabels.from_codes(
        task, worker, np.where(right, truth[task], wrong), tasks=n_tasks, workers=n_workers, classes=3
    )
    model = cw.Glad().fit(labels)
    gain = (model.predict() == truth).mean() - (cw.MajorityVote().fit(labels).predict() == truth).mean()
    return float(np.corrcoef(model.ability_, ability)[0, 1]), float(spearmanr(model.ease_, ease).statistic), float(gain)


def test_glad_ability_and_ease() -> None:
    """Measured: .992 (sd .004), .684 (.017), .011 (.004)."""
    ability, ease, gain = glad_recovery(0)
    assert ability > 0.975
    assert ease > 0.6
    assert gain > -0.005


@pytest.mark.parametrize("inference", ["vb", "em"])
def test_mace_finds_the_spammers(inference: str) -> None:
    """Ten constant spammers, ten at random, twenty who know, 100 labels each.

    Measured: gap between the kinds .45 (sd .08), competence of spammers .024 (.006), error of the others .045 (.008).
    """
    crowd = np.concatenate([
        constant_confusion(10, 3, label=1),
        np.full((10, 3, 3), 1 / 3),
        symmetric_confusion(np.random.default_rng(1).uniform(0.75, 0.95, 20), 3),
    ])  # fmt: skip
    simulation = simulate_workers(crowd, 500, 8, seed=3)
    competence = cw.Mace(inference=inference).fit(simulation.labels).workers()["competence"].to_numpy()
    assert competence[:20].max() < competence[20:].min()
    assert competence[:20].mean() < 0.15
    assert np.abs(competence[20:] - (simulation.skill[20:] * 3 - 1) / 2).mean() < 0.12


def test_better_models_of_the_workers_beat_the_vote() -> None:
    """Four who know among twelve who guess. Measured: .29 and more above the vote (sd .008), every method."""
    crowd = np.concatenate([symmetric_confusion(np.full(4, 0.95), 4), np.full((12, 4, 4), 0.25)])
    simulation = simulate_workers(crowd, 1500, 6, seed=4)
    vote = (cw.MajorityVote().fit(simulation.labels).predict() == simulation.truth).mean()
    for slug in ("dawid-skene", "one-coin", "confusion-vector", "glad", "mace", "zencrowd"):
        model = cw.method(slug).load()().fit(simulation.labels)
        assert (model.predict() == simulation.truth).mean() > vote + 0.25, slug
