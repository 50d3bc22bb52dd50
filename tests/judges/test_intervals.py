"""Intervals cover as often as they say, are shorter with judges, and `--fail-under` errs as seldom as it says."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.judges.agreement_with_people import estimate_share, lower_bound_of_share
from crowdwise.judges.next_tasks import choose_next_tasks
from crowdwise.judges.prediction_powered import (
    correct_mean,
    correct_shares,
    estimate_human_mean,
    estimate_mean,
    estimate_system_difference,
)

DRAWS = 1_000
SLACK = 0.03  # 90 % ± 3 %: three standard errors of a share of 1,000


def draw_tasks(
    rng: np.random.Generator, n: int, share: float = 0.4, right: float = 0.85
) -> tuple[np.ndarray, np.ndarray]:
    """What people say (0 or 1), and a panel's prediction that is right so often and too sure of itself."""
    y = (rng.random(n) < share).astype(float)
    said = np.where(rng.random(n) < right, y, 1 - y)
    return y, np.where(said > 0, 0.95, 0.02)


@pytest.mark.parametrize("right", [0.6, 0.8, 0.92])
def test_accuracy(right: float) -> None:
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(DRAWS):
        found = estimate_share(rng.random(200) < right)
        covered.append(found.low <= right <= found.high)
    assert np.mean(covered) == pytest.approx(0.9, abs=SLACK)


@pytest.mark.parametrize("right", [0.8, 0.9, 0.95])
def test_a_panel_at_the_bound_seldom_passes(right: float) -> None:
    rng = np.random.default_rng(1)
    passed = [lower_bound_of_share(rng.random(150) < right) >= right for _ in range(2 * DRAWS)]
    assert 0.01 < np.mean(passed) <= 0.06


def test_prediction_powered_mean() -> None:
    rng = np.random.default_rng(2)
    covered, shorter, middle = [], [], []
    for _ in range(DRAWS):
        y, predicted = draw_tasks(rng, 2_000)
        found = estimate_mean(y[:100], predicted[:100], predicted)
        alone = estimate_human_mean(y[:100])
        covered.append([each.low <= 0.4 <= each.high for each in (found, alone)])
        shorter.append((found.high - found.low) / (alone.high - alone.low))
        middle.append(found.value)
    assert np.mean(covered, axis=0) == pytest.approx([0.9, 0.9], abs=SLACK)
    assert np.mean(shorter) < 0.8
    assert abs(np.mean(middle) - 0.4) < 4 * np.std(middle) / DRAWS**0.5


def test_judges_that_tell_nothing_do_no_harm() -> None:
    rng = np.random.default_rng(3)
    covered, shorter = [], []
    for _ in range(DRAWS):
        y, predicted = draw_tasks(rng, 1_000, right=0.5)
        found, alone = estimate_mean(y[:100], predicted[:100], predicted), estimate_human_mean(y[:100])
        covered.append(found.low <= 0.4 <= found.high)
        shorter.append((found.high - found.low) / (alone.high - alone.low))
    assert np.mean(covered) == pytest.approx(0.9, abs=SLACK)
    assert np.mean(shorter) < 1.02


def test_difference_of_two_systems() -> None:
    rng = np.random.default_rng(4)
    covered, shorter = [], []
    for _ in range(DRAWS):
        (y1, f1), (y2, f2) = draw_tasks(rng, 800, 0.5), draw_tasks(rng, 800, 0.4)
        y, predicted = np.concatenate([y1[:80], y2[:80]]), np.concatenate([f1[:80], f2[:80]])
        first, everywhere = np.arange(1_600) < 800, np.concatenate([f1, f2])
        mine = np.arange(160) < 80
        found = estimate_system_difference(y, predicted, everywhere, labelled_first=mine, first=first)
        alone = [estimate_human_mean(each[:80]) for each in (y1, y2)]
        width = 2 * np.hypot(*(each.high - each.value for each in alone))
        covered.append(found.low <= 0.1 <= found.high)
        shorter.append((found.high - found.low) / width)
    assert np.mean(covered) == pytest.approx(0.9, abs=SLACK)
    assert np.mean(shorter) < 0.8


def test_labels_chosen_in_strata_keep_the_mean_unbiased() -> None:
    rng = np.random.default_rng(5)
    n = 1_000
    doubt = rng.beta(2, 2, n)  # the panel's P(1), from which the truth strays where it is unsure
    found, wrong = [], []
    for seed in range(DRAWS):
        y = (rng.random(n) < 0.8 * doubt).astype(float)
        chosen = choose_next_tasks(np.stack([1 - doubt, doubt], axis=1), 50, random_state=seed)
        estimate = estimate_mean(y[chosen.task], doubt[chosen.task], doubt, chosen.weight)
        found.append(estimate.value - y.mean())
        wrong.append(not estimate.low <= 0.8 * doubt.mean() <= estimate.high)
        assert chosen.weight.sum() == pytest.approx(n)
        assert np.unique(chosen.task).size == 50
    assert abs(np.mean(found)) < 4 * np.std(found) / DRAWS**0.5
    assert np.mean(wrong) == pytest.approx(0.1, abs=SLACK)


def test_corrected_shares() -> None:
    rng = np.random.default_rng(6)
    confusion = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
    shares = np.array([0.5, 0.3, 0.2])
    covered = []
    for seed in range(60):
        truth = rng.choice(3, 3_000, p=shares)
        decided = (rng.random((3_000, 1)) > confusion.cumsum(axis=1)[truth]).sum(axis=1)
        found = correct_shares(decided[:300], truth[:300], decided, 3, random_state=seed)
        assert found is not None
        assert sum(each.value for each in found) == pytest.approx(1)
        covered += [each.low <= share <= each.high for each, share in zip(found, shares, strict=True)]
    assert np.mean(covered) == pytest.approx(0.9, abs=0.07)


def test_two_classes_are_the_textbook_formula() -> None:
    truth = np.repeat([0, 1], [60, 40])
    decided = np.concatenate([np.repeat([0, 1], [48, 12]), np.repeat([0, 1], [4, 36])])
    everywhere = np.repeat([0, 1], [500, 500])
    found = correct_shares(decided, truth, everywhere, 2)
    assert found is not None
    # (p + specificity - 1) / (sensitivity + specificity - 1), with specificity .8 and sensitivity .9
    assert found[1].value == pytest.approx((0.5 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert correct_shares(np.zeros(100, int), truth, np.zeros(50, int), 2) is None


def test_labels_that_are_all_equal_are_no_certainty() -> None:
    found = estimate_human_mean(np.ones(30))
    assert found.high == pytest.approx(1)
    assert found.low == pytest.approx(0.05 ** (1 / 30))  # a share of which 30 draws are all right in 5 % of samples


def test_corrected_mean_grade() -> None:
    rng = np.random.default_rng(7)
    confusion = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
    shares, grades = np.array([0.5, 0.3, 0.2]), np.array([1.0, 2.0, 4.0])
    covered = []
    for seed in range(100):
        truth = rng.choice(3, 2_000, p=shares)
        decided = (rng.random((2_000, 1)) > confusion.cumsum(axis=1)[truth]).sum(axis=1)
        found = correct_mean(decided[:300], truth[:300], decided, grades, random_state=seed)
        assert found is not None
        covered.append(found.low <= shares @ grades <= found.high)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.09)
    classes = correct_shares(decided[:300], truth[:300], decided, 3, random_state=seed)
    assert classes is not None
    assert found.value == pytest.approx(sum(each.value * grade for each, grade in zip(classes, grades, strict=True)))
    assert correct_mean(np.zeros(300, int), truth[:300], decided, grades) is None
