"""How many independent workers a crowd is worth: against the true error correlations, with and without truth."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from tests.dependence.test_groups import with_copies

import crowdwise as cw
from crowdwise.dependence.effective_size import (
    effective_size,
    estimate_size,
    kish_effective_size,
    pool_sizes,
    select_testable_workers,
    size_bounds_without_truth,
)
from crowdwise.dependence.family_model import arrange_edges, error_correlation
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import Simulation, simulate

pytestmark = pytest.mark.usefixtures("compiled")

NEEDS_DATA = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set"),
]


def true_size(crowd: Simulation) -> float:
    matrix = crowd.extras["error_correlation"]
    n = matrix.shape[0]
    return float(kish_effective_size(n, (matrix.sum() - n) / (n * (n - 1))))


def gold_of(crowd: Simulation, n: int) -> dict[int, int]:
    return {task: int(crowd.truth[task]) for task in range(n)}


def test_kish_is_the_variance_of_a_mean() -> None:
    matrix = np.full((8, 8), 0.1)
    matrix[:4, :4] = 0.5
    np.fill_diagonal(matrix, 1.0)
    assert kish_effective_size(8, (matrix.sum() - 8) / 56) == pytest.approx(64 / matrix.sum())
    assert kish_effective_size(20, 0) == 20
    assert kish_effective_size(20, 1) == 1


@pytest.mark.parametrize("sharing", ["draw", "factor"])
def test_families_of_judges(sharing: str) -> None:
    """Fifteen judges in three families, error correlation about .5 inside: not worth ten."""
    crowd = simulate("families", n_tasks=500, n_workers=15, correlation=0.55, sharing=sharing, random_state=3)
    found = estimate_size(crowd.labels, None, 0)
    assert found.size == pytest.approx(true_size(crowd), rel=0.15)
    assert found.low <= true_size(crowd) <= found.high
    assert found.families.tolist() == crowd.groups.tolist()
    assert "3 families" in found.summary
    assert found.certain


@pytest.mark.parametrize("seed", range(2))
def test_independent_workers_count_as_many_as_they_are(seed: int) -> None:
    labels = simulate("families", n_tasks=400, n_workers=15, sizes=(), random_state=seed).labels
    found = estimate_size(labels, None, 0)
    assert found.low <= 15 <= found.high
    assert abs(found.correlation) < 0.02
    assert 14 < found.effective_labels_per_task <= 15
    assert "about as many" in found.summary
    assert (found.families == -1).all()


def test_tasks_with_some_of_the_workers() -> None:
    """Against the errors that were made: matrices make some classes harder for all."""
    crowd = simulate("dawid-skene", n_tasks=400, n_workers=15, n_classes=3, labels_per_task=8, random_state=0)
    edges = arrange_edges(crowd.labels, np.full(15, -1), np.full(400, -1))
    made = kish_effective_size(15, error_correlation(edges, crowd.truth, np.ones(400)))
    found = estimate_size(crowd.labels, None, 0)
    assert found.size == pytest.approx(made, rel=0.15)
    assert found.low <= made <= found.high


def test_copies_count_once() -> None:
    found = effective_size(with_copies(14, 8))
    assert found.size == pytest.approx(14**2 / (8**2 + 6), rel=0.15)
    assert np.unique(found.families[found.groups >= 0]).size == 1


def test_errors_that_avoid_each_other_are_worth_no_more_than_all_workers() -> None:
    truth = np.arange(60) % 2
    dense = np.array([[t ^ (task % 5 == worker) for worker in range(4)] for task, t in enumerate(truth)])
    labels = CrowdLabels.from_dense(dense.astype(int))
    found = effective_size(labels, truth=dict(enumerate(truth.tolist())))
    assert found.low > 4
    assert "(4.0 to 4.0)" in found.summary


def test_one_family_of_all_is_told_with_true_answers_only() -> None:
    """Binary answers, errors by a shared factor: what all believe looks like the truth."""
    crowd = simulate(
        "families", n_tasks=400, n_workers=8, n_classes=2, sizes=(8,), correlation=0.8, sharing="factor", random_state=0
    )
    alone = estimate_size(crowd.labels, None, 0)
    told = estimate_size(crowd.labels, None, 0, truth=gold_of(crowd, 120))
    every = estimate_size(crowd.labels, None, 0, truth=gold_of(crowd, 400))
    assert not alone.certain
    assert alone.low <= true_size(crowd) <= alone.high
    assert "cannot tell" in alone.summary
    assert told.certain
    assert told.n_gold == 120
    assert told.low <= true_size(crowd) <= told.high
    assert every.size == pytest.approx(true_size(crowd), rel=0.15)
    assert "400 true answers" in every.summary


def test_a_crowd_of_copies_is_one_worker_for_all_that_labels_tell() -> None:
    found = effective_size(with_copies(8, 8))
    assert (found.size, found.low, found.high) == (1, 1, 8)
    assert "never disagree" in found.summary
    assert not found.certain


def test_bounds_without_truth_hold_what_any_truth_gives() -> None:
    crowd = simulate("families", n_tasks=300, n_workers=6, sizes=(6,), correlation=0.6, random_state=1)
    edges = arrange_edges(crowd.labels, np.full(6, -1), np.full(300, -1))
    low, high = size_bounds_without_truth(edges, np.random.default_rng(0))
    assert 1 <= low < true_size(crowd) < high <= 6


def test_the_surer_of_two_estimates_counts_more() -> None:
    on_gold = np.concatenate([[1.0], 1.0 + np.array([-0.1, 0.1] * 50)])
    middle, spread = pool_sizes(2.0, 0.3, on_gold)
    assert middle == pytest.approx((2 / 0.09 + 1 / 0.0144) / (1 / 0.09 + 1 / 0.0144))
    assert spread == pytest.approx((1 / 0.09 + 1 / 0.0144) ** -0.5)


def test_same_seed_same_answer() -> None:
    labels = simulate("families", n_tasks=150, n_workers=6, sizes=(3,), random_state=0).labels
    one, two = estimate_size(labels, None, 5), estimate_size(labels, None, 5)
    assert (one.size, one.low, one.high, one.summary) == (two.size, two.low, two.high, two.summary)


def test_workers_of_few_labels_are_not_judged() -> None:
    labels = simulate("families", n_tasks=100, n_workers=6, sizes=(3,), random_state=0).labels
    few = labels.keep((labels.worker != 2) | (labels.task < 10))
    judged, kept = select_testable_workers(few)
    assert judged.tolist() == [0, 1, 3, 4, 5]
    assert kept.n_workers == 5
    found = estimate_size(few, None, 0)
    assert found.n_workers == 5
    assert found.families.shape == (6,)
    assert "5 workers with enough labels to tell (of 6)" in found.summary


def test_too_little_to_say() -> None:
    pair = simulate("dawid-skene", n_tasks=100, n_workers=2, labels_per_task=2, random_state=0)
    found = effective_size(pair.labels)
    assert np.isnan(found.size)
    assert "Two workers alone" in found.skipped
    told = effective_size(pair.labels, truth=gold_of(pair, 50))
    assert told.low <= 2 <= told.high
    short = simulate("dawid-skene", n_tasks=10, n_workers=8, random_state=0).labels
    assert "Too few workers" in effective_size(short).skipped
    with pytest.raises(cw.InputError, match="no labels to judge"):
        effective_size(CrowdLabels.from_codes([], [], [], tasks=1, workers=1, classes=2))


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS_DATA) for name in ("bluebird", "web")])
def test_real_crowds(name: str) -> None:
    data = cw.datasets.load(name)
    found = effective_size(data.labels)
    assert 1 <= found.low <= found.size <= found.high
    assert found.size <= 1.1 * found.n_workers
    assert 1 <= found.effective_labels_per_task <= found.labels_per_task


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS_DATA) for name in ("framing", "lesion")])
def test_real_judges_with_a_hundred_human_answers(name: str) -> None:
    """Language models in the place of workers: by all human answers, worth 2.0 and 2.2."""
    folder = Path(os.environ["CROWDWISE_DATA"]) / f"judges_{name}"
    labels = cw.read_labels(folder / "judges.csv")
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in cw.read_labels(folder / "humans.csv").to_table().to_pylist():
        votes[row["task"]][row["label"]] += 1
    ahead = {task: count.most_common(2) for task, count in votes.items()}
    known = set(labels.tasks.to_pylist())
    truth = {
        task: best[0][0]
        for task, best in ahead.items()
        if task in known and (len(best) == 1 or best[0][1] > best[1][1]) and best[0][0] in labels.classes.to_pylist()
    }
    every = estimate_size(labels, None, 0, truth=truth)
    some = estimate_size(labels, None, 0, truth=dict(list(truth.items())[:100]))
    assert some.low <= every.size <= some.high
    assert every.size < 0.6 * labels.n_workers
