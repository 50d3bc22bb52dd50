"""How a consensus compares with known answers: the truth that was given, and the gold that it learnt from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.truth import truth_codes
from crowdwise.labels.vocabulary import positions
from crowdwise.metrics.calibration import bin_predictions, mean_gap, wilson_interval
from crowdwise.metrics.with_truth import brier, log_loss

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.audit.audit import Audit
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "LEVEL",
    "ConfidenceBin",
    "ConsensusScore",
    "bin_gold_confidence",
    "gold_calibration_bins",
    "mark_gold_tasks",
    "score_consensus",
    "score_posterior",
    "truth_codes_of_model",
]

ERROR_BINS = 15  # of the calibration error, everywhere
N_BINS = 10  # of charts and tables
LEVEL = 0.9  # of the intervals
FEWEST_GOLD = 2  # that can be kept from a model in turn


class ConfidenceBin(NamedTuple):
    """Tasks of about the same confidence: their mean confidence, the share that is right, its 90 % interval, and n."""

    confidence: float
    right: float
    low: float
    high: float
    n: int


def truth_codes_of_model(model: Any, truth: Any) -> IntArray:
    """Known truth of each task of a fitted model as a position in its classes, -1 where unknown."""
    nobody = np.empty(0, np.int64)
    return truth_codes(truth, CrowdLabels.from_codes(nobody, nobody, nobody, **model._names._asdict()))


def mark_gold_tasks(audit: Audit) -> BoolArray:
    """Which tasks (N,) have a gold answer."""
    told = np.zeros(audit.labels.n_tasks, np.bool_)
    if audit.gold is not None:
        place = positions(audit.gold.tasks, audit.labels.tasks)
        told[place[place >= 0]] = True
    return told


class ConsensusScore(NamedTuple):
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
        return mean_gap(bin_predictions(self.sure, self.right, ERROR_BINS))

    def to_json_dict(self) -> dict[str, Any]:
        """The same numbers for programs, by the names that `aggregate --json` has for them."""
        return {"n_truth": int(self.right.size), "accuracy": self.accuracy, "ece": self.calibration_error}

    @property
    def bins(self) -> list[ConfidenceBin]:
        """Confidence against the share that is right, in tenths of confidence."""
        table = bin_predictions(self.sure, self.right, N_BINS)
        filled = table.n_tasks > 0
        low, high = wilson_interval(table.accuracy[filled], table.n_tasks[filled], LEVEL)
        columns = (table.confidence[filled], table.accuracy[filled], low, high, table.n_tasks[filled])
        return [ConfidenceBin(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def score_consensus(audit: Audit, truth: Any = None) -> ConsensusScore | None:
    """Compare the consensus with the truth of tasks that are not gold; None where there is no such truth.

    By default the truth that was given to the audit.
    """
    truth = audit.truth if truth is None else truth
    if truth is None:
        return None
    codes = truth_codes_of_model(audit.model, truth)
    known = (codes >= 0) & ~mark_gold_tasks(audit)
    if not known.any():
        return None
    chosen = audit.model._decide(audit.model.posterior_)
    sure = audit.model.posterior_[np.arange(chosen.size), chosen]
    return ConsensusScore(np.minimum(sure[known], 1.0), chosen[known] == codes[known])


def score_posterior(decided: pa.Table, posterior: FloatArray, classes: pa.Array, truth: IntArray) -> dict[str, Any]:
    """How good decisions (a column label) and a posterior are, where the truth is known (not -1)."""
    known = truth >= 0
    predicted = positions(decided["label"].combine_chunks(), classes)
    found = ConsensusScore(
        np.minimum(posterior[known].max(axis=1), 1.0), predicted[known] == truth[known]
    ).to_json_dict()
    ece = found.pop("ece")
    return found | {"log_loss": log_loss(truth, posterior), "brier": brier(truth, posterior), "ece": ece}


def gold_calibration_bins(model: Any, n_gold: int) -> list[ConfidenceBin]:
    """As `bin_gold_confidence`; empty where the model has no calibration, or too few gold answers to keep from it."""
    return bin_gold_confidence(model) if n_gold >= FEWEST_GOLD and hasattr(model, "calibration") else []


def bin_gold_confidence(model: Any) -> list[ConfidenceBin]:
    """Confidence against the share that is right among the gold answers, by the model's method `calibration`."""
    table = model.calibration(N_BINS, level=LEVEL)
    columns = [np.asarray(table[name]).tolist() for name in ("confidence", "share_right", "low", "high", "n")]
    return [ConfidenceBin(*row) for row in zip(*columns, strict=True)]
