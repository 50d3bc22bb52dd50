"""What people would score: the mean grade or shares of classes, of all tasks, of each system, of two compared.

What people say of a task is the mean of their labels: a grade, or one number a class. What the panel predicts is its
mean under the posterior, which on labelled tasks was made without their labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.judges import prediction_powered as ppi
from crowdwise.judges.next_tasks import NORMAL
from crowdwise.judges.vote_table import class_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.judges.agreement_with_people import Estimate
    from crowdwise.judges.panel_model import PanelConsensus
    from crowdwise.judges.vote_table import PanelVotes
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["PanelScore", "SystemDifference", "compare_systems", "estimate_scores", "unexplained_spread"]

MOST_PAIRS = 20  # of systems that are compared


@dataclass(frozen=True)
class PanelScore:
    """What people would say on average.

    Attributes
    ----------
    what
        "mean grade", or a class whose share it is.
    system
        Whose work it is about; "" for all tasks.
    estimate
        Prediction-powered.
    by_people
        From the labels of people alone.
    corrected
        By Rogan and Gladen's correction; None where the panel hardly tells the classes apart.
    by_panel
        The panel's own number, uncorrected.
    """

    what: str
    system: str
    estimate: Estimate
    by_people: Estimate
    corrected: Estimate | None
    by_panel: float


@dataclass(frozen=True)
class SystemDifference:
    """How much higher people would score one system than another; of contestants of comparisons, its win rate."""

    first: str
    second: str
    what: str
    estimate: Estimate
    even: float

    @property
    def verdict(self) -> str:
        """Which of the two people prefer, as far as it can be told."""
        if self.estimate.low > self.even:
            return "first"
        return "second" if self.estimate.high < self.even else "undecided"


def score_columns(panel: PanelVotes, posterior: FloatArray) -> dict[str, tuple[FloatArray, FloatArray]]:
    """What is scored: its name, what people say (N,) (NaN where nobody did), and what the panel predicts (N,)."""
    counts = panel.count_human_labels()
    n = counts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        shares = counts / np.where(n > 0, n, np.nan)[:, None]
    if panel.columns.compared:
        half = np.array([1.0, 0.5, 0.0])
        return {"win rate": (shares @ half, posterior @ half)}
    values = class_values(panel.classes)
    if values is not None:
        return {"mean grade": (shares @ values, posterior @ values)}
    return {name: (shares[:, at], posterior[:, at]) for at, name in enumerate(panel.classes)}


def score_span(panel: PanelVotes) -> tuple[float, float]:
    """Lowest and highest that a score may be."""
    values = None if panel.columns.compared else class_values(panel.classes)
    return (0.0, 1.0) if values is None else (float(values.min()), float(values.max()))


def estimate_scores(panel: PanelVotes, consensus: PanelConsensus, *, random_state: int = 0) -> list[PanelScore]:
    """Scores of all tasks, then of each system; none where people labelled too few tasks."""
    if panel.columns.compared:
        return []
    voted = panel.votes.labels_per_task > 0
    groups = [("", voted)] + [(name, voted & (panel.system == at)) for at, name in enumerate(panel.systems)]
    found = []
    for system, inside in groups:
        found += _score_group(panel, consensus, system, inside, random_state)
    return found


def _score_group(
    panel: PanelVotes, consensus: PanelConsensus, system: str, inside: BoolArray, random_state: int
) -> list[PanelScore]:
    columns = score_columns(panel, consensus.posterior)
    labelled = inside & ~np.isnan(next(iter(columns.values()))[0])
    if labelled.sum() < ppi.FEWEST_LABELS:
        return []
    weight = panel.weight[labelled]
    reference, decided = panel.find_reference(), consensus.decision
    sure = inside & (reference >= 0)
    values = class_values(panel.classes)
    corrected: Sequence[Estimate | None] | None = None
    if sure.any():
        counted, known = (decided[sure], reference[sure], decided[inside]), panel.weight[sure]
        if values is None:
            corrected = ppi.correct_shares(*counted, len(panel.classes), weight=known, random_state=random_state)
        else:
            corrected = [ppi.correct_mean(*counted, values, weight=known, random_state=random_state)]
    found = []
    for at, (what, (y, predicted)) in enumerate(columns.items()):
        found.append(
            PanelScore(
                what,
                system,
                ppi.estimate_mean(y[labelled], predicted[labelled], predicted[inside], weight, score_span(panel)),
                ppi.estimate_human_mean(y[labelled], weight, score_span(panel)),
                None if corrected is None else corrected[at],
                float(predicted[inside].mean()),
            )
        )
    return found


def compare_systems(panel: PanelVotes, consensus: PanelConsensus) -> list[SystemDifference]:
    """Every two systems, or contestants of comparisons, where people labelled enough of both."""
    columns = score_columns(panel, consensus.posterior)
    voted = panel.votes.labels_per_task > 0
    if panel.columns.compared:
        return _compare_contestants(panel, columns["win rate"], voted)
    found: list[SystemDifference] = []
    # Of two classes one share says all.
    names = list(columns) if len(columns) != 2 else list(columns)[1:]
    for one, other in combinations(range(len(panel.systems)), 2):
        inside = voted & ((panel.system == one) | (panel.system == other))
        for what in names:
            y, predicted = columns[what]
            known = inside & ~np.isnan(y)
            mine = panel.system[known] == one
            if min(mine.sum(), (~mine).sum()) < ppi.FEWEST_LABELS:
                continue
            gap = ppi.estimate_system_difference(
                y[known], predicted[known], predicted[inside],
                labelled_first=mine, first=panel.system[inside] == one, weight=panel.weight[known],
                span=score_span(panel),
            )  # fmt: skip
            found.append(SystemDifference(panel.systems[one], panel.systems[other], what, gap, 0.0))
        if len(found) >= MOST_PAIRS:
            break
    return found


def _compare_contestants(
    panel: PanelVotes, columns: tuple[FloatArray, FloatArray], voted: BoolArray
) -> list[SystemDifference]:
    """Win rates of every two contestants, over the tasks on which they were compared."""
    rows, (y, predicted) = panel.columns, columns
    if rows.left is None or rows.right is None:
        return []
    first, second = np.full(panel.votes.n_tasks, -1), np.full(panel.votes.n_tasks, -1)
    first[rows.task], second[rows.task] = np.minimum(rows.left, rows.right), np.maximum(rows.left, rows.right)
    pairs, place = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
    found: list[SystemDifference] = []
    for at, (one, other) in enumerate(pairs):
        inside = voted & (place.ravel() == at)
        known = inside & ~np.isnan(y)
        if known.sum() < ppi.FEWEST_LABELS or len(found) >= MOST_PAIRS:
            continue
        rate = ppi.estimate_mean(y[known], predicted[known], predicted[inside], panel.weight[known])
        found.append(SystemDifference(rows.contestants[one], rows.contestants[other], "win rate", rate, 0.5))
    return found


def unexplained_spread(panel: PanelVotes, consensus: PanelConsensus) -> tuple[str, float, Estimate] | None:
    """Of the score that is known worst: its name, the standard deviation that the predictions leave, and the score."""
    found: list[tuple[str, float, Estimate]] = []
    for what, (y, predicted) in score_columns(panel, consensus.posterior).items():
        known = ~np.isnan(y) & (panel.votes.labels_per_task > 0)
        if known.sum() >= ppi.FEWEST_LABELS:
            score = ppi.estimate_mean(y[known], predicted[known], predicted, panel.weight[known], score_span(panel))
            found.append((what, (score.high - score.low) / (2 * NORMAL) * float(np.sqrt(known.sum())), score))
    return max(found, key=lambda each: each[1], default=None)
