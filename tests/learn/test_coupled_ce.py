"""Coupled cross-entropy: the loss against the dense formula, its start, and a small crowd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.learn.crowds import N_CLASSES, N_WORKERS, ragged, whole, without_labels

import crowdwise as cw
from crowdwise.learn.batches import Crowd, NetworkOutput
from crowdwise.learn.coupled_ce import CoupledObjective
from crowdwise.learn.trace import TraceObjective
from crowdwise.simulate import simulate_workers


def dense_loss(logits: torch.Tensor, rho: torch.Tensor, labels: cw.CrowdLabels) -> torch.Tensor:
    """1/|S| Σ over (m, n) in S of CE(A_m f(x_n), label), one label at a time; A_m has truths in its columns."""
    total = torch.zeros((), dtype=logits.dtype)
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        a_m = torch.softmax(rho[worker], dim=1).T
        f = torch.softmax(logits[task], dim=0)
        total = total - torch.log((a_m @ f)[label])
    return total / labels.n_labels


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_loss_and_gradients_are_those_of_the_dense_formula(n_classes: int) -> None:
    labels = ragged(n_classes)
    crowd = Crowd(labels)
    objective = CoupledObjective(crowd, 0.8).double()
    torch.manual_seed(1)
    objective.workers.rho.data += torch.randn_like(objective.workers.rho)
    logits = torch.randn(5, n_classes, dtype=torch.float64, requires_grad=True)
    loss = objective.loss(NetworkOutput(logits, logits), whole(crowd))
    expected = dense_loss(logits, objective.workers.rho, labels)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
    ours = torch.autograd.grad(loss, [logits, objective.workers.rho])
    theirs = torch.autograd.grad(expected, [logits, objective.workers.rho])
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_a_worked_example() -> None:
    """f = (.5, .5), A = .9 on the diagonal: every label has probability .5 · .9 + .5 · .1 = .5."""
    labels = cw.CrowdLabels.from_codes([0, 0, 1], [0, 1, 0], [0, 1, 1], tasks=2, workers=2, classes=2)
    crowd = Crowd(labels)
    even = torch.zeros(2, 2)
    loss = CoupledObjective(crowd, 0.9).loss(NetworkOutput(even, even), whole(crowd))
    assert loss.item() == pytest.approx(np.log(2), abs=1e-6)


def test_starts_where_it_says() -> None:
    matrices = CoupledObjective(Crowd(ragged()), 0.8).confusion().detach().numpy()
    assert matrices.shape == (N_WORKERS, N_CLASSES, N_CLASSES)
    np.testing.assert_allclose(matrices, np.broadcast_to(0.7 * np.eye(3) + 0.1, matrices.shape), atol=1e-6)


def test_a_mean_over_labels_where_trace_has_one_over_tasks() -> None:
    """With the same matrices, ten labels on five tasks cost trace twice as much."""
    crowd = Crowd(ragged())
    coupled, trace = CoupledObjective(crowd, 0.8), TraceObjective(crowd, 0.0, log=False)
    coupled.workers.rho.data = trace.confusion().detach().log()
    logits = torch.randn(5, N_CLASSES)
    seen, batch = NetworkOutput(logits, logits), whole(crowd)
    assert trace.loss(seen, batch).item() == pytest.approx(2 * coupled.loss(seen, batch).item(), rel=1e-5)


def test_a_batch_without_labels_costs_nothing() -> None:
    crowd = Crowd(ragged())
    logits = torch.randn(1, N_CLASSES)
    loss = CoupledObjective(crowd, 0.8).loss(NetworkOutput(logits, logits), without_labels())
    assert loss.item() == 0


def test_learns_a_classifier_and_who_flips() -> None:
    """Two good workers and one who says the opposite: the vote is right, and so is her portrait."""
    good, opposite = [[0.9, 0.1], [0.1, 0.9]], [[0.15, 0.85], [0.85, 0.15]]
    crowd = simulate_workers([good, good, opposite], n_tasks=400, random_state=1)
    X = np.random.default_rng(1).normal(size=(400, 2)) + 3 * crowd.truth[:, None]
    model = cw.CoupledCrossEntropy(network="linear", epochs=30, learning_rate=0.05).fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.95
    assert cw.metrics.confusion_error(crowd.confusion, model.confusion_) < 0.01
    assert (model.predict(X, crowd.labels) == crowd.truth).mean() > 0.95


@pytest.mark.parametrize("start", [0, 1, -0.5, "high"])
def test_refuses_an_impossible_start(start: object) -> None:
    with pytest.raises(cw.InputError, match=r"start is .*; it must be a number, above 0 and at most 0.999"):
        cw.CoupledCrossEntropy(start=start).fit(np.zeros((5, 1)), ragged())
