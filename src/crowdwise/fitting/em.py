"""The one EM loop: climb an objective from one or several starts, and say how it went."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from crowdwise.fitting.checkpoints import open_checkpoint
from crowdwise.fitting.progress_bar import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crowdwise.labels.types import FloatArray

__all__ = ["Climb", "StillImproving", "climb", "warn_not_converged"]

P = TypeVar("P")


class StillImproving(UserWarning):
    """What `NotConverged` is for the package itself, which ignores it where it says so in another way."""


@dataclass(frozen=True)
class Climb(Generic[P]):
    """How a climb went.

    Attributes
    ----------
    parameters
        Where it ended; `objective[-1]` is their value.
    objective, log_likelihood : (n_iter,)
        Both at the parameters of each iteration; the objective is what climbs.
    converged
        Whether the last gain was at most the tolerance.
    """

    parameters: P
    objective: FloatArray
    log_likelihood: FloatArray
    converged: bool

    @property
    def n_iter(self) -> int:
        """Number of parameter settings visited."""
        return self.objective.size


def climb(
    starts: Iterable[P],
    step: Callable[[P], tuple[float, float, P]],
    *,
    max_iter: int,
    tol: float,
    name: str,
    last_step: Callable[[P], tuple[float, float, P]] | None = None,
) -> Climb[P]:
    """Run EM from each start and keep the climb that ends highest.

    Parameters
    ----------
    starts
        First parameters of each climb (iteration 1); made only when their turn comes.
    step
        One EM step: objective and log-likelihood at the given parameters, and the next parameters.
    tol
        Stop when an iteration gains no more than this (in units of the objective).
    name
        What the progress bar says.
    last_step
        The step of iteration `max_iter`, after which nothing follows: it may keep what it finds, and need not find the
        next parameters. `step` where it is left out.

    Notes
    -----
    The caller finishes with an E-step at `parameters`, so that the posterior belongs to them and
    `fit_predict` equals `fit` then `predict`. Where a climb ends with `last_step`, that one is the E-step.
    """
    best: Climb[P] | None = None
    boxes = map(lambda start: [start], starts)  # noqa: C417 (a generator would hold on to the start, which can be large)
    for number, box in enumerate(boxes, 1):
        with show_progress(name if number == 1 else f"{name}, start {number}", max_iter) as advance:
            best = _better_climb(best, _climb_once(box.pop(), step, last_step or step, max_iter, tol, advance))
    if best is None:
        raise ValueError("climb needs at least one start")
    if not best.converged and tol > 0:
        warn_not_converged(
            f"{name} stopped after {max_iter} iterations while still improving. Raise max_iter, or raise tol."
        )
    return best


def warn_not_converged(message: str) -> None:
    """Say `NotConverged` at the line outside the package that the fit was called from."""
    if warnings.filters and warnings.filters[0][0] == "ignore" and warnings.filters[0][2] is StillImproving:
        return  # by the package itself, for which scikit-learn need not be imported
    from crowdwise.fitting.scikit_learn_errors import NotConverged

    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("crowdwise."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, NotConverged, stacklevel=level)


def _better_climb(best: Climb[P] | None, attempt: Climb[P]) -> Climb[P]:
    return attempt if best is None or attempt.objective[-1] > best.objective[-1] else best


def _climb_once(
    parameters: P,
    step: Callable[[P], tuple[float, float, P]],
    last_step: Callable[[P], tuple[float, float, P]],
    max_iter: int,
    tol: float,
    advance: Callable[[float], None],
) -> Climb[P]:
    values: list[float] = []
    likelihoods: list[float] = []
    checkpoint = open_checkpoint()
    resumed = checkpoint.load(parameters) if checkpoint is not None else None
    if resumed is not None:
        parameters, values, likelihoods = resumed
    while True:
        value, likelihood, following = (step if len(values) + 1 < max_iter else last_step)(parameters)
        values.append(value)
        likelihoods.append(likelihood)
        advance(value)
        converged = len(values) > 1 and value - values[-2] <= tol
        if converged or len(values) == max_iter:
            return Climb(parameters, np.array(values), np.array(likelihoods), converged)
        parameters = following
        if checkpoint is not None:
            checkpoint.save(parameters, values, likelihoods)
