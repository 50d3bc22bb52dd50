"""How a consensus compares with known answers: the truth that was given, and the gold that it learnt from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.labels.model import CrowdLabels
from crowdwise.labels.truth import truth_codes
from crowdwise.labels.vocabulary import positions
from crowdwise.metrics.calibration import binned, mean_gap, wilson_interval
from crowdwise.metrics.with_truth import brier, log_loss

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.audit.audit import Audit
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "LEVEL",
    "Bin",
    "Score",
    "codes_for",
    "gold_bins",
    "gold_calibration",
    "gold_tasks",
    "score_consensus",
    "score_posterior",
]

ERROR_BINS = 15  # of the calibration error, everywhere
N_BINS = 10  # of charts and tables
LEVEL = 0.9  # of the intervals
FEWEST_GOLD = 2  # that can be kept from a model in turn


class Bin(NamedTuple):
    """Tasks of about the same confidence: their mean confidence, the share that is right, its 90 % interval, and n."""

    confidence: float
    right: float
    low: float
    high: float
    n: int


def codes_for(model: Any, truth: Any) -> IntArray:
    """Known truth of each task of a fitted model as a position in its classes, -1 where unknown."""
    nobody = np.empty(0, np.int64)
    return truth_codes(truth, CrowdLabels.from_codes(nobody, nobody, nobody, **model._names._asdict()))


def gold_tasks(audit: Audit) -> BoolArray:
    """Which tasks (N,) have a gold answer."""
    told = np.zeros(audit.labels.n_tasks, np.bool_)
    if audit.gold is not None:
        place = positions(audit.gold.tasks, audit.labels.tasks)
        told[place[place >= 0]] = True
    return told


class Score(NamedTuple):
    """How sure the consensus is of each task whose truth is known, and whether it is right."""

    sure: FloatArray
    right: BoolArray

    @property
    def accuracy(self) -> float:
        """Share that is right."""
        return float(self.right.mean())

    @property
    def calibration_error(self) -> float:
        """Mean distance of confidence to the share that is right, in bins of confidence."""
        return mean_gap(binned(self.sure, self.right, ERROR_BINS))

    def facts(self) -> dict[str, Any]:
        """The same numbers for programs, by the names that `aggregate --json` has for them."""
        return {"n_truth": int(self.right.size), "accuracy": self.accuracy, "ece": self.calibration_error}

    @property
    def bins(self) -> list[Bin]:
        """Confidence against the share that is right, in tenths of confidence."""
        table = binned(self.sure, self.right, N_BINS)
        filled = table.n_tasks > 0
        low, high = wilson_interval(table.accuracy[filled], table.n_tasks[filled], LEVEL)
        columns = (table.confidence[filled], table.accuracy[filled], low, high, table.n_tasks[filled])
        return [Bin(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def score_consensus(audit: Audit, truth: Any = None) -> Score | None:
    """Compare the consensus with the truth of tasks that are not gold; None where there is no such truth.

    By default the truth that was given to the audit.
    """
    truth = audit.truth if truth is None else truth
    if truth is None:
        return None
    codes = codes_for(audit.model, truth)
    known = (codes >= 0) & ~gold_tasks(audit)
    if not known.any():
        return None
    chosen = audit.model._decide(audit.model.posterior_)
    sure = audit.model.posterior_[np.arange(chosen.size), chosen]
    return Score(np.minimum(sure[known], 1.0), chosen[known] == codes[known])


def score_posterior(decided: pa.Table, posterior: FloatArray, classes: pa.Array, truth: IntArray) -> dict[str, Any]:
    """How good decisions (a column label) and a posterior are, where the truth is known (not -1)."""
    known = truth >= 0
    predicted = positions(decided["label"].combine_chunks(), classes)
    found = Score(np.minimum(posterior[known].max(axis=1), 1.0), predicted[known] == truth[known]).facts()
    ece = found.pop("ece")
    return found | {"log_loss": log_loss(truth, posterior), "brier": brier(truth, posterior), "ece": ece}


def gold_calibration(model: Any, n_gold: int) -> list[Bin]:
    """As `gold_bins`; empty where the model has no calibration, or fewer gold answers than can be kept from it."""
    return gold_bins(model) if n_gold >= FEWEST_GOLD and hasattr(model, "calibration") else []


def gold_bins(model: Any) -> list[Bin]:
    """Confidence against the share that is right among the gold answers, by the model's method `calibration`."""
    table = model.calibration(N_BINS, level=LEVEL)
    columns = [np.asarray(table[name]).tolist() for name in ("confidence", "share_right", "low", "high", "n")]
    return [Bin(*row) for row in zip(*columns, strict=True)]
