"""The likelihood of attention with the best habit: the kernel against EM in plain NumPy, one worker at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from crowdwise.kernels.habit_mixture import profile_likelihood
from crowdwise.labels import CrowdLabels

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray


def plain(label: IntArray, beside: FloatArray, n_classes: int, s: float) -> float:
    habit = np.bincount(label, minlength=n_classes) / label.size
    for _ in range(2000):
        by_habit = (1 - s) * habit[label]
        share = by_habit / (by_habit + s * beside)
        habit = np.bincount(label, share, n_classes) / share.sum()
    return float(np.log((1 - s) * habit[label] + s * beside).sum())


def test_against_plain_numpy() -> None:
    rng = np.random.default_rng(0)
    worker = rng.choice(6, 500, p=[0.5, 0.3, 0.1, 0.08, 0.02, 0.0])
    labels = CrowdLabels.from_codes(np.arange(500), worker, rng.integers(0, 4, 500), tasks=500, workers=6, classes=4)
    beside = rng.beta(0.5, 0.5, 500).clip(1e-6)
    grid = np.sort(rng.uniform(0.0, 0.95, (6, 7)), axis=1)
    found = profile_likelihood(labels, beside, grid)
    for w in range(5):
        mine = labels.worker == w
        expected = [plain(labels.label[mine], beside[mine], 4, float(s)) for s in grid[w]]
        assert found[w] == pytest.approx(expected, abs=0.02)
        assert (found[w] <= np.array(expected) + 1e-9).all()
    assert (found[5] == 0.0).all()


def test_all_attention_leaves_no_habit() -> None:
    labels = CrowdLabels.from_codes(np.arange(50), [0] * 50, [0] * 25 + [1] * 25, tasks=50, workers=1, classes=2)
    found = profile_likelihood(labels, np.full(50, 0.3), np.array([[0.0, 1.0, 1.0]]))
    assert found[0] == pytest.approx([50 * np.log(0.5), 50 * np.log(0.3), 50 * np.log(0.3)])
