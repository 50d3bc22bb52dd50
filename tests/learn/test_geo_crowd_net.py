"""GeoCrowdNet: the criterion of Ibrahim et al. 2025 against its dense form, hand-worked volumes, and a small crowd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
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
from crowdwise.learn.geo_crowd_net import RIDGE, GeoObjective, volume_of_workers
from crowdwise.learn.losses import volume_of_outputs


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("regularizer", ["F", "W"])
def test_loss_and_gradient_are_those_of_the_dense_criterion(n_classes: int, regularizer: str) -> None:
    crowd, seen = crowd_of(n_classes), seen_of(5, n_classes)
    objective = shaken(GeoObjective(crowd, regularizer, 0.3))
    said = torch.zeros(5, 5, n_classes, dtype=torch.float64)  # [task, worker, label]
    said[crowd.task, crowd.worker, crowd.label] = 1
    columns = objective.confusion().mT  # Ibrahim et al.'s A_m: truths in columns
    F = seen.logits.softmax(dim=1).T
    predicted = torch.einsum("mlk,kn->nml", columns, F)
    dense = -(said * predicted.log()).sum() / said.sum()
    W = columns[:4].reshape(-1, n_classes)  # worker 4 has no label
    gram = F @ F.T if regularizer == "F" else W.T @ W
    dense = dense - 0.3 * torch.logdet(gram + RIDGE * torch.eye(n_classes))
    same_with_gradients(objective.loss(seen, whole(crowd)), dense, [seen.logits, *objective.parameters()])


def test_volumes_by_hand() -> None:
    """Three sure tasks of class 0 and two of class 1: F Fᵀ = diag(3, 2). Two perfect workers: Wᵀ W = 2 I."""
    f = torch.eye(2)[[0, 0, 0, 1, 1]]
    assert volume_of_outputs(f, 0.0).item() == pytest.approx(np.log(6), abs=1e-6)
    assert volume_of_workers(torch.eye(2).repeat(2, 1, 1), 0.0).item() == pytest.approx(np.log(4), abs=1e-6)


def test_the_volume_is_finite_where_all_tasks_look_alike() -> None:
    f = torch.full((6, 3), 1 / 3, requires_grad=True)
    volume = volume_of_outputs(f, RIDGE)
    volume.backward()
    assert volume.isfinite()
    assert f.grad is not None
    assert f.grad.isfinite().all()


def test_the_volume_is_taken_in_single_precision_where_there_is_none_in_half() -> None:
    assert volume_of_outputs(torch.eye(3, dtype=torch.bfloat16), RIDGE).dtype == torch.float32


@pytest.mark.parametrize("regularizer", ["F", "W"])
def test_finite_where_little_is_known(regularizer: str) -> None:
    finite_where_little_is_known(lambda crowd: GeoObjective(crowd, regularizer, 0.01))


@pytest.mark.parametrize("regularizer", ["F", "W"])
def test_learns_the_classifier_and_who_swaps(regularizer: str) -> None:
    X, labels, truth, confusion = three_classes()
    model = cw.GeoCrowdNet(regularizer=regularizer, network="linear", epochs=60, learning_rate=0.02, device="cpu")
    model.fit(X, labels)
    assert model.slug == f"geo-{regularizer.lower()}"
    assert model.score(X, truth) > 0.93
    assert np.abs(model.confusion_ - confusion).mean() < 0.12
    assert model.confusion_[3, 0].argmax() == 1


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")  # so strong that classes swap
def test_a_strong_volume_spreads_what_it_is_of() -> None:
    """The larger λ, the surer the classifier's outputs ("F") and the matrices ("W")."""
    X, labels, _, _ = three_classes(150)

    def fitted(regularizer: str, strength: float) -> cw.GeoCrowdNet:
        shared = {"network": "linear", "epochs": 20, "learning_rate": 0.02, "held_out": 0.0, "device": "cpu"}
        return cw.GeoCrowdNet(regularizer=regularizer, strength=strength, **shared).fit(X, labels)

    assert fitted("F", 1.0).predict_proba(X).max(axis=1).mean() > fitted("F", 0.0).predict_proba(X).max(axis=1).mean()
    assert fitted("W", 1.0).skill_.mean() > fitted("W", 0.0).skill_.mean()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"regularizer": "A"}, "regularizer is 'A'; it must be one of 'F', 'W'"),
        ({"strength": -1}, "strength is -1; it must be a number, 0 or more"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    X, labels, _, _ = three_classes(30)
    with pytest.raises(cw.InputError, match=message):
        cw.GeoCrowdNet(**parameters).fit(X, labels)  # type: ignore[arg-type]
