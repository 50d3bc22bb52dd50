"""Model-bootstrapped EM: one step against algorithm 3 of Tanno et al. 2019, and crowds with one label a task."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.learn.crowds import N_CLASSES, N_TASKS, logits_of, ragged, whole

import crowdwise as cw
from crowdwise.learn.batches import Crowd, NetworkOutput
from crowdwise.learn.mbem import MbemObjective
from crowdwise.simulate import simulate_workers

FLIPPER, GOOD = [[0.15, 0.85], [0.85, 0.15]], [[0.9, 0.1], [0.1, 0.9]]


def algorithm_3(labels: cw.CrowdLabels, f: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """One step, element by element: A and q; tasks without labels are no training tasks."""
    table = np.full((labels.n_tasks, labels.n_workers), -1)
    table[labels.task, labels.worker] = labels.label
    n_classes, c = f.shape[1], f.argmax(axis=1)
    confusion = np.empty((labels.n_workers, n_classes, n_classes))
    for r, j, i in np.ndindex(confusion.shape):
        there = table[:, r] != -1
        above = (there & (table[:, r] == i) & (c == j)).sum() + smoothing
        confusion[r, j, i] = above / ((there & (c == j)).sum() + n_classes * smoothing)
    training = (table != -1).any(axis=1)
    prior = np.array([(c[training] == k).mean() for k in range(n_classes)])
    q = np.tile(np.maximum(prior, 1e-10), (labels.n_tasks, 1))
    for n, r in np.argwhere(table != -1):
        q[n] *= confusion[r, :, table[n, r]]
    return confusion, q / q.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_a_step_is_algorithm_3_s(n_classes: int) -> None:
    labels = ragged(n_classes)
    log_f = logits_of(n_classes).detach().log_softmax(dim=1)
    objective = MbemObjective(Crowd(labels), None, 0.2).double()
    objective.n_epochs = 2
    objective.begin_epoch(1, lambda: log_f)
    confusion, posterior = algorithm_3(labels, log_f.exp().numpy(), 0.2)
    np.testing.assert_allclose(objective.confusion(), confusion, atol=1e-12)
    np.testing.assert_allclose(objective.posterior, posterior, atol=1e-12)


def test_loss_and_gradient_are_those_of_the_m_step() -> None:
    crowd = Crowd(ragged())
    objective = MbemObjective(crowd, None, 0.2).double()
    objective.update_posterior_and_confusions(logits_of(seed=5).detach())
    logits = logits_of()
    loss = objective.loss(NetworkOutput(logits, logits), whole(crowd))
    log_f = torch.log(logits.exp() / logits.exp().sum(dim=1, keepdim=True))
    assert loss.item() == pytest.approx(-(objective.posterior * log_f).sum().item() / N_TASKS, abs=1e-12)
    expected = (logits.softmax(dim=1) - objective.posterior).detach() / N_TASKS
    torch.testing.assert_close(torch.autograd.grad(loss, logits)[0], expected, atol=1e-12, rtol=0)
    assert logits.shape == (N_TASKS, N_CLASSES)


def test_one_label_a_task_is_enough_to_tell_who_flips() -> None:
    """Where plain EM stays at the identity."""
    crowd = simulate_workers([GOOD, GOOD, GOOD, FLIPPER], n_tasks=800, labels_per_task=1, random_state=1)
    X = np.random.default_rng(1).normal(size=(800, 2)) + 3 * crowd.truth[:, None]
    model = cw.ModelBootstrappedEm(network="linear", epochs=10, learning_rate=0.05).fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.95
    assert cw.metrics.confusion_error(crowd.confusion, model.confusion_) < 0.02


def test_the_last_classifier_grades_the_workers_on_all_labels() -> None:
    crowd = simulate_workers([GOOD, GOOD, GOOD, FLIPPER], n_tasks=200, labels_per_task=2, random_state=2)
    X = np.random.default_rng(1).normal(size=(200, 2)) + 3 * crowd.truth[:, None]
    model = cw.ModelBootstrappedEm(network="linear", epochs=20, learning_rate=0.05, held_out=0.3)
    model.fit(X, crowd.labels)
    confusion, _ = algorithm_3(crowd.labels, model.predict_proba(X), 0.01)
    np.testing.assert_allclose(model.confusion_, confusion, atol=1e-5)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"steps": 1.5}, r"steps is 1.5; it must be a whole number, 1 or more"),
        ({"smoothing": -1}, r"smoothing is -1; it must be a number, above 0"),
    ],
)
def test_refuses_bad_parameters(bad: dict[str, object], message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        cw.ModelBootstrappedEm(**bad).fit(np.zeros((N_TASKS, 1)), ragged())
