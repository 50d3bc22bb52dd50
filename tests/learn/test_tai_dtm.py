"""Transitions from anchors: each stage's loss against its dense form, who learns when, and a small crowd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.learn.crowds import (
    WIDTH,
    crowd_of,
    finite_where_little_is_known,
    one_task,
    same_with_gradients,
    seen_of,
    shaken,
    three_classes,
    whole,
)

import crowdwise as cw
from crowdwise.learn.tai_dtm import (
    CORRECTED,
    GLOBAL,
    INDIVIDUAL,
    NONE,
    WARM_UP,
    TransitionObjective,
    find_anchors,
    training_stage,
)


def objective_at(stage: int, n_classes: int) -> tuple[Any, Any]:
    """An objective in the middle of things: tasks 0, 3 and 4 are anchors, workers 0 and 2 have their own matrices."""
    crowd = crowd_of(n_classes)
    objective = shaken(TransitionObjective(crowd, WIDTH, 3, 0.75, 2))
    objective.truth.copy_(torch.tensor([1, NONE, 0, 0, 1]))
    objective.source.copy_(torch.tensor([0, 5, 2, 5, 5]))
    objective.low.copy_(torch.rand(5, 3, generator=torch.Generator().manual_seed(4)))
    objective.stage = stage
    return crowd, objective


def all_matrices(objective: Any, low: torch.Tensor) -> torch.Tensor:
    """T[task, worker, truth, label] of all pairs."""
    weight, bias = objective.head.weight[objective.source], objective.head.bias[objective.source]
    return torch.stack(
        [objective.head.normalise_to_matrices(torch.einsum("r,wrc->wc", row, weight) + bias) for row in low]
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("stage", [WARM_UP, GLOBAL, INDIVIDUAL, CORRECTED])
def test_loss_and_gradient_are_those_of_all_pairs_and_a_mask(stage: int, n_classes: int) -> None:
    crowd, objective = objective_at(stage, n_classes)
    seen = seen_of(5, n_classes)
    said = torch.zeros(5, 5, n_classes, dtype=torch.float64)
    said[crowd.task, crowd.worker, crowd.label] = 1
    f = seen.logits.softmax(dim=1)
    if stage == WARM_UP:
        dense = -(said * f.log()[:, None, :]).sum() / said.sum()
    elif stage == CORRECTED:
        T = all_matrices(objective, objective.low).detach()
        dense = -(said * torch.einsum("tk,twkl->twl", f, T).log()).sum() / said.sum()
    else:
        T = all_matrices(objective, objective.head.reduce_features(seen.features.detach()))
        rows = torch.stack([T[task, :, int(truth)] for task, truth in enumerate(objective.truth)])
        anchored = said * (objective.truth != NONE)[:, None, None]
        dense = -(anchored * rows.log()).sum() / anchored.sum()
    parameters = [seen.logits, *objective.parameters()]
    dense = dense + 0 * sum(parameter.sum() for parameter in parameters)
    ours = objective.loss(seen, whole(crowd)) + 0 * sum(parameter.sum() for parameter in parameters)
    same_with_gradients(ours, dense, parameters)


def test_stages_of_twenty_epochs() -> None:
    stages = [training_stage(epoch, 20) for epoch in range(20)]
    assert stages == 4 * [WARM_UP] + 3 * [GLOBAL] + 3 * [INDIVIDUAL] + 10 * [CORRECTED]


def test_anchors_by_hand() -> None:
    """Above .75; and of each class the surest quarter, at least one."""
    f = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8]])
    assert find_anchors(f.log(), 0.75).tolist() == [0, NONE, 1]
    assert find_anchors(f.log(), 0.95).tolist() == [0, NONE, 1]
    assert find_anchors(f[:2].log(), 0.95).tolist() == [0, 1]


def test_the_crowds_matrices_are_handed_to_those_with_enough_labels() -> None:
    """Anchors 0 and 4: workers 1, 2 and 3 have two labels there, worker 0 one, worker 4 none."""
    crowd = crowd_of(2)
    objective = shaken(TransitionObjective(crowd, WIDTH, 3, 0.75, 2))
    objective.n_epochs = 20
    log_f = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5], [0.6, 0.4], [0.1, 0.9]]).log()
    objective.begin_epoch(4, lambda: log_f)
    assert objective.truth.tolist() == [0, NONE, NONE, NONE, 1]
    assert objective.source.tolist() == [5] * 5
    objective.begin_epoch(7, lambda: log_f)
    assert objective.source.tolist() == [5, 1, 2, 3, 5]
    torch.testing.assert_close(objective.head.weight[0], objective.head.weight[5])
    torch.testing.assert_close(objective.head.bias[2], objective.head.bias[5])


def test_in_the_last_stage_only_the_classifier_learns() -> None:
    crowd, objective = objective_at(CORRECTED, 3)
    seen = seen_of(5, 3)
    objective.loss(seen, whole(crowd)).backward()
    assert seen.logits.grad.abs().max() > 0
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in objective.parameters())


def test_finite_where_little_is_known() -> None:
    finite_where_little_is_known(lambda crowd: TransitionObjective(crowd, WIDTH, 3, 0.75, 1))


@pytest.mark.parametrize("stage", [GLOBAL, INDIVIDUAL, CORRECTED])
def test_a_batch_without_labels_costs_nothing_at_any_stage(stage: int) -> None:
    crowd, objective = objective_at(stage, 3)
    assert objective.loss(seen_of(1, 3), one_task(crowd, 2)).item() == 0


def test_learns_the_classifier_and_who_swaps() -> None:
    X, labels, truth, confusion = three_classes()
    rates = {"learning_rate": 0.03, "worker_learning_rate": 0.05}
    model = cw.InstanceTransition(network="linear", epochs=60, held_out=0.0, device="cpu", **rates).fit(X, labels)
    assert model.score(X, truth) > 0.93
    assert model.confusion_[3, 0].argmax() == 1
    assert np.abs(model.confusion_ - confusion).mean() < 0.08


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": 1.5}, "threshold is 1.5; it must be a number, 0 or more and at most 1"),
        ({"rank": 0}, "rank is 0; it must be a whole number, 1 or more"),
        ({"fewest": 0}, "fewest is 0; it must be a whole number, 1 or more"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    X, labels, _, _ = three_classes(30)
    with pytest.raises(cw.InputError, match=message):
        cw.InstanceTransition(**parameters).fit(X, labels)  # type: ignore[arg-type]
