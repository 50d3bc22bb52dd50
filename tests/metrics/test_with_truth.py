"""Scores against a known truth: scikit-learn as the second opinion, properties, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from crowdwise.labels.errors import InputError
from crowdwise.metrics import (
    accuracy,
    balanced_accuracy,
    brier,
    confusion_error,
    expected_calibration_error,
    log_loss,
    macro_f1,
    reliability_table,
    skill_correlation,
)

HARD = [accuracy, balanced_accuracy, macro_f1]
SOFT = [log_loss, brier, expected_calibration_error]


@st.composite
def judged(draw) -> tuple[np.ndarray, np.ndarray]:
    """Truth (some unknown, some classes absent) and a posterior with ties and certainties."""
    n, k = draw(st.integers(1, 30)), draw(st.integers(2, 5))
    seed, sharp = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.05, 1.0, 20.0]))
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    posterior = rng.dirichlet(np.full(k, sharp), n)
    certain = rng.random(n) < draw(st.sampled_from([0, 0.5]))
    posterior[certain] = np.eye(k)[rng.integers(0, k, certain.sum())]
    posterior[rng.random(n) < draw(st.sampled_from([0, 0.3]))] = 1 / k
    unknown = rng.random(n) < draw(st.sampled_from([0, 0.3]))
    unknown[rng.integers(n)] = False
    truth[unknown] = -1
    return truth, posterior


@given(judged())
@settings(max_examples=60, deadline=None)
def test_scikit_learn_agrees(case) -> None:
    truth, posterior = case
    predicted, classes, known = posterior.argmax(axis=1), np.arange(posterior.shape[1]), truth >= 0
    t, p, q = truth[known], predicted[known], posterior[known]
    assert accuracy(truth, predicted) == pytest.approx(sk.accuracy_score(t, p))
    recall = sk.recall_score(t, p, labels=np.unique(t), average="macro", zero_division=0)
    assert balanced_accuracy(truth, predicted) == pytest.approx(recall)
    assert macro_f1(truth, predicted) == pytest.approx(sk.f1_score(t, p, average="macro", zero_division=0))
    assert log_loss(truth, posterior) == pytest.approx(sk.log_loss(t, q, labels=classes), abs=1e-12)
    one_hot = np.eye(classes.size)[t]
    assert brier(truth, posterior) == pytest.approx(((q - one_hot) ** 2).sum(axis=1).mean(), abs=1e-12)


def test_scikit_learn_balanced_accuracy_and_brier() -> None:
    rng = np.random.default_rng(0)
    truth, posterior = rng.integers(0, 3, 200), rng.dirichlet(np.ones(3), 200)
    predicted = posterior.argmax(axis=1)
    assert balanced_accuracy(truth, predicted) == pytest.approx(sk.balanced_accuracy_score(truth, predicted))
    two = np.column_stack([1 - posterior[:, 0], posterior[:, 0]])
    assert brier(truth % 2, two) == pytest.approx(2 * sk.brier_score_loss(truth % 2, two[:, 1]))


@given(judged(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_bounds_and_permutations(case, random) -> None:
    truth, posterior = case
    n, k = posterior.shape
    tasks, classes = np.array(random.sample(range(n), n)), np.array(random.sample(range(k), k))
    renamed = np.where(truth >= 0, np.argsort(classes)[truth], -1)
    predicted = posterior.argmax(axis=1)
    for score in HARD:
        value = score(truth, predicted)
        assert 0 <= value <= 1
        assert score(truth[tasks], predicted[tasks]) == pytest.approx(value)
        assert score(renamed, np.argsort(classes)[predicted]) == pytest.approx(value)
    for score, most in zip(SOFT, (37, 2, 1), strict=True):
        value = score(truth, posterior)
        assert 0 <= value <= most + 1e-12
        assert score(truth[tasks], posterior[tasks]) == pytest.approx(value)
    for score in (log_loss, brier):
        assert score(renamed, posterior[:, classes]) == pytest.approx(score(truth, posterior))


@pytest.mark.parametrize("score", HARD + SOFT)
@pytest.mark.parametrize(
    "truth",
    [
        [0, 1, -1, 1],
        [0, 1, None, 1],
        [0.0, 1.0, np.nan, 1.0],
        np.ma.masked_array([0, 1, 0, 1], mask=[False, False, True, False]),
        np.array([0, 1, -1, 1], np.int8),
    ],
)
def test_unknown_truth_is_left_out_whatever_its_mark(score, truth) -> None:
    posterior = np.array([[0.7, 0.3], [0.6, 0.4], [np.nan, np.nan], [0.2, 0.8]])
    second = posterior if score in SOFT else np.array([0, 0, -1, 1])
    keep = [0, 1, 3]
    assert score(truth, second) == score([0, 1, 1], second[keep])


def test_reliability_table_and_calibration_error_by_hand() -> None:
    posterior = [[0.75, 0.25], [0.5, 0.5], [0.9, 0.1], [1.0, 0.0], [0.0, 1.0]]
    table = reliability_table([0, 0, 1, 0, 1], posterior, n_bins=4)
    assert table.low.tolist() == [0, 0.25, 0.5, 0.75]
    assert table.high.tolist() == [0.25, 0.5, 0.75, 1]
    assert table.n_tasks.tolist() == [0, 1, 1, 3]  # a confidence on an edge belongs below it
    assert table.confidence.tolist()[1:] == pytest.approx([0.5, 0.75, 2.9 / 3])
    assert table.accuracy.tolist()[1:] == pytest.approx([1, 1, 2 / 3])
    assert np.isnan(table.accuracy[0])
    error = expected_calibration_error([0, 0, 1, 0, 1], posterior, n_bins=4)
    assert error == pytest.approx((0.5 + 0.25 + 0.9) / 5)


def test_calibrated_forecasts_have_small_error_and_overconfident_ones_do_not() -> None:
    rng = np.random.default_rng(1)
    right = rng.uniform(0.5, 1, 50_000)
    posterior = np.column_stack([right, 1 - right])
    truth = (rng.random(50_000) > right).astype(int)
    assert expected_calibration_error(truth, posterior) < 0.01
    sure = np.where(posterior > 0.5, 0.999, 0.001)
    assert expected_calibration_error(truth, sure) == pytest.approx(0.25, abs=0.01)


def test_log_loss_floor() -> None:
    assert log_loss([0], [[0, 1]]) == pytest.approx(36.0437, abs=1e-4)
    assert log_loss([0], [[0, 1]], floor=0) == np.inf
    assert log_loss([0], [[0, 1]], floor=0.5) == pytest.approx(np.log(2))


def test_confusion_error_is_the_formula_of_section_3_2() -> None:
    rng = np.random.default_rng(0)
    true, guess = rng.dirichlet(np.ones(4), (3, 4)), rng.dirichlet(np.ones(4), (3, 4))
    expected = np.mean([np.linalg.norm(a - b, "fro") ** 2 / 4 for a, b in zip(true, guess, strict=True)])
    assert confusion_error(true, guess) == pytest.approx(expected, rel=1e-12)
    assert confusion_error(true, true) == 0
    eye = np.eye(4)[None]
    assert confusion_error(eye, np.roll(eye, 1, axis=2)) == 2  # the range is [0, 2]
    # Rows are the truth: a transposed matrix is another one.
    assert confusion_error([[[0.9, 0.1], [0.4, 0.6]]], [[[0.6, 0.4], [0.1, 0.9]]]) > 0.08


def test_skill_correlation_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    true = rng.integers(0, 8, 40).astype(float)
    guess = true + rng.normal(0, 2, 40)
    assert skill_correlation(true, guess) == pytest.approx(stats.pearsonr(true, guess).statistic)
    rank = skill_correlation(true, guess, method="spearman")
    assert rank == pytest.approx(stats.spearmanr(true, guess).statistic)
    true[3] = guess[5] = np.nan
    kept = ~np.isnan(true + guess)
    assert skill_correlation(true, guess) == skill_correlation(true[kept], guess[kept])
    assert np.isnan(skill_correlation([0.5, 0.5], [0.1, 0.2]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accuracy([0, 1], [0]), "truth has 2 entries and predicted has 1"),
        (lambda: accuracy([-1, None], [0, 0]), "No task has a known truth"),
        (lambda: accuracy([], []), "No task has a known truth"),
        (lambda: accuracy([0, 1, 1], [0, -1, None]), r"predicted has no class .* rows 1, 2"),
        (lambda: accuracy(["cat", "dog"], [0, 1]), "not 'cat'.*truth_codes"),
        (lambda: accuracy([None, "dog"], [0, 1]), "truth must hold class positions.*dog"),
        (lambda: accuracy([0.5, 1], [0, 1]), "truth holds 0.5 at row 0; class positions are whole"),
        (lambda: accuracy([0, -2], [0, 1]), "truth holds -2 at row 1"),
        (lambda: accuracy([[0, 1]], [0, 1]), "truth must be one-dimensional"),
        (lambda: log_loss([0, 2], [[0.5, 0.5], [1, 0]]), "truth holds 2 at row 1; posterior has 2 classes"),
        (lambda: log_loss([0], [0.5, 0.5]), r"posterior must be a matrix .* \(2,\)"),
        (lambda: log_loss([0], [[0.5, 0.5]] * 2), "truth has 1 entries and posterior has 2 rows"),
        (lambda: brier([-1, 0], [[9, 9], [2.0, -1.0]]), "row 1 holds 2, -1 .*logits"),
        (lambda: brier([0], [[np.nan, 1]]), "sum to one in each row; row 0"),
        (lambda: log_loss([0], [[1, 0]], floor=1), "floor is 1"),
        (lambda: expected_calibration_error([0], [[1, 0]], n_bins=0), "n_bins is 0"),
        (lambda: confusion_error(np.eye(2), np.eye(2)), r"true must be .*\[worker, truth, label\]"),
        (lambda: confusion_error(np.eye(2)[None], np.eye(3)[None]), r"shape \(1, 2, 2\) and estimate \(1, 3"),
        (lambda: confusion_error(np.eye(2)[None], np.ones((1, 2, 2))), "estimate must hold prob.* row 0, 0"),
        (lambda: confusion_error(np.zeros((0, 2, 2)), np.zeros((0, 2, 2))), "no confusion matrices"),
        (lambda: skill_correlation([1, 2], [1]), "true has 2 skills and estimate has 1"),
        (lambda: skill_correlation([1, np.nan], [1, 2]), "needs two workers .* there is 1"),
        (lambda: skill_correlation(["a"], [1]), "true must be one finite number"),
        (lambda: skill_correlation([1, 2], [1, 2], method="kendall"), "'kendall'; it must be one of"),
    ],
)
def test_errors_say_what_and_where(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()
