"""COINNet: its criterion against the dense form, a hand-worked outlier, and odd tasks found by their score."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from tests.learn.crowds import (
    crowd_of,
    finite_where_little_is_known,
    same_with_gradients,
    seen_of,
    shaken,
    three_classes,
    whole,
)

import crowdwise as cw
from crowdwise.learn.batches import Batch
from crowdwise.learn.coinnet import CoinObjective, outlier_label_probability, outlier_penalty, project_to_zero_sum
from crowdwise.learn.geo_crowd_net import RIDGE


@pytest.mark.parametrize("n_classes", [2, 3])
def test_loss_and_gradient_are_those_of_the_dense_criterion(n_classes: int) -> None:
    """Tasks × workers × classes, with a mask; about one in ten of A f + e is clipped."""
    crowd, seen = crowd_of(n_classes), seen_of(5, n_classes)
    objective = shaken(CoinObjective(crowd, 0.2, 0.4, 0.3))
    mask = torch.zeros(5, 5, dtype=torch.float64)
    mask[crowd.task, crowd.worker] = 1
    label = torch.zeros(5, 5, dtype=torch.int64)
    label[crowd.task, crowd.worker] = crowd.label
    dense = torch.zeros(5, 5, n_classes, dtype=torch.float64)
    e = dense.index_put((crowd.task, crowd.worker), objective.free)
    e = e - e.mean(dim=2, keepdim=True)
    F = seen.logits.softmax(dim=1).T
    p = torch.einsum("mkl,kn->nml", objective.confusion(), F) + e
    assert (p[mask > 0] < 0).any()
    p = p.clamp(min=1e-10)
    p = p / p.sum(dim=2, keepdim=True)
    cost = -(mask * p.gather(2, label[..., None]).squeeze(2).log()).sum() / mask.sum()
    price = ((e.square().sum(dim=2) * mask).sum(dim=1) + 1e-10).pow(0.2).mean()
    expected = cost + 0.2 * price - 0.3 * torch.logdet(F @ F.T + RIDGE * torch.eye(n_classes))
    same_with_gradients(objective.loss(seen, whole(crowd)), expected, [seen.logits, *objective.parameters()])


def one_label() -> Batch:
    zero = torch.zeros(1, dtype=torch.int64)
    return Batch(torch.zeros(1, 1), zero, zero, zero, torch.ones(1, dtype=torch.int64), zero)


def test_an_outlier_by_hand() -> None:
    """A f = (.9, .1), e = (−.3, .3): the label 1 has probability .4. With e = (−1.2, 1.2), the clip leaves 1."""
    f, confusion = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.9, 0.1], [0.1, 0.9]]])
    assert outlier_label_probability(
        f, confusion, project_to_zero_sum(torch.tensor([[0.0, 0.6]])), one_label()
    ).item() == pytest.approx(0.4)
    assert outlier_label_probability(
        f, confusion, project_to_zero_sum(torch.tensor([[0.0, 2.4]])), one_label()
    ).item() == pytest.approx(1.0)


def test_the_price_by_hand() -> None:
    """‖(−.3, .3)‖² = .18; to the power 0.2."""
    e = torch.tensor([[-0.3, 0.3]])
    assert outlier_penalty(e, one_label(), 0.4).item() == pytest.approx(0.18**0.2, rel=1e-5)


def test_finite_where_little_is_known() -> None:
    finite_where_little_is_known(lambda crowd: CoinObjective(crowd, 0.01, 0.4, 0.01))


def test_there_are_k_numbers_for_each_label() -> None:
    crowd = crowd_of(3)
    assert CoinObjective(crowd, 0.01, 0.4, 0.01).free.shape == (crowd.n_labels, 3)


def with_odd_tasks() -> tuple[np.ndarray, cw.CrowdLabels, np.ndarray, np.ndarray]:
    """In a tenth of the tasks, all are led to the class after the true one, nine times in ten."""
    rng = np.random.default_rng(2)
    truth, odd = rng.integers(3, size=400), rng.random(400) < 0.1
    centres = 2.5 * np.array([[0, 1], [-1, -1], [1, -1]])
    X = (centres[truth] + rng.normal(size=(400, 2))).astype(np.float32)
    meant = np.where(odd, (truth + 1) % 3, truth)[:, None]
    said = np.where(rng.random((400, 5)) < 0.9, meant, rng.integers(3, size=(400, 5)))
    return X, cw.CrowdLabels.from_dense(said), truth, odd


def test_odd_tasks_have_high_scores() -> None:
    X, labels, truth, odd = with_odd_tasks()
    shared = {"network": "linear", "epochs": 40, "learning_rate": 0.02, "device": "cpu"}
    model = cw.CoinNet(**shared, held_out=0.0).fit(X, labels)
    score = np.asarray(model.consensus()["oddness"])
    assert (score >= 0).all()
    assert roc_auc_score(odd, score) > 0.9
    assert model.score(X, truth) > 0.93


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")  # it has learnt nothing yet
def test_tasks_held_out_have_no_score() -> None:
    X, labels, _, _ = three_classes(100)
    model = cw.CoinNet(network="linear", epochs=2, held_out=0.2, device="cpu").fit(X, labels)
    assert np.isnan(np.asarray(model.consensus()["oddness"])).sum() == 20


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"outlier_price": -1}, "outlier_price is -1; it must be a number, 0 or more"),
        ({"power": 0}, "power is 0; it must be a number, above 0 and at most 2"),
        ({"strength": "x"}, "strength is 'x'; it must be a number, 0 or more"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    X, labels, _, _ = three_classes(30)
    with pytest.raises(cw.InputError, match=message):
        cw.CoinNet(**parameters).fit(X, labels)  # type: ignore[arg-type]
