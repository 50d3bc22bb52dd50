"""A simulated crowd that says whether two items are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.fitting.parameter_checks import as_numbers
from crowdwise.kinds.similarity.answers import Similarities
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import Share, Shares
    from crowdwise.labels.types import IntArray

__all__ = ["simulate_similarities"]


@add_crowd_parameters(n_items=60, n_workers=10)
def simulate_similarities(
    sizes: CrowdSizes,
    *,
    n_clusters: int = 3,
    share: Share = 0.3,
    answers_per_pair: int = 1,
    skill: Shares = (0.7, 0.95),
    adversaries: Share = 0.0,
    cluster: IntArray | None = None,
) -> SimulatedCrowd[Similarities]:
    """Clusters of items drawn at random, and what workers say of random pairs.

    Parameters
    ----------
    share
        Of all pairs of items, those that are asked about.
    answers_per_pair
        By different workers.
    skill
        Range from which each worker's sensitivity and specificity are drawn, one apart from the other.
    adversaries
        Share of the workers who say the opposite.
    cluster : (n_items,)
        Clusters of the items, where they are not to be drawn.

    Returns
    -------
    SimulatedCrowd
        truth : table of task and cluster
        cluster : (N,)
            The same, as an array.
        sensitivity, specificity : (M,)
            How often a worker says "same" of items of one cluster, and "different" of others.
    """
    generator, n_items, n_workers = sizes.generator, sizes.n_items, sizes.n_workers
    clusters = generator.integers(n_clusters, size=n_items) if cluster is None else _check_clusters(cluster)
    n_items = clusters.size
    first, second = _draw_pairs(n_items, max(round(share * n_items * (n_items - 1) / 2), 1), generator)
    sensitivity, specificity = generator.uniform(*skill, size=(2, n_workers))
    wrong = sizes.choose(adversaries)
    sensitivity[wrong], specificity[wrong] = 1 - sensitivity[wrong], 1 - specificity[wrong]
    turn = generator.integers(n_workers, size=first.size)
    each = min(answers_per_pair, n_workers)
    worker = np.concatenate([(turn + step) % n_workers for step in range(each)])
    left, right = np.tile(first, each), np.tile(second, each)
    together = clusters[left] == clusters[right]
    says = generator.random(worker.size) < np.where(together, sensitivity[worker], 1 - specificity[worker])
    answers = Similarities.from_codes(worker, left, right, says, items=n_items, workers=n_workers)
    truth = pa.table({"task": np.arange(n_items), "cluster": clusters})
    return SimulatedCrowd(
        answers, truth, drawn={"cluster": clusters, "sensitivity": sensitivity, "specificity": specificity}
    )


def _check_clusters(given: Any) -> IntArray:
    """The clusters (n_items,) that the user gave."""
    found = as_numbers(given, "cluster")
    if found.ndim != 1 or found.size < 2 or not (np.abs(found) < 2**53).all() or (found != np.floor(found)).any():
        raise InputError(f"cluster is {quote(given)}; it must be a whole number for each of two items or more.")
    return found.astype(np.int64)


def _draw_pairs(n_items: int, number: int, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """So many different pairs of items, in random order; never a table of all of them."""
    found = np.empty(0, np.int64)
    number = min(number, n_items * (n_items - 1) // 2)
    while found.size < number:
        left = generator.integers(n_items, size=2 * number)
        right = (left + generator.integers(1, n_items, size=left.size)) % n_items
        keys = np.minimum(left, right) * n_items + np.maximum(left, right)
        every = np.concatenate([found, keys])
        found = every[np.sort(np.unique(every, return_index=True)[1])]
    first, second = np.divmod(found[:number], n_items)
    return first, second
