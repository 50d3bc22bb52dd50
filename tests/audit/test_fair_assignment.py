"""Fair assignment: against a search through all assignments of small crowds, and its limits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from crowdwise.audit.fair_assignment import assign_fairly, group_confusions
from crowdwise.labels import InputError

KNOWN = {"prior": [0.4, 0.6], "group_shares": [0.5, 0.5], "labels_per_task": 1}


def matrices(seed: int, n_workers: int) -> np.ndarray:
    rows = np.random.default_rng(seed).dirichlet([4, 2], (n_workers, 2, 2))
    rows[:, :, 1] = rows[:, :, 1, ::-1]
    rows[:, 1] = 0.7 * rows[:, 0] + 0.3 * rows[:, 1]  # groups are treated somewhat alike
    return rows


def value(chances: np.ndarray, confusion: np.ndarray) -> float:
    return float(np.einsum("wg,wgkk,k->", chances, confusion, KNOWN["prior"]) / 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tolerance", [0.1, 0.2, 1.0])
def test_no_assignment_of_a_grid_is_better(seed: int, tolerance: float) -> None:
    confusion = matrices(seed, 3)
    found = assign_fairly(confusion, **KNOWN, most=0.8, tolerance=tolerance)
    assert np.allclose(found.sum(axis=0), 1)
    assert (found.mean(axis=1) <= 0.8 + 1e-9).all()
    rates = np.einsum("wg,wgkl->gkl", found, confusion)
    assert np.abs(rates[0] - rates[1]).max() <= tolerance + 1e-6
    steps = [np.array(one) / 10 for one in product(range(11), repeat=3) if sum(one) == 10]
    best = -1.0
    for one, two in product(steps, repeat=2):
        chances = np.stack([one, two], axis=1)
        fair = np.abs(np.einsum("wg,gwkl->gkl", chances, np.moveaxis(confusion, 1, 0)))
        if np.abs(fair[0] - fair[1]).max() <= tolerance and (chances.mean(axis=1) <= 0.8).all():
            best = max(best, value(chances, confusion))
    assert value(found, confusion) >= best - 1e-7


def test_rates_of_known_tasks_by_hand() -> None:
    found = group_confusions(
        np.array([0, 0, 0, 1]), np.array([1, 1, 0, 0]), np.array([1, 1, 1, 0]), np.array([0, 0, 0, 1]), (2, 2, 2)
    )
    assert found[0, 0, 1].tolist() == pytest.approx([1.5 / 5, 3.5 / 5])
    assert found[1, 1, 0].tolist() == pytest.approx([2.5 / 3, 0.5 / 3])
    assert found[1, 0, 0].tolist() == pytest.approx([0.75, 0.25])


def test_what_cannot_be_had_is_refused() -> None:
    opposite = np.array([[np.eye(2), 1 - np.eye(2)]])
    with pytest.raises(InputError, match="No assignment of 1 labels a task is fair to 0"):
        assign_fairly(opposite, **KNOWN)
    with pytest.raises(InputError, match="confusion has shape"):
        assign_fairly(np.eye(2), **KNOWN)
    with pytest.raises(InputError, match="group_shares has shape"):
        assign_fairly(opposite, prior=[0.5, 0.5], group_shares=[1.0], labels_per_task=1)
    with pytest.raises(InputError, match="tolerance"):
        assign_fairly(opposite, **KNOWN, tolerance=-1)
