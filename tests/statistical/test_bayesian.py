"""Bayesian methods on simulated crowds: calibration of the sampler, coverage, agreement, correlated workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.statistical.test_coverage import coins, coverage, covered, matrices, spammers

import crowdwise as cw
from crowdwise.aggregate.bcc import generate_gibbs_sweeps
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate_workers

pytestmark = pytest.mark.usefixtures("compiled", "fewer_sweeps")
FALSE_ALARM = 1e-3  # of each test of uniform ranks, over random streams; the seed is fixed


def crowds_of_the_prior(n_crowds: int, seed: int) -> tuple[CrowdLabels, Any, Any, Any]:
    """Crowds of 3 workers and 8 tasks, 2 classes, rows drawn from the prior; no two share a task."""
    generator = np.random.default_rng(seed)
    prior, shares = np.array([[3.0, 1.0], [1.5, 2.5]]), np.array([0.4, 0.6])
    rows = np.stack([generator.dirichlet(prior[k], 3 * n_crowds) for k in range(2)], axis=1)
    truth = (generator.random(8 * n_crowds) < shares[1]).astype(int)
    task = np.repeat(np.arange(8 * n_crowds), 3)
    worker = 3 * (task // 8) + np.tile(np.arange(3), 8 * n_crowds)
    label = (generator.random(task.size) < rows[worker, truth[task], 1]).astype(int)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=8 * n_crowds, workers=3 * n_crowds, classes=2)
    return labels, prior, shares, rows


@pytest.mark.parametrize("cell", [(0, 0), (1, 1)])
def test_ranks_of_the_sampler_are_uniform(cell: tuple[int, int]) -> None:
    """Simulation-based calibration (Talts et al. 2018): the rank of the true cell among draws is uniform."""
    n_crowds, n_draws, thin = 1500, 19, 12
    labels, prior, shares, rows = crowds_of_the_prior(n_crowds, seed=1)
    chain = generate_gibbs_sweeps(
        labels,
        PriorKnowledge(class_prior=shares),
        rows_prior=prior[None],
        share_prior=1.0,
        generator=np.random.default_rng(2),
    )
    truth_class, said = cell
    ranks = np.zeros(n_crowds, int)
    for number in range(60 + n_draws * thin):
        sweep = next(chain)
        if number >= 60 and number % thin == 0:
            ranks += sweep.rows[::3, truth_class, said] < rows[::3, truth_class, said]
    found = np.bincount(ranks, minlength=n_draws + 1)
    assert stats.chisquare(found).pvalue > FALSE_ALARM


def test_ranks_of_a_wrong_sampler_are_not_uniform() -> None:
    """The test above can fail: with a prior that is wrong by one pseudo-count it does."""
    labels, prior, shares, rows = crowds_of_the_prior(1500, seed=1)
    chain = generate_gibbs_sweeps(
        labels,
        PriorKnowledge(class_prior=shares),
        rows_prior=prior[None] + np.eye(2),
        share_prior=1.0,
        generator=np.random.default_rng(2),
    )
    ranks = np.zeros(1500, int)
    for number in range(60 + 19 * 12):
        sweep = next(chain)
        if number >= 60 and number % 12 == 0:
            ranks += sweep.rows[::3, 0, 0] < rows[::3, 0, 0]
    assert stats.chisquare(np.bincount(ranks, minlength=20)).pvalue < FALSE_ALARM


def test_gibbs_and_mean_field_agree_where_labels_are_many() -> None:
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=600, n_workers=15, n_classes=3, labels_per_task=10, skill=0.75, random_state=4
    ).labels
    sampled = cw.BayesianClassifierCombination(inference="gibbs", n_sweeps=400, burn_in=100).fit(labels)
    field = cw.BayesianClassifierCombination().fit(labels)
    assert np.abs(sampled.posterior_ - field.posterior_).mean() < 0.005
    assert np.abs(sampled.confusion_ - field.confusion_).max() < 0.04
    assert np.abs(sampled.skill_ - field.skill_).max() < 0.02
    np.testing.assert_allclose(sampled.prior_, field.prior_, atol=0.01)


@pytest.mark.parametrize("make", [cw.MeanField, cw.BayesianWeightedAverage], ids=lambda make: make.slug)
@pytest.mark.parametrize("population", [coins, matrices, spammers], ids=lambda population: population.__name__)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_intervals_hold_the_skill(make: Any, population: Any, n_classes: int) -> None:
    """Of 300 workers with 50 labels each; standard error .017.

    Mean field with coins of four classes lies nearest to an edge: .861 of 6,000 workers.
    """
    assert 0.84 <= coverage(make, population, n_classes, 1000, 100, 5) <= 0.97


@pytest.mark.parametrize("make", [cw.EnhancedBcc, cw.CommunityBcc], ids=lambda make: make.slug)
def test_intervals_hold_the_skill_of_matrices(make: Any) -> None:
    """.90 and .91 when this was written."""
    assert 0.85 <= coverage(make, matrices, 2, 1000, 100, 5) <= 0.95


def test_intervals_of_gibbs_hold_the_skill() -> None:
    """Of 300 workers with 50 labels each; standard error .017."""
    found = []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        crowd = simulate_workers(matrices(30, 2, generator), 300, 5, random_state=generator)
        model = cw.BayesianClassifierCombination(inference="gibbs", n_sweeps=200, burn_in=50)
        found.append(covered(model, crowd))
    assert 0.85 <= np.mean(found) <= 0.95


def test_ebcc_sees_what_misleads_the_same_workers() -> None:
    """Three in ten tasks of class 1 mislead the five best workers of twelve: independent errors would not."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, 600)
    hard = (truth == 1) & (generator.random(600) < 0.3)
    right = generator.random((600, 12)) < np.where(np.arange(12) < 5, 0.95, 0.85)
    misled = hard[:, None] & (np.arange(12) < 5)
    label = np.where(right ^ misled, truth[:, None], 1 - truth[:, None])
    labels = CrowdLabels.from_codes(
        np.repeat(np.arange(600), 12), np.tile(np.arange(12), 600), label.ravel(), tasks=600, workers=12, classes=2
    )
    model, other = cw.EnhancedBcc().fit(labels), cw.BayesianClassifierCombination().fit(labels)
    accuracy = [(found.posterior_.argmax(axis=1) == truth).mean() for found in (model, other)]
    assert accuracy[0] > accuracy[1] + 0.1
    np.testing.assert_allclose(np.sort(model.subtype_shares_[1])[-2:], [0.3, 0.7], atol=0.06)


def test_cbcc_finds_the_communities_and_lends_them_to_workers_with_few_labels() -> None:
    """Forty good workers, forty who say class 0 whatever they see; twenty labels each."""
    generator = np.random.default_rng(0)
    good, blind = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.9, 0.1], [0.9, 0.1]])
    crowd = np.stack([good] * 40 + [blind] * 40)
    simulation = simulate_workers(crowd, 200, 8, random_state=generator)
    model = cw.CommunityBcc(n_communities=2).fit(simulation.labels)
    other = cw.BayesianClassifierCombination().fit(simulation.labels)
    found = model.community_.argmax(axis=1)
    assert (
        max((found[:40] == 0).sum() + (found[40:] == 1).sum(), (found[:40] == 1).sum() + (found[40:] == 0).sum()) >= 76
    )
    errors = [np.abs(each.confusion_ - crowd).mean() for each in (model, other)]
    assert errors[0] < 0.7 * errors[1]
    nearest = [np.abs(model.community_confusion_ - matrix).max(axis=(1, 2)).min() for matrix in (good, blind)]
    assert max(nearest) < 0.08
