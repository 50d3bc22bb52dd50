"""Scores of labels drawn anew: the kernel against plain NumPy, and against labels drawn by the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdwise.kernels.simulated_scores import AnswerModel, simulate_scores
from crowdwise.labels import CrowdLabels
from crowdwise.simulate.draws import cumulate_rows, draw_from_rows

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray


def plain_scores(labels: CrowdLabels, truth: IntArray, uniform: FloatArray, model: AnswerModel) -> tuple[Any, Any]:
    """Scores of each task's best class (N,) and of its truth (N,), for labels that the numbers `uniform` draw."""
    label = (model.cumulative[labels.worker, truth[labels.task], :-1] <= uniform[:, None]).sum(axis=1)
    scores = np.tile(model.log_prior, (labels.n_tasks, 1))
    np.add.at(scores, labels.task, model.log_table[labels.worker, label])
    by_class = scores.reshape(labels.n_tasks, -1, labels.n_classes).max(axis=1)
    return by_class.max(axis=1), by_class[np.arange(labels.n_tasks), truth % labels.n_classes]


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("n_classes", [2, 3, 11])
def test_scores_of_drawn_labels(n_classes: int, levels: int) -> None:
    rng = np.random.default_rng(n_classes)
    task, worker = rng.integers(0, 40, 300), rng.integers(0, 70_000, 300)
    labels = CrowdLabels.from_codes(
        task, worker, rng.integers(0, n_classes, 300), tasks=45, workers=70_000, classes=n_classes
    )
    states = n_classes * levels
    confusion = rng.dirichlet(np.ones(n_classes), (labels.n_workers, states))
    log_prior, log_table = rng.normal(size=states), rng.normal(size=(labels.n_workers, n_classes, states))
    truth, uniform = rng.integers(0, states, (3, 45)), rng.random((3, 300))
    tasks = slice(7, 44)
    edges = slice(labels.task_ptr[7], labels.task_ptr[44])
    model = AnswerModel(cumulate_rows(confusion), log_prior, log_table)
    best, own = simulate_scores(labels, tasks, truth[:, tasks], uniform[:, edges], model)
    for draw in range(3):
        expected = plain_scores(labels, truth[draw], uniform[draw], model)
        np.testing.assert_allclose(best[draw], expected[0][tasks], rtol=1e-12)
        np.testing.assert_allclose(own[draw], expected[1][tasks], rtol=1e-12)


def test_the_same_labels_as_the_simulator_draws() -> None:
    rng = np.random.default_rng(0)
    labels = CrowdLabels.from_dense(rng.integers(0, 4, (50, 6)), classes=range(4))
    confusion = rng.dirichlet(np.ones(4), (6, 4))
    truth = rng.integers(0, 4, 50)
    drawn = draw_from_rows(labels.worker, truth[labels.task], confusion, np.random.default_rng(1))
    table = rng.normal(size=(6, 4, 4))
    model = AnswerModel(cumulate_rows(confusion), np.zeros(4), table)
    _, own = simulate_scores(labels, slice(0, 50), truth[None], np.random.default_rng(1).random((1, 300)), model)
    said = table[labels.worker, drawn, truth[labels.task]]
    np.testing.assert_allclose(own[0], np.bincount(labels.task, said), rtol=1e-12)
