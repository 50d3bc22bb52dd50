"""Labels hidden and predicted, against plain loops."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.engines import use_engine
from crowdwise.evaluate import held_out
from crowdwise.evaluate.stacking import stacking_weights
from crowdwise.kernels import mean_opinions
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.registry import Method


def test_a_hidden_label_is_predicted_by_task_and_worker() -> None:
    """Σ_k q[t, k] A[w, k, l], where A counts the worker's kept answers and is drawn towards the crowd's."""
    labels = tiny_labels(3, 4, n_tasks=12, n_workers=4, repeats=True)
    part = next(held_out.split_into_folds(labels, 3, 0))
    model = cw.DawidSkene(smoothing=0.3).fit(part.kept)
    found = held_out.predict_held_out(model, part)
    kept = list(zip(part.kept.task, part.kept.worker, part.kept.label, strict=True))
    for row, (task, worker) in enumerate(zip(part.held.task, part.held.worker, strict=True)):
        for answer in range(3):
            chance = 0.0
            for truth in range(3):
                own = [0.0] * 3
                crowd = [held_out.UNSEEN] * 3
                for other_task, other, said in kept:
                    crowd[said] += model.posterior_[other_task, truth]
                    own[said] += model.posterior_[other_task, truth] if other == worker else 0.0
                drawn = own[answer] + held_out.DRAW * crowd[answer] / sum(crowd)
                chance += model.posterior_[task, truth] * drawn / (sum(own) + held_out.DRAW)
            assert found[row, answer] == pytest.approx(chance, abs=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


def test_prediction_with_many_classes_needs_little_memory() -> None:
    """A table of K² numbers for each hidden label at once would be 400 MB here."""
    n_classes = 100
    labels = tiny_labels(n_classes, 5, n_tasks=800, n_workers=8)
    part = next(held_out.split_into_folds(labels, 2, 0))
    model = cw.OneCoin(max_iter=2, tol=0).fit(part.kept)
    rows = np.arange(5000) % part.held.n_labels
    tracemalloc.start()
    found = held_out.predict_answers(model, part.kept, part.held.task[rows], part.held.worker[rows])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
    assert peak < 30e6


def test_every_label_is_hidden_once() -> None:
    labels = tiny_labels(2, 1, n_tasks=20)
    hidden = np.zeros(labels.n_labels, int)
    for part in held_out.split_into_folds(labels, 4, 7):
        hidden += part.hidden
        assert part.kept.n_labels + part.held.n_labels == labels.n_labels
        np.testing.assert_array_equal(part.held.label, labels.label[part.hidden])
        np.testing.assert_array_equal(part.held.worker, labels.worker[part.hidden])
    assert (hidden == 1).all()


def test_tasks_and_workers_that_lose_all_labels() -> None:
    """Two labels: each is predicted by the crowd's answers and the method's own prior alone."""
    labels = CrowdLabels.from_codes([0, 1], [0, 1], [0, 1], tasks=2, workers=2, classes=2)
    found = cw.held_out_log_probability(cw.DawidSkene(), labels, folds=2)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("method", [entry for entry in cw.methods() if not entry.needs], ids=lambda entry: entry.slug)
def test_every_method_can_be_scored(method: Method) -> None:
    """Hidden labels are predicted better than by guessing, and the probabilities of all answers sum to one."""
    crowd = simulate("one-coin", n_tasks=150, n_workers=10, n_classes=3, labels_per_task=6, random_state=0).labels
    part = next(held_out.split_into_folds(crowd, 5, 0))
    model = method.load()().fit(part.kept)
    every = held_out.predict_held_out(model, part)
    np.testing.assert_allclose(every.sum(axis=1), 1, atol=1e-9)
    assert np.log(held_out.given_answer_probabilities(every, part)).mean() > -np.log(crowd.n_classes)


@pytest.mark.parametrize("folds", [1, 0, 10**6, 2.5])
def test_impossible_folds(folds: float, crowd: CrowdLabels) -> None:
    with pytest.raises(cw.InputError, match="folds is"):
        cw.held_out_log_probability(cw.OneCoin(), crowd, folds=folds)  # type: ignore[arg-type]


def test_stacking_weights_are_the_maximum() -> None:
    generator = np.random.default_rng(0)
    given = generator.uniform(0.05, 1, (200, 4)) * np.array([1.0, 0.9, 0.8, 0.3])

    def loss(free: np.ndarray) -> float:
        weights = np.exp(free) / np.exp(free).sum()
        return -float(np.log(given @ weights).mean())

    best = minimize(loss, np.zeros(4), method="BFGS").fun
    weights = stacking_weights(given)
    assert weights.sum() == pytest.approx(1)
    assert -np.log(given @ weights).mean() == pytest.approx(best, abs=1e-4)


def test_the_error_counts_tasks_not_labels() -> None:
    labels = CrowdLabels.from_codes(
        np.repeat(np.arange(50), 4), np.tile(np.arange(4), 50), np.zeros(200, int), tasks=50, workers=4, classes=2
    )
    by_task = np.repeat(np.random.default_rng(0).normal(size=50), 4)
    assert held_out.standard_error_over_tasks(labels.task, by_task) == pytest.approx(by_task[::4].std() / np.sqrt(50))


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_mean_opinions_equal_plain_loops(engine: str) -> None:
    labels = tiny_labels(3, 2, n_tasks=9, repeats=True)
    opinions = np.random.default_rng(0).dirichlet(np.ones(3), (labels.n_workers, 3))
    otherwise = np.array([0.2, 0.3, 0.5])
    with use_engine(engine):
        found = mean_opinions(labels, opinions, otherwise)
    edges = list(zip(labels.task, labels.worker, labels.label, strict=True))
    for task in range(labels.n_tasks):
        said = [opinions[who, :, what] for at, who, what in edges if at == task]
        np.testing.assert_allclose(found[task], np.mean(said, axis=0) if said else otherwise, atol=1e-14)
