"""On the NumPy engine nothing is compiled: no compiled loop is imported, and numba is not either."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FITS = """
import sys
import numpy as np
import crowdwise as cw

generator = np.random.default_rng(0)
task, worker = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
truth = np.arange(40) % 3
label = np.where(generator.random(200) < 0.7, truth[task], generator.integers(0, 3, 200))
labels = cw.CrowdLabels.from_codes(task, worker, label, tasks=40, workers=5, classes=3)
methods = [
    cw.MajorityVote(), cw.WeightedMajorityVote(), cw.DawidSkene(), cw.OneCoin(), cw.MeanField(), cw.BeliefPropagation(),
    cw.BayesianClassifierCombination(inference="gibbs", n_sweeps=5, burn_in=1), cw.EnhancedBcc(n_subtypes=2),
    cw.HmmCrowd(sequences={name: (name // 10, name) for name in range(40)}),
    cw.GraphDawidSkene(graph=[(0, 1), (1, 2)]),
]
for method in methods:
    model = method.fit(labels)
    model.workers()
    model.predict_proba(labels)
    assert np.isfinite(model.posterior_).all()
"""


def modules_after(code: str) -> list[str]:
    """Modules that a fresh process has imported after running this on the NumPy engine."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code + "\nprint(*sys.modules)"],
        env={**os.environ, "CROWDWISE_ENGINE": "numpy"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.fixture(scope="module")
def modules() -> list[str]:
    return modules_after(FITS)


def test_no_compiled_loop_is_imported(modules: list[str]) -> None:
    assert not [name for name in modules if name.startswith("crowdwise.kernels.compiled")]


def test_numba_is_not_imported(modules: list[str]) -> None:
    assert "numba" not in modules
