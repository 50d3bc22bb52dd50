"""Scores of labels drawn anew: the kernel against plain NumPy, and against labels drawn by the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.kernels import reference
from crowdwise.kernels.simulated_scores import drawn_scores
from crowdwise.labels import CrowdLabels
from crowdwise.simulate.draws import cumulate_rows, draw_from_rows


@pytest.mark.parametrize("n_classes", [2, 3, 11])
def test_scores_of_drawn_labels(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    task, worker = rng.integers(0, 40, 300), rng.integers(0, 70_000, 300)
    labels = CrowdLabels.from_codes(
        task, worker, rng.integers(0, n_classes, 300), tasks=45, workers=70_000, classes=n_classes
    )
    confusion = rng.dirichlet(np.ones(n_classes), (labels.n_workers, n_classes))
    log_prior, log_table = rng.normal(size=n_classes), rng.normal(size=confusion.shape)
    truth, uniform = rng.integers(0, n_classes, (3, 45)), rng.random((3, 300))
    tasks = slice(7, 44)
    edges = slice(labels.task_ptr[7], labels.task_ptr[44])
    model = cumulate_rows(confusion), log_prior, log_table
    best, own = drawn_scores(labels, tasks, truth[:, tasks], uniform[:, edges], *model)
    for draw in range(3):
        expected = reference.drawn_scores(labels, truth[draw], uniform[draw], *model)
        np.testing.assert_allclose(best[draw], expected[0][tasks], rtol=1e-12)
        np.testing.assert_allclose(own[draw], expected[1][tasks], rtol=1e-12)


def test_the_same_labels_as_the_simulator_draws() -> None:
    rng = np.random.default_rng(0)
    labels = CrowdLabels.from_dense(rng.integers(0, 4, (50, 6)), classes=range(4))
    confusion = rng.dirichlet(np.ones(4), (6, 4))
    truth = rng.integers(0, 4, 50)
    drawn = draw_from_rows(labels.worker, truth[labels.task], confusion, np.random.default_rng(1))
    table = rng.normal(size=(6, 4, 4))
    _, own = drawn_scores(
        labels,
        slice(0, 50),
        truth[None],
        np.random.default_rng(1).random((1, 300)),
        cumulate_rows(confusion),
        np.zeros(4),
        table,
    )
    said = table[labels.worker, drawn, truth[labels.task]]
    np.testing.assert_allclose(own[0], np.bincount(labels.task, said), rtol=1e-12)
