"""The check that workers err independently: quiet where they do, loud where they do not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from crowdwise.evaluate import independence_check
from crowdwise.evaluate.independence_check import LIMIT, check_independence
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

pytestmark = pytest.mark.usefixtures("compiled")

SEEDS = range(8)


def hard_crowd(seed: int, *, hard: float = 0.0, lured: float = 0.0, n_classes: int = 4) -> CrowdLabels:
    """Workers who guess on some tasks, or who are drawn to one wrong class on some."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, n_classes, 400)
    task = np.repeat(np.arange(400), 8)
    worker = np.argsort(generator.random((400, 40)), axis=1)[:, :8].ravel()
    wrong = (truth[task] + generator.integers(1, n_classes, task.size)) % n_classes
    label = np.where(generator.random(task.size) < generator.uniform(0.6, 0.9, 40)[worker], truth[task], wrong)
    label = np.where((generator.random(400) < hard)[task], generator.integers(0, n_classes, task.size), label)
    lure = (truth + generator.integers(1, n_classes, 400)) % n_classes
    drawn_to_it = (generator.random(400) < lured)[task] & (generator.random(task.size) < 0.75)
    label = np.where(drawn_to_it, lure[task], label)
    return CrowdLabels.from_codes(task, worker, label, tasks=400, workers=40, classes=n_classes)


def check(labels: CrowdLabels, seed: int = 0) -> independence_check.Independence:
    found = check_independence(labels, random_state=seed)
    assert found is not None
    return found


@pytest.mark.parametrize("slug", ["dawid-skene", "spammers"])
def test_independent_workers_are_not_suspected(slug: str) -> None:
    found = [
        check(simulate(slug, n_tasks=300, n_workers=20, n_classes=3, labels_per_task=6, random_state=seed).labels)
        for seed in SEEDS
    ]
    assert sum(each.failed_check is not None for each in found) <= 1


def test_unequal_classes_and_volumes_are_no_dependence() -> None:
    alarms = 0
    for seed in SEEDS:
        labels = simulate(
            "dawid-skene",
            n_tasks=400,
            n_workers=25,
            n_classes=3,
            labels_per_task=8,
            prior=[0.8, 0.15, 0.05],
            random_state=seed,
        ).labels
        stays = np.random.default_rng(seed).random(labels.n_labels) < np.linspace(0.2, 1, 25)[labels.worker]
        found = check(labels.keep(stays))
        alarms += found.failed_check is not None
    assert alarms <= 1


def test_families_are_seen() -> None:
    sizes = {"n_tasks": 300, "n_workers": 20, "n_classes": 3, "labels_per_task": 6, "n_groups": 5}
    found = [check(simulate("groups", **sizes, random_state=seed).labels) for seed in SEEDS]
    assert sum(each.failed_check == "pairs" for each in found) >= 7


def test_hard_tasks_are_seen_as_a_matter_of_tasks() -> None:
    found = [check(hard_crowd(seed, hard=0.3)) for seed in SEEDS]
    assert sum(each.failed_check == "tasks" for each in found) >= 7


def test_tasks_that_mislead_everybody_look_like_another_class() -> None:
    """What labels cannot show: the documentation says so, and this keeps it true."""
    found = [check(hard_crowd(seed, lured=0.1)) for seed in SEEDS]
    assert sum(each.failed_check is not None for each in found) <= 4


def test_the_statistics_by_hand() -> None:
    labels = hard_crowd(0, n_classes=3).keep_tasks(np.arange(400) < 30)
    generator = np.random.default_rng(0)
    prior, confusion = generator.dirichlet(np.ones(3)), generator.dirichlet(np.ones(3), (40, 3))
    by_pair: dict[tuple[int, int], list[float]] = {}
    by_task: dict[int, list[float]] = {}
    for task in range(30):
        edges = np.flatnonzero(labels.task == task)
        for one, two in itertools.combinations(edges, 2):
            i, j = sorted((int(labels.worker[one]), int(labels.worker[two])))
            expected = sum(prior[k] * confusion[i, k] @ confusion[j, k] for k in range(3))
            excess = float(labels.label[one] == labels.label[two]) - expected
            for sums in (by_pair.setdefault((i, j), [0.0, 0.0]), by_task.setdefault(task, [0.0, 0.0])):
                sums[0] += excess
                sums[1] += expected * (1 - expected)
    wanted = [np.mean([a**2 / b for a, b in sums.values()]) for sums in (by_pair, by_task)]
    found = independence_check._LabelPairs(labels).excess_agreement_statistics(labels.label, prior, confusion)
    np.testing.assert_allclose(found, wanted)


def test_a_worker_is_no_pair_with_themself() -> None:
    task, worker = [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]
    labels = CrowdLabels.from_codes(task, worker, [0, 1, 0, 1, 0], tasks=2, workers=2, classes=2, on_duplicate="all")
    pairs = independence_check._LabelPairs(labels)
    assert sorted(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == [(0, 2), (1, 2)]


def test_nothing_is_said_where_too_few_share_tasks() -> None:
    one_label = simulate("dawid-skene", n_tasks=200, n_workers=5, n_classes=2, labels_per_task=1, random_state=0).labels
    few_each = simulate("dawid-skene", n_tasks=40, n_workers=40, n_classes=2, labels_per_task=5, random_state=0).labels
    assert check_independence(one_label) is None
    assert check_independence(few_each) is None


def test_of_many_labels_whole_tasks_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = hard_crowd(1)
    monkeypatch.setattr(independence_check, "MOST_LABELS", 800)
    sample = independence_check._sample_tasks(labels, np.random.default_rng(0))
    assert 800 <= sample.n_labels <= 820
    assert set(sample.labels_per_task.tolist()) == {8}
    monkeypatch.setattr(independence_check, "MOST_LABELS", 10**6)
    monkeypatch.setattr(independence_check, "MOST_CELLS", 28 * 16 * 50)
    assert independence_check._sample_tasks(labels, np.random.default_rng(0)).n_tasks == 50


def test_a_large_crowd_leaves_every_worker_labels_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(independence_check, "MOST_LABELS", 4000)
    alarms = 0
    for seed in range(4):
        crowd = simulate("dawid-skene", n_tasks=4000, n_workers=200, n_classes=3, labels_per_task=5, random_state=seed)
        busiest = independence_check._keep_busiest(crowd.labels)
        assert np.unique(busiest.worker).size == 4000 // (4 * 20)
        alarms += check(crowd.labels).failed_check is not None
    assert alarms == 0


def test_same_seed_same_result() -> None:
    assert check(hard_crowd(0), seed=3) == check(hard_crowd(0), seed=3)
    assert LIMIT > 2, "a limit that one crowd in forty would pass by chance"
