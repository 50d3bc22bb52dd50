"""Forward and backward along sequences: the compiled loop against NumPy, and where no path has weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.engines import use_engine
from crowdwise.kernels import chain_pass
from crowdwise.labels.sequences import Sequences


def random_chain(n_tasks: int, n_sequences: int, n_classes: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    cuts = np.sort(generator.choice(np.arange(1, n_tasks), n_sequences - 1, replace=False))
    ptr = np.concatenate([[0], cuts, [n_tasks]])
    sequences = Sequences(generator.permutation(n_tasks), ptr)
    steps = generator.gamma(0.5, size=(n_classes + 1, n_classes))  # rows need not sum to one
    return sequences, steps, generator.dirichlet(np.full(n_classes, 0.3), n_tasks)


@pytest.mark.parametrize(("n_tasks", "n_sequences", "n_classes"), [(1, 1, 2), (30, 7, 3), (400, 3, 5), (300, 300, 2)])
def test_numpy_and_the_compiled_loop_agree(n_tasks: int, n_sequences: int, n_classes: int) -> None:
    sequences, steps, evidence = random_chain(n_tasks, n_sequences, n_classes, seed=n_tasks)
    posterior = evidence.copy()
    with use_engine("numpy"):
        expected = chain_pass(sequences, steps, posterior)
    with use_engine("numba"):
        found = chain_pass(sequences, steps, evidence)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(found.steps, expected.steps, atol=1e-10)
    np.testing.assert_allclose(evidence, posterior, atol=1e-12)


def test_a_chain_of_a_hundred_thousand_tasks_neither_underflows_nor_depends_on_threads() -> None:
    sequences, steps, evidence = random_chain(100_000, 4, 3, seed=1)
    results = []
    for threads in (1, 3):
        with cw.use_threads(threads):
            posterior = evidence.copy()
            results.append((chain_pass(sequences, steps, posterior), posterior))
    assert np.isfinite(results[0][0].log_likelihood)
    assert results[0][0].log_likelihood == results[1][0].log_likelihood
    np.testing.assert_array_equal(results[0][0].steps, results[1][0].steps)
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][0].steps.sum() == pytest.approx(100_000)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_where_no_path_leads_the_chain_begins_anew(engine: str) -> None:
    steps = np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])  # from the first class there is no way to the second
    evidence = np.array([[0.9, 0.1], [0.0, 1.0], [0.5, 0.5]])
    with use_engine(engine):
        found = chain_pass(Sequences(np.arange(3), np.array([0, 3])), steps, evidence)
    assert found.log_likelihood == -np.inf
    np.testing.assert_allclose(evidence, [[1, 0], [0, 1], [0.5, 0.5]])
