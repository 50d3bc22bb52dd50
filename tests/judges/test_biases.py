"""Position, length and self-preference, planted and found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdwise.judges.comparison_bias import JudgeBias, measure_biases
from crowdwise.judges.vote_table import read_panel

MODELS = ("alpha", "beta", "gamma", "delta")


def simulate_comparisons(
    n: int, seed: int, *, position: float = 0.0, length: float = 0.0, own: float = 0.0, both: bool = True
) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Comparisons by the judge "alpha", who is a contestant too, and by people; and the true effect of doubling."""
    rng = np.random.default_rng(seed)
    tasks = n // 2 if both else n
    pair = np.array([rng.choice(4, 2, replace=False) for _ in range(tasks)])
    merit = rng.normal(0, 1, (tasks, 4))
    size = 2 ** rng.normal(0, 1, (tasks, 4))
    rows: dict[str, list[Any]] = {
        name: [] for name in ("task", "judge", "left", "right", "winner", "left_length", "right_length")
    }
    people: dict[str, list[Any]] = {name: [] for name in ("task", "worker", "left", "right", "winner")}
    slopes = []
    for task, (a, b) in enumerate(pair):
        for one, other in [(a, b), (b, a)] if both else [(a, b)]:
            ratio = np.log2(size[task, one] / size[task, other])
            x = merit[task, one] - merit[task, other] + length * ratio
            chance = 1 / (1 + np.exp(-x))
            slopes.append(length * chance * (1 - chance))
            chance += position + own * ((one == 0) - float(other == 0))
            row = (task, "alpha", MODELS[one], MODELS[other], "left" if rng.random() < chance else "right",
                   size[task, one], size[task, other])  # fmt: skip
            for name, value in zip(rows, row, strict=True):
                rows[name].append(value)
        for person in range(3):
            chance = 1 / (1 + np.exp(-(merit[task, a] - merit[task, b])))
            winner = MODELS[a] if rng.random() < chance else MODELS[b]
            for name, value in zip(people, (task, f"p{person}", MODELS[a], MODELS[b], winner), strict=True):
                people[name].append(value)
    return rows, people, float(np.mean(slopes))


def measure(**planted: Any) -> tuple[JudgeBias, float]:
    rows, people, slope = simulate_comparisons(2_000, **planted)
    return measure_biases(read_panel(rows, people))[0], slope


@pytest.mark.parametrize("both", [True, False])
def test_position(both: bool) -> None:
    found = [measure(seed=seed, position=0.1, both=both)[0] for seed in range(4)]
    # The planted share is cut where a chance would leave 0 … 1; merit is drawn so that this is rare.
    assert np.mean([each.position.value for each in found]) == pytest.approx(0.1, abs=0.02)
    assert all(each.both_orders == both for each in found)
    assert sum(each.position.low <= 0.1 <= each.position.high for each in found) >= 3


def test_length() -> None:
    found = [measure(seed=seed, length=0.5) for seed in range(4)]
    assert np.mean([each.length.value - slope for each, slope in found]) == pytest.approx(0, abs=0.02)
    assert all(abs(each.length.value - slope) < 0.04 for each, slope in found)
    assert abs(measure(seed=9)[0].length.value) < 0.03


def test_self_preference() -> None:
    found = [measure(seed=seed, own=0.1)[0].self_preference for seed in range(4)]
    assert np.mean([each.value for each in found]) == pytest.approx(0.1, abs=0.02)
    none = [measure(seed=seed)[0].self_preference for seed in range(3)]
    assert np.mean([each.value for each in none]) == pytest.approx(0, abs=0.02)


def test_only_ties() -> None:
    rows, people, _ = simulate_comparisons(60, 0)
    found = measure_biases(read_panel(rows | {"winner": ["tie"] * len(rows["task"])}, people))[0]
    assert found.n_ties == found.n_comparisons == 60
    assert found.position.value == 0


def test_what_cannot_be_told_is_nan() -> None:
    rows, people, _ = simulate_comparisons(10, 0)
    del rows["left_length"]
    found = measure_biases(read_panel(rows | {"judge": ["omega"] * 10}, people))[0]
    assert np.isnan([found.position.value, found.length.value, found.self_preference.value]).all()
    votes = {"task": [1], "judge": ["a"], "vote": ["x"]}
    assert measure_biases(read_panel(votes)) == []
