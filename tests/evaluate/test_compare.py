"""The league table."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.evaluate.comparison_result import MethodStanding
from crowdwise.evaluate.independence_check import Independence
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def simulation() -> cw.simulate.Simulation:
    return simulate("dawid-skene", n_tasks=300, n_workers=15, n_classes=3, labels_per_task=6, skill=0.6, random_state=5)


def test_the_standings(simulation: cw.simulate.Simulation) -> None:
    truth = dict(zip(simulation.labels.tasks.to_pylist(), simulation.truth.tolist(), strict=True))
    slugs = ["majority-vote", "dawid-skene", "one-coin"]
    league = cw.compare(simulation.labels, slugs, truth=truth, folds=4, random_state=1)
    assert {row.method for row in league.standings} == set(slugs)
    scores = [row.held_out for row in league.standings]
    assert scores == sorted(scores, reverse=True)
    first = league.standings[0]
    assert (first.method, first.behind, first.agreement) == (league.best, 0.0, 1.0)
    for place, row in enumerate(league.standings):
        model = cw.method(row.method).load()()
        logs = cw.held_out_log_probability(model, simulation.labels, folds=4, random_state=1)
        assert row.held_out == pytest.approx(logs.mean(), abs=1e-12)
        assert row.behind == pytest.approx(first.held_out - row.held_out, abs=1e-12)
        decided = model.fit(simulation.labels).posterior_.argmax(axis=1)
        assert row.accuracy == pytest.approx((decided == simulation.truth).mean(), abs=0.01)
        assert 0 <= row.calibration < 0.2
        assert row.standard_error > 0
        assert league.agreement[0, place] == row.agreement
        assert 1 <= row.rank_low <= place + 1 <= row.rank_high <= 3
        assert row.accuracy_low < row.accuracy < row.accuracy_high
        assert 1 <= row.truth_rank_low <= row.truth_rank_high <= 3
    assert league.n_truth == 300
    assert league.tied_with_best == tuple(row.method for row in league.standings[1:] if row.rank_low == 1)
    assert league.cautions == (), "these workers are independent"
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
    assert (league.best_by_truth, league.tied_by_truth, league.contradicted_by_truth) == (None, (), None)
    assert "only one method" in league.conclusions()[0]
    columns = league.table().column_names
    assert columns[:3] == ["method", "held_out", "standard_error"]
    assert {"rank_low", "rank_high", "accuracy_low", "accuracy_high"} <= set(columns)
    assert type(cw.compare(crowd.with_kind("pandas"), ["mace"], folds=2).table()).__module__.startswith("pandas")


def test_tasks_without_answers_are_no_agreement(crowd: CrowdLabels) -> None:
    more = type(crowd).from_codes(
        crowd.task, crowd.worker, crowd.label, tasks=crowd.n_tasks + 40, workers=crowd.workers, classes=crowd.classes
    )
    methods = ["majority-vote", "one-coin", "dawid-skene"]
    one, other = (cw.compare(labels, methods, folds=2) for labels in (crowd, more))
    np.testing.assert_array_equal(one.agreement, other.agreement)
    assert one.agreement.min() < 1


def test_a_method_that_cannot_be_fitted_has_a_note(crowd: CrowdLabels, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdwise.aggregate.mace import Mace

    def refuse(*_: object) -> None:
        raise cw.InputError("not today")

    monkeypatch.setattr(Mace, "_fit", refuse)
    league = cw.compare(crowd, ["mace", "majority-vote"], folds=2)
    assert [row.note for row in league.standings] == ["", "not today"]
    assert [row.rank_high for row in league.standings] == [1, None]
    assert league.table()["rank_low"].to_pylist() == [1, None]
    with pytest.raises(cw.InputError, match=r"None of the methods could be fitted\. mace: not today"):
        cw.compare(crowd, ["mace"], folds=2)


def test_what_cannot_be_compared(crowd: CrowdLabels) -> None:
    with pytest.raises(cw.InputError, match="Did you mean 'dawid-skene'"):
        cw.compare(crowd, ["dawid-skeen"])
    with pytest.raises(cw.InputError, match="methods is empty"):
        cw.compare(crowd, [])
    with pytest.raises(cw.InputError, match="folds is 1"):
        cw.compare(crowd, ["mace"], folds=1)


def test_a_method_and_its_twin_are_tied_and_a_bad_one_is_not() -> None:
    crowd = simulate("spammers", n_tasks=300, n_workers=20, n_classes=3, labels_per_task=8, share=0.5, random_state=0)
    league = cw.compare(crowd.labels, ["bcc", "mean-field", "majority-vote"], folds=3, random_state=1)
    worst = league.standings[-1]
    assert (worst.method, worst.rank_low, worst.rank_high) == ("majority-vote", 3, 3)
    assert len(league.tied_with_best) == 1
    assert league.recommendation == "auto"


def test_families_of_workers_are_a_caution() -> None:
    crowd = simulate("groups", n_tasks=300, n_workers=20, n_classes=3, labels_per_task=6, n_groups=5, random_state=1)
    league = cw.compare(crowd.labels, ["majority-vote", "dawid-skene"], folds=np.int64(2))
    assert "Workers do not err independently: some pairs agree" in league.cautions[0]
    assert league.recommendation == "auto"


def standing(
    method: str, held_out: float, ranks: tuple[int, int], accuracy: float, by_truth: tuple[int, int]
) -> MethodStanding:
    return MethodStanding(
        method, held_out=held_out, rank_low=ranks[0], rank_high=ranks[1], accuracy=accuracy,
        accuracy_low=accuracy - 0.05, accuracy_high=accuracy + 0.05,
        truth_rank_low=by_truth[0], truth_rank_high=by_truth[1],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "n_truth", "independence", "recommended", "sentences"),
    [
        (
            [("a", -1, (1, 1)), ("b", -2, (2, 2))],
            0,
            Independence(0.0, 0.0),
            "a",
            ["Best by held-out labels: a, beyond"],
        ),
        ([("a", -1, (1, 1)), ("b", -2, (2, 2))], 0, Independence(9.0, 0.0), "auto", ["labels: a, beyond chance"]),
        ([("a", -1, (1, 1)), ("b", -2, (2, 2))], 0, Independence(0.0, 9.0), "auto", ["labels: a, beyond chance"]),
        ([("a", -1, (1, 1)), ("b", -2, (2, 2))], 0, None, "auto", ["labels: a, beyond chance"]),
        ([("a", -1, (1, 2)), ("b", -2, (1, 3)), ("c", -3, (2, 3))], 0, None, "auto", ["not tell it apart from b."]),
        (
            [("a", -1, (1, 3)), ("b", -2, (1, 3)), ("c", -3, (1, 3))],
            0,
            None,
            "auto",
            ["The labels do not tell it apart from b and c."],
        ),
        (
            [("a", -1, (1, 1), 0.7, (2, 2)), ("b", -2, (2, 2), 0.9, (1, 1))],
            50,
            None,
            "b",
            [
                "truth of 50 tasks: b, right on 90.0% (90% interval 85.0% to 95.0%)",
                "a, best by held-out labels, is right",
            ],
        ),
        (
            [("a", -1, (1, 1), 0.8, (1, 2)), ("b", -2, (2, 2), 0.9, (1, 2))],
            50,
            None,
            "auto",
            ["The truth does not tell it apart from a."],
        ),
        (
            [("a", -1, (1, 1), 0.89, (1, 2)), ("b", -2, (2, 2), 0.9, (1, 2)), ("auto", -3, (3, 3), 0.5, (3, 3))],
            50,
            None,
            "b",
            ["The truth does not tell it apart from a."],
        ),
    ],
)
def test_conclusions(
    rows: list[tuple[str, float, tuple[int, int], float, tuple[int, int]]],
    n_truth: int,
    independence: Independence | None,
    recommended: str,
    sentences: list[str],
) -> None:
    blank = (math.nan, (None, None))
    standings = tuple(standing(*row, *blank[len(row) - 3 :]) for row in rows)
    league = cw.Comparison(standings, np.eye(len(rows)), n_truth, independence=independence)
    told = " ".join(league.conclusions())
    assert "which is not how often the consensus is right" in told
    for sentence in sentences:
        assert sentence in told
    assert league.recommendation == recommended
    assert (league.contradicted_by_truth is True) == ("right less often" in told)
    if independence is None:
        assert "could not be checked" in league.cautions[0]
    else:
        assert bool(league.cautions) == (independence.failed_check is not None)
    assert told.split(" This says")[0] in repr(league).replace("\n", " ")


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
def test_real_workers_who_err_together() -> None:
    """The held-out best of many methods is right on 80 % of these pictures, auto on 93 %: its lead is no reason."""
    data = cw.datasets.load("ducks")
    league = cw.compare(data.labels, ["majority-vote", "dawid-skene", "mean-field"], truth=data.truth, folds=2)
    assert league.cautions
    assert league.standings[0].accuracy < 0.85


def test_many_ties_are_counted() -> None:
    standings = tuple(MethodStanding(f"m{place}", held_out=-place, rank_low=1, rank_high=9) for place in range(9))
    told = cw.Comparison(standings, np.eye(9), 0).conclusions()[0]
    assert told.endswith("apart from m1, m2, m3, m4, m5, m6 and 2 more.")


def test_strange_arguments_are_refused(simulation: cw.simulate.Simulation) -> None:
    with pytest.raises(cw.InputError, match="methods is 5; give a list"):
        cw.compare(simulation.labels, methods=5)
    with pytest.raises(cw.InputError, match="random_state is 'x'"):
        cw.compare(simulation.labels, ["majority-vote"], random_state="x")
    for method in (5, "majority-vote", cw.method("majority-vote").load()):
        with pytest.raises(cw.InputError, match="give an aggregator"):
            cw.held_out_log_probability(method, simulation.labels)


def test_a_single_label_cannot_be_hidden() -> None:
    labels = cw.read_labels({"task": ["a"], "worker": ["w"], "label": ["p"]}, classes=["p", "q"])
    with pytest.raises(cw.InputError, match="There is 1 label: none can be hidden"):
        cw.compare(labels, ["majority-vote"])
