"""The sufficiently scattered condition: where it is known by hand, by the plain search, and the limit of experts."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from crowdwise.metrics import identifiability_conditions
from crowdwise.metrics.identifiability_conditions import class_separation, expert_radius, scatter_radius


@pytest.mark.parametrize(("share", "radius"), [(0.5, np.sqrt(3)), (1 / 3, 1), (0.2, 1), (0.0, 1)])
def test_three_classes_by_hand(share: float, radius: float) -> None:
    """Rows (0, a, 1-a) in all orders: their hexagon holds the circle that touches the triangle's sides if a ≤ 1/3."""
    rows = np.array(list(permutations([0, share, 1 - share])))
    assert scatter_radius(rows)[0] == pytest.approx(radius, abs=1e-9)
    assert scatter_radius(np.array(list(permutations([0, 0.34, 0.66]))))[0] > 1.001


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
def test_no_allowed_vector_is_longer(n_classes: int) -> None:
    generator = np.random.default_rng(n_classes)
    rows = generator.dirichlet(np.full(n_classes, 0.5), 12)
    radius, exact = scatter_radius(rows * generator.uniform(1, 9, (12, 1)))
    assert exact
    assert radius == pytest.approx(identifiability_conditions._search_farthest_corner(rows, 0), rel=1e-6)
    corner = np.full(n_classes, 1 / n_classes)
    for _ in range(2000):  # from the centre as far as the rows allow, in a direction of sum 0
        direction = generator.normal(size=n_classes)
        direction -= direction.mean()
        steps = -(rows @ corner) / (rows @ direction)
        far = corner + direction * steps[steps > 0].min()
        assert np.linalg.norm(far) <= radius + 1e-9


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_experts(n_classes: int) -> None:
    assert scatter_radius(np.eye(n_classes))[0] == pytest.approx(1)
    right = identifiability_conditions.EXPERT
    rows = np.full((n_classes, n_classes), (1 - right) / (n_classes - 1))
    np.fill_diagonal(rows, right)
    assert scatter_radius(rows)[0] == pytest.approx(expert_radius(n_classes))


def test_rows_that_do_not_tell_classes_apart() -> None:
    assert scatter_radius(np.array([[0.5, 0.5], [0.5, 0.5]])) == (np.inf, True)
    assert scatter_radius(np.array([[0.2, 0.4, 0.4], [0.6, 0.2, 0.2], [0.1, 0.45, 0.45]])) == (np.inf, True)
    assert scatter_radius(np.array([[1.0, 0.0], [0.7, 0.3]])) == (np.inf, True)  # nothing speaks for the second


def test_many_classes_are_searched() -> None:
    assert scatter_radius(np.eye(8)) == (1.0, False)
    assert scatter_radius(np.eye(8) + 0.5)[0] > 1.5


def test_classes_are_never_told_apart_by_less_than_nothing() -> None:
    """The same outputs for every task: rounding once made the smallest eigenvalue negative."""
    outputs = np.random.default_rng(0).dirichlet(np.ones(8), 20)
    found = [class_separation(np.tile(each, (75, 1))) for each in outputs]
    assert min(found) >= 0
    assert max(found) < 1e-6
    assert class_separation(np.eye(3)) == pytest.approx(1)
