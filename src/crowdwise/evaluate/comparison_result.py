"""What `compare` found: one row for each method, and what may be concluded from them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from crowdwise.evaluate.rank_intervals import LEVEL
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.evaluate.independence_check import Independence
    from crowdwise.labels.types import FloatArray, TableKind

__all__ = ["Comparison", "MethodStanding"]

MOST_NAMED = 6  # methods named in one sentence

SHARED_ERRORS = {
    "pairs": "Workers do not err independently: some pairs agree far more often than others of their skill would, as "
    "copies, families of judges and groups with a common habit do.",
    "tasks": "Workers do not err independently: on some tasks far more of them disagree than on others, as with hard "
    "or misleading tasks.",
}
UNCHECKED = (
    "Whether workers err independently could not be checked, as too few workers with many labels share tasks. If they "
    "do not, a method that predicts shared mistakes predicts labels well without being right."
)
WHY_IT_MATTERS = (
    "A method that predicts shared mistakes predicts labels well without being right: do not choose a method by this "
    "ranking alone."
)


@dataclass(frozen=True)
class MethodStanding:
    """How one method did; what could not be measured is NaN, or None for a rank.

    Attributes
    ----------
    held_out, standard_error
        Mean log-probability of labels hidden from the method, and its standard error over tasks: higher is better.
    behind, behind_error
        How far the best is ahead, and the standard error of that (over tasks, paired).
    calibration
        Calibration error of those predictions of hidden labels.
    agreement
        Share of tasks decided as the best method does.
    accuracy, calibration_error
        Against the truth, where it is given.
    seconds
        One fit of all labels.
    note
        Why there is no result.
    rank_low, rank_high
        90 % interval of the method's rank by held-out labels: `rank_low` is 1 where it may be the best.
    accuracy_low, accuracy_high
        Wilson's 90 % interval of `accuracy`.
    truth_rank_low, truth_rank_high
        90 % interval of the method's rank by accuracy.
    """

    method: str
    held_out: float = math.nan
    standard_error: float = math.nan
    behind: float = math.nan
    behind_error: float = math.nan
    calibration: float = math.nan
    agreement: float = math.nan
    accuracy: float = math.nan
    calibration_error: float = math.nan
    seconds: float = math.nan
    note: str = ""
    rank_low: int | None = None
    rank_high: int | None = None
    accuracy_low: float = math.nan
    accuracy_high: float = math.nan
    truth_rank_low: int | None = None
    truth_rank_high: int | None = None


@dataclass(frozen=True, repr=False)
class Comparison:
    """A league table, best first.

    Attributes
    ----------
    standings
        One for each method.
    agreement : (methods, methods)
        Share of tasks that two methods decide alike, in the order of `standings`; 0 where one has no result.
    n_truth
        Tasks with a truth; 0 where none was given.
    independence
        Whether the labels show that workers err together, which misleads held-out scores; None where too few workers
        share tasks to tell.
    """

    standings: tuple[MethodStanding, ...]
    agreement: FloatArray
    n_truth: int
    kind: TableKind = "pyarrow"
    independence: Independence | None = None

    def __repr__(self) -> str:
        lines = [f"Comparison of {len(self.standings)} methods, by the mean log-probability of hidden labels"]
        lines += [
            f"  {row.method:24} {row.note or f'{row.held_out:.4f}  rank {row.rank_low} to {row.rank_high}'}"
            for row in self.standings
        ]
        return "\n".join([*lines, *self.conclusions()])

    @property
    def best(self) -> str:
        """The method that predicts hidden labels best; see `tied_with_best` for those that may be as good."""
        return self.standings[0].method

    @property
    def tied_with_best(self) -> tuple[str, ...]:
        """Other methods that may be the best by held-out labels: none is better than them beyond chance."""
        return tuple(row.method for row in self.standings[1:] if row.rank_low == 1)

    @property
    def best_by_truth(self) -> str | None:
        """The method that is right most often where the truth is known; None without a truth."""
        scored = [row for row in self.standings if not math.isnan(row.accuracy)]
        return max(scored, key=lambda row: row.accuracy).method if scored else None

    @property
    def tied_by_truth(self) -> tuple[str, ...]:
        """Other methods that may be right as often as `best_by_truth`."""
        return tuple(
            row.method for row in self.standings if row.truth_rank_low == 1 and row.method != self.best_by_truth
        )

    @property
    def contradicted_by_truth(self) -> bool | None:
        """Whether the best by held-out labels is right less often than some other method, beyond chance."""
        if self.best_by_truth is None:
            return None
        return self.best not in (self.best_by_truth, *self.tied_by_truth)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Assumptions that the labels contradict, or cannot confirm, and that mislead held-out scores."""
        if self.independence is None:
            return (UNCHECKED,)
        failed = self.independence.failed_check
        return () if failed is None else (f"{SHARED_ERRORS[failed]} {WHY_IT_MATTERS}",)

    @property
    def recommendation(self) -> str:
        """The method to use: the best, where that is beyond chance and nothing speaks against it; else `auto`.

        With a truth, the best by truth. Without one, the best by held-out labels, unless there are cautions.
        """
        if self.best_by_truth is not None:
            behind = {row.method for row in self.standings} - {self.best_by_truth, *self.tied_by_truth}
            return "auto" if self.tied_by_truth and "auto" not in behind else self.best_by_truth
        return "auto" if self.tied_with_best or self.cautions or len(self.standings) == 1 else self.best

    def conclusions(self) -> tuple[str, ...]:
        """What may be concluded, in sentences."""
        scored = [row for row in self.standings if not row.note]
        if len(scored) == 1:
            found = [f"There is only one method, {self.best}: nothing to compare it with."]
        elif self.tied_with_best:
            others = _list_method_names(self.tied_with_best)
            found = [f"Best by held-out labels: {self.best}. The labels do not tell it apart from {others}."]
        else:
            found = [f"Best by held-out labels: {self.best}, beyond chance."]
        found.append("This says how well labels are predicted, which is not how often the consensus is right.")
        best = next((row for row in scored if row.method == self.best_by_truth), None)
        if best is not None:
            shares = f"{best.accuracy:.1%} ({LEVEL:.0%} interval {best.accuracy_low:.1%} to {best.accuracy_high:.1%})"
            found.append(f"Best by the truth of {self.n_truth:,} tasks: {best.method}, right on {shares}.")
            if self.tied_by_truth:
                found.append(f"The truth does not tell it apart from {_list_method_names(self.tied_by_truth)}.")
            if self.contradicted_by_truth:
                found.append(f"{self.best}, best by held-out labels, is right less often beyond chance.")
        return tuple(found)

    def table(self) -> Any:
        """The standings as a table, in the kind that the labels came in."""
        rows = [asdict(standing) for standing in self.standings]
        return native_table({name: [row[name] for row in rows] for name in rows[0]}, self.kind)


def _list_method_names(methods: Sequence[str]) -> str:
    """A few methods by name, and how many more."""
    if len(methods) > MOST_NAMED:
        return f"{', '.join(methods[:MOST_NAMED])} and {len(methods) - MOST_NAMED} more"
    return " and ".join(filter(None, [", ".join(methods[:-1]), methods[-1]]))
