"""The league table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels


@pytest.fixture(scope="module")
def simulation() -> cw.simulate.Simulation:
    return simulate("dawid-skene", n_tasks=300, n_workers=15, n_classes=3, labels_per_task=6, skill=0.6, seed=5)


def test_the_standings(simulation: cw.simulate.Simulation) -> None:
    truth = dict(zip(simulation.labels.tasks.to_pylist(), simulation.truth.tolist(), strict=True))
    slugs = ["majority-vote", "dawid-skene", "one-coin"]
    league = cw.compare(simulation.labels, slugs, truth=truth, folds=4, seed=1)
    assert {row.method for row in league.standings} == set(slugs)
    scores = [row.held_out for row in league.standings]
    assert scores == sorted(scores, reverse=True)
    first = league.standings[0]
    assert (first.method, first.behind, first.agreement) == (league.best, 0.0, 1.0)
    for place, row in enumerate(league.standings):
        model = cw.method(row.method).load()()
        logs = cw.held_out_log_probability(model, simulation.labels, folds=4, seed=1)
        assert row.held_out == pytest.approx(logs.mean(), abs=1e-12)
        assert row.behind == pytest.approx(first.held_out - row.held_out, abs=1e-12)
        decided = model.fit(simulation.labels).posterior_.argmax(axis=1)
        assert row.accuracy == pytest.approx((decided == simulation.truth).mean(), abs=0.01)
        assert 0 <= row.calibration < 0.2
        assert row.standard_error > 0
        assert league.agreement[0, place] == row.agreement
    assert league.n_truth == 300
    np.testing.assert_allclose(league.agreement, league.agreement.T)


def test_same_seed_same_table_whatever_the_threads(simulation: cw.simulate.Simulation) -> None:
    tables = []
    for threads in (1, 3):
        with cw.use_threads(threads):
            league = cw.compare(simulation.labels, ["mace", "ebcc", "bcc"], folds=3)
        tables.append([(row.method, row.held_out, row.behind_error) for row in league.standings])
    assert tables[0] == tables[1]


def test_without_a_truth_there_is_no_accuracy(crowd: CrowdLabels) -> None:
    league = cw.compare(crowd, "majority-vote", folds=2)
    assert math.isnan(league.standings[0].accuracy)
    assert league.n_truth == 0
    assert league.table().column_names[:3] == ["method", "held_out", "standard_error"]
    assert type(cw.compare(crowd.with_kind("pandas"), ["mace"], folds=2).table()).__module__.startswith("pandas")


def test_a_method_that_cannot_be_fitted_has_a_note(crowd: CrowdLabels, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdwise.aggregate.mace import Mace

    def refuse(*_: object) -> None:
        raise cw.InputError("not today")

    monkeypatch.setattr(Mace, "_fit", refuse)
    league = cw.compare(crowd, ["mace", "majority-vote"], folds=2)
    assert [row.note for row in league.standings] == ["", "not today"]
    with pytest.raises(cw.InputError, match=r"None of the methods could be fitted\. mace: not today"):
        cw.compare(crowd, ["mace"], folds=2)


def test_what_cannot_be_compared(crowd: CrowdLabels) -> None:
    with pytest.raises(cw.InputError, match="Did you mean 'dawid-skene'"):
        cw.compare(crowd, ["dawid-skeen"])
    with pytest.raises(cw.InputError, match="methods is empty"):
        cw.compare(crowd, [])
    with pytest.raises(cw.InputError, match="folds is 1"):
        cw.compare(crowd, ["mace"], folds=1)
