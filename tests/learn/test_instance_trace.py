"""Matrices by task and worker: the loss against the dense form, and a worker who errs on one side of the plane only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.learn.crowds import (
    WIDTH,
    crowd_of,
    finite_where_little_is_known,
    same_with_gradients,
    seen_of,
    shaken,
    three_classes,
    whole,
)
from torch.nn import functional

import crowdwise as cw
from crowdwise.learn.batches import Batch, NetworkOutput
from crowdwise.learn.instance_trace import InstanceObjective, losses_of_labels
from crowdwise.learn.worker_models import Confusions


@pytest.mark.parametrize("n_classes", [2, 3])
def test_loss_and_gradient_are_those_of_all_pairs_and_a_mask(n_classes: int) -> None:
    crowd, seen = crowd_of(n_classes), seen_of(5, n_classes)
    objective = shaken(InstanceObjective(crowd, WIDTH, 3, 0.2, 0.3))
    head = objective.head
    low = functional.relu(seen.features @ head.down.weight.T + head.down.bias)
    raw = torch.einsum("tr,wrc->twc", low, head.weight) + head.bias
    T = functional.softplus(raw.view(5, 5, n_classes, n_classes))
    T = T / T.sum(dim=3, keepdim=True)  # [task, worker, truth, label]
    p = torch.einsum("tk,twkl->twl", seen.logits.softmax(dim=1), T)
    said = torch.zeros(5, 5, n_classes, dtype=torch.float64)
    said[crowd.task, crowd.worker, crowd.label] = 1
    mask = said.sum(dim=2)
    trace = torch.einsum("twkk->tw", T)
    dense = (-(said * p.log()).sum() + 0.2 * (mask * trace).sum()) / mask.sum()
    same_with_gradients(objective.loss(seen, whole(crowd)), dense, [*seen, *objective.parameters()])


def test_the_start_is_that_of_trace_regularisation_whatever_the_features() -> None:
    crowd = crowd_of(3)
    objective = InstanceObjective(crowd, WIDTH, 3, 0.01, 0.3)
    matrices = objective.head(seen_of(5, 3, torch.float32).features, whole(crowd))
    torch.testing.assert_close(matrices, Confusions(1, 3)().expand_as(matrices))


def test_a_label_by_hand() -> None:
    """f = (.6, .4), T = ((.9, .1), (.3, .7)): label 1 has probability .06 + .28."""
    zero = torch.zeros(1, dtype=torch.int64)
    batch = Batch(torch.zeros(1, 1), zero, zero, zero, zero + 1, zero)
    loss = losses_of_labels(torch.tensor([[0.6, 0.4]]), torch.tensor([[[0.9, 0.1], [0.3, 0.7]]]), batch)
    assert loss.item() == pytest.approx(-np.log(0.34), rel=1e-5)


def test_finite_where_little_is_known() -> None:
    finite_where_little_is_known(lambda crowd: InstanceObjective(crowd, WIDTH, 3, 0.01, 0.3))


def one_sided() -> tuple[np.ndarray, cw.CrowdLabels, np.ndarray]:
    """Worker 3 is right where the second feature is above 0, and says the other class below; it tells nothing else."""
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=600)
    X = rng.normal(size=(600, 2)).astype(np.float32)
    X[:, 0] += 4.0 * truth - 2.0
    said = np.where(rng.random((600, 4)) < 0.85, truth[:, None], 1 - truth[:, None])
    said[:, 3] = np.where(X[:, 1] > 0, truth, 1 - truth)
    return X, cw.CrowdLabels.from_dense(said), truth


def test_learns_on_which_tasks_a_worker_errs() -> None:
    X, labels, truth = one_sided()
    rates = {"learning_rate": 0.03, "worker_learning_rate": 0.003}
    model = cw.InstanceTrace(network="linear", epochs=60, held_out=0.0, device="cpu", **rates).fit(X, labels)
    assert model.score(X, truth) > 0.93
    objective = model.module_
    three, zero = torch.full((2,), 3), torch.zeros(2, dtype=torch.int64)
    points = torch.tensor([[0.0, 1.5], [0.0, -1.5]])
    seen = model.network_.logits_and_representation(points)
    assert isinstance(seen, NetworkOutput)
    above, below = objective.head(seen.features, Batch(points, zero, torch.arange(2), three, zero, zero))
    assert above.diagonal().mean() > 0.7
    assert below.diagonal().mean() < 0.3
    assert 0.2 < model.confusion_[3].diagonal().mean() < 0.6
    assert model.confusion_[:3].diagonal(axis1=1, axis2=2).min() > 0.75


def test_the_matrices_stand_still_in_the_warm_up_and_the_classifier_does_not() -> None:
    crowd, seen = crowd_of(3), seen_of(5, 3, torch.float32)
    objective = InstanceObjective(crowd, WIDTH, 3, 0.01, 0.5)
    objective.n_epochs = 4
    moved = []
    for epoch in range(4):
        objective.begin_epoch(epoch, crowd.task_vote_shares)
        logits, bias = torch.autograd.grad(objective.loss(seen, whole(crowd)), [seen.logits, objective.head.bias])
        assert logits.abs().max() > 0
        moved.append(bool(bias.abs().max() > 0))
    assert moved == [False, False, True, True]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"strength": -1}, "strength is -1; it must be a number, 0 or more"),
        ({"rank": 0}, "rank is 0; it must be a whole number, 1 or more"),
        ({"warm_up": 1}, "warm_up is 1; it must be a number, 0 or more and at most 0.9"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    X, labels, _, _ = three_classes(30)
    with pytest.raises(cw.InputError, match=message):
        cw.InstanceTrace(**parameters).fit(X, labels)  # type: ignore[arg-type]
