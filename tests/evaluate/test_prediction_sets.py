"""Prediction sets and the calibration table of models fitted with gold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.evaluate.gold_calibration import calibrate_from_gold
from crowdwise.evaluate.gold_tables import cross_fit_gold
from crowdwise.evaluate.prediction_sets import conformal_threshold, min_gold_answers, sets_from_posterior
from crowdwise.labels.errors import InputError
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("compiled")


def crowd_and_gold(n_gold: int = 40, seed: int = 0, n_tasks: int = 200) -> tuple[Any, dict[int, int]]:
    """A crowd, and the truth of its first tasks (the simulation draws tasks at random)."""
    crowd = simulate("dawid-skene", n_tasks=n_tasks, n_workers=10, n_classes=3, labels_per_task=3, random_state=seed)
    return crowd, dict(enumerate(crowd.truth[:n_gold].tolist()))


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_the_sets_cover_as_stated(coverage: float) -> None:
    """Split conformal: on average at least the coverage, and at most 1 / (n + 1) more, plus ties."""
    found = []
    for seed in range(40):
        crowd, _ = crowd_and_gold(seed=seed)
        gold = np.where(np.arange(200) < 40, crowd.truth, -1)
        posterior = cw.MajorityVote().fit(crowd.labels).posterior_
        calibrated = calibrate_from_gold(crowd.labels, posterior, gold)
        threshold = conformal_threshold(calibrated.cross_fitted, calibrated.truth, coverage)
        sets = sets_from_posterior(calibrated.posterior, threshold)
        found.append(sets[np.arange(200), crowd.truth][40:].mean())
    error = np.std(found) / np.sqrt(len(found))
    assert coverage - 3 * error < np.mean(found) < coverage + 1 / 41 + 0.02 + 3 * error


def test_the_threshold_is_the_order_statistic() -> None:
    rng = np.random.default_rng(0)
    chances = rng.random(19)
    rows, truth = np.stack([chances, 1 - chances], axis=1), np.zeros(19, int)
    assert conformal_threshold(rows, truth, 0.9) == np.sort(chances)[1]  # the 18th of 19, from the top
    assert conformal_threshold(rows, truth, 0.95) == chances.min()
    with pytest.raises(InputError, match=r"coverage 0\.96 need at least 24 gold answers; there are 19"):
        conformal_threshold(rows, truth, 0.96)
    for coverage in (0.5, 0.8, 0.9, 0.95, 0.99):
        n = min_gold_answers(coverage)
        conformal_threshold(np.full((n, 2), 0.5), np.zeros(n, int), coverage)
        with pytest.raises(InputError):
            conformal_threshold(np.full((n - 1, 2), 0.5), np.zeros(n - 1, int), coverage)


def test_tables_of_a_fitted_model(tmp_path: Path) -> None:
    crowd, gold = crowd_and_gold()
    model = cw.DawidSkene().fit(crowd.labels, gold=gold)
    table = model.calibration(n_bins=5)
    assert table.column_names == ["bin_low", "bin_high", "confidence", "share_right", "low", "high", "n"]
    columns = {name: np.array(table[name]) for name in table.column_names}
    assert columns["n"].sum() == 40
    assert (columns["low"] <= columns["share_right"]).all()
    assert (columns["share_right"] <= columns["high"]).all()
    assert (columns["bin_low"] < columns["confidence"]).all()
    assert (columns["confidence"] <= columns["bin_high"]).all()
    sets = model.predict_sets(0.8)
    assert sets.column_names == ["task", "labels", "size"]
    assert sets["labels"].to_pylist()[:40] == [[label] for label in gold.values()]
    assert [len(each) for each in sets["labels"].to_pylist()] == sets["size"].to_pylist()
    first = [each[0] for each in sets["labels"].to_pylist() if each]
    assert first == [label for label, size in zip(model.predict(), sets["size"].to_pylist(), strict=True) if size]
    again = model.predict_sets(0.8, labels=crowd.labels)
    assert again["size"].to_pylist()[40:] == sets["size"].to_pylist()[40:]
    model.save(tmp_path / "model")
    assert cw.load(tmp_path / "model").predict_sets(0.8).equals(sets)


def test_cross_fitting_keeps_the_truth_from_the_model() -> None:
    """A wrong gold answer pins its own task, but its cross-fitted posterior does not follow it."""
    crowd, gold = crowd_and_gold()
    right = cross_fit_gold(cw.DawidSkene().fit(crowd.labels, gold=gold))
    sure = int(right.posterior.max(axis=1).argmax())
    wrong = (gold[sure] + 1) % 3
    model = cw.DawidSkene().fit(crowd.labels, gold=gold | {sure: wrong})
    assert model.posterior_[sure, wrong] == 1
    assert cross_fit_gold(model).posterior[sure, wrong] < 0.5


def test_a_set_may_be_empty() -> None:
    sets = sets_from_posterior(np.array([[0.5, 0.5], [0.9, 0.1]]), 0.8)
    assert sets.sum(axis=1).tolist() == [0, 1]


def test_pandas_in_pandas_out() -> None:
    pd = pytest.importorskip("pandas")
    crowd, gold = crowd_and_gold()
    labels = crowd.labels
    frame = pd.DataFrame({"task": labels.task, "worker": labels.worker, "label": labels.label})
    model = cw.DawidSkene().fit(frame, gold=gold)
    assert isinstance(model.predict_sets(), pd.DataFrame)
    assert isinstance(model.calibration(), pd.DataFrame)


@pytest.mark.parametrize("ask", ["predict_sets", "calibration"])
def test_gold_is_asked_for(ask: str, tmp_path: Path) -> None:
    crowd, gold = crowd_and_gold()
    model = cw.DawidSkene().fit(crowd.labels)
    with pytest.raises(InputError, match="This needs gold: fit with gold="):
        getattr(model, ask)()
    with pytest.raises(InputError, match="not fitted yet"):
        getattr(cw.DawidSkene(), ask)()
    with pytest.raises(InputError, match="One gold answer is too few"):
        getattr(cw.DawidSkene().fit(crowd.labels, gold={0: gold[0]}), ask)()
    cw.DawidSkene().fit(crowd.labels, gold=gold).save(tmp_path / "model")
    with pytest.raises(InputError, match="must be fitted again"):
        getattr(cw.load(tmp_path / "model"), ask)()


def test_bad_coverage_is_named() -> None:
    crowd, gold = crowd_and_gold()
    model = cw.DawidSkene().fit(crowd.labels, gold=gold)
    for coverage in (0, 1, 1.5, float("nan")):
        with pytest.raises(InputError, match="must lie between 0 and 1"):
            model.predict_sets(coverage)
    with pytest.raises(InputError, match=r"At least 9 answers are needed for coverage 0\.9"):
        cw.DawidSkene().fit(crowd.labels).predict_sets(0.9)
    with pytest.raises(InputError, match="need at least 99 gold answers; there are 40"):
        model.predict_sets(0.99)
    with pytest.raises(InputError, match="n_bins is 0"):
        model.calibration(0)
    with pytest.raises(InputError, match="level is 2"):
        model.calibration(level=2)
