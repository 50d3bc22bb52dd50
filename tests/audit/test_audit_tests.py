"""Tests of the audit describe themselves: found in their modules, run in order, each at its share of the level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crowdwise.audit.audit_tests import AuditTest, CrowdContext, FindingKind, audit_tests, finding_kind, select_tests
from crowdwise.audit.finding_types import Screen
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels


@pytest.fixture(scope="module")
def labels() -> CrowdLabels:
    return simulate("dawid-skene", n_tasks=30, n_workers=6, n_classes=2, random_state=0).labels


def test_every_test_is_found_once_and_in_order() -> None:
    known = [
        "dependent workers",
        "spammer",
        "colluders",
        "bias",
        "disparity",
        "drift",
        "strange truth",
        "mislabel",
        "hard task",
        "confused classes",
        "identifiability",
    ]
    found = [test.kind for test in audit_tests()]
    assert [kind for kind in found if kind in known] == known
    orders = [test.order for test in audit_tests()]
    assert orders == sorted(set(orders))


def test_facts_are_complete_and_kinds_have_one_test() -> None:
    names = [kind.name for test in audit_tests() for kind in test.kinds]
    assert len(names) == len(set(names))
    assert all(test.question.endswith("?") and test.title for test in audit_tests())
    given = {field for test in audit_tests() for field in test.needs}
    assert given <= {"truth", "task_attributes", "worker_attributes", "time"}


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({}, []),
        ({"time": None, "truth": None, "task_attributes": ()}, []),
        ({"time": [1.0]}, ["drift"]),
        ({"worker_attributes": ("x",)}, ["bias"]),
        ({"task_attributes": ("x",)}, ["bias", "disparity"]),
        ({"truth": "x"}, ["strange truth"]),
    ],
)
def test_a_test_is_run_where_what_it_needs_is_given(given: dict[str, object], more: list[str]) -> None:
    always = [test.kind for test in select_tests({})]
    assert [test.kind for test in select_tests(given) if test.kind not in always] == more


def test_tests_that_accuse_share_the_level_and_run_once(labels: CrowdLabels) -> None:
    levels: list[float] = []

    def run(_: CrowdContext, level: float) -> Screen:
        levels.append(level)
        return Screen("made up")

    for accuses in (True, False):
        crowd = CrowdContext(labels, 0.06, 3)
        test = AuditTest(1, (FindingKind("made up", "Made up", "one", "many"),), "Is it?", run, accuses=accuses)
        assert crowd.run(test) is crowd.run(test)
    assert levels == [pytest.approx(0.02), 0.06]


def test_a_kind_that_no_test_has_is_called_by_its_name() -> None:
    assert finding_kind("disputed answer").title == "Given answers that the crowd contradicts"
    assert finding_kind("strange").title == "strange"
