"""Zero probabilities that reach the passes through a fit."""

from __future__ import annotations

import numpy as np
from tests.conftest import tiny_labels

import crowdwise as cw


def test_known_workers_who_never_err() -> None:
    """Pseudo-counts of zero beside a probability of zero add nothing to the objective."""
    labels = tiny_labels(2, 8)
    model = cw.DawidSkene(max_iter=20, tol=0.0).fit(labels, known_workers={1: np.eye(2)})
    assert np.isfinite(model.objective_).all()
    assert (np.diff(model.objective_) > -1e-10).all()


def test_start_that_forbids_the_labels() -> None:
    """Workers who are said never to err, and disagree: the first likelihood is zero, the fit goes on."""
    labels = tiny_labels(2, 1, n_tasks=30)
    model = cw.DawidSkene(init=np.tile(np.eye(2), (3, 1, 1))).fit(labels)
    assert model.log_likelihood_[0] == -np.inf
    assert np.isfinite(model.log_likelihood_[1:]).all()
    assert np.isfinite(model.posterior_).all()


def test_gold_against_a_start_that_forbids_it() -> None:
    labels = cw.CrowdLabels.from_codes([0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1], tasks=2, workers=2, classes=2)
    model = cw.DawidSkene(init=np.tile(np.eye(2), (2, 1, 1)), max_iter=1, tol=0.0).fit(labels, gold={0: 1})
    assert model.posterior_[0].tolist() == [0, 1]
