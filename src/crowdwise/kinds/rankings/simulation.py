"""A simulated crowd that ranks items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crowdwise.kinds.rankings.answers import Rankings
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import Share

__all__ = ["simulate_rankings"]


@add_crowd_parameters(n_items=20, n_workers=10, lists_per_worker=5)
def simulate_rankings(
    sizes: CrowdSizes, *, length: int = 5, spread: float = 1.5, spammers: Share = 0.0, slope: float = 0.2
) -> SimulatedCrowd[Rankings]:
    """Scores of items drawn from a normal distribution, and rankings of random lists of items.

    Parameters
    ----------
    length
        Items of a list; all of them, where there are not so many.
    spammers
        Share of the workers whose order is drawn at random.
    slope
        Standard deviation of the other workers' slopes about 1.

    Returns
    -------
    SimulatedCrowd
        truth, score
            Scores of the items, as a table and as an array (N,); their mean is 0.
        slope : (M,)
            One over the temperature of each worker: Plackett and Luce's model of slope × score; 0 for a spammer.
    """
    generator, n_items, n_workers = sizes.generator, sizes.n_items, sizes.n_workers
    lists_per_worker, length = sizes.lists_per_worker, min(length, n_items)
    score = generator.normal(0, spread, n_items)
    score -= score.mean()
    slopes = np.maximum(1 + slope * generator.normal(size=n_workers), 0.1)
    slopes[sizes.choose(spammers)] = 0.0
    worker = np.repeat(np.arange(n_workers), lists_per_worker)
    shown = np.stack([generator.permutation(n_items)[:length] for _ in worker])
    # The order of score + Gumbel noise is Plackett and Luce's.
    noisy = slopes[worker][:, None] * score[shown] + generator.gumbel(size=shown.shape)
    rank = np.argsort(np.argsort(-noisy, axis=1), axis=1) + 1
    answers = Rankings.from_codes(
        np.repeat(worker, length),
        shown.ravel(),
        rank.ravel(),
        items=n_items,
        workers=n_workers,
        task=np.repeat(np.tile(np.arange(lists_per_worker), n_workers), length),
        tasks=lists_per_worker,
    )
    return SimulatedCrowd(
        answers, pa.table({"item": np.arange(n_items), "score": score}), drawn={"score": score, "slope": slopes}
    )
