"""What the methods of the planted partition share: their parameters, and the tables of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number, check_optional_count
from crowdwise.kinds.similarity.model import SimilarityModel, arrays_of
from crowdwise.kinds.similarity.planted_partition import mix_with_chance

if TYPE_CHECKING:
    from crowdwise.kinds.similarity.pair_evidence import Evidence
    from crowdwise.kinds.similarity.planted_partition import PartitionState
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["HELD", "POOLED", "PartitionModel"]

HELD = 3  # passes at the rates of a fair crowd
POOLED = 6  # passes with one pair of rates for all workers


@estimator
class PartitionModel(SimilarityModel):
    """Base of the methods for clusters planted in the pairs, with a sensitivity and a specificity of each worker.

    Parameters
    ----------
    n_clusters : int, at least 1, or None
        Clusters that a group of items may have at most; None chooses by the evidence.
    strength : float, above 0
        How many answers the prior of each worker's rates is worth, which is about the crowd's rates.
    """

    uses = frozenset({"gold"})

    n_clusters: int | None = None
    strength: float = 8.0
    max_iter: int = 200
    random_state: int = 0

    def _check(self) -> None:
        check_optional_count("n_clusters", self.n_clusters)
        check_number("strength", self.strength, low=0, above=True)

    @staticmethod
    def _arrays(
        evidence: Evidence, state: PartitionState, found: tuple[IntArray, FloatArray], number: int, real: float
    ) -> dict[str, Any]:
        """Arrays of the fit, from the cluster of each item and its confidence; `real` as `choose_number` gives it."""
        together, confidence = (mix_with_chance(each, real, number) for each in (state.together, found[1]))
        return arrays_of(evidence, together, state.prior, found[0], confidence)
