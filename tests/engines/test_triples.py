"""Joint answers of triplets and the descent on them, against plain loops."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.conftest import tiny_labels

from crowdwise.kernels.compiled.triples import project_to_simplex as compiled_project_to_simplex
from crowdwise.kernels.triples import Triples, project_to_simplex, triple_counts, triple_error, triple_sweep
from crowdwise.labels.engine_choice import use_engine


@pytest.mark.parametrize("repeats", [False, True])
def test_triple_counts_equal_plain_loops(repeats: bool) -> None:
    labels = tiny_labels(3, 1, n_tasks=25, n_workers=5, repeats=repeats)
    said: dict[tuple[int, int], list[int]] = {}
    for task, worker, label in zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True):
        said.setdefault((worker, task), []).append(label)
    triples = np.array([*combinations(range(5), 3), (4, 0, 2)])
    expected = np.zeros((len(triples), 3, 3, 3))
    for place, (one, two, three) in enumerate(triples.tolist()):
        for task in range(25):
            for cell in product(*(said.get((worker, task), []) for worker in (one, two, three))):
                expected[place][cell] += 1
    np.testing.assert_array_equal(triple_counts(labels, triples), expected)


def problem(seed: int) -> tuple[Triples, Any, Any]:
    generator = np.random.default_rng(seed)
    triples = np.array([(0, 1, 2), (0, 1, 3), (1, 2, 3), (0, 2, 4)])
    share = generator.dirichlet(np.ones(27), 4).reshape(4, 3, 3, 3)
    table = generator.dirichlet(np.ones(3), (5, 3))
    return Triples(triples, share, generator.dirichlet(np.ones(4))), generator.dirichlet(np.ones(3)), table


def plain_error(triples: Triples, prior: Any, table: Any) -> float:
    total = 0.0
    for (one, two, three), seen, share_of_all in zip(*triples, strict=True):
        law = sum(
            prior[k] * np.multiply.outer(np.outer(table[one][k], table[two][k]), table[three][k])
            for k in range(len(prior))
        )
        total += share_of_all * ((seen - law) ** 2).sum()
    return float(total)


def test_the_error_is_the_plain_formula_and_never_grows() -> None:
    triples, prior, table = problem(0)
    before = triple_error(triples, prior, table)
    assert before == pytest.approx(plain_error(triples, prior, table), rel=1e-12)
    for _ in range(30):
        prior, table = triple_sweep(triples, prior, table, n_steps=3, fixed=False)
        after = plain_error(triples, prior, table)
        assert after <= before + 1e-15
        before = after
    assert prior.sum() == pytest.approx(1)
    np.testing.assert_allclose(table.sum(axis=2), 1)
    assert table.min() >= 0


def test_a_long_sweep_ends_at_the_least_error_of_the_last_worker_and_of_the_prior() -> None:
    """A sweep ends with worker 4 and then the prior: each is compared with a general-purpose solver."""
    triples, prior, table = problem(1)
    with use_engine("numba"):
        same, swept = triple_sweep(triples, prior, table, n_steps=100_000, fixed=True)
        new_prior, all_swept = triple_sweep(triples, prior, table, n_steps=100_000, fixed=False)
    np.testing.assert_array_equal(same, prior)

    def of_columns(values: Any) -> float:
        other = swept.copy()
        other[4] = values.reshape(3, 3)
        return 1e3 * plain_error(triples, prior, other)

    simplex = [{"type": "eq", "fun": lambda values, k=k: values.reshape(3, 3)[k].sum() - 1} for k in range(3)]
    best = minimize(
        of_columns, table[4].ravel(), bounds=[(0, 1)] * 9, constraints=simplex, method="SLSQP", options={"ftol": 1e-14}
    )
    assert of_columns(swept[4]) <= best.fun + 1e-9
    best = minimize(
        lambda values: 1e3 * plain_error(triples, values, all_swept),
        prior,
        bounds=[(0, 1)] * 3,
        constraints=[{"type": "eq", "fun": lambda values: values.sum() - 1}],
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert 1e3 * plain_error(triples, new_prior, all_swept) <= best.fun + 1e-9


def test_nearest_point_of_the_simplex() -> None:
    """Against a fine grid of the simplex in three dimensions."""
    grid = np.array([(a, b, 200 - a - b) for a in range(201) for b in range(201 - a)]) / 200
    generator = np.random.default_rng(0)
    for values in generator.normal(0.3, 0.7, (20, 3)):
        found = project_to_simplex(values[None])[0]
        compiled = values.copy()
        compiled_project_to_simplex(compiled)
        np.testing.assert_allclose(found, compiled, rtol=1e-12)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        nearest = grid[((grid - values) ** 2).sum(axis=1).argmin()]
        np.testing.assert_allclose(found, nearest, atol=0.006)
