"""Calibration from gold: no change without it, empirical rates with much of it, never far below a good judge."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.evaluate.gold_calibration import GoldCalibration, calibrate_from_gold
from crowdwise.evaluate.penalised_logistic import fit_logistic, leave_one_out_scores
from crowdwise.evaluate.top_label_calibration import find_confidence_levels, set_confidence, shrink_to_levels
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray


def known(truth: IntArray, n: int, seed: int = 0) -> IntArray:
    """Gold for n tasks drawn at random."""
    gold = np.full(truth.size, -1)
    drawn = np.random.default_rng(seed).choice(truth.size, n, replace=False)
    gold[drawn] = truth[drawn]
    return gold


def too_sure(seed: int, n_tasks: int = 600) -> tuple[CrowdLabels, FloatArray, IntArray]:
    """A crowd, a posterior that is surer than right (the fourth power of a calibrated one), and the truth."""
    crowd = simulate("dawid-skene", n_tasks=n_tasks, n_workers=12, n_classes=3, labels_per_task=3, random_state=seed)
    right = cw.DawidSkene().fit(crowd.labels, gold=dict(enumerate(crowd.truth.tolist())))
    posterior = right._predict_posterior(right._align_labels(crowd.labels)) ** 4
    return crowd.labels, posterior / posterior.sum(axis=1, keepdims=True), crowd.truth


def panel(seed: int, n_tasks: int = 700) -> tuple[CrowdLabels, IntArray]:
    """One good judge, and five that share their mistakes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n_tasks)
    shared = np.where(rng.random(n_tasks) < 0.5, truth, rng.integers(0, 3, n_tasks))
    said = [np.where(rng.random(n_tasks) < 0.8, truth, (truth + rng.integers(1, 3, n_tasks)) % 3)]
    said += [np.where(rng.random(n_tasks) < 0.9, shared, rng.integers(0, 3, n_tasks)) for _ in range(5)]
    labels = np.concatenate(said)
    tasks, workers = np.tile(np.arange(n_tasks), 6), np.repeat(np.arange(6), n_tasks)
    return CrowdLabels.from_codes(tasks, workers, labels, tasks=n_tasks, workers=6, classes=list("abc")), truth


def test_without_gold_nothing_changes() -> None:
    labels, posterior, truth = too_sure(0, 100)
    found = calibrate_from_gold(labels, posterior, np.full(truth.size, -1))
    np.testing.assert_array_equal(found.posterior, posterior)
    np.testing.assert_array_equal(found.predict(labels, posterior), posterior)
    assert found.weights[0] == 1


@pytest.mark.parametrize("seed", range(4))
def test_five_gold_answers_change_little(seed: int) -> None:
    """The stated bound: no probability moves by more than n / 20; here confidences move by less than .06 on average."""
    labels, posterior, truth = too_sure(seed)
    gold = known(truth, 5, seed)
    found = calibrate_from_gold(labels, posterior, gold)
    rest = gold < 0
    moved = np.abs(found.posterior[rest].max(axis=1) - posterior[rest].max(axis=1))
    assert np.abs(found.posterior - posterior)[rest].max() <= 5 / 20
    assert moved.mean() < 0.06
    assert (found.posterior.argmax(axis=1) == posterior.argmax(axis=1))[rest].mean() > 0.95


def test_much_gold_gives_the_empirical_rates() -> None:
    """One worker: what is left to learn is how often each class is true where they say so."""
    rng = np.random.default_rng(1)
    confusion = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.05, 0.05, 0.9]])
    truth = rng.choice(3, 4000, p=[0.5, 0.3, 0.2])
    said = (rng.random(4000)[:, None] > confusion[truth].cumsum(axis=1)).sum(axis=1)
    labels = CrowdLabels.from_codes(np.arange(4000), np.zeros(4000, int), said, tasks=4000, workers=1, classes=3)
    gold = known(truth, 2000)
    found = calibrate_from_gold(labels, np.eye(3)[said], gold)
    for label in range(3):
        own = (said == label) & (gold >= 0)
        rates = np.bincount(truth[own], minlength=3) / own.sum()
        np.testing.assert_allclose(found.posterior[(said == label) & (gold < 0)][0], rates, atol=0.03)


def test_calibration_error_falls_and_accuracy_stays() -> None:
    errors, accuracies = [], []
    for seed in range(4):
        labels, posterior, truth = too_sure(seed)
        gold = known(truth, 80, seed)
        rest = gold < 0
        after = calibrate_from_gold(labels, posterior, gold).posterior
        errors.append([cw.metrics.expected_calibration_error(truth[rest], each[rest]) for each in (posterior, after)])
        accuracies.append([(each[rest].argmax(axis=1) == truth[rest]).mean() for each in (posterior, after)])
    before, after_gold = np.mean(errors, axis=0)
    assert after_gold < 0.6 * before
    assert np.mean(accuracies, axis=0)[1] > np.mean(accuracies, axis=0)[0] - 0.01


def test_a_panel_is_not_worse_than_its_best_judge() -> None:
    gaps, gains = [], []
    for seed in range(4):
        labels, truth = panel(seed)
        vote = cw.MajorityVote().fit(labels).posterior_
        gold = known(truth, 100, seed)
        rest = gold < 0
        decided = calibrate_from_gold(labels, vote, gold).posterior.argmax(axis=1)
        best = labels.label[labels.worker == 0]
        gaps.append((decided == truth)[rest].mean() - (best == truth)[rest].mean())
        gains.append((decided == truth)[rest].mean() - (vote.argmax(axis=1) == truth)[rest].mean())
    assert np.mean(gaps) > -0.01
    assert np.mean(gains) > 0.1


def test_a_class_that_nobody_said_can_be_learnt() -> None:
    labels, truth = panel(0)
    wider = CrowdLabels.from_codes(
        labels.task, labels.worker, labels.label, tasks=labels.n_tasks, workers=6, classes=list("abcd")
    )
    truth = np.where(truth == 2, 3, truth)  # the workers' c is really a d
    gold = known(truth, 100)
    posterior = calibrate_from_gold(wider, cw.MajorityVote().fit(wider).posterior_, gold).posterior
    rest = gold < 0
    assert (posterior.argmax(axis=1) == truth)[rest & (truth == 3)].mean() > 0.5


@pytest.mark.parametrize("names", [["1", "2", "nan"], ["1", "2", "1e308"], ["1", "1.0", "2"], ["-1", "0", "7.5"]])
def test_classes_that_look_like_numbers(names: list[str]) -> None:
    labels, truth = panel(3, 200)
    named = CrowdLabels.from_codes(labels.task, labels.worker, labels.label, tasks=200, workers=6, classes=names)
    found = calibrate_from_gold(named, cw.MajorityVote().fit(named).posterior_, known(truth, 40))
    assert np.isfinite(found.posterior).all()
    assert ("ordered classes" in found.names) == (names[0] == "-1")


def test_saved_arrays_give_the_same_calibration() -> None:
    labels, truth = panel(1)
    vote = cw.MajorityVote().fit(labels).posterior_
    gold = known(truth, 60)
    found = calibrate_from_gold(labels, vote, gold, random_state=3)
    arrays = found.to_arrays()
    assert all(values.dtype.kind in "fi" for values in arrays.values())
    again = GoldCalibration.from_arrays(arrays, found.posterior)
    assert again.names == found.names
    assert again.summary().num_rows == len(found.names)
    np.testing.assert_array_equal(again.predict(labels, vote), found.predict(labels, vote))
    np.testing.assert_allclose(found.predict(labels, vote)[gold < 0], found.posterior[gold < 0], atol=1e-9)
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    np.testing.assert_array_equal(found.posterior[gold >= 0].argmax(axis=1), gold[gold >= 0])
    np.testing.assert_array_equal(calibrate_from_gold(labels, vote, gold, random_state=3).posterior, found.posterior)


def test_a_task_does_not_vouch_for_itself() -> None:
    """A cross-fitted prediction hardly depends on the task's own gold answer; a plain one does."""
    labels, truth = panel(2)
    vote = cw.MajorityVote().fit(labels).posterior_
    gold = known(truth, 40)
    task = int(np.flatnonzero(gold >= 0)[0])
    other = gold.copy()
    other[task] = (gold[task] + 1) % 3
    one, two = (calibrate_from_gold(labels, vote, each, draw_levels=False) for each in (gold, other))
    np.testing.assert_allclose(one.cross_fitted[0], two.cross_fitted[0], atol=0.05)
    assert np.abs(one.predict(labels, vote)[task] - two.predict(labels, vote)[task]).max() > 0.05


def test_leave_one_out_equals_refitting() -> None:
    rng = np.random.default_rng(0)
    design, truth = rng.normal(size=(60, 3, 4)), rng.integers(0, 3, 60)
    mean, precision = np.array([1.0, 0, 0, 0]), np.array([4.0, 1, 1, 1])
    found = leave_one_out_scores(design, truth, fit_logistic(design, truth, mean, precision))
    for task in range(0, 60, 7):
        left = np.arange(60) != task
        exact = design[task] @ fit_logistic(design[left], truth[left], mean, precision).coefficients
        np.testing.assert_allclose(found[task] - found[task].mean(), exact - exact.mean(), atol=0.01)


def test_the_mode_has_no_slope() -> None:
    rng = np.random.default_rng(1)
    design, truth = rng.normal(size=(30, 4, 5)), rng.integers(0, 4, 30)
    fit = fit_logistic(design, truth, np.zeros(5), np.full(5, 0.5))
    scores = design @ fit.coefficients
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    slope = design[np.arange(30), truth].sum(axis=0) - np.einsum("nk,nkj->j", chances, design) - 0.5 * fit.coefficients
    np.testing.assert_allclose(slope, 0, atol=1e-3)


def test_levels_keep_the_order_and_the_mean() -> None:
    sure = np.sort(np.random.default_rng(0).beta(5, 2, 3000))
    levels = find_confidence_levels(sure, 100)
    drawn = shrink_to_levels(sure, levels)
    assert len(levels) == 5
    assert (np.diff(drawn) > 0).all()
    assert drawn.mean() == pytest.approx(sure.mean(), abs=0.002)
    assert len(find_confidence_levels(sure, 1000)) == 50
    assert len(find_confidence_levels(np.full(10, 0.5), 100)) == 1


def test_confidence_is_set_and_order_kept() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(4), 200)
    wanted = 0.5 * rows.max(axis=1) + 0.2  # within a power of 64 of every row
    changed = set_confidence(rows, wanted)
    np.testing.assert_allclose(changed.max(axis=1), wanted, atol=1e-6)
    np.testing.assert_array_equal(changed.argsort(axis=1), rows.argsort(axis=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, g: (p[:-1], g), "posterior has shape"),
        (lambda p, g: (p * 2, g), "must hold probabilities"),
        (lambda p, g: (p * np.nan, g), "must hold probabilities"),
        (lambda p, g: (p, g[:-1]), "one class position for each of the 100 tasks"),
        (lambda p, g: (p, g.astype(float)), "one class position"),
        (lambda p, g: (p, g + 5), "outside -1 … 2"),
    ],
)
def test_bad_input_is_named(change: object, message: str) -> None:
    labels, posterior, truth = too_sure(0, 100)
    with pytest.raises(InputError, match=message):
        calibrate_from_gold(labels, *change(posterior, truth.copy()))  # type: ignore[operator]


@pytest.mark.data
@pytest.mark.skipif(
    not os.environ.get("CROWDWISE_DATA"),
    reason="CROWDWISE_DATA is not set: point it at the folder with NAME/labels.csv and NAME/truth.csv",
)
@pytest.mark.parametrize("name", ["ducks", "zencrowd_us", "labelme"])
def test_fifty_answers_on_real_crowds(name: str) -> None:
    """A posterior that is far too sure: the calibration error falls by half at least, and accuracy does not fall."""
    data = cw.datasets.load(name)
    posterior = cw.MeanField().fit(data.labels).posterior_
    figures = []
    for seed in range(4):
        gold = known(data.truth_codes, 50, seed)
        rest = gold < 0
        after = calibrate_from_gold(data.labels, posterior, gold).posterior
        for each in (posterior, after):
            error = cw.metrics.expected_calibration_error(data.truth_codes[rest], each[rest])
            figures.append((error, (each[rest].argmax(axis=1) == data.truth_codes[rest]).mean()))
    before, calibrated = np.mean(figures[::2], axis=0), np.mean(figures[1::2], axis=0)
    assert calibrated[0] < before[0] / 2
    assert calibrated[1] > before[1] - 0.005
