"""Methods that leave workers out first: who is removed, what is left, and how the finding is scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.reproduction.small import SMALL

import crowdwise as cw
from crowdwise.audit.covariance_spammers import find_covariance_spammers
from crowdwise.labels.errors import InputError
from crowdwise.reproduction.measures import MEASURES, FittedModel
from crowdwise.reproduction.one_run import run_job
from crowdwise.reproduction.problems import Problem, make_problem
from crowdwise.reproduction.table_files import parse_table
from crowdwise.reproduction.table_page import make_report
from crowdwise.reproduction.verdicts import compute_cells
from crowdwise.reproduction.worker_removal import REMOVALS, workers_to_remove

SPAMMED = {"name": "spammers", "n_tasks": 300, "n_workers": 10, "n_classes": 3, "share": 0.3}
COLLUDED = {"name": "colluders", "n_tasks": 300, "n_workers": 12, "share": 0.25}
NO_NUMBERS = SMALL[: SMALL.index("[[published]]")]
REMOVING = NO_NUMBERS.replace('aggregator = "dawid-skene"', 'aggregator = "dawid-skene"\nremove = "spammers"')


def asked(crowd: dict[str, Any], remove: str | None, *measures: str, slug: str = "majority-vote") -> dict[str, Any]:
    """A run of its own, of no table."""
    wanted: dict[str, Any] = {"data": {}, "crowd": crowd, "training": {}, "seed": 2, "keep": []}
    wanted |= {"model": {"kind": "aggregator", "slug": slug}, "measures": list(measures)}
    return {"cell": {}, "digest": "", "run": wanted if remove is None else wanted | {"remove": remove}}


@pytest.mark.parametrize(
    ("crowd", "name"),
    [
        (SPAMMED, "covariance-spammers"),
        (SPAMMED, "spammers"),
        (COLLUDED, "colluders"),
        (COLLUDED | {"share": 0.6}, "trusted-colluders"),
    ],
)
def test_adversaries_are_removed_and_the_method_sees_the_others(crowd: dict[str, Any], name: str) -> None:
    scores = ("sensitivity", "specificity", "detection", "removed", "consensus")
    n_bad = round(crowd["share"] * crowd["n_workers"])
    found = run_job(asked(crowd, name, *scores))["measures"]
    assert [found[each] for each in scores[:4]] == [1.0, 1.0, 1.0, n_bad]
    honest = run_job(asked(crowd | {"only": "honest"}, None, "consensus"))["measures"]
    assert found["consensus"] == honest["consensus"]
    assert found["consensus"] > run_job(asked(crowd, None, "consensus"))["measures"]["consensus"]


def test_without_trust_most_of_the_crowd_passes_for_honest() -> None:
    found = run_job(asked(COLLUDED | {"share": 0.6}, "colluders", "sensitivity", "specificity"))["measures"]
    assert found["sensitivity"] == 0
    assert found["specificity"] < 1


def test_every_removal_is_tried() -> None:
    assert set(REMOVALS) == {
        "covariance-spammers",
        "eigenvector-spammers",
        "spammers",
        "colluders",
        "trusted-colluders",
    }


def test_the_seed_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem({}, SPAMMED, 2)
    assert np.array_equal(
        workers_to_remove("covariance-spammers", problem, 2), find_covariance_spammers(problem.labels, random_state=2)
    )
    seen = []
    monkeypatch.setitem(REMOVALS, "spammers", lambda problem, seed: seen.append(seed) or np.zeros(10, np.bool_))
    run_job(asked(SPAMMED, "spammers", "removed"))
    assert seen == [2]


def test_somebody_must_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REMOVALS, "spammers", lambda problem, seed: np.ones(10, np.bool_))
    with pytest.raises(InputError, match="'spammers' removes all workers who have labels: nothing is left"):
        run_job(asked(SPAMMED, "spammers", "removed"))


def test_trust_needs_a_crowd_that_is_known() -> None:
    crowd = cw.simulate.simulate("colluders", n_tasks=50, n_workers=8, random_state=0)
    with pytest.raises(InputError, match="Nobody knows who is honest in this crowd: there is no worker to trust"):
        workers_to_remove("trusted-colluders", Problem(crowd.labels, crowd.truth), 0)


class Model:
    """Two groups, and one worker who is in none."""

    group_ = np.array([0, 0, 1, 1, -1])


def fitted(kinds: tuple[str, ...] | None, removed: list[bool] | None, groups: list[int] | None = None) -> FittedModel:
    crowd = cw.simulate.simulate("one-coin", n_tasks=4, n_workers=5, labels_per_task=5, random_state=0)
    known = cw.simulate.Simulation(
        crowd.labels,
        crowd.truth,
        crowd.confusion,
        crowd.prior,
        kinds,
        None if groups is None else np.array(groups),
    )
    found = None if removed is None else np.array(removed)
    return FittedModel(Problem(crowd.labels, crowd.truth, crowd=known, kinds=kinds), Model(), found)


def test_detection_by_hand() -> None:
    mixed = fitted(("honest", "honest", "honest", "spammer", "spammer"), [True, False, False, True, False])
    found = {name: MEASURES[name](mixed) for name in ("sensitivity", "specificity", "detection", "removed")}
    assert found == pytest.approx({"sensitivity": 1 / 2, "specificity": 2 / 3, "detection": 1 / 2, "removed": 2})
    nobody = fitted(("honest",) * 5, [False] * 5)
    assert [MEASURES[name](nobody) for name in ("sensitivity", "specificity", "detection")] == [1, 1, 1]
    innocent = fitted(("honest",) * 5, [True] + [False] * 4)
    assert [MEASURES[name](innocent) for name in ("sensitivity", "specificity", "detection")] == [1, 0.8, 0]
    everyone = fitted(("spammer",) * 5, [True] * 4 + [False])
    assert MEASURES["specificity"](everyone) == 1


@pytest.mark.parametrize(
    ("groups", "index"),
    [
        ([0, 0, 1, 1, -1], 1.0),
        ([3, 3, 0, 0, 2], 1.0),  # a group of one is nobody's company
        ([0, 0, 0, 0, 0], 0.0),
        ([-1, -1, -1, -1, -1], 0.0),
        ([0, 0, 1, 2, 2], (1 - 2 * 2 / 10) / (2 - 2 * 2 / 10)),  # one pair of two in common, of ten
    ],
)
def test_groups_by_hand(groups: list[int], index: float) -> None:
    assert MEASURES["grouping"](fitted(None, None, groups)) == pytest.approx(index)


def test_measures_that_cannot_be_had() -> None:
    with pytest.raises(InputError, match="removes nobody: give it `remove`, or name the measure's methods"):
        MEASURES["removed"](fitted(("honest",) * 5, None))
    with pytest.raises(InputError, match="Nobody knows who is honest in this crowd: name the measure's settings"):
        MEASURES["sensitivity"](fitted(None, [True] * 5))
    with pytest.raises(InputError, match="Nobody knows the groups of this crowd"):
        MEASURES["grouping"](fitted(None, None))
    without = FittedModel(fitted(None, None, [0, 0, 1, 1, 2]).problem, None)
    with pytest.raises(InputError, match="The method finds no groups: name the measure's methods"):
        MEASURES["grouping"](without)


def test_a_run_is_another_if_workers_are_removed() -> None:
    plain, removing = parse_table(NO_NUMBERS, "mine").jobs(), parse_table(REMOVING, "mine").jobs()
    assert "remove" not in plain[1]["run"]
    assert removing[1]["run"]["remove"] == "spammers"
    assert removing[1]["digest"] != plain[1]["digest"]
    assert removing[0] == plain[0]


def test_a_measure_of_some_methods_and_settings() -> None:
    more = 'removed = { title = "removed", methods = ["DS"], settings = ["many"] }'
    table = parse_table(REMOVING.replace("times = 100 }", "times = 100 }\n" + more), "mine")
    measures = [job["run"]["measures"] for job in table.jobs(seeds=1)]
    assert measures == [["consensus"], ["consensus"], ["consensus"], ["consensus", "removed"]]
    had = [(cell.setting, cell.method) for cell in compute_cells(table, []) if cell.measure == "removed"]
    assert had == [("many", "DS")]
    assert [job["digest"] for job in table.jobs()] == [job["digest"] for job in parse_table(REMOVING, "mine").jobs()]


def test_the_page_says_who_is_removed() -> None:
    page = make_report(parse_table(REMOVING, "mine"), []).files("mine", "crowdwise bench mine")["mine.md"]
    assert "| method *DS* | `dawid-skene`, max\\_iter = 20, remove = spammers |" in page


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('remove = "spammers"', 'remove = "spam"', "remove of 'DS' is 'spam'; it must be one of 'covariance-spammers'"),
        ('remove = "spammers"', "remove = 3", "remove of method is 3; it must be a text"),
        ("times = 100", 'methods = ["SD"]', "There is no method 'SD'; there are 'DS', 'vote'"),
        ("times = 100", 'settings = ["none"]', "There is no setting 'none'; there are 'few', 'many'"),
    ],
)
def test_a_mistake_is_said_in_words(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_table(REMOVING.replace(old, new), "mine")


def test_a_claim_of_a_measure_that_a_method_has_not() -> None:
    with pytest.raises(InputError, match="The measure 'consensus' is not asked of 'vote'"):
        parse_table(SMALL.replace("times = 100", 'methods = ["DS"]'), "mine")
