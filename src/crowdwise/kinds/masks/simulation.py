"""A simulated crowd that outlines regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy.ndimage import gaussian_filter

from crowdwise.kinds.masks.answers import Masks
from crowdwise.kinds.masks.distance_maps import signed_distance
from crowdwise.kinds.masks.run_lengths import encode_run_lengths
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters
from crowdwise.kinds.simulator_parameters import Range, Share, check_numbers

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray

__all__ = ["Outlining", "simulate_masks"]


@dataclass(frozen=True, kw_only=True)
class Outlining:
    """How workers outline a region.

    Attributes
    ----------
    jitter
        Smallest and largest standard deviation of a worker's outline about the true one, in pixels.
    bias
        Standard deviation between workers of how far they draw outside of it, in pixels.
    slips
        Smallest and largest mean number of round holes and islands in a worker's mask.
    spammers
        Chance that a worker draws blobs anywhere.
    smoothness
        Pixels along the outline over which it is off in the same way.
    """

    jitter: Range = (0.5, 2.0)
    bias: float = 1.0
    slips: Range = (0.0, 2.0)
    spammers: Share = 0.1
    smoothness: float = 3.0


@add_crowd_parameters(n_tasks=12, n_workers=8, answers_per_task=5)
def simulate_masks(
    sizes: CrowdSizes, /, *, height: int = 48, width: int = 48, **outlining: Any
) -> SimulatedCrowd[Masks]:
    """One to three blobs in each image, and what workers draw of them.

    Parameters
    ----------
    height, width
        Of every image, in pixels.
    outlining
        Parameters of `Outlining`.

    Returns
    -------
    SimulatedCrowd
        truth : table of task and rle
        region : list of (height, width)
            The same, as arrays.
        bias, jitter : (M,)
            Pixels by which a worker draws too large, and the standard deviation of their outline.
        slips : (M,)
            Mean number of holes and islands in a mask.
        spammer : (M,)
            Whether the worker draws any region.
    """
    generator, n_tasks, n_workers = sizes.generator, sizes.n_tasks, sizes.n_workers
    how = Outlining(**check_numbers(outlining, Outlining.__annotations__))
    jitters, slip = generator.uniform(*how.jitter, n_workers), generator.uniform(*how.slips, n_workers)
    biases, spams = how.bias * generator.normal(size=n_workers), generator.random(n_workers) < how.spammers
    regions, said, worker = [], [], []
    for _ in range(n_tasks):
        region = draw_blobs(generator, height, width)
        distance = signed_distance(region)
        regions.append(region)
        for who in generator.permutation(n_workers)[: sizes.answers_per_task]:
            worker.append(who)
            if spams[who]:
                said.append(draw_blobs(generator, height, width))
                continue
            noise = gaussian_filter(generator.normal(size=region.shape), how.smoothness, mode="wrap")
            mask = distance + biases[who] + jitters[who] * noise / max(float(noise.std()), 1e-12) > 0
            for _ in range(generator.poisson(slip[who])):
                mask ^= draw_disc(generator, height, width)
            said.append(mask)
    answers = Masks.from_codes(
        np.repeat(np.arange(n_tasks), min(sizes.answers_per_task, n_workers)), np.array(worker), said, tasks=n_tasks,
        workers=n_workers,
    )  # fmt: skip
    truth = pa.table({"task": np.arange(n_tasks), "rle": [encode_run_lengths(each) for each in regions]})
    return SimulatedCrowd(
        answers, truth, drawn={"region": regions, "bias": biases, "jitter": jitters, "slips": slip, "spammer": spams}
    )


def draw_blobs(generator: np.random.Generator, height: int, width: int) -> BoolArray:
    """One to three regions whose radius varies smoothly with the direction (height, width)."""
    rows, columns = np.mgrid[:height, :width]
    inside = np.zeros((height, width), np.bool_)
    for _ in range(generator.integers(1, 4)):
        y, x = generator.uniform(0.25, 0.75, 2) * (height, width)
        radius = generator.uniform(0.08, 0.22) * min(height, width)
        angle = np.arctan2(rows - y, columns - x)
        waves = [
            0.25 / k * generator.normal() * np.cos(k * angle + generator.uniform(0, 2 * np.pi)) for k in (2, 3, 4, 5)
        ]
        inside |= np.hypot(rows - y, columns - x) < radius * (1 + sum(waves))
    return inside


def draw_disc(generator: np.random.Generator, height: int, width: int) -> BoolArray:
    """A small disc anywhere (height, width)."""
    rows, columns = np.mgrid[:height, :width]
    y, x = generator.uniform(0, 1, 2) * (height, width)
    return np.asarray(np.hypot(rows - y, columns - x) < generator.uniform(0.02, 0.06) * min(height, width))
