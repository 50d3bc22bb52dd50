"""Drift: found with direction and time where planted; nobody flagged where nobody drifts, if tasks get harder too."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.audit.crowds import DRIFTERS, drifting, honest, varied

from crowdwise.audit.drift import _permutation_test, find_drift, label_times
from crowdwise.labels import CrowdLabels, read_labels
from crowdwise.labels.errors import InputError

pytestmark = pytest.mark.usefixtures("compiled")


def test_planted_drift_is_found_with_direction_and_time() -> None:
    hits, others, times = 0, 0, []
    for seed in range(10):
        labels, time = drifting(seed, better=seed % 2 == 1)
        screen = find_drift(labels, time)
        assert np.isfinite(screen.p_value).all()
        for finding in screen.findings:
            if finding.names[0] not in DRIFTERS:
                others += 1
                continue
            hits += 1
            assert ("better" if seed % 2 else "worse") in finding.verdict
            times.append(float(finding.verdict.split("about ")[1].split(" ")[0]) - (0.4 if seed % 2 else 0.6))
    assert hits >= 27
    assert others <= 3
    assert np.median(np.abs(times)) < 0.06


def test_against_every_order() -> None:
    z = np.array([1.0, 0.5, -0.2, -0.6, -0.7])
    moves = np.array([True, False, True, True, False])  # the second and third label have one time
    observed = np.abs(np.cumsum(z))[moves].max()
    reached = [np.abs(np.cumsum(order))[moves].max() >= observed - 1e-9 for order in permutations(z)]
    found = [_permutation_test(z, moves, np.random.default_rng(seed), 999) for seed in range(200)]
    assert np.mean([p for p, _ in found]) == pytest.approx(np.mean(reached), abs=0.04)
    assert {last for _, last in found} == {2}


@pytest.mark.parametrize("kind", ["at random", "class by class", "harder and harder"])
def test_nobody_is_flagged_where_nobody_drifts(kind: str) -> None:
    alarms = 0
    for seed in range(50):
        crowd, rng = varied(seed), np.random.default_rng([seed, 1])
        labels = crowd.labels
        time = rng.random(labels.n_labels)
        if kind == "class by class":
            time += crowd.truth[labels.task]
        elif kind == "harder and harder":
            hard = np.linspace(0, 0.8, labels.n_tasks)
            labels = honest(labels.n_tasks, labels.n_workers, 3, min(5, labels.n_workers), rng, hard=hard).labels
            time = labels.task + rng.random(labels.n_labels)
        alarms += bool(find_drift(labels, time).findings)
    assert alarms <= 7  # 5 % of 50 is 2.5; eight or more have a chance under 1 %


def test_beside_one_who_drifts_the_steady_are_left_alone() -> None:
    accused = found = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 2, 400)
        skill = np.full((400, 5), 0.85)
        skill[:, 4] = np.linspace(0.98, 0.45, 400)
        said = np.where(rng.random((400, 5)) < skill, truth[:, None], 1 - truth[:, None])
        screen = find_drift(CrowdLabels.from_dense(said), np.repeat(np.arange(400), 5))
        names = {finding.names[0] for finding in screen.findings}
        accused += bool(names - {4})
        found += 4 in names
    assert found >= 8
    assert accused <= 1


def test_of_two_workers_the_one_who_leaves_the_truth_drifts() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    skill = np.column_stack([np.full(400, 0.9), np.linspace(0.98, 0.4, 400)])
    said = np.where(rng.random((400, 2)) < skill, truth[:, None], 1 - truth[:, None])
    screen = find_drift(
        CrowdLabels.from_dense(said), np.repeat(np.arange(400), 2), truth=dict(enumerate(truth.tolist()))
    )
    (found,) = screen.findings
    assert found.names == (1,)
    assert found.evidence.startswith("The truth")


def test_times_by_name_in_any_order_and_of_any_kind() -> None:
    labels, time = drifting(0)
    rng = np.random.default_rng(1)
    order = rng.permutation(labels.n_labels)
    found = label_times(labels, labels.task[order], labels.worker[order], time[order])
    np.testing.assert_array_equal(found, time)
    dates = np.datetime64("2024-01-01") + (time * 1e6).astype("timedelta64[s]")
    lined = label_times(labels, labels.task[order][:-1], labels.worker[order][:-1], dates[order][:-1])
    assert np.isnat(lined[order[-1]])
    by_date = find_drift(labels, lined)
    assert {f.names for f in by_date.findings} == {f.names for f in find_drift(labels, time).findings}
    assert "2024-01" in by_date.findings[0].verdict
    assert find_drift(labels, time).findings == find_drift(labels, time).findings


def test_moments_that_many_labels_share() -> None:
    labels, _ = drifting(0)
    assert not find_drift(labels, np.ones(labels.n_labels)).findings  # no time moves on
    assert np.isnan(find_drift(labels, np.ones(labels.n_labels)).p_value).all()


def test_hostile_names() -> None:
    labels, time = drifting(0)
    names = [f"=cmd|'{w}'\n" for w in range(30)]
    hostile = CrowdLabels.from_codes(labels.task, labels.worker, labels.label, tasks=3000, workers=names, classes=3)
    found = find_drift(hostile, time).findings[0]
    assert found.names[0] in names
    assert "\n" not in found.verdict


def test_what_cannot_be_tested() -> None:
    labels = read_labels({"task": [1, 2, 1], "worker": ["a", "a", "b"], "label": ["x", "y", "x"]})
    assert "No worker has 20" in find_drift(labels, [1, 2, 3]).skipped
    assert "No worker has 20" in find_drift(labels, [np.nan] * 3).skipped
    alone = honest(50, 1, 2, 1, np.random.default_rng(0)).labels
    assert "two workers" in find_drift(alone, np.arange(50)).skipped
    with pytest.raises(InputError, match="one number or date for each of the 3 labels"):
        find_drift(labels, [1, 2])
    with pytest.raises(InputError, match="one number or date"):
        find_drift(labels, ["a", "b", "c"])
    with pytest.raises(InputError, match="two times by the same worker"):
        label_times(labels, [1, 1], ["a", "a"], [1, 2])
    with pytest.raises(InputError, match="same length"):
        label_times(labels, [1, 1], ["a"], [1, 2])
