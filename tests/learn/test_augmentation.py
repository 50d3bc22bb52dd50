"""Augmentation: what mirrors, shifts and turns do to single pixels; where it is used, and where it is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.labels.errors import InputError
from crowdwise.learn import training_loop
from crowdwise.learn.augmentation import AUGMENTATIONS, augment_images, transform_images


def numbered(height: int = 8, width: int = 16) -> torch.Tensor:
    """Three images, two channels, every pixel another number above 0."""
    return 1.0 + torch.arange(3 * 2 * height * width).reshape(3, 2, height, width)


def test_mirrors_and_shifts_move_whole_pixels() -> None:
    x, zero = numbered(), torch.zeros(3)
    found = transform_images(x, torch.tensor([1.0, -1.0, 1.0]), zero, torch.zeros(3, 2))
    assert torch.equal(found[[0, 2]], x[[0, 2]])
    assert torch.equal(found[1], x[1].flip(-1))
    right = transform_images(x, torch.ones(3), zero, torch.tensor([[2 * 2 / 16, -2 * 1 / 8]] * 3))
    assert torch.equal(right[:, :, 1:, :-2], x[:, :, :-1, 2:])
    assert (right[:, :, 0] == 0).all()
    assert (right[..., -2:] == 0).all()


def test_a_quarter_turn() -> None:
    x = numbered(8, 8)
    turned = transform_images(x, torch.ones(3), torch.full((3,), math.pi / 2), torch.zeros(3, 2))
    assert torch.equal(turned, torch.rot90(x, 1, (2, 3))) or torch.equal(turned, torch.rot90(x, -1, (2, 3)))


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_images_are_drawn_one_by_one(kind: str) -> None:
    torch.manual_seed(0)
    x = numbered()[:1].expand(200, -1, -1, -1)
    found = augment_images(x, kind)
    assert found.shape == x.shape
    kinds = len(torch.unique(found, dim=0))
    assert kinds == 2 if kind == "flip" else kinds > 20
    assert set(found.unique().tolist()) <= {0.0, *x[0].flatten().tolist()}
    mirrored = (found[:, 0, 4, 8] > found[:, 0, 4, 7]).logical_not().float().mean()
    assert 0.35 < mirrored < 0.65


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
def test_it_is_used_in_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[int] = []

    def record(x: torch.Tensor, kind: str) -> torch.Tensor:
        assert kind == "flip"
        met.append(len(x))
        return augment_images(x, kind)

    monkeypatch.setattr(training_loop, "augment_images", record)
    crowd = cw.simulate.simulate_crowd(40, 4, 2, 3, skill=0.9, random_state=0)
    x = np.random.default_rng(0).random((40, 1, 8, 8))
    plan = {"network": "cnn", "epochs": 2, "batch_size": 20, "device": "cpu", "augment": "flip"}
    model = cw.TraceRegularized(**plan, held_out=0.5).fit(x, crowd.labels)
    assert met == [20, 20]
    np.testing.assert_array_equal(model.predict_proba(x), model.predict_proba(x))
    again = cw.TraceRegularized(**plan, held_out=0.5).fit(x, crowd.labels)
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


def test_what_is_no_image_is_refused() -> None:
    crowd = cw.simulate.simulate_crowd(10, 4, 2, 3, random_state=0)
    with pytest.raises(InputError, match="augment is for images"):
        cw.TraceRegularized(augment="flip").fit(np.zeros((10, 3)), crowd.labels)
    with pytest.raises(InputError, match="augment is 'colour'; it must be one of 'flip', 'flip-shift', 'flip-rotate'"):
        cw.TraceRegularized(augment="colour").fit(np.zeros((10, 3)), crowd.labels)
