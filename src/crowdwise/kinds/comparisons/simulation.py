"""A simulated crowd that compares items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crowdwise.kinds.comparisons.answers import Comparisons
from crowdwise.kinds.comparisons.likelihood import choice_shares
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import Share

__all__ = ["simulate_comparisons"]


@add_crowd_parameters("scores", n_items=30, n_workers=12, answers_per_worker=50)
def simulate_comparisons(
    sizes: CrowdSizes,
    *,
    spread: float = 1.5,
    slope: float = 0.3,
    bias: float = 0.3,
    adversaries: Share = 0.0,
    ties: float = 0.3,
) -> SimulatedCrowd[Comparisons]:
    """Scores of items drawn from a normal distribution, and which of two random items workers find better.

    Parameters
    ----------
    spread
        Standard deviation of the scores.
    slope, bias
        Standard deviations of the workers' slopes (about 1) and of their biases to the left side (about 0).
    adversaries
        Share of the workers whose slope is turned into its opposite.
    ties
        Davidson's ν: of two equal items a tie is found with odds of ν to 2; 0 for no ties.
    scores
        True scores of the items (N,), where they are not to be drawn.

    Returns
    -------
    SimulatedCrowd
        truth : table of item and score
        score : (N,)
            The same, as an array; their mean is 0.
        slope, bias : (M,)
            A worker finds the left item better with log-odds slope × (score - score') + bias.
    """
    generator, n_items, n_workers = sizes.generator, sizes.n_items, sizes.n_workers
    if n_items < 2:
        raise InputError("n_items is 1; comparisons need two items or more.")
    score = generator.normal(0, spread, n_items)
    score = sizes.truth_or(score - score.mean())
    slopes, biases = 1 + slope * generator.normal(size=n_workers), bias * generator.normal(size=n_workers)
    slopes[sizes.choose(adversaries)] *= -1
    worker = np.repeat(np.arange(n_workers), sizes.answers_per_worker)
    left = generator.integers(n_items, size=worker.size)
    right = (left + generator.integers(1, n_items, size=worker.size)) % n_items
    x = slopes[worker] * (score[left] - score[right]) + biases[worker]
    p_left, p_tie, _ = choice_shares(x, np.log(ties) if ties > 0 else -np.inf)
    draw = generator.random(worker.size)
    outcome = np.where(draw < p_left, 1, np.where(draw < p_left + p_tie, 0, -1))
    answers = Comparisons.from_codes(
        worker, left, right, outcome, items=n_items, workers=n_workers, on_duplicate="last"
    )
    return SimulatedCrowd(
        answers,
        pa.table({"item": np.arange(n_items), "score": score}),
        drawn={"score": score, "slope": slopes, "bias": biases},
    )
