"""The skill and habit of every worker: the kernel against EM in plain NumPy, one worker at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from crowdwise.kernels.habits import fit_habits
from crowdwise.labels import CrowdLabels

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

STEPS = 60


def plain(label: IntArray, beside: FloatArray, n_classes: int, skill: float | None) -> tuple[float, float]:
    s = 0.5 if skill is None else skill
    habit = np.bincount(label, minlength=n_classes) / label.size
    for _ in range(STEPS):
        by_habit = (1 - s) * habit[label]
        share = by_habit / (by_habit + s * beside)
        habit = np.bincount(label, share, n_classes) / share.sum()
        s = 1 - share.mean() if skill is None else s
    return s, float(np.log((1 - s) * habit[label] + s * beside).sum())


@pytest.mark.parametrize("given", [False, True])
def test_against_plain_numpy(given: bool) -> None:
    rng = np.random.default_rng(0)
    worker = rng.choice(6, 500, p=[0.5, 0.3, 0.1, 0.08, 0.02, 0.0])
    labels = CrowdLabels.from_codes(np.arange(500), worker, rng.integers(0, 4, 500), tasks=500, workers=6, classes=4)
    beside = rng.beta(0.5, 0.5, 500).clip(1e-6)
    skill = rng.uniform(0.1, 0.9, 6)
    found, likely = fit_habits(labels, beside, skill if given else None, STEPS, 0.0)
    for w in range(5):
        mine = labels.worker == w
        expected = plain(labels.label[mine], beside[mine], 4, float(skill[w]) if given else None)
        assert (found[w], likely[w]) == pytest.approx(expected, rel=1e-9)
    assert likely[5] == 0.0


def test_a_worker_who_is_done_stops() -> None:
    labels = CrowdLabels.from_codes(np.arange(50), [0] * 50, [0] * 25 + [1] * 25, tasks=50, workers=1, classes=2)
    beside = np.full(50, 0.5)  # says nothing: any skill is as likely, and the first step changes nothing
    assert fit_habits(labels, beside, None, 100, 1e-9)[0][0] == pytest.approx(0.5)
