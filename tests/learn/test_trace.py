"""Trace regularisation (Tanno et al. 2019, Kim et al. 2022): the papers' formulas in dense form, and what it learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.learn.crowds import crowded
from torch.nn.functional import softplus

import crowdwise as cw
from crowdwise.labels import CrowdLabels, InputError
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
from crowdwise.learn.trace import TraceObjective
from crowdwise.learn.worker_models import Confusions, LabelEntriesAndDiagonal
from crowdwise.simulate.tanno_annotators import pairwise_flippers

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


def ragged(n_tasks: int, n_workers: int, n_classes: int, share: float, seed: int) -> CrowdLabels:
    """Labels of some workers on some tasks; the first task has none."""
    rng = np.random.default_rng(seed)
    task, worker = np.nonzero(rng.random((n_tasks, n_workers)) < share)
    task, worker = task[task > 0], worker[task > 0]
    label = rng.integers(n_classes, size=task.size)
    return CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)


def dense_loss(rho: Tensor, logits: Tensor, labels: CrowdLabels, strength: float, *, log: bool) -> Tensor:
    """Listings 1 to 3: a zero vector stands for a label that is missing; Tanno et al.'s matrices are [label, truth]."""
    n_tasks, n_classes = logits.shape
    targets = torch.zeros(n_tasks, labels.n_workers, n_classes, dtype=torch.float64)
    targets[labels.task.astype(int), labels.worker.astype(int)] = torch.eye(n_classes, dtype=torch.float64)[
        labels.label.astype(int)
    ]
    positive = softplus(rho)
    confusion = positive / positive.sum(dim=2, keepdim=True)
    predicted = torch.einsum("bk,mkl->bml", logits.softmax(dim=1), confusion)
    cross_entropy = -(targets * predicted.clamp(1e-10, 1.0).log()).sum(dim=(1, 2)).mean()
    diagonal = torch.stack([torch.diagonal(confusion[worker]) for worker in range(labels.n_workers)])
    diagonal = diagonal[np.unique(labels.worker)]  # a worker without labels has no part
    penalty = (diagonal.log() if log else diagonal).sum(dim=1).mean()
    return cross_entropy + strength * penalty


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("n_workers", "share"), [(4, 0.9), (60, 0.05)], ids=["more labels than workers", "fewer labels than workers"]
)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_loss_and_gradient_are_listing_3s(n_workers: int, share: float, n_classes: int, log: bool) -> None:
    labels = ragged(9, n_workers, n_classes, share, seed=n_classes)
    assert (labels.n_labels > n_workers) == (n_workers == 4)
    torch.manual_seed(1)
    logits = torch.randn(9, n_classes, dtype=torch.float64, requires_grad=True)
    objective = TraceObjective(Crowd(labels), 0.3, log=log).double()
    with torch.no_grad():
        objective.workers.rho += torch.randn_like(objective.workers.rho)
    crowd = objective.crowd
    edge = torch.arange(crowd.n_labels)
    batch = Batch(logits.detach(), torch.arange(9), crowd.task, crowd.worker, crowd.label, edge)
    loss = objective.loss(NetworkOutput(logits, logits), batch)
    ours = torch.autograd.grad(loss, [logits, objective.workers.rho])
    rho = objective.workers.rho.detach().clone().requires_grad_()
    dense = dense_loss(rho, logits, labels, 0.3, log=log)
    theirs = torch.autograd.grad(dense, [logits, rho])
    assert loss.item() == pytest.approx(dense.item(), abs=1e-10)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_start_is_listing_2s() -> None:
    confusion = Confusions(3, 10).double()()
    right, wrong = np.log1p(np.exp(1.0)), np.log1p(np.exp(-5.0))
    expected = np.full((10, 10), wrong / (right + 9 * wrong))
    np.fill_diagonal(expected, right / (right + 9 * wrong))
    for worker in range(3):
        np.testing.assert_allclose(confusion[worker].detach(), expected, atol=1e-7)


@pytest.mark.parametrize("log", [False, True])
def test_loss_and_gradient_from_kim_et_als_start(log: bool) -> None:
    """Appendix D of Kim et al. 2022: A = softmax(δ·I), moved a little; equation (35) in dense form."""
    labels = ragged(9, 4, 2, 0.9, seed=0)
    objective = TraceObjective(Crowd(labels), 0.3, log=log, delta=2.0).double()
    np.testing.assert_allclose(objective.confusion()[3].detach()[0], np.exp([2, 0]) / (np.exp(2) + 1), atol=1e-6)
    rho = objective.workers.rho
    with torch.no_grad():
        rho.add_(0.1 * torch.randn(rho.shape, generator=torch.Generator().manual_seed(0)))
    logits = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    crowd = objective.crowd
    batch = Batch(
        torch.zeros(9, 1), torch.arange(9), crowd.task, crowd.worker, crowd.label, torch.arange(len(crowd.task))
    )
    found = torch.autograd.grad(objective.loss(NetworkOutput(logits, logits), batch), (logits, rho))
    # softplus of what makes the same matrices: dense_loss then is the same function of ρ
    as_softplus = torch.log(torch.expm1(rho.softmax(dim=2)))
    expected = torch.autograd.grad(dense_loss(as_softplus, logits, labels, 0.3, log=log), (logits, rho))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=0)


def test_mean_trace_by_hand() -> None:
    workers = Confusions(2, 2).double()
    with torch.no_grad():
        # softplus(log(e^p - 1)) is p: rows (3, 1), (1, 1) and (1, 3), (2, 2)
        positive = torch.tensor([[[3.0, 1.0], [1.0, 1.0]], [[1.0, 3.0], [2.0, 2.0]]], dtype=torch.float64)
        workers.rho.copy_(positive.expm1().log())
    assert workers.mean_trace().item() == pytest.approx((3 / 4 + 1 / 2 + 1 / 4 + 1 / 2) / 2)


def test_gradient_of_said_and_diagonal_is_the_numerical_one() -> None:
    torch.manual_seed(0)
    rho = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)
    worker, label = torch.tensor([1, 3, 1, 1]), torch.tensor([2, 0, 2, 1])  # one worker says the same twice
    torch.autograd.gradcheck(LabelEntriesAndDiagonal.apply, (rho, worker, label))
    said, diagonal = LabelEntriesAndDiagonal.apply(rho, worker, label)
    confusion = softplus(rho) / softplus(rho).sum(dim=2, keepdim=True)
    torch.testing.assert_close(said, confusion[worker, :, label])
    torch.testing.assert_close(diagonal, confusion.diagonal(dim1=1, dim2=2))


def test_backward_twice_gives_the_same_gradient() -> None:
    workers = Confusions(3, 3)
    said, diagonal = workers.label_entries_and_diagonal(torch.tensor([0, 2]), torch.tensor([1, 1]))
    loss = 2 * diagonal.sum() + said.sum()
    first, second = (torch.autograd.grad(loss, workers.rho, retain_graph=True)[0].clone() for _ in range(2))
    assert torch.equal(first, second)


def test_recovers_classifier_and_workers_who_flip() -> None:
    crowd = pairwise_flippers(300, 5, 5, skill=0.6, random_state=0)
    X = np.random.default_rng(1).normal(size=(300, 5)) + 5 * np.eye(5)[crowd.truth]
    learnt: dict[str, Any] = {"network": "linear", "learning_rate": 0.03, "worker_learning_rate": 0.1, "epochs": 40}
    model = cw.TraceRegularized(**learnt, batch_size=32, device="cpu").fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.98
    assert np.abs(model.confusion_ - crowd.confusion).mean() < 0.05
    # A strong penalty makes the workers look more confused than they are.
    strong = cw.TraceRegularized(**learnt, batch_size=32, device="cpu", strength=3.0).fit(X, crowd.labels)
    assert np.einsum("wkk->w", strong.confusion_).mean() < np.einsum("wkk->w", crowd.confusion).mean() - 0.2


@pytest.mark.parametrize(
    ("parameters", "message"), [({"strength": -0.1}, "strength is -0.1"), ({"log": "yes"}, "log is 'yes'")]
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    data = crowded(12)
    with pytest.raises(InputError, match=message):
        cw.TraceRegularized(**parameters).fit(data.X, data.labels)


def test_own_matrices_and_refined_ones() -> None:
    """A classifier stopped early is right while the matrices have hardly left the identity: skills are the refined."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=600)
    X = 4.0 * np.eye(3)[truth] + rng.normal(size=(600, 3))
    right = rng.random((600, 3)) < np.array([0.95, 0.75, 0.55])
    said = np.where(right, truth[:, None], (truth[:, None] + 1) % 3)
    labels = cw.CrowdLabels.from_dense(said)
    model = cw.TraceRegularized(
        network="linear", epochs=8, learning_rate=0.02, worker_learning_rate=1e-4, random_state=0
    )
    model.fit(X, labels)
    np.testing.assert_allclose(model.confusion_, model.module_.confusion().detach().numpy(), atol=1e-6)
    assert model.confusion_.diagonal(axis1=1, axis2=2).min() > 0.95
    np.testing.assert_allclose(model.skill_, (said == truth[:, None]).mean(axis=0), atol=0.05)
    f = model.predict_proba(X)
    refined = refine_densely(f, said)
    np.testing.assert_allclose(model.refined_confusion_, refined, atol=1e-4)
    # Labels are read by the refined ones.
    posterior = f * np.prod([refined[w, :, said[:, w]] for w in range(3)], axis=0)
    posterior /= posterior.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X, labels), posterior, atol=1e-3)


def refine_densely(f: Any, said: Any) -> Any:
    """Ten steps of EM with the classifier (N, K) fixed, labels (N, M); an answer like the crowd's joins each row."""

    def count(posterior: Any) -> Any:
        counts = np.einsum("tk,twl->wkl", posterior, np.eye(3)[said])
        crowd = counts.sum(axis=0) + 1 / 3
        rows = counts + crowd / crowd.sum(axis=1, keepdims=True)
        return rows / rows.sum(axis=2, keepdims=True)

    confusion = count(f)
    for _ in range(10):
        posterior = f * np.prod([confusion[w, :, said[:, w]] for w in range(said.shape[1])], axis=0)
        confusion = count(posterior / posterior.sum(axis=1, keepdims=True))
    return confusion


def test_both_kinds_of_matrices_are_saved(tmp_path: Path) -> None:
    data = crowded(24)
    model = cw.TraceRegularized(network="linear", epochs=2).fit(data.X, data.labels)
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    for name in ("confusion_", "refined_confusion_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert not np.allclose(model.confusion_, model.refined_confusion_)
    np.testing.assert_array_equal(again.predict_proba(data.X, data.labels), model.predict_proba(data.X, data.labels))
