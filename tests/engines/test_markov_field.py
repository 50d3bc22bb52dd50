"""Mean field over a graph: the compiled loop against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.engines import use_engine
from crowdwise.kernels import mean_field_pass
from crowdwise.labels.task_graph import read_graph


@pytest.mark.parametrize(("n_tasks", "n_pairs", "n_classes"), [(2, 1, 2), (50, 120, 3), (60, 20, 5)])
def test_numpy_and_the_compiled_loop_agree(n_tasks: int, n_pairs: int, n_classes: int) -> None:
    generator = np.random.default_rng(n_tasks)
    pairs = generator.integers(0, n_tasks, (n_pairs, 2))
    graph = read_graph([(0, 1), *pairs[pairs[:, 0] != pairs[:, 1]].tolist()], range(n_tasks))
    order = generator.permutation(n_tasks)
    log_evidence = generator.normal(0, 2, (n_tasks, n_classes))
    posterior = generator.dirichlet(np.ones(n_classes), n_tasks)
    before = -np.inf
    for sweeps in (1, 1, 3):
        expected = posterior.copy()
        with use_engine("numpy"):
            value = mean_field_pass(graph, order, log_evidence, 0.8, expected, sweeps)
        with use_engine("numba"):
            found = mean_field_pass(graph, order, log_evidence, 0.8, posterior, sweeps)
        assert found == pytest.approx(value, abs=1e-10)
        np.testing.assert_allclose(posterior, expected, atol=1e-12)
        assert found >= before - 1e-10
        before = found
