"""Which judges err together, and how many independent votes the panel is worth.

Two judges' errors are correlated where both are wrong on the same tasks more often than chance has it. With r̄ the mean
correlation over all pairs, n judges are worth n / (1 + (n - 1) r̄) independent ones in a vote
(`crowdwise.dependence.effective_size`, with and without people's labels). The tree joins the judges whose errors are
most alike first (average linkage over 1 - r).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from crowdwise.dependence.effective_size import effective_size
from crowdwise.judges.agreement_with_people import estimate_difference

if TYPE_CHECKING:
    from crowdwise.dependence.effective_size import EffectiveSize
    from crowdwise.judges.agreement_with_people import Estimate
    from crowdwise.judges.vote_table import PanelVotes
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Drift", "ErrorCorrelation", "compare_versions", "measure_error_correlation"]

FEWEST_TASKS = 20  # that two judges share, for a correlation
MOST_JUDGES = 60  # up to which a tree is made
MOST_TASKS = 3_000  # from which the effective size is estimated; more say hardly more, and take longer


@dataclass(frozen=True, eq=False)
class ErrorCorrelation:
    """How judges err together.

    Attributes
    ----------
    size
        What the panel is worth, with people's labels where there are enough of them.
    size_by_votes
        The same from the votes alone, to be compared; None where `size` is that already.
    correlation : (M, M)
        Correlation of errors against the people's answer; of the judges' disagreement with the vote of the others
        without people. NaN where two judges share too few tasks, or one of them never errs.
    tree : (M - 1, 4)
        Linkage of the judges by 1 - correlation, as `scipy.cluster.hierarchy` has it; empty for one judge.
    """

    size: EffectiveSize
    size_by_votes: EffectiveSize | None
    correlation: FloatArray
    tree: FloatArray


def measure_error_correlation(panel: PanelVotes, *, random_state: int = 0) -> ErrorCorrelation:
    """How many votes the panel is worth, and which judges err together."""
    reference = panel.find_reference()
    rng = np.random.default_rng(random_state)
    chosen = np.lexsort((rng.random(reference.size), reference < 0))[:MOST_TASKS]  # those that people labelled first
    truth = None
    if (reference >= 0).any():
        names, tasks = panel.classes, panel.votes.tasks
        truth = {tasks[int(at)].as_py(): names[reference[at]] for at in chosen if reference[at] >= 0}
    kept = np.zeros(reference.size, np.bool_)
    kept[chosen] = True
    votes = panel.votes if kept.all() else panel.votes.keep(kept[panel.votes.task])
    size = effective_size(votes, truth=truth, random_state=random_state)
    alone = None if truth is None else effective_size(votes, random_state=random_state)
    correlation = correlate_errors(panel.to_matrix(), reference)
    return ErrorCorrelation(size, alone, correlation, _join_judges(correlation))


def correlate_errors(votes: IntArray, reference: IntArray) -> FloatArray:
    """Correlation of every two judges' errors, (M, M), each over the tasks that both voted on."""
    if not (reference >= 0).any():
        counts = np.stack([(votes == each).sum(axis=1) for each in range(int(votes.max(initial=0)) + 1)], axis=1)
        reference = np.where(counts.sum(axis=1) > 1, counts.argmax(axis=1), -1)
    known = reference >= 0
    wrong = (votes[known] != reference[known][:, None]).astype(np.float64)
    seen = (votes[known] >= 0).astype(np.float64)
    n = seen.T @ seen
    both, one = (wrong * seen).T @ (wrong * seen), (wrong * seen).T @ seen
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = both / n - one / n * (one.T / n)
        variance = one / n * (1 - one / n)
        found: FloatArray = covariance / np.sqrt(variance * variance.T)
    found[(n < FEWEST_TASKS) | ~np.isfinite(found)] = np.nan
    np.fill_diagonal(found, 1.0)
    return found


def _join_judges(correlation: FloatArray) -> FloatArray:
    n = len(correlation)
    if n < 2 or n > MOST_JUDGES:
        return np.empty((0, 4))
    distance = 1 - np.nan_to_num(correlation, nan=0.0)
    distance = np.maximum((distance + distance.T) / 2, 0.0)
    np.fill_diagonal(distance, 0.0)
    tree: FloatArray = linkage(squareform(distance, checks=False), "average")
    return tree


@dataclass(frozen=True)
class Drift:
    """Two versions of one judge on the same tasks."""

    # Names of the judges.
    earlier: str
    later: str
    n_tasks: int  # that both voted on
    changed: float  # share of them on which the votes differ
    difference: Estimate  # accuracy of the later less that of the earlier, on tasks with an answer of people


def compare_versions(panel: PanelVotes) -> list[Drift]:
    """How each judge with several versions changed from one to the next."""
    votes, reference = panel.to_matrix(), panel.find_reference()
    place = {name: at for at, name in enumerate(panel.judges)}
    found = []
    for earlier, later in panel.versions:
        one, other = votes[:, place[earlier]], votes[:, place[later]]
        shared = (one >= 0) & (other >= 0)
        known = shared & (reference >= 0)
        right = [(each[known] == reference[known]).astype(np.float64) for each in (other, one)]
        changed = float((one[shared] != other[shared]).mean()) if shared.any() else float("nan")
        difference = estimate_difference(right[0], right[1], panel.weight[known])
        found.append(Drift(earlier, later, int(shared.sum()), changed, difference))
    return found
