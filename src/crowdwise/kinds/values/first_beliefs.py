"""Where the variational fit of values begins: answers in units of their own, and workers who are alike.

The bound and its steps are those of `gaussian`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.kernels.value_sums import ValueEdges
from crowdwise.kinds.values.line_posteriors import (
    PINNED,
    USUAL_SCALE_VARIANCE,
    Beliefs,
    Crowd,
    GammaShapes,
    Hyperparameters,
    LinePosterior,
)
from crowdwise.kinds.values.model import task_means

if TYPE_CHECKING:
    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray

__all__ = ["Units", "lay_out", "start"]

SMALL = 1e-9  # share of the answers' variance below which a variance is rounding


class Units(NamedTuple):
    """Mean (D,) of the answers, and one standard deviation for all coordinates: the units of the fit."""

    centre: FloatArray
    size: float


def lay_out(answers: Values, gold: FloatArray | None, lines: str) -> tuple[Crowd, Units]:
    """The answers in units of their mean and standard deviation."""
    size = float(np.sqrt(answers.value.var(axis=0).mean()))
    units = Units(answers.value.mean(axis=0), size if size > 0 else 1.0)
    rows = (answers.value - units.centre) / units.size
    known = None if gold is None else (gold - units.centre) / units.size
    edges = tuple(
        ValueEdges(
            answers.task_ptr, answers.task, answers.worker, np.ascontiguousarray(rows[:, place]),
            np.empty(0) if known is None else np.ascontiguousarray(known[:, place]),
        )
        for place in range(answers.n_coordinates)
    )  # fmt: skip
    answered = answers.answers_per_task > 0
    free = int(answers.n_answers - answered.sum())
    within = ((rows - (task_means(answers)[answers.task] - units.centre) / units.size) ** 2).sum(axis=0) / max(free, 1)
    usual = float(within.mean()) if free else 0.5  # of one answer a task nothing tells noise from value
    crowd = Crowd(
        edges, answers.answers_per_worker.astype(np.float64), max(usual, SMALL),
        lines == "scale", lines != "none",
    )  # fmt: skip
    return crowd, units


def start(crowd: Crowd, strength: float, freedom: float = np.inf) -> Beliefs:
    """Workers alike, with the variance within tasks."""
    n_workers, n_coordinates = crowd.per_worker.size, len(crowd.edges)
    noise = crowd.usual_noise
    scale, bias = (np.full(n_coordinates, USUAL_SCALE_VARIANCE if crowd.fits_scale else PINNED),
                   np.full(n_coordinates, noise / 4 if crowd.fits_bias else PINNED))  # fmt: skip
    shape = n_workers, n_coordinates
    lines = LinePosterior(
        np.ones(shape), np.zeros(shape), np.tile(scale, (n_workers, 1)) * (1e-3 if crowd.fits_scale else 1.0),
        np.tile(bias, (n_workers, 1)) * (1e-3 if crowd.fits_bias else 1.0), np.zeros(shape),
    )  # fmt: skip
    spread = np.full(n_coordinates, max(1 - noise, 0.05))
    priors = Hyperparameters(np.zeros(n_coordinates), spread, scale, bias, strength, noise, freedom)
    shapes = GammaShapes.of(strength, n_coordinates * crowd.per_worker)
    weights = np.full(crowd.edges[0].value.size, (freedom + n_coordinates) / 2) if np.isfinite(freedom) else None
    return Beliefs(lines, shapes, shapes.shape * noise, (freedom + n_coordinates) / 2, weights, priors)
