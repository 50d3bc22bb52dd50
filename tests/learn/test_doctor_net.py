"""Doctor net: costs and gradients against loops over tasks and workers, the two stages, and who has a say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.labels.errors import InputError
from crowdwise.learn import doctor_net
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
from crowdwise.learn.doctor_net import DoctorObjective, weighting_cost

ignore_identifiability = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


def whole(crowd):
    edge = torch.arange(crowd.n_labels)
    tasks = torch.arange(crowd.n_tasks)
    return Batch(torch.zeros(crowd.n_tasks, 1), tasks, crowd.task, crowd.worker, crowd.label, edge)


def seen_of(features, n_classes):
    return NetworkOutput(torch.zeros(len(features), n_classes, dtype=features.dtype), features)


@pytest.mark.parametrize("n_classes", [2, 7])
def test_the_first_stage_costs_each_label_under_its_worker_s_head(n_classes):
    labels = cw.simulate.simulate_crowd(15, 5, n_classes, 2, random_state=1).labels
    objective = DoctorObjective(Crowd(labels), 4, weighted=False).double()
    features = torch.randn(15, 4, dtype=torch.float64, requires_grad=True)
    leaves = (features, objective.heads, objective.bias)
    loss = objective.loss(seen_of(features, n_classes), whole(objective.crowd))
    found = torch.autograd.grad(loss, leaves)
    cost = torch.zeros((), dtype=torch.float64)
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        scores = objective.heads[int(worker)] @ features[int(task)] + objective.bias[int(worker)]
        cost = cost - scores.log_softmax(dim=0)[int(label)]
    expected = torch.autograd.grad(cost / 15, leaves)
    assert loss.item() == pytest.approx(cost.item() / 15, abs=1e-10)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def test_the_second_stage_weighs_those_who_did_not_label_a_task():
    said = np.array([[0, 0, -1, -1], [1, -1, 0, -1], [1, 0, 1, -1], [-1, -1, -1, -1]])  # the last worker has no labels
    crowd = Crowd(cw.CrowdLabels.from_dense(said, missing=-1, classes=[0, 1]))
    assert crowd.n_workers == 4
    objective = DoctorObjective(crowd, 3, weighted=True).double()
    with torch.no_grad():
        objective.logits.copy_(torch.tensor([0.5, -0.3, 0.2, 9.0]))
    objective.weighing = True
    features = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    loss = objective.loss(seen_of(features, 2), whole(crowd))
    (found,) = torch.autograd.grad(loss, objective.logits)
    others = [[2], [1], [0, 1, 2], None]  # task 2 was labelled by all who have labels: all are weighed
    cost = torch.zeros((), dtype=torch.float64)
    for task, heard in enumerate(others):
        if heard is None:
            continue
        weights = objective.logits[heard].softmax(dim=0)
        scores = objective.heads[heard] @ features[task].detach() + objective.bias[heard]
        mean = (weights[:, None] * scores.softmax(dim=1)).sum(dim=0).log()
        votes = np.bincount(said[task][said[task] >= 0], minlength=2)
        cost = cost - (torch.as_tensor(votes / votes.sum()) * mean).sum()
    (expected,) = torch.autograd.grad(cost / 4, objective.logits)
    assert loss.item() == pytest.approx(cost.item() / 4, abs=1e-10)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-8)
    assert found[3] == 0


def test_in_the_second_stage_only_the_weights_have_gradients():
    crowd = Crowd(cw.simulate.simulate_crowd(10, 4, 3, 2, random_state=0).labels)
    objective = DoctorObjective(crowd, 2, weighted=True)
    objective.n_epochs = 8
    features = torch.randn(10, 2, requires_grad=True)
    for epoch, second in ((0, False), (5, False), (6, True), (7, True)):
        objective.begin_epoch(epoch, lambda: features)
        objective.zero_grad(set_to_none=True)
        features.grad = None
        objective.loss(seen_of(features, 3), whole(crowd)).backward()
        assert (objective.heads.grad is None) == second
        assert (features.grad is None) == second
        assert (objective.logits.grad is not None) == second


@pytest.mark.parametrize("held", [1, 2**24])
def test_the_mean_of_the_heads_leaves_out_who_has_no_labels(monkeypatch, held):
    monkeypatch.setattr(doctor_net, "MOST_HELD", held)  # with 1, a worker at a time
    labels = cw.CrowdLabels.from_codes([0, 1], [0, 2], [0, 1], tasks=2, workers=3, classes=2)
    objective = DoctorObjective(Crowd(labels), 4, weighted=True)
    with torch.no_grad():
        objective.logits.copy_(torch.tensor([1.0, 5.0, 0.0]))
    features = torch.randn(5, 4)
    found = objective.log_f(seen_of(features, 2)).exp().detach()
    heads = [(features @ objective.heads[w].T + objective.bias[w]).softmax(dim=1) for w in (0, 2)]
    share = 1 / (1 + np.exp(-1.0))
    torch.testing.assert_close(found, (share * heads[0] + (1 - share) * heads[1]).detach())


@pytest.mark.parametrize("weighing", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_without_labels_costs_nothing(weighing, dtype):
    objective = DoctorObjective(Crowd(cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1]]))), 3, weighted=True)
    objective.to(dtype).weighing = weighing
    nobody = torch.zeros(0, dtype=torch.int64)
    features = torch.randn(3, 3, dtype=dtype, requires_grad=True)
    loss = objective.loss(seen_of(features, 2), Batch(torch.zeros(3, 1), torch.arange(3), *(nobody,) * 4))
    loss.backward()
    assert loss.item() == 0


def test_the_weights_find_the_one_who_agrees_with_the_others():
    """Three heads, of which the third contradicts what the tasks' labels say."""
    crowd = Crowd(cw.CrowdLabels.from_dense(np.array([[0, -1, -1], [1, -1, -1], [-1, 0, -1], [-1, 1, -1]]), missing=-1))
    right = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]])
    said = torch.stack([right, right, 1 - right], dim=1)
    logits = torch.zeros(3, requires_grad=True)
    weighting_cost(said, logits, whole(crowd)).backward()
    assert logits.grad[2] > 0  # downhill is less weight
    assert logits.grad[0] < 0
    assert logits.grad[1] < 0


@ignore_identifiability
@pytest.mark.parametrize("weighted", [False, True])
def test_it_learns(weighted):
    crowd = cw.simulate.simulate_crowd(300, 6, 3, 3, skill=0.8, random_state=0)
    X = np.eye(3)[crowd.truth] + np.random.default_rng(0).normal(0, 0.3, (300, 3))
    model = cw.DoctorNet(network="mlp", weighted=weighted, epochs=12, learning_rate=0.01, held_out=0)
    model.fit(X, crowd.labels)
    assert model.slug == ("weighted-doctor-net" if weighted else "doctor-net")
    assert model.score(X, crowd.truth) > 0.9
    assert model.confusion_.shape == (6, 3, 3)
    assert bool(model.module_.logits.any()) == weighted


def test_bad_parameters_say_what_is_wrong():
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1], [0, 0]]))
    with pytest.raises(InputError, match="weighted is 'yes'; it must be True or False"):
        cw.DoctorNet(weighted="yes").fit(np.zeros((3, 1)), labels)
