"""Images changed at random as they are met in training: mirrored, shifted, rotated, on the device that holds them.

What is laid bare at the edges is black, as torchvision's `RandomCrop(padding=…)` and `RandomRotation` leave it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import affine_grid, grid_sample

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AUGMENTATIONS", "augment_images", "check_augmentable"]

AUGMENTATIONS = ("flip", "flip-shift", "flip-rotate")
LARGEST_SHIFT = 1 / 8  # of height and width: the usual 4 of CIFAR's 32 pixels
LARGEST_ANGLE = math.pi / 4  # the 45 degrees of Cao et al.'s (2019) program for cats and dogs


def augment_images(x: Tensor, kind: str) -> Tensor:
    """Images (B, C, H, W), each mirrored left to right or not and, by its kind, shifted or rotated at random."""
    size, device = len(x), x.device
    mirror = 2.0 * torch.randint(2, (size,), device=device) - 1
    angle = torch.zeros(size, device=device)
    shift = torch.zeros(size, 2, device=device)
    if kind == "flip-shift":
        for axis, length in enumerate((x.shape[3], x.shape[2])):
            most = int(LARGEST_SHIFT * length)
            shift[:, axis] = torch.randint(-most, most + 1, (size,), device=device) * 2 / length
    elif kind == "flip-rotate":
        angle = LARGEST_ANGLE * (2 * torch.rand(size, device=device) - 1)
    return transform_images(x, mirror, angle, shift)


def transform_images(x: Tensor, mirror: Tensor, angle: Tensor, shift: Tensor) -> Tensor:
    """Images (B, C, H, W) rotated by `angle` (B,), then shifted by `shift` (B, 2), mirrored where `mirror` (B,) is -1.

    Of a shift, 2 is the whole width or height. Each pixel is that of the original nearest to where it comes from.
    """
    cos, sin = angle.cos(), angle.sin()
    across = torch.stack([cos * mirror, -sin, shift[:, 0]], dim=1)
    down = torch.stack([sin * mirror, cos, shift[:, 1]], dim=1)
    theta = torch.stack([across, down], dim=1).to(x.dtype)
    grid = affine_grid(theta, list(x.shape), align_corners=False)
    return grid_sample(x, grid, mode="nearest", padding_mode="zeros", align_corners=False)


def check_augmentable(shape: tuple[int, ...]) -> None:
    """Refuse features of a task that are no image."""
    if len(shape) != 3:
        raise InputError(
            f"augment is for images (channels, height, width); the features of a task have shape {shape}. Leave it out."
        )
