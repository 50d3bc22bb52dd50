"""The audit as a whole: what is promised of all its tests together, and what it gives.

The method makes what is shown, and no test depends on it: where findings alone are looked at, it is a quick one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.audit import audit as room
from crowdwise.audit.audit import FINE, Audit, audit_crowd
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.report.page import make_report
from crowdwise.simulate import simulate

pytestmark = pytest.mark.usefixtures("compiled")


def test_spammers_are_found_and_nobody_else() -> None:
    crowd = simulate("spammers", n_tasks=600, n_workers=12, n_classes=3, share=0.25, random_state=1)
    found = audit_crowd(crowd.labels)
    assert {finding.names for finding in found.findings if finding.kind == "spammer"} == {(9,), (10,), (11,)}
    assert found.verdicts == [FINE] * 9 + ["spammer"] * 3
    assert [screen.kind for screen in found.screens] == [
        *("dependent workers", "spammer", "colluders"),
        *("mislabel", "hard task", "confused classes", "identifiability"),
    ]


def test_a_block_that_answers_as_one_is_one_voice() -> None:
    crowd = simulate("colluders", n_tasks=800, n_workers=20, share=0.3, random_state=0)
    found = audit_crowd(crowd.labels, method="dawid-skene")
    guilty = {14, 15, 16, 17, 18, 19}
    accused = [finding for finding in found.findings if finding.about in ("worker", "workers")]
    assert {name for finding in accused for name in finding.names} == guilty
    assert found.effective is not None
    assert found.effective.size < 16


@pytest.mark.usefixtures("no_size")
@pytest.mark.parametrize(("share", "skill", "seed"), [(0.3, 0.5, 1), (0.3, 0.5, 2), (0.4, 0.7, 0)])
def test_colluders_who_lead_the_consensus_accuse_nobody(share: float, skill: float, seed: int) -> None:
    crowd = simulate("colluders", n_tasks=1000, n_workers=20, share=share, skill=skill, random_state=seed)
    found = audit_crowd(crowd.labels, method="dawid-skene")
    labels = crowd.labels
    right = np.bincount(labels.worker, crowd.truth[labels.task] == labels.label) / labels.labels_per_worker
    # Some of the honest are no better than a guess among three classes: who is flagged must be one of these.
    rows = zip(found.verdicts, crowd.kinds, right, strict=True)
    assert all(verdict == FINE for verdict, kind, share in rows if kind == "honest" and share > 0.4)
    assert all(verdict != FINE for verdict, kind in zip(found.verdicts, crowd.kinds, strict=True) if kind != "honest")


@pytest.mark.usefixtures("no_size")
def test_a_crowd_of_nothing_but_blocks_is_audited() -> None:
    said = np.repeat(np.random.default_rng(0).integers(0, 3, (300, 6)), 4, axis=1)
    found = audit_crowd(cw.CrowdLabels.from_dense(said), method="dawid-skene")
    assert FINE not in found.verdicts


@pytest.mark.usefixtures("no_size")
def test_the_consensus_shown_is_that_of_the_method_asked_for() -> None:
    crowd = simulate("spammers", n_tasks=200, n_workers=8, n_classes=3, share=0.25, random_state=1)
    gold = {task: int(crowd.truth[task]) for task in range(40)}
    models = {"auto": cw.Auto(random_state=3), "ebcc": cw.EnhancedBcc(random_state=3), "kos": cw.Kos()}
    for method, model in models.items():
        known = {} if method == "kos" else {"gold": gold}
        found = audit_crowd(
            crowd.labels, method=method, random_state=3, truth=dict(enumerate(crowd.truth.tolist())), **known
        )
        wanted = model.fit(crowd.labels, **known)
        assert found.model.slug == method
        assert found.model.consensus() == wanted.consensus()
        assert found.model.workers() == wanted.workers()
        assert (found.gold is None) == (method == "kos")
    with pytest.raises(cw.InputError, match="kos"):
        audit_crowd(crowd.labels, method="kos", gold=gold)
    with pytest.raises(cw.InputError, match="There is no method 'dawid-skeen'"):
        audit_crowd(crowd.labels, method="dawid-skeen")


@pytest.mark.usefixtures("no_size")
def test_gold_may_name_a_class_that_no_worker_used(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = simulate("spammers", n_tasks=60, n_workers=8, n_classes=3, random_state=1)
    longer = pa.array([7, 2, 1, 0])

    def fit(labels: cw.CrowdLabels, *_: object) -> cw.DawidSkene:
        return cw.DawidSkene().fit(room.extend_classes(labels, longer))

    monkeypatch.setattr(room, "fit_method", fit)
    found = audit_crowd(crowd.labels, gold={0: 7})
    assert found.labels.to_table() == crowd.labels.to_table()
    assert found.labels.classes == longer
    page = make_report(found, truth={1: 7, 2: int(crowd.truth[2])})
    assert "Scored against 2 known truths" in page
    assert "choosing between 4 classes" in page


@pytest.mark.usefixtures("no_size")
def test_ties_of_the_vote_are_broken_as_without_an_audit() -> None:
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 0], [0, 1], [0, 0], [1, 0]] * 6))
    assert audit_crowd(labels, method="majority-vote").model.consensus() == cw.MajorityVote().fit(labels).consensus()
    seeded = cw.MajorityVote(random_state=7).fit(labels)
    assert audit_crowd(labels, method="majority-vote", random_state=7).model.consensus() == seeded.consensus()


@pytest.mark.usefixtures("no_size")
def test_one_method_counts_those_who_copy_once() -> None:
    crowd = simulate("groups", n_tasks=1000, n_workers=40, n_classes=3, random_state=0)
    found = audit_crowd(crowd.labels, method="group-dawid-skene")
    assert np.array_equal(found.model.group_ >= 0, found.group >= 0)
    plain = cw.DawidSkene().fit(crowd.labels)
    right = [float(np.mean(model.predict() == crowd.truth)) for model in (found.model, plain)]
    assert right[0] > right[1]


@pytest.mark.usefixtures("no_size")
def test_honest_crowds_are_left_alone() -> None:
    flagged = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        crowd = simulate(
            "dawid-skene",
            n_tasks=int(rng.integers(100, 500)),
            n_workers=int(rng.integers(5, 25)),
            n_classes=int(rng.integers(2, 5)),
            skill=0.75,
            concentration=50.0,
            random_state=seed,
        )
        flagged += any(verdict != FINE for verdict in audit_crowd(crowd.labels, method="dawid-skene").verdicts)
    assert flagged <= 2  # at 5 %, three of twelve have a chance of 2 %


@pytest.mark.usefixtures("no_size")
def test_the_surest_finding_is_first_and_the_worst_is_the_verdict() -> None:
    crowd = simulate("one-coin", n_tasks=40, n_workers=30, random_state=0)
    found = audit_crowd(crowd.labels)

    def finding(kind: str, names: tuple[int, ...], score: float, p_value: float) -> Finding:
        return Finding(kind, "workers", names, score, "", "", p_value, "", "")

    screens = (
        Screen("a", (finding("a", (1, 2), 0.9, 0.01),)),
        Screen("b", (finding("b", (2, 3), 0.2, 0.001),)),
    )
    both = Audit(crowd.labels, found.model, screens, found.group, 0.05)
    assert [each.kind for each in both.findings] == ["b", "a"]
    assert both.verdicts[1:4] == ["a", "a", "b"]


def test_same_seed_same_answer() -> None:
    crowd = simulate("spammers", n_tasks=300, n_workers=10, share=0.2, random_state=3)
    assert audit_crowd(crowd.labels, random_state=5).findings == audit_crowd(crowd.labels, random_state=5).findings


@pytest.mark.parametrize("level", [0.0, 1.5, -0.1])
def test_levels_that_are_none(level: float) -> None:
    with pytest.raises(cw.InputError, match="level"):
        audit_crowd(simulate("one-coin", n_tasks=40, n_workers=30).labels, level=level)


def test_two_workers_cannot_be_told_apart() -> None:
    labels = cw.CrowdLabels.from_dense(np.random.default_rng(0).integers(2, size=(50, 2)))
    found = audit_crowd(labels)
    assert set(found.verdicts) == {FINE}
    assert any(screen.skipped for screen in found.screens)


def test_what_is_known_besides_is_asked_about() -> None:
    crowd = simulate("dawid-skene", n_tasks=200, n_workers=10, n_classes=2, random_state=0)
    labels = crowd.labels
    found = audit_crowd(
        labels,
        truth={task: int(crowd.truth[task]) for task in range(100)},
        task_attributes={task: "long" if task % 2 else "short" for task in range(200)},
        worker_attributes={worker: "team" if worker < 5 else "crowd" for worker in range(10)},
        time=np.arange(labels.n_labels),
    )
    assert {"bias", "disparity", "drift"} <= {screen.kind for screen in found.screens}
