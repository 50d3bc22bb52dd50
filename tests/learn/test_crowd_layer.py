"""Crowd layer: loss and gradient against the masked dense layer of the paper, starts, and portraits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.labels.errors import InputError
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
from crowdwise.learn.crowd_layer import CrowdLayerObjective

KINDS = ("MW", "VW", "VB", "VW+B")
ignore_identifiability = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


def shaken(objective):
    """The objective in doubles, its parameters moved away from the start."""
    generator = torch.Generator().manual_seed(0)
    objective = objective.double()
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.5)
    return objective


def dense_layer(f, objective, kind):
    """Equations of the paper for all tasks and workers: (B, M, K) scores."""
    if kind == "MW":
        return torch.stack([f @ matrix for matrix in objective.matrix], dim=1)
    out = f[:, None, :]
    if kind in ("VW", "VW+B"):
        out = out * objective.scale[None]
    if kind in ("VB", "VW+B"):
        out = out + objective.shift[None]
    return out


def test_delta_is_the_diagonal_at_the_start():
    crowd = Crowd(cw.simulate.simulate_crowd(20, 5, 3, 2, random_state=1).labels)
    matrix = CrowdLayerObjective(crowd, "MW", "identity", 4.0).matrix
    np.testing.assert_array_equal(matrix[2].detach(), 4 * np.eye(3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 7])
def test_loss_and_gradients_are_those_of_the_masked_dense_layer(kind, n_classes):
    labels = cw.simulate.simulate_crowd(20, 5, n_classes, 2, random_state=1).labels
    crowd = Crowd(labels)
    objective = shaken(CrowdLayerObjective(crowd, kind, "identity"))
    logits = torch.randn(20, n_classes, dtype=torch.float64, requires_grad=True)
    edge = torch.arange(crowd.n_labels)
    batch = Batch(torch.zeros(20, 1), torch.arange(20), crowd.task, crowd.worker, crowd.label, edge)
    leaves = (logits, *objective.parameters())
    loss = objective.loss(NetworkOutput(logits, logits), batch)
    found = torch.autograd.grad(loss, leaves)

    said = np.full((20, 5), -1)
    said[labels.task, labels.worker] = labels.label
    target = torch.as_tensor(said)
    scores = dense_layer(logits.softmax(dim=1), objective, kind)
    cost = torch.nn.functional.cross_entropy(
        scores.reshape(-1, n_classes), target.reshape(-1), ignore_index=-1, reduction="sum"
    )
    expected = torch.autograd.grad(cost / 20, leaves)
    assert loss.item() == pytest.approx(cost.item() / 20, abs=1e-10)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def test_the_identity_start_says_what_the_paper_s_first_step_says():
    objective = CrowdLayerObjective(Crowd(cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 2]]))), "MW", "identity")
    batch = Batch(torch.zeros(1, 1), torch.arange(1), *(torch.tensor([value]) for value in (0, 1, 2, 0)))
    logits = torch.tensor([[0.2, 0.3, 0.5]]).log()
    # softmax of (0.2, 0.3, 0.5): its last is e^0.5 / (e^0.2 + e^0.3 + e^0.5) = 0.3907
    assert objective.loss(NetworkOutput(logits, logits), batch).item() == pytest.approx(-np.log(0.390694), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_portrait_is_what_the_layer_makes_of_a_certain_truth(kind):
    crowd = Crowd(cw.simulate.simulate_crowd(20, 4, 3, 2, random_state=1).labels)
    objective = shaken(CrowdLayerObjective(crowd, kind, "identity"))
    expected = dense_layer(torch.eye(3, dtype=torch.float64), objective, kind).softmax(dim=2).transpose(0, 1)
    torch.testing.assert_close(objective.confusion(), expected)


def test_starting_from_labels_gives_the_counted_matrices():
    labels = cw.CrowdLabels.from_dense(np.array([[0, 0, 1], [1, 1, -1], [0, -1, -1]] * 200), missing=-1)
    objective = CrowdLayerObjective(Crowd(labels), "MW", "labels")
    np.testing.assert_allclose(objective.confusion()[0].detach(), [[1, 0], [1 / 4, 3 / 4]], atol=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_without_labels_costs_nothing(kind, dtype):
    crowd = Crowd(cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1]])))
    objective = CrowdLayerObjective(crowd, kind, "identity").to(dtype)
    nobody = torch.zeros(0, dtype=torch.int64)
    logits = torch.randn(3, 2, dtype=dtype, requires_grad=True)
    loss = objective.loss(NetworkOutput(logits, logits), Batch(torch.zeros(3, 1), torch.arange(3), *(nobody,) * 4))
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(logits.grad).all()


@ignore_identifiability
@pytest.mark.parametrize(("kind", "start"), [*((kind, "identity") for kind in KINDS), ("MW", "labels")])
def test_it_learns_and_tells_the_good_from_the_bad(kind, start):
    truth = np.random.default_rng(0).integers(3, size=400)
    skill = np.array([0.9, 0.9, 0.4])
    crowd = cw.simulate.simulate_workers(
        np.array([s * np.eye(3) + (1 - s) / 2 * (1 - np.eye(3)) for s in skill]), truth=truth, random_state=1
    )
    X = np.eye(3)[truth] + np.random.default_rng(2).normal(0, 0.3, (400, 3))
    model = cw.CrowdLayer(network="linear", kind=kind, start=start, epochs=20, learning_rate=0.03)
    model.fit(X, crowd.labels)
    assert model.score(X, truth) > 0.9
    if kind == "MW":
        assert model.skill_[2] < min(model.skill_[:2])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kind": "SW"}, "kind is 'SW'; it must be one of 'MW', 'VW', 'VB', 'VW\\+B'"),
        ({"start": "zero"}, "start is 'zero'; it must be one of 'identity', 'labels'"),
        ({"start": "labels", "kind": "VB"}, "start='labels' fills matrices; kind 'VB' has none. Use kind='MW'."),
    ],
)
def test_bad_parameters_say_what_is_wrong(parameters, message):
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1], [0, 0]]))
    with pytest.raises(InputError, match=message):
        cw.CrowdLayer(**parameters).fit(np.zeros((3, 1)), labels)
