"""Bias: found and sized where it is planted, not reported where none is, hostile names and empty corners."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.audit.crowds import Crowd, honest, relabelled, varied

from crowdwise.audit.bias import find_bias
from crowdwise.audit.pruning import prune
from crowdwise.labels import CrowdLabels, read_labels
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.audit.finding_types import Finding

pytestmark = pytest.mark.usefixtures("compiled")
SKILL, DRAWN = 0.8, 0.375  # of the answers 0 of the group on its tasks, three eighths become 1: a rate 0.30 higher
SIZE = SKILL * DRAWN


def planted(seed: int, n_classes: int = 2, drawn: float = DRAWN) -> tuple[Crowd, Any, Any]:
    """Workers of group G say 1 instead of 0 to tasks of topic Z; the attributes noise and age mean nothing."""
    rng = np.random.default_rng(seed)
    n_tasks, n_workers = int(rng.integers(800, 1400)), int(rng.integers(30, 60))
    crowd = honest(n_tasks, n_workers, n_classes, 5, rng, skill=SKILL)
    z, g = rng.random(n_tasks) < 0.4, rng.random(n_workers) < 0.35
    labels = crowd.labels
    hit = g[labels.worker] & z[labels.task] & (crowd.truth[labels.task] == 0) & (labels.label == 0)
    crowd = relabelled(crowd, hit & (rng.random(labels.n_labels) < drawn), 1)
    tasks = {"task": list(range(n_tasks)), "topic": np.where(z, "Z", "other").tolist()}
    workers = {"worker": list(range(n_workers)), "from": np.where(g, "G", "elsewhere").tolist()}
    tasks["noise"], workers["age"] = rng.integers(0, 3, n_tasks).tolist(), rng.integers(0, 3, n_workers).tolist()
    return crowd, tasks, workers


def interval(finding: Finding) -> tuple[float, float]:
    (found,) = re.findall(r"interval ([-+.\d]+) to ([-+.\d]+)", finding.evidence)
    return float(found[0]), float(found[1])


def test_planted_bias_is_found_and_sized() -> None:
    found, covered, strangers = [], 0, 0
    for seed in range(24):
        crowd, tasks, workers = planted(seed, n_classes=(2, 3)[seed % 2])
        screen = find_bias(crowd.labels, task_attributes=tasks, worker_attributes=workers)
        hits = [f for f in screen.findings if f.names == ("from = G", "topic = Z")]
        strangers += any("noise" in str(f.names) or "age" in str(f.names) for f in screen.findings)
        if hits:
            found.append(hits[0].score)
            low, high = interval(hits[0])
            covered += low - 0.005 <= SIZE <= high + 0.005 or low - 0.005 <= -SIZE <= high + 0.005
    assert len(found) >= 22
    assert covered >= len(found) - 3  # 95 % intervals: four misses of 24 have a chance of 3 %
    assert np.mean(found) == pytest.approx(SIZE, abs=0.03)
    assert strangers <= 4


def test_the_words() -> None:
    crowd, tasks, workers = planted(0)
    found = find_bias(crowd.labels, task_attributes=tasks, worker_attributes=workers).findings[0]
    assert found.verdict == (
        "Workers with from = 'G' say 1 more often to tasks with topic = 'Z' that the others call 0."
    )
    assert found.about == "attribute"
    assert found.p_value <= 0.004
    assert "on other such tasks; of the other workers'" in found.evidence


def test_against_a_truth() -> None:
    crowd, tasks, workers = planted(3)
    known = {t: int(crowd.truth[t]) for t in range(0, crowd.labels.n_tasks, 2)}
    screen = find_bias(crowd.labels, task_attributes=tasks, worker_attributes=workers, truth=known)
    hits = [f for f in screen.findings if f.names == ("from = G", "topic = Z")]
    assert hits
    assert "that truly are 0" in hits[0].verdict
    low, high = interval(hits[0])
    assert low <= SIZE <= high


def test_a_bias_of_the_whole_crowd_needs_a_truth() -> None:
    rng = np.random.default_rng(0)
    crowd = honest(1500, 30, 2, 5, rng)
    z = rng.random(1500) < 0.4
    labels = crowd.labels
    hit = z[labels.task] & (crowd.truth[labels.task] == 0) & (labels.label == 0) & (rng.random(labels.n_labels) < 0.3)
    crowd = relabelled(crowd, hit, 1)
    tasks = dict(enumerate(z.tolist()))
    assert not find_bias(crowd.labels, task_attributes=tasks).findings
    truth = dict(enumerate(crowd.truth.tolist()))
    found = find_bias(crowd.labels, task_attributes=tasks, truth=truth).findings[0]
    assert found.names == ("everyone", "attribute = true")
    assert "The crowd as a whole says 1 more often" in found.verdict
    low, high = interval(found)
    assert low <= 0.3 * SKILL <= high


def test_one_biased_worker() -> None:
    rng = np.random.default_rng(1)
    crowd = honest(1000, 12, 3, 6, rng)
    z = rng.random(1000) < 0.5
    labels = crowd.labels
    hit = (labels.worker == 4) & z[labels.task] & (labels.label == 2) & (rng.random(labels.n_labels) < 0.6)
    crowd = relabelled(crowd, hit, 0)
    screen = find_bias(crowd.labels, task_attributes={t: "young" if z[t] else "old" for t in range(1000)})
    assert {f.names for f in screen.findings} == {(4,)}
    assert "attribute = 'young'" in screen.findings[0].verdict
    assert prune(crowd.labels, screen.findings)[0].n_labels == (labels.worker != 4).sum()
    assert screen.findings[0].about == "worker"
    assert screen.findings[0].verdict.startswith("Worker 4 says")


def test_a_group_that_is_stricter_everywhere() -> None:
    rng = np.random.default_rng(2)
    crowd = honest(1200, 50, 2, 5, rng, concentration=50)
    g = np.arange(50) < 20
    labels = crowd.labels
    hit = g[labels.worker] & (labels.label == 0) & (rng.random(labels.n_labels) < 0.25)
    crowd = relabelled(crowd, hit, 1)
    found = find_bias(crowd.labels, worker_attributes=dict(enumerate(np.where(g, "G", "other").tolist()))).findings
    assert len(found) == 1
    assert found[0].names == ("attribute = G",)
    low, high = interval(found[0])
    assert min(abs(low), abs(high)) <= 0.25 * SKILL <= max(abs(low), abs(high))


@pytest.mark.parametrize("kind", ["task", "worker", "both", "hard"])
def test_no_alarm_in_honest_crowds(kind: str) -> None:
    # 5 % of 40 is 2; seven or more have a chance under 1 %. Of harder tasks, too, nobody is accused.
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        crowd = varied(seed)
        n_tasks, n_workers = crowd.labels.n_tasks, crowd.labels.n_workers
        if kind == "hard":
            z = rng.random(n_tasks) < 0.5
            crowd = honest(n_tasks, n_workers, 3, 3, rng, hard=np.where(z, 0.5, 0.0))
        else:
            z = rng.integers(0, 3, n_tasks)
        tasks = None if kind == "worker" else dict(enumerate(z.tolist()))
        workers = None if kind == "task" else dict(enumerate(rng.integers(0, 2, n_workers).tolist()))
        alarms += bool(
            find_bias(crowd.labels, task_attributes=tasks, worker_attributes=workers, random_state=seed).findings
        )
    assert alarms <= 6


def test_same_seed_same_answer_whatever_the_order_of_rows() -> None:
    crowd, tasks, workers = planted(5)
    labels = crowd.labels
    order = np.random.default_rng(0).permutation(labels.n_labels)
    mixed = CrowdLabels.from_codes(
        labels.task[order], labels.worker[order], labels.label[order],
        tasks=labels.tasks, workers=labels.workers, classes=labels.classes,
    )  # fmt: skip
    one, other = (find_bias(x, task_attributes=tasks, worker_attributes=workers) for x in (labels, mixed))
    assert [f.names for f in one.findings] == [f.names for f in other.findings]
    assert find_bias(labels, task_attributes=tasks, worker_attributes=workers).findings == one.findings


def test_hostile_names() -> None:
    crowd, tasks, workers = planted(0)
    tasks["topic"] = [{"Z": "=1+1\n<b>", "other": "\x1b[31m"}[topic] for topic in tasks["topic"]]
    found = find_bias(crowd.labels, task_attributes=tasks, worker_attributes=workers).findings[0]
    assert found.names[1] == "topic = =1+1\n<b>"
    assert "\n" not in found.verdict
    assert "'=1+1\\n<b>'" in found.verdict


def test_what_cannot_be_tested() -> None:
    crowd = honest(30, 4, 2, 3, np.random.default_rng(0))
    assert "No attribute" in find_bias(crowd.labels).skipped
    few = crowd.labels.keep(np.arange(crowd.labels.n_labels) < 20)
    assert "needs two workers" in find_bias(few, task_attributes={0: "x"}).skipped
    # One value only, values of nobody's, a group of one: nothing to flag, and no error.
    assert not find_bias(crowd.labels, task_attributes=dict.fromkeys(range(30), "x")).findings
    assert not find_bias(crowd.labels, worker_attributes={0: "x"}, task_attributes={0: "y"}).findings
    assert not find_bias(crowd.labels, worker_attributes={0: "x", 1: "y"}).findings


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
def test_popquorn() -> None:
    folder = Path(os.environ["CROWDWISE_DATA"]) / "popquorn_offensive"
    labels = read_labels(folder / "labels.csv")
    screen = find_bias(labels, worker_attributes=folder / "workers.csv")
    assert not screen.skipped
    assert not screen.findings  # 262 people of 50 labels each differ more among themselves than their groups do


@pytest.mark.parametrize("groups", [dict.fromkeys(range(6), "all"), {worker: worker % 2 for worker in range(6)}])
def test_groups_that_cannot_be_told_from_chance_are_not_asked(groups: dict[int, object]) -> None:
    """One group has no other; of six workers, three can be chosen in twenty ways, which is no rare event."""
    crowd = simulate("one-coin", n_tasks=100, n_workers=6, n_classes=2, random_state=0)
    assert "told from chance" in find_bias(crowd.labels, worker_attributes=groups, level=0.01).skipped
    assert not find_bias(crowd.labels, worker_attributes={each: each % 2 for each in range(6)}, level=0.1).skipped
