"""Demographic parity and equal opportunity of the consensus: planted, absent, and by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.audit.crowds import honest, relabelled, varied

from crowdwise.audit.fairness import find_disparity
from crowdwise.labels import CrowdLabels

pytestmark = pytest.mark.usefixtures("compiled")


def interval(text: str) -> tuple[float, float]:
    (found,) = re.findall(r"interval ([-+.\d]+) to ([-+.\d]+)", text)
    return float(found[0]), float(found[1])


def test_by_hand() -> None:
    # Everyone agrees: the consensus is the label. 40 of 60 tasks of a are x, 10 of 40 of b.
    said = ["x"] * 40 + ["y"] * 20 + ["x"] * 10 + ["y"] * 30
    labels = CrowdLabels.from_arrays(
        task=np.repeat(np.arange(100), 3), worker=["ann", "bob", "cy"] * 100, label=np.repeat(said, 3)
    )
    groups = {t: "a" if t < 60 else "b" for t in range(100)}
    (found,) = find_disparity(labels, task_attributes=groups).findings
    assert found.names == ("attribute = a",)
    assert found.score == pytest.approx(40 / 60 - 10 / 40)
    assert found.evidence.startswith("demographic parity: 67% of the tasks there, 25% elsewhere: +0.42")
    low, high = interval(found.evidence)
    half = 1.96 * np.sqrt((2 / 9) / 60 + (3 / 16) / 40)
    assert (low, high) == pytest.approx((0.4167 - half, 0.4167 + half), abs=0.03)
    assert found.p_value <= 0.002
    # The consensus is always right where truth is the consensus: opportunity is equal.
    both = find_disparity(labels, task_attributes=groups, truth=dict(enumerate(said)))
    assert [f.evidence.split(":")[0] for f in both.findings] == ["demographic parity"]


def test_unequal_opportunity_needs_a_truth() -> None:
    rng = np.random.default_rng(0)
    crowd = honest(1500, 20, 2, 3, rng, skill=0.85)
    z = rng.random(1500) < 0.4
    labels = crowd.labels
    hit = z[labels.task] & (crowd.truth[labels.task] == 1) & (rng.random(labels.n_labels) < 0.4)
    # As many of the others are lost, so that shares of the consensus stay about alike.
    back = z[labels.task] & (crowd.truth[labels.task] == 0) & (rng.random(labels.n_labels) < 0.4)
    labels = relabelled(relabelled(crowd, hit, 0), back, 1).labels
    groups = dict(enumerate(np.where(z, "z", "rest").tolist()))
    blind = find_disparity(labels, task_attributes=groups)
    assert not blind.findings
    truth = dict(enumerate(crowd.truth.tolist()))
    (found,) = find_disparity(labels, task_attributes=groups, truth=truth).findings
    assert found.evidence.startswith("equal opportunity")
    assert found.names == ("attribute = rest",)
    assert "finds more than of others" in found.verdict


@pytest.mark.parametrize("with_truth", [False, True])
def test_no_alarm_where_the_attribute_means_nothing(with_truth: bool) -> None:
    alarms = 0
    for seed in range(60):
        crowd = varied(seed)
        codes = np.random.default_rng([seed, 1]).integers(0, 2 + seed % 2, crowd.labels.n_tasks)
        truth = dict(enumerate(crowd.truth.tolist())) if with_truth else None
        alarms += bool(
            find_disparity(crowd.labels, task_attributes=dict(enumerate(codes.tolist())), truth=truth).findings
        )
    assert alarms <= 8  # 5 % of 60 is 3; nine or more have a chance under 1 %


def test_base_rates_are_no_unequal_opportunity() -> None:
    rng = np.random.default_rng(4)
    crowd = honest(2000, 25, 2, 5, rng)
    # Groups that truly differ: parity is missed, and the advice says to ask whether they do.
    z = rng.random(2000) < np.where(crowd.truth == 1, 0.7, 0.3)
    groups, truth = dict(enumerate(z.tolist())), dict(enumerate(crowd.truth.tolist()))
    (found,) = find_disparity(crowd.labels, task_attributes=groups, truth=truth).findings
    assert found.evidence.startswith("demographic parity")
    assert "whether the groups truly differ" in found.advice


def test_what_cannot_be_tested() -> None:
    crowd = honest(30, 4, 2, 3, np.random.default_rng(0))
    assert "No attribute" in find_disparity(crowd.labels, task_attributes=None).skipped
    assert not find_disparity(crowd.labels, task_attributes={0: "x", 1: "y"}).findings
    nobody = crowd.labels.keep(np.zeros(crowd.labels.n_labels, bool))
    assert find_disparity(nobody, task_attributes={0: "x"}).skipped
