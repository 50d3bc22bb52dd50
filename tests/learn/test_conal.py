"""CoNAL: its loss against the authors' dense form, shares and layers by hand, and a crowd with a common mistake."""

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
from crowdwise.learn.conal import CommonObjective, label_logits, layer_distance, mix_layers


@pytest.mark.parametrize("n_classes", [2, 3])
def test_loss_and_gradient_are_those_of_all_workers_and_a_mask(n_classes: int) -> None:
    crowd, seen = crowd_of(n_classes), seen_of(5, n_classes)
    objective = shaken(CommonObjective(crowd, WIDTH, 6, 0.01))
    f = seen.logits.softmax(dim=1)
    tasks = functional.normalize(objective.of_task(seen.features))
    workers = functional.normalize(objective.of_worker.weight)
    share = torch.einsum("tj,wj->tw", tasks, workers).sigmoid()[:, :, None]
    everyone = torch.einsum("tk,kl->tl", f, objective.common)[:, None, :]
    alone = torch.einsum("tk,wkl->twl", f, objective.own)
    logits = share * everyone + (1 - share) * alone
    answers = torch.full((5, 5), -1)
    answers[crowd.task, crowd.worker] = crowd.label
    mask = answers != -1
    dense = functional.cross_entropy(logits[mask], answers[mask])
    dense = dense - 0.01 * (objective.own - objective.common)[:4].reshape(4, -1).norm(dim=1).sum()
    same_with_gradients(objective.loss(seen, whole(crowd)), dense, [*seen, *objective.parameters()])


def test_layers_by_hand() -> None:
    """A quarter of 2 I and three quarters of the swap: truth 0 has logits (.5, 1.5)."""
    common, own = 2 * torch.eye(2), torch.tensor([[[0.0, 2.0], [2.0, 0.0]]])
    layers = mix_layers(torch.tensor([0.25]), common, own)
    torch.testing.assert_close(label_logits(torch.tensor([[1.0, 0.0]]), layers), torch.tensor([[0.5, 1.5]]))
    assert layer_distance(common, own).item() == pytest.approx(4.0)


def test_starts_with_all_layers_alike_and_finite_gradients() -> None:
    crowd = crowd_of(3)
    objective = CommonObjective(crowd, WIDTH, 6, 1.0)
    objective.loss(seen_of(5, 3, torch.float32), whole(crowd)).backward()
    assert all(parameter.grad.isfinite().all() for parameter in objective.parameters())
    e2 = np.exp(2.0)
    fresh = CommonObjective(crowd, WIDTH, 6, 1.0).confusion()
    torch.testing.assert_close(fresh[0], (torch.eye(3) * (e2 - 1) + 1) / (e2 + 2))


def test_a_workers_matrix_is_the_mean_over_her_labels_of_one_epoch() -> None:
    crowd = crowd_of(3)
    objective = shaken(CommonObjective(crowd, WIDTH, 6, 0.0))
    seen, batch = seen_of(5, 3), whole(crowd)
    for _ in range(2):
        objective.begin_epoch(0, crowd.task_vote_shares)
        objective.loss(seen, batch)
    layers = mix_layers(objective.common_share(seen.features, batch), objective.common, objective.own[batch.worker])
    hers = batch.worker == 2
    f = seen.logits.softmax(dim=1)[batch.owner][hers]
    rows = torch.einsum("ek,ekl->kl", f, layers[hers].softmax(dim=2)) / f.sum(dim=0)[:, None]
    torch.testing.assert_close(objective.confusion()[2], rows)


def test_finite_where_little_is_known() -> None:
    finite_where_little_is_known(lambda crowd: CommonObjective(crowd, WIDTH, 6, 1e-5))


def test_learns_the_classifier_and_who_swaps() -> None:
    X, labels, truth, _ = three_classes()
    model = cw.Conal(network="linear", epochs=60, learning_rate=0.03, device="cpu").fit(X, labels)
    assert model.score(X, truth) > 0.93
    assert model.confusion_[3, 0].argmax() == 1
    assert model.skill_[:3].min() > model.skill_[3]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"strength": -1e-5}, "strength is -1e-05; it must be a number, 0 or more"),
        ({"embedding": 0}, "embedding is 0; it must be a whole number, 1 or more"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    X, labels, _, _ = three_classes(30)
    with pytest.raises(cw.InputError, match=message):
        cw.Conal(**parameters).fit(X, labels)  # type: ignore[arg-type]
