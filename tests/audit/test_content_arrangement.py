"""Every test of the audit says the same of the same labels: in any order, and beside those who gave no label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from tests.audit.crowds import drifting, honest

from crowdwise.audit import audit_crowd
from crowdwise.datasets import load
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.audit import Audit, Finding

SILENT = 5
ATTRIBUTES = ("task_attributes", "worker_attributes", "time")
EVERYTHING = ("truth", *ATTRIBUTES)
CASES = [  # what is found there, and so compared by its p-value
    ("spammers", (), {"spammer", "mislabel"}),
    ("colluders", ATTRIBUTES, {"colluders", "dependent workers"}),
    ("hammer-spammers", EVERYTHING, {"disparity", "disputed answer"}),
    ("drift", EVERYTHING, {"drift", "bias"}),
    ("hard tasks", EVERYTHING, {"hard task", "mislabel"}),
    pytest.param("dog", (), {"confused classes", "mislabel"}, marks=pytest.mark.data),
    pytest.param("bluebird", EVERYTHING, {"opposite", "spammer"}, marks=pytest.mark.data),
]


class KnownCrowd(NamedTuple):
    """Labels, and all that an audit may be given besides."""

    labels: CrowdLabels
    truth: dict[Any, Any]
    task_attributes: dict[Any, str]
    worker_attributes: dict[Any, str]
    time: np.ndarray[Any, Any]


def know(labels: CrowdLabels, seed: int, time: np.ndarray[Any, Any] | None = None) -> KnownCrowd:
    """Of nearly every task a truth, one of nine wrong, a topic on which some workers answer otherwise, and times."""
    rng = np.random.default_rng(seed)
    names = [
        [f"{letter}{name}" for name in each.to_pylist()]
        for letter, each in zip("twc", (labels.tasks, labels.workers, labels.classes), strict=True)
    ]
    topic, school = rng.integers(0, 2, labels.n_tasks), rng.integers(0, 3, labels.n_workers)
    otherwise = (topic[labels.task] == 1) & (school[labels.worker] == 2) & (rng.random(labels.n_labels) < 0.4)
    label = np.where(otherwise, 0, labels.label)
    named = CrowdLabels.from_codes(
        labels.task, labels.worker, label, tasks=names[0], workers=names[1], classes=names[2], on_duplicate="all"
    )
    votes = named.vote_counts().argmax(axis=1)
    wrong = rng.random(labels.n_tasks) < 1 / 9
    truth = np.where(wrong, rng.integers(0, labels.n_classes, labels.n_tasks), votes)
    return KnownCrowd(
        named,
        {names[0][t]: names[2][truth[t]] for t in np.flatnonzero(rng.random(labels.n_tasks) < 0.9)},
        dict(zip(names[0], map(str, topic), strict=True)),
        dict(zip(names[1], map(str, school), strict=True)),
        rng.permutation(labels.n_labels).astype(float) if time is None else time,
    )


def crowd_called(name: str) -> KnownCrowd:
    if name == "drift":
        labels, time = drifting(0)
        few = labels.task < 1200
        return know(labels.keep(few), 3, time[few])
    if name == "hard tasks":
        crowd = honest(150, 25, 3, None, np.random.default_rng(0), skill=0.9)
        guessed = np.random.default_rng(1).integers(0, 3, crowd.labels.n_labels)
        label = np.where(crowd.labels.task < 3, guessed, crowd.labels.label)
        return know(
            CrowdLabels.from_codes(crowd.labels.task, crowd.labels.worker, label, tasks=150, workers=25, classes=3), 4
        )
    if name in ("dog", "bluebird"):
        return know(load(name).labels, 2)
    share = {"share": 0.25} if name != "hammer-spammers" else {}
    return know(simulate(name, n_tasks=120, n_workers=12, n_classes=3, random_state=1, **share).labels, 1)


def rearrange(crowd: KnownCrowd, way: str) -> KnownCrowd:
    """The same crowd with rows in another order, or names, or with some who gave no label before and after the rest."""
    labels, rng = crowd.labels, np.random.default_rng(7)
    names = [each.to_pylist() for each in (labels.tasks, labels.workers, labels.classes)]
    order = [np.arange(len(each)) for each in names]
    for which in {"classes": (2,), "names": (0, 1)}.get(way, ()):
        order[which] = rng.permutation(len(names[which]))
    rows = rng.permutation(labels.n_labels) if way in ("rows", "names") else np.arange(labels.n_labels)
    columns = [
        np.argsort(places)[column[rows]]
        for places, column in zip(order, (labels.task, labels.worker, labels.label), strict=True)
    ]
    mixed = [[each[place] for place in places] for each, places in zip(names, order, strict=True)]
    if way == "silent":
        for which in (0, 1):
            mixed[which] = [*(f"silent {number}" for number in range(SILENT)), *mixed[which], "silent too"]
            columns[which] = columns[which] + SILENT
    made = CrowdLabels.from_codes(*columns, tasks=mixed[0], workers=mixed[1], classes=mixed[2], on_duplicate="all")
    return crowd._replace(labels=made, time=crowd.time[rows][np.argsort(columns[0], kind="stable")])


def audit(crowd: KnownCrowd, given: tuple[str, ...]) -> Audit:
    return audit_crowd(crowd.labels, method="dawid-skene", **{name: getattr(crowd, name) for name in given})


def describe(finding: Finding) -> tuple[Any, ...]:
    numbers = pytest.approx(finding.score, abs=1e-8), pytest.approx(finding.p_value, abs=1e-8, rel=1e-6)
    return finding.kind, finding.names, finding.verdict, finding.evidence, *numbers


@pytest.mark.parametrize(("name", "given", "kinds"), CASES)
def test_the_same_labels_give_the_same_findings(name: str, given: tuple[str, ...], kinds: set[str]) -> None:
    crowd = crowd_called(name)
    first = audit(crowd, given)
    assert kinds <= {finding.kind for finding in first.findings}
    for way in ("rows", "names", "classes", "silent"):
        second = audit(rearrange(crowd, way), given)
        found = [
            {(each.kind, each.names): describe(each) for screen in made.screens for each in screen.findings}
            for made in (first, second)
        ]
        assert found[0] == found[1], way
        place = {worker: at for at, worker in enumerate(second.labels.workers.to_pylist())}
        order = [place[worker] for worker in first.labels.workers.to_pylist()]
        for one, two in zip(first.screens, second.screens, strict=True):
            assert (one.kind, one.skipped) == (two.kind, two.skipped), way
            for values, others in ((one.score, two.score), (one.p_value, two.p_value)):
                np.testing.assert_allclose(values, others[order] if others.size else others, rtol=1e-6, atol=1e-8)
        assert (first.group >= 0).tolist() == (second.group[order] >= 0).tolist(), way
        assert [claim.text for claim in first.summary()] == [claim.text for claim in second.summary()], way
