"""UnionNet: its loss against concatenated one-hot labels, the long softmax by hand, and a small crowd."""

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
from torch.nn import functional

import crowdwise as cw
from crowdwise.labels import CrowdLabels
from crowdwise.learn.batches import Crowd
from crowdwise.learn.union_net import UnionObjective, UnionTransition


@pytest.mark.parametrize("n_classes", [2, 3])
def test_loss_and_gradient_are_those_of_the_concatenated_labels(n_classes: int) -> None:
    crowd, seen = crowd_of(n_classes), seen_of(5, n_classes)
    objective = shaken(UnionObjective(crowd, 0.1))
    answers = torch.full((5, 5), -1)
    answers[crowd.task, crowd.worker] = crowd.label
    union = functional.one_hot(answers + 1, n_classes + 1)[:, :, 1:].double().flatten(1)  # (N, M K)
    stacked = torch.cat(list(objective.union.rho[:4].mT))  # (M K, K): truths in columns; worker 4 has no label
    predicted = seen.logits.softmax(dim=1) @ stacked.softmax(dim=0).T
    dense = -(union[:, : 4 * n_classes] * predicted.log()).sum() / 5
    same_with_gradients(objective.loss(seen, whole(crowd)), dense, [seen.logits, *objective.parameters()])


def test_sums_to_one_over_workers_and_labels() -> None:
    """Two workers, two classes, ε = 0: given truth 0, either says 0 with e / (2 e + 2), 1 with 1 / (2 e + 2)."""
    crowd = Crowd(CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], tasks=1, workers=2, classes=2))
    table = UnionTransition(crowd, 0.0)(crowd)
    share = np.e / (2 * np.e + 2)
    torch.testing.assert_close(table[1, 0], torch.tensor([share, 0.5 - share]).float())
    torch.testing.assert_close(table.sum(dim=(0, 2)), torch.ones(2))


def test_a_matrix_is_a_block_with_its_rows_normalised() -> None:
    crowd = crowd_of(3)
    objective = shaken(UnionObjective(crowd, 0.1))
    table = objective.union(crowd)
    torch.testing.assert_close(objective.confusion(), table / table.sum(dim=2, keepdim=True))


def test_finite_where_little_is_known() -> None:
    finite_where_little_is_known(lambda crowd: UnionObjective(crowd, 1e-5))


def test_learns_the_classifier_and_who_swaps() -> None:
    X, labels, truth, confusion = three_classes()
    model = cw.UnionNet(network="linear", epochs=60, learning_rate=0.03, device="cpu").fit(X, labels)
    assert model.score(X, truth) > 0.93
    assert np.abs(model.confusion_ - confusion).mean() < 0.08
    assert model.confusion_[3, 0].argmax() == 1


@pytest.mark.parametrize("epsilon", [-0.1, 1.5])
def test_bad_parameters(epsilon: float) -> None:
    X, labels, _, _ = three_classes(30)
    with pytest.raises(cw.InputError, match=f"epsilon is {epsilon}; it must be a number, 0 or more and at most 1"):
        cw.UnionNet(epsilon=epsilon).fit(X, labels)
