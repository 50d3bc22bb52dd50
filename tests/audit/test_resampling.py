"""Permutation and bootstrap: against every permutation, and against textbook intervals."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from crowdwise.audit.leave_out_consensus import fit_reference, one_hot, solve_rates
from crowdwise.audit.resampling import (
    GroupContrast,
    UnitValues,
    _bundle_units,
    bootstrap_interval,
    find_strongest,
    groups_to_test,
    has_enough_counts,
    max_statistic_test,
)
from crowdwise.kernels import outer_sums
from crowdwise.labels import CrowdLabels


def studentised(values: np.ndarray, inside: np.ndarray, stratum: np.ndarray) -> float:
    above, spread = 0.0, 0.0
    for s in np.unique(stratum):
        here = stratum == s
        away = inside[here] - inside[here].mean()
        above += (away * values[here]).sum()
        spread += (away**2 * values[here] ** 2).sum()
    return above / np.sqrt(spread)


def test_against_every_permutation() -> None:
    rng = np.random.default_rng(0)
    stratum = np.array([0, 0, 0, 0, 1, 1, 1, -5])
    code = np.array([0, 1, 1, 0, 0, 1, 0, -1])
    values = rng.normal(size=(8, 2))
    values[[2, 5], 1] = 0
    some = np.array([0, 1, 3, 4, 6, 7])
    tables = [UnitValues(np.arange(8), values[:, :1]), UnitValues(some, values[some, 1:])]
    contrast = GroupContrast(tables, code, stratum, np.array([0]), np.ones((1, 2), bool))
    ((t, p),) = max_statistic_test([contrast], random_state=1, draws=4999)
    kept = code >= 0
    expected = [studentised(values[kept, c], code[kept] == 0, stratum[kept]) for c in (0, 1)]
    np.testing.assert_allclose(t[0], expected, rtol=1e-5)
    largest = []
    for first in permutations(range(4)):
        for second in permutations(range(3)):
            dealt = code[[*first, *(4 + i for i in second)]] == 0
            largest.append(max(abs(studentised(values[kept, c], dealt, stratum[kept])) for c in (0, 1)))
    exact = [np.mean(np.array(largest) >= abs(x) - 1e-9) for x in expected]
    np.testing.assert_allclose(p[0], exact, atol=0.03)


def test_bundles_of_many_units(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    code, stratum = rng.integers(-1, 3, 3000), rng.integers(0, 2, 3000)
    values = rng.normal(size=(3000, 2)) + 0.15 * (code == 1)[:, None] * np.array([1, 0])
    tables = [UnitValues(np.arange(3000), values[:, :1]), UnitValues(np.arange(0, 3000, 2), values[::2, 1:])]
    contrast = GroupContrast(tables, code, stratum, np.array([0, 1, 2]), np.ones((3, 2), bool))
    ((t, p),) = max_statistic_test([contrast], random_state=1)
    monkeypatch.setattr("crowdwise.audit.resampling.MANY", 300)
    unit, first = _bundle_units(contrast, rng)
    assert (np.bincount(unit[unit >= 0]) == 8).all()  # 2,250 units have a group
    assert (unit < 0).sum() - (code < 0).sum() < 8 * 6
    for bundle, one in enumerate(first):
        assert (code[unit == bundle] == code[one]).all()
        assert (stratum[unit == bundle] == stratum[one]).all()
    ((t_bundled, p_bundled),) = max_statistic_test([contrast], random_state=1)
    np.testing.assert_allclose(t_bundled, t, atol=0.6)
    assert max(p[1, 0], p_bundled[1, 0]) < 0.02
    assert min(p[2, 0], p_bundled[2, 0]) > 0.4


def test_what_is_not_usable_is_not_counted() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2))
    code = np.arange(40) % 2
    values[:, 1] += 5 * code
    wild = GroupContrast(
        [UnitValues(np.arange(len(code)), values)], code, np.zeros(40, int), np.array([0]), np.array([[True, False]])
    )
    ((t, p),) = max_statistic_test([wild], random_state=0)
    assert np.isnan([t[0, 1], p[0, 1]]).all()
    alone = GroupContrast(
        [UnitValues(np.arange(40), values[:, :1])], code, np.zeros(40, int), np.array([0]), np.array([[True]])
    )
    ((_, q),) = max_statistic_test([alone], random_state=0)
    assert p[0, 0] == pytest.approx(q[0, 0], abs=0.05)


def test_values_of_nothing_are_no_evidence() -> None:
    code = np.arange(10) % 2
    same = GroupContrast(
        [UnitValues(np.arange(10), np.zeros((10, 1)))], code, np.zeros(10, int), np.array([0]), np.array([[True]])
    )
    ((t, p),) = max_statistic_test([same], random_state=0, draws=19)
    assert t[0, 0] == 0
    assert p[0, 0] == 1


def test_bootstrap_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=400)
    low, high = bootstrap_interval(lambda w: w @ values / w.sum(axis=1), 400, random_state=0, draws=2000)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.015)
    assert high == pytest.approx(values.mean() + half, abs=0.015)


def test_groups_that_are_tested() -> None:
    assert groups_to_test(np.array([0, 1, -1, 1]), 3).tolist() == [0]
    assert groups_to_test(np.array([0, 1, 2]), 3).tolist() == [0, 1, 2]
    assert groups_to_test(np.array([1, 1]), 3).tolist() == []
    counts = np.array([[3.0], [1.0], [9.0]])
    assert has_enough_counts(np.array([0, 1, -1]), counts, np.array([0, 1]), 1).tolist() == [[True], [True]]
    assert has_enough_counts(np.array([0, 1, -1]), counts, np.array([0, 1]), 2).tolist() == [[False], [False]]


def test_strongest() -> None:
    t, p = np.array([[1.0, -9.0, np.nan]]), np.array([[0.04, 0.01, np.nan]])
    assert find_strongest(t, p, 0.05) == (0, 1)
    assert find_strongest(t, p, 0.005) is None


def test_consensus_of_the_others_by_hand() -> None:
    labels = CrowdLabels.from_codes(
        [0, 0, 0, 1, 1, 1, 2], [0, 1, 1, 0, 1, 2, 2], [0, 1, 1, 1, 1, 0, 1], tasks=3, workers=3, classes=2,
        on_duplicate="all",
    )  # fmt: skip
    found = fit_reference(labels, {2: 0})
    prior, a = np.exp(found.log_prior), found.confusion
    q = found.posterior_without_worker(labels)
    others = prior * a[1, :, 1] ** 2
    np.testing.assert_allclose(q[0], others / others.sum())
    others = prior * a[0, :, 0]  # both answers of worker 1 to task 0 are her own
    np.testing.assert_allclose(q[[1, 2]], np.tile(others / others.sum(), (2, 1)))
    np.testing.assert_allclose(q[6], [1, 0])  # the truth
    outside = found.posterior_without_worker(labels, np.array([True, True, False]))
    np.testing.assert_allclose(outside[0], prior)
    others = prior * a[2, :, 0]
    np.testing.assert_allclose(outside[3], others / others.sum())


def test_rates_undo_the_errors_of_the_consensus() -> None:
    # A calibrated but unsure consensus: a table against its most probable class would blur the worker's matrix.
    rng = np.random.default_rng(0)
    n, matrix = 200_000, np.array([[0.9, 0.1], [0.3, 0.7]])
    sure = rng.beta(1, 1, n)
    truth = (rng.random(n) > sure).astype(int)
    label = (rng.random(n) > matrix[truth, 0]).astype(int)
    q = np.stack([sure, 1 - sure], axis=1)
    np.testing.assert_allclose(solve_rates(q.T @ q, q.T @ np.eye(2)[label]), matrix, atol=0.01)
    blurred = [label[q.argmax(axis=1) == k].mean() for k in (0, 1)]
    assert abs(blurred[0] - 0.1) > 0.05


def test_sums_of_units() -> None:
    labels = CrowdLabels.from_codes([0, 0, 2], [0, 1, 0], [0, 1, 1], tasks=3, workers=2, classes=2)
    y = one_hot(labels)
    found = outer_sums(y, 2 * y, labels.task, 3)
    assert found.tolist() == [[[2, 0], [0, 2]], [[0, 0], [0, 0]], [[0, 0], [0, 2]]]
