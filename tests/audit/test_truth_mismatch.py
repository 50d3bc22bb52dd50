"""A truth that is not about the labels is found, and a right one is not."""

from __future__ import annotations

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.audit.truth_mismatch import find_strange_truth


@pytest.fixture(scope="module")
def crowd() -> cw.simulate.Simulation:
    return cw.simulate.simulate("dawid-skene", n_tasks=150, n_workers=8, n_classes=3, skill=0.7, random_state=0)


def given(truth: np.ndarray) -> dict[int, int]:
    return dict(enumerate(truth.tolist()))


def test_shifted_codes_are_found(crowd: cw.simulate.Simulation) -> None:
    found = cw.audit_crowd(crowd.labels, truth=given((crowd.truth + 1) % 3))
    strange = [finding for finding in found.findings if finding.kind == "strange truth"]
    assert len(strange) == 1
    assert strange[0].score > 0.8
    assert strange[0].p_value < 1e-6
    assert "codes may be shifted" in strange[0].advice
    assert strange[0].verdict.startswith("No: ")


def test_rows_out_of_order_are_found_as_often_as_they_agree_no_more_than_by_chance(
    crowd: cw.simulate.Simulation,
) -> None:
    rng = np.random.default_rng(0)
    found = [find_strange_truth(crowd.labels, truth=given(rng.permutation(crowd.truth))).findings for _ in range(40)]
    assert sum(map(bool, found)) >= 12  # about half of them agree less than chance


def test_a_right_truth_is_not_flagged(crowd: cw.simulate.Simulation) -> None:
    assert find_strange_truth(crowd.labels, truth=given(crowd.truth)).findings == ()
    weak = [
        cw.simulate.simulate("dawid-skene", n_tasks=40, n_workers=5, n_classes=3, skill=0.55, random_state=seed)
        for seed in range(40)
    ]
    assert not any(find_strange_truth(each.labels, truth=given(each.truth)).findings for each in weak)


def test_few_truths_are_not_judged(crowd: cw.simulate.Simulation) -> None:
    assert "Fewer than 10" in find_strange_truth(crowd.labels, truth={0: 0}).skipped
