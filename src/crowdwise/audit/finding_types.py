"""What every test of the audit gives: scores of all, and findings in words for those whom it flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["FACT", "FINE", "Finding", "Screen", "holm_correction"]

FINE = "nothing found"  # verdict of a worker of whom nothing was found
FACT = "a fact of the labels, not a test"  # `how` of a finding without chance


@dataclass(frozen=True)
class Finding:
    """One thing that the audit has found, for a person to act on.

    Attributes
    ----------
    kind
        What was found: "spammer", "colluders", "dependent workers", "drift", "mislabel", "bias", ….
    about
        What it is about: "worker", "workers", "task", "class", "crowd" or "attribute".
    names : tuple
        The workers, tasks or classes, by the user's own names.
    score
        How bad, from 0 (not at all) to 1.
    verdict
        The finding in a few words that need no statistics to be read: it is shown first, and often alone.
    evidence
        The numbers behind it, in a sentence; shown on demand, like the p-value and where it comes from.
    p_value
        Chance of evidence as strong in a crowd where there is nothing to find, corrected for how many were tested.
    how
        Where that comes from: "permutation of labels, 999 draws", "bootstrap of tasks, 500 draws", ….
    advice
        What to do.
    """

    kind: str
    about: str
    names: tuple[Any, ...]
    score: float
    verdict: str
    evidence: str
    p_value: float
    how: str
    advice: str


@dataclass(frozen=True, eq=False)
class Screen:
    """What one test says of everyone, and whom it flags.

    Attributes
    ----------
    kind
        As in the findings.
    score, p_value : (M,)
        Of each worker, not a number where they cannot be tested; empty where the test is not about single workers.
    findings
        Those that the test flags at its level.
    skipped
        Why the test does not apply to these labels, in words; "" where it does.
    """

    kind: str
    findings: tuple[Finding, ...] = ()
    score: FloatArray = field(default_factory=lambda: np.empty(0))
    p_value: FloatArray = field(default_factory=lambda: np.empty(0))
    skipped: str = ""


def holm_correction(p_values: FloatArray) -> FloatArray:
    """Holm's correction: flagging all that are at most α then flags anyone innocent with chance at most α.

    Not a number stays so, and is not counted.

    >>> holm_correction(np.array([0.01, 0.04, 0.03, np.nan])).tolist()
    [0.03, 0.06, 0.06, nan]
    """
    corrected = np.full(p_values.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    times = np.arange(order.size, 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(times * p_values[order]), 1.0)
    return corrected
