"""Nine in ten of the 90 % intervals of `workers()` hold the worker's true skill, or nearly.

`benchmarks/skill_coverage.py` measures crowds of six sizes with 2, 4 and 7 classes, drawn from each model, in 162
settings; crowds whose workers err together; and real sets. These tests are a sample of the first two, in which every
two of population, number of classes and size meet.

Seeds are fixed, so a false alarm can come only with another random stream or other code. Over 300 workers a
coverage has a standard error of about .017; over 500, where it lies near the edge of its band, of .013.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import expit

import crowdwise as cw
from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import grade_by_posterior
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.fitting.shared_errors import task_effect_evidence
from crowdwise.fitting.skill_posterior import beta_moments, skill_from_calibrated_posterior
from crowdwise.fitting.skill_sampler import sample_coin_skill, sample_skill
from crowdwise.kernels import NO_GOLD
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import Simulation, simulate_workers
from crowdwise.simulate.workers import class_wise_confusion, draw_skilled_confusion, symmetric_confusion

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("compiled")
WORKERS = 300  # of coverages that fall to .8, the tests would see nineteen in twenty
MORE_WORKERS = 500


def coins(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return symmetric_confusion(generator.uniform(0.5 if n_classes == 2 else 0.3, 0.95, n_workers), n_classes)


def spammers(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    """Three in ten guess."""
    return symmetric_confusion(np.where(generator.random(n_workers) < 0.3, 1 / n_classes, 0.9), n_classes)


def matrices(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return draw_skilled_confusion(n_workers, n_classes, generator, skill=0.75, concentration=10)


def unlike_matrices(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return draw_skilled_confusion(n_workers, n_classes, generator, skill=0.7, concentration=3)


def covered(model: Any, simulation: Simulation, level: float = 0.9) -> Any:
    table = model.fit(simulation.labels).workers(level)
    low, high = table["skill_low"].to_numpy(), table["skill_high"].to_numpy()
    return (low <= simulation.skill) & (simulation.skill <= high)


def coverage(
    make: Callable[[], Any],
    population: Any,
    n_classes: int,
    n_tasks: int,
    n_workers: int,
    labels_per_task: int,
    level: float = 0.9,
    n_counted: int = WORKERS,
) -> float:
    found = []
    for seed in range(n_counted // n_workers):
        generator = np.random.default_rng([seed, n_classes, labels_per_task, n_workers])
        crowd = population(n_workers, n_classes, generator)
        found.append(covered(make(), simulate_workers(crowd, n_tasks, labels_per_task, random_state=generator), level))
    return float(np.mean(found))


LOW, HIGH = 0.84, 0.96
FEW, MANY, LARGE = (300, 30, 3), (300, 30, 10), (1000, 100, 5)  # tasks, workers, labels of a task
CLASSES = pytest.mark.parametrize("n_classes", [2, 4])


def settings(*met: tuple[Any, int, tuple[int, int, int]]) -> pytest.MarkDecorator:
    names = ("population", "n_classes", "n_tasks", "n_workers", "labels_per_task")
    rows = [(population, n_classes, *size) for population, n_classes, size in met]
    return pytest.mark.parametrize(names, rows, ids=lambda value: getattr(value, "__name__", str(value)))


@settings(
    (coins, 2, FEW), (coins, 4, MANY), (coins, 4, LARGE), (spammers, 4, FEW), (spammers, 2, MANY), (spammers, 2, LARGE)
)
def test_one_coin(population: Any, n_classes: int, n_tasks: int, n_workers: int, labels_per_task: int) -> None:
    assert LOW <= coverage(cw.OneCoin, population, n_classes, n_tasks, n_workers, labels_per_task) <= HIGH


@settings(
    (matrices, 2, FEW), (matrices, 4, MANY), (matrices, 2, LARGE),
    (unlike_matrices, 4, FEW), (unlike_matrices, 2, MANY), (unlike_matrices, 4, LARGE),
    (spammers, 4, FEW), (spammers, 2, MANY), (spammers, 4, LARGE),
)  # fmt: skip
def test_dawid_skene(population: Any, n_classes: int, n_tasks: int, n_workers: int, labels_per_task: int) -> None:
    assert LOW <= coverage(cw.DawidSkene, population, n_classes, n_tasks, n_workers, labels_per_task) <= HIGH


@pytest.mark.usefixtures("fewer_sweeps")
@CLASSES
@pytest.mark.parametrize(("make", "population"), [(cw.OneCoin, coins), (cw.DawidSkene, matrices)])
def test_two_labels_a_task(make: Any, population: Any, n_classes: int) -> None:
    """Twenty labels a worker, two a task: the labels hardly tell, and the intervals assume that some errors are shared.

    In these crowds none are; coins of four classes are covered least, .817.
    """
    assert 0.80 <= coverage(make, population, n_classes, 300, 30, 2) <= 0.99


@pytest.mark.usefixtures("fewer_sweeps")
@pytest.mark.parametrize(("level", "low", "high"), [(0.5, 0.43, 0.60), (0.99, 0.975, 1.0)])
def test_other_levels(level: float, low: float, high: float) -> None:
    assert low <= coverage(cw.OneCoin, coins, 3, 300, 30, 5, level) <= high


def vectors(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    return class_wise_confusion(generator.beta(7.5, 2.5, (n_workers, n_classes)))


def habits(n_workers: int, n_classes: int, generator: np.random.Generator) -> Any:
    """Competent, or spamming by a habit."""
    competent = generator.uniform(0.2, 0.95, n_workers)[:, None, None]
    habit = generator.dirichlet(np.full(n_classes, 3.0), n_workers)[:, None, :]
    return competent * np.eye(n_classes) + (1 - competent) * habit


@pytest.mark.usefixtures("fewer_sweeps")
@pytest.mark.parametrize(("n_tasks", "n_workers"), [(300, 30), (1000, 100)], ids=str)
@pytest.mark.parametrize(
    ("slug", "population", "n_classes_of_size"),
    [
        ("confusion-vector", vectors, {300: 4, 1000: 2}),
        ("mace", habits, {300: 2, 1000: 4}),
        ("zencrowd", coins, {300: 4, 1000: 2}),
        ("majority-vote", coins, {300: 2, 1000: 4}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_relatives(slug: str, population: Any, n_classes_of_size: dict[int, int], n_tasks: int, n_workers: int) -> None:
    make, n_classes = cw.method(slug).load(), n_classes_of_size[n_tasks]
    found = coverage(make, population, n_classes, n_tasks, n_workers, 5, n_counted=MORE_WORKERS)
    assert LOW <= found <= HIGH


@pytest.mark.parametrize(("n_classes", "n_workers", "labels_per_task"), [(2, 50, 5), (4, 25, 5)])
def test_glad(n_classes: int, n_workers: int, labels_per_task: int) -> None:
    """Abilities and eases drawn from the model's own priors; skill is the mean chance on the worker's own tasks."""
    held = []
    for seed in range(300 // n_workers):
        rng = np.random.default_rng([seed, n_classes])
        ability, ease = rng.normal(1, 1, n_workers), np.exp(rng.normal(1, 1, 300))
        task = np.repeat(np.arange(300), labels_per_task)
        worker = np.argsort(rng.random((300, n_workers)), axis=1)[:, :labels_per_task].ravel()
        truth = rng.integers(0, n_classes, 300)[task]
        chance = expit(ability[worker] * ease[task])
        wrong = (truth + rng.integers(1, n_classes, task.size)) % n_classes
        label = np.where(rng.random(task.size) < chance, truth, wrong)
        labels = CrowdLabels.from_codes(task, worker, label, tasks=300, workers=n_workers, classes=n_classes)
        skill = np.bincount(worker, chance) / np.bincount(worker)
        table = cw.Glad().fit(labels).workers(0.9)
        held.append((table["skill_low"].to_numpy() <= skill) & (skill <= table["skill_high"].to_numpy()))
    assert LOW <= np.mean(held) <= 0.98  # its crowds look like those whose workers err together


def test_more_labels_make_narrower_intervals() -> None:
    widths = []
    for labels_per_task in (3, 5, 10, 20):
        labels = simulate_workers(
            symmetric_confusion(np.full(25, 0.75), 3), 400, labels_per_task, random_state=0
        ).labels
        table = cw.DawidSkene().fit(labels).workers()
        widths.append(float(np.mean(table["skill_high"].to_numpy() - table["skill_low"].to_numpy())))
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.1


def test_a_worker_who_was_never_wrong() -> None:
    """Forty answers, all as the consensus: the interval is that of forty answers, neither a point nor all there is."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, 400)
    task = np.concatenate([np.repeat(np.arange(400), 9), np.arange(40)])
    worker = np.concatenate([np.tile(np.arange(9), 400), np.full(40, 9)])
    right = np.concatenate([generator.random(3600) < 0.85, np.ones(40, bool)])
    label = np.where(right, truth[task], 1 - truth[task])
    labels = CrowdLabels.from_codes(task, worker, label, tasks=400, workers=10, classes=2)
    for make in (cw.DawidSkene, cw.OneCoin, cw.MeanField, cw.Mace, cw.Glad):
        low = make().fit(labels).workers()["skill_low"][9].as_py()
        assert 0.85 < low < 0.985, make.slug


def hard_crowd(seed: int, spread: float, n_classes: int = 3) -> tuple[CrowdLabels, Any]:
    """Tasks whose difficulty differs by `spread` in log-odds, and each worker's chance on their own tasks."""
    rng = np.random.default_rng([seed, n_classes])
    skill = rng.uniform(0.65, 0.95, 30)
    task, worker = np.repeat(np.arange(300), 8), np.argsort(rng.random((300, 30)), axis=1)[:, :8].ravel()
    truth = rng.integers(0, n_classes, 300)
    chance = expit(np.log(skill / (1 - skill))[worker] - spread * rng.normal(size=300)[task])
    wrong = (truth[task] + rng.integers(1, n_classes, task.size)) % n_classes
    label = np.where(rng.random(task.size) < chance, truth[task], wrong)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=300, workers=30, classes=n_classes)
    return labels, np.bincount(worker, chance) / np.bincount(worker)


@pytest.mark.usefixtures("fewer_sweeps")
@pytest.mark.parametrize("slug", ["dawid-skene", "mean-field", "one-coin", "majority-vote"])
def test_hard_tasks(slug: str) -> None:
    """Without the allowance for errors in common, Dawid-Skene covers .65 of these workers."""
    held = []
    for seed in range(6):
        labels, skill = hard_crowd(seed, 1.5)
        table = cw.method(slug).load()().fit(labels).workers(0.9)
        held.append((table["skill_low"].to_numpy() <= skill) & (skill <= table["skill_high"].to_numpy()))
    assert np.mean(held) >= 0.84


def test_evidence_for_task_effects() -> None:
    """Tasks that differ in difficulty are told from tasks that do not."""
    for seed in range(5):
        for spread, sign in ((0.0, -1), (1.2, 1)):
            labels, _ = hard_crowd(seed, spread)
            posterior = cw.MeanField().fit(labels).posterior_
            assert sign * task_effect_evidence(labels, posterior, NO_GOLD) > 1


def test_sampler_where_every_truth_is_known() -> None:
    """Graded answers: the skill is the share of right ones, drawn to the crowd; its variance is that of tosses."""
    simulation = simulate_workers(symmetric_confusion(np.linspace(0.5, 0.95, 25), 3), 600, 10, random_state=1)
    labels, truth = simulation.labels, np.asarray(simulation.truth, np.int32)
    known = PriorKnowledge(gold=truth)
    right = np.bincount(labels.worker, truth[labels.task] == labels.label)
    share = right / labels.labels_per_worker
    for sample in (sample_skill, sample_coin_skill):
        found = sample(prepare(labels), known, np.eye(3)[truth])
        np.testing.assert_allclose(found.mean, share, atol=0.03)
        np.testing.assert_allclose(found.variance, share * (1 - share) / labels.labels_per_worker, rtol=0.35)
        np.testing.assert_array_equal(found.truths.argmax(axis=1), truth)


def test_calibrated_posterior_is_taken_at_its_word() -> None:
    """Skill is graded by that posterior; the interval is wide where it knows of shared errors."""
    labels, skill = hard_crowd(0, 0.0)
    known, posterior = PriorKnowledge(), cw.DawidSkene().fit(labels).posterior_
    doubtful = 0.8 * posterior + 0.2 / 3
    mean, beta = skill_from_calibrated_posterior(labels, known, posterior, posterior.mean(axis=0))
    lower, wider = skill_from_calibrated_posterior(labels, known, doubtful, doubtful.mean(axis=0))
    assert np.abs(mean - skill).mean() < 0.05
    assert (mean - lower).mean() > 0.05
    assert (beta_moments(wider())[1] > 2 * beta_moments(beta())[1]).mean() > 0.9


def test_classifier_that_learnt_from_the_labels() -> None:
    """Graded between the classifier alone and classifier with labels, and as unsure as they differ."""
    labels, _ = hard_crowd(1, 0.0)
    posterior = cw.DawidSkene().fit(labels).posterior_
    vague = (posterior + 1 / 3) / 2
    alone, both = (
        beta_moments(grade_by_posterior(labels, posterior, posterior.mean(axis=0), f)) for f in (None, vague)
    )
    assert (both[0] < alone[0]).all()
    assert (both[1] > alone[1]).all()


def test_intervals_are_computed_when_asked_for() -> None:
    """A fit does not sample; a pickled model has its intervals and not its labels."""
    labels, _ = hard_crowd(2, 0.0)
    model = cw.DawidSkene().fit(labels)
    assert callable(model._skill_beta)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(again.skill_beta_, model.skill_beta_)
    assert not callable(model._skill_beta)
    np.testing.assert_array_equal(cw.DawidSkene().fit(labels).skill_beta_, model.skill_beta_)
    with pytest.raises(cw.InputError):
        _ = cw.DawidSkene().skill_beta_


def test_what_labels_cannot_tell() -> None:
    labels, _ = hard_crowd(3, 0.0)
    assert cw.DawidSkene().fit(labels).skill_caveat() == ""
    two = simulate_workers(symmetric_confusion(np.full(10, 0.8), 2), 100, 2, random_state=0).labels
    assert "A task has 2.0 labels on average" in cw.DawidSkene().fit(two).skill_caveat()
    one = simulate_workers(symmetric_confusion(np.full(10, 0.8), 2), 100, 1, random_state=0).labels
    assert "No task has two labels" in cw.MajorityVote().fit(one).skill_caveat()
    with pytest.raises(cw.InputError, match="not fitted"):
        cw.DawidSkene().skill_caveat()


def test_votes_say_agreement_and_skill_apart() -> None:
    """Workers who are right more often than they agree with the few others have a skill above their agreement."""
    simulation = simulate_workers(symmetric_confusion(np.full(30, 0.75), 4), 300, 3, random_state=0)
    for slug in ("majority-vote", "weighted-majority-vote", "crh", "group-majority-vote"):
        table = cw.method(slug).load()().fit(simulation.labels).workers()
        skill, low, high = (table[name].to_numpy() for name in ("skill", "skill_low", "skill_high"))
        assert "agreement" in table.column_names
        assert np.abs(skill.mean() - 0.75) < 0.06, slug
        assert np.mean((low <= 0.75) & (high >= 0.75)) > 0.8, slug
