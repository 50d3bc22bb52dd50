"""Fisher scoring for very many parameters: Newton's method with the expected curvature, solved by conjugate gradients.

Each step solves (information + damping) × step = gradient approximately, by conjugate gradients scaled by the diagonal,
and is halved until the objective rises. Nothing of the size parameters × parameters is made.

Where the objective is not concave, the observed curvature may take the place of the expected one: the conjugate
gradients stop where it is negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.fitting.progress_bar import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.types import FloatArray

__all__ = ["Ascent", "LocalModel", "climb_by_fisher_scoring", "solve_by_conjugate_gradients"]

MOST_PRODUCTS = 200  # of the information with a vector, in one step
MOST_HALVINGS = 30
ROUNDING = 1e-13  # share of the objective that rounding moves it by


class LocalModel(NamedTuple):
    """An objective about some parameters: its value, gradient, information (as a product) and its diagonal."""

    value: float
    gradient: FloatArray
    multiply: Callable[[FloatArray], FloatArray]
    diagonal: FloatArray


@dataclass(frozen=True)
class Ascent:
    """Where a climb ended, and the objective after each step."""

    parameters: FloatArray
    objective: FloatArray
    converged: bool


def climb_by_fisher_scoring(
    start: FloatArray, describe: Callable[[FloatArray], LocalModel], *, max_iter: int, tol: float, name: str
) -> Ascent:
    """Climb an objective from a start.

    Parameters
    ----------
    describe
        The objective about given parameters.
    tol
        Stop after a step that promised to gain no more than this.
    """
    here, model = start, describe(start)
    values, converged, halvings = [model.value], False, 0
    with show_progress(name, max_iter) as advance:
        while len(values) < max_iter and not converged:
            step = solve_by_conjugate_gradients(model)
            promised = 0.5 * float(model.gradient @ step)
            converged = promised <= tol
            found = _climb_along(here, step, model, describe, max(halvings - 1, 0))
            if found is None:  # no point of the step is higher: rounding is all that is left
                converged = True
                break
            here, model, halvings = found
            values.append(model.value)
            advance(model.value)
    return Ascent(here, np.maximum.accumulate(values), converged)


def solve_by_conjugate_gradients(model: LocalModel) -> FloatArray:
    """Solve information × step = gradient, the more exactly the smaller the gradient."""
    scale = 1 / model.diagonal
    step, rest = np.zeros_like(model.gradient), model.gradient.copy()
    scaled = scale * rest
    direction, size = scaled.copy(), float(rest @ scaled)
    enough = size * min(0.01, size)
    for _ in range(MOST_PRODUCTS):
        if size <= enough or size < ROUNDING**2:
            break
        product = model.multiply(direction)
        curvature = float(direction @ product)
        if curvature <= 0:  # the no highest point this way: go to where the others lead
            return step if step.any() else direction
        length = size / curvature
        step += length * direction
        rest -= length * product
        scaled = scale * rest
        before, size = size, float(rest @ scaled)
        direction = scaled + (size / before) * direction
    return step


def _climb_along(
    here: FloatArray, step: FloatArray, model: LocalModel, describe: Callable[[FloatArray], LocalModel], first: int
) -> tuple[FloatArray, LocalModel, int] | None:
    """The longest of step, step/2, … that gains a share of what it promises, and its halvings, from `first` on."""
    gain = float(model.gradient @ step)
    slack = ROUNDING * abs(model.value)
    for halving in range(first, MOST_HALVINGS):
        part = 0.5**halving
        there = here + part * step
        found = describe(there)
        if found.value >= model.value + 1e-4 * part * gain - slack:
            return there, found, halving
    return None
