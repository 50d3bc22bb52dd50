"""How many independent workers a crowd is worth: copies count once, independent workers as many as they are."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.audit.test_dependence import with_copies

import crowdwise as cw
from crowdwise.audit.effective_size import beyond, effective_size, in_a_vote, worth
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

NEEDS_DATA = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set"),
]


def test_the_formulas_are_those_of_the_correlation_matrix() -> None:
    """1ᵀR⁻¹1 and n² / 1ᵀR1 of blocks, by linear algebra."""
    sizes, inside = np.array([4.0, 3.0, 1.0]), np.array([0.5, 0.2, 0.0])
    company = np.repeat(np.arange(3), sizes.astype(int))
    matrix = np.where(company[:, None] == company, inside[company][:, None], 0.0)
    np.fill_diagonal(matrix, 1.0)
    assert worth(sizes, inside) == pytest.approx(np.linalg.inv(matrix).sum())
    mean = (matrix.sum() - 8) / 56
    assert in_a_vote(8, np.array(mean)) == pytest.approx(64 / matrix.sum())


def test_what_all_share_is_taken_off() -> None:
    np.testing.assert_allclose(beyond(np.array([0.1, 0.55, 1.0, 0.0]), np.array(0.1)), [0, 0.5, 1, 0])


@pytest.mark.parametrize(("n_workers", "n_copies"), [(14, 8), (20, 5), (10, 2)])
def test_copies_count_once(n_workers: int, n_copies: int) -> None:
    found = effective_size(with_copies(n_workers, n_copies))
    wanted = n_workers - n_copies + 1
    assert found.size == pytest.approx(wanted, abs=0.05)
    assert found.effective_labels_per_task == pytest.approx(wanted, abs=0.05)
    assert found.in_a_vote == pytest.approx(n_workers**2 / (n_copies**2 + n_workers - n_copies), rel=0.02)
    assert found.summary.startswith(f"{n_workers} workers, worth about {wanted}.0 independent ones")


def test_a_crowd_of_copies_is_one_worker_for_all_that_labels_tell() -> None:
    found = effective_size(with_copies(8, 8))
    assert (found.size, found.low, found.high) == (1, 1, 8)
    assert "never disagree" in found.summary


@pytest.mark.parametrize("seed", range(5))
def test_independent_workers_count_as_many_as_they_are(seed: int) -> None:
    labels = simulate("dawid-skene", n_tasks=400, n_workers=15, n_classes=3, labels_per_task=8, seed=seed).labels
    found = effective_size(labels)
    assert found.low <= 15 <= found.high
    assert found.in_a_vote_low <= 15 <= found.in_a_vote_high
    assert found.correlation < 0.01
    assert found.effective_labels_per_task == pytest.approx(8, abs=0.1)
    assert 5 < found.with_common <= 15
    assert "no dependence was found" in found.summary


def test_groups_that_follow_an_opinion_lie_between() -> None:
    crowd = simulate("groups", n_tasks=1500, seed=1)
    found = effective_size(crowd.labels)
    assert 5 < found.size < 15
    assert found.low <= found.size <= found.high
    assert found.in_a_vote <= found.size + 1e-9
    assert "each of the 5 groups" in found.summary


def test_intervals_narrow_with_tasks_and_hold_what_many_tasks_say() -> None:
    many = effective_size(with_copies(12, 4, own=0.4, n_tasks=8000, seed=3))
    some = effective_size(with_copies(12, 4, own=0.4, n_tasks=500, seed=4))
    assert some.high - some.low > 2 * (many.high - many.low) > 0
    assert some.low - 0.3 <= many.size <= some.high + 0.3


def test_same_seed_same_answer() -> None:
    labels = with_copies(12, 4, own=0.4)
    one, two = effective_size(labels, seed=5), effective_size(labels, seed=5)
    assert (one.size, one.low, one.high, one.summary) == (two.size, two.low, two.high, two.summary)


def test_too_little_to_say() -> None:
    found = effective_size(with_copies(3, 1))
    assert np.isnan(found.size)
    assert "Too few workers" in found.skipped
    with pytest.raises(cw.InputError, match="no labels to judge"):
        effective_size(CrowdLabels.from_codes([], [], [], tasks=1, workers=1, classes=2))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS_DATA) for name in ("bluebird", "rte", "web", "fact_eval", "zencrowd_us")]
)
def test_real_crowds(name: str) -> None:
    labels = cw.datasets.load(name).labels
    found = effective_size(labels)
    assert 1 <= found.with_common <= found.in_a_vote <= found.n_workers <= labels.n_workers
    assert found.low <= found.size <= found.high <= found.n_workers
    assert 1 <= found.effective_labels_per_task <= found.labels_per_task
    assert 0 <= found.common < 0.2
