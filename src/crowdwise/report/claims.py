"""What a consensus says of itself, sentence by sentence, each with what it rests on.

The page and the terminal take their sentences from here, so that both say the same numbers. An expected number of wrong
answers is said only where the model has one with an interval (`expected_wrong`); the mean confidence of a method that
was never checked is no such number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.labels.model import CrowdLabels
from crowdwise.labels.places import counted
from crowdwise.labels.truth import truth_codes
from crowdwise.labels.vocabulary import as_vocabulary, positions
from crowdwise.metrics.calibration import Reliability, binned, mean_gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.audit.audit import Audit
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "COUNTED",
    "SURE",
    "TRUTH",
    "Claim",
    "Score",
    "codes_for",
    "confidence_claims",
    "consensus_claims",
    "expected_wrong",
    "gold_calibration",
    "gold_tasks",
    "interval_of",
    "measured_accuracy",
    "percent",
    "rests_on",
    "score_consensus",
    "skill_sentences",
    "wilson",
]

SURE, UNSURE = 0.9, 0.6
LEVEL = 0.9  # of the intervals
LOOSE = 0.05  # mean distance of confidence to accuracy from which it is called too sure or not sure enough
ERROR_BINS = 15  # of the calibration error, everywhere
N_BINS = 10  # of charts and tables
COUNTED = "a count of the labels"
TRUTH = "the truth given"


class Claim(NamedTuple):
    """A sentence with a number in it, and what the number rests on."""

    text: str
    basis: str


def percent(share: float) -> str:
    """A share as one reads it; 100 % and 0 % only where that is so.

    >>> percent(0.123), percent(0.9962), percent(1), percent(0.0001)
    ('12%', 'over 99%', '100%', 'under 1%')
    """
    if 0.99 < share < 1:
        return "over 99%"
    if 0 < share < 0.01:
        return "under 1%"
    return f"{share:.0%}"


def rests_on(n_gold: int) -> str:
    """What a fitted model rests on.

    >>> rests_on(0), rests_on(50)
    ('the labels alone', 'the labels and 50 gold answers')
    """
    return f"the labels and {counted(n_gold, 'gold answer')}" if n_gold else "the labels alone"


def wilson(share: float, n: int, z: float = 1.6449) -> tuple[float, float]:
    """Wilson's interval of a share seen in n; of 90 %, unless z says otherwise.

    >>> [round(each, 3) for each in wilson(1.0, 10)]
    [0.787, 1.0]
    """
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


# ---- what the model says ----------------------------------------------------------------------------------


def expected_wrong(model: Any) -> Any:
    """How many answers of the consensus are wrong (count, low, high, basis); None where the model cannot say."""
    estimate = getattr(model, "expected_wrong", None)
    return None if estimate is None else estimate(level=LEVEL)


def interval_of(wrong: Any) -> tuple[int, int]:
    """Whole numbers around the interval of an expected number of wrong answers."""
    return math.floor(wrong.low), math.ceil(wrong.high)


def confidences(model: Any) -> FloatArray:
    """How sure the consensus is of each task that anyone labelled."""
    chosen = model._decide(model.posterior_)
    sure: FloatArray = model.posterior_[np.arange(chosen.size), chosen][model.labels_per_task_ > 0]
    return sure


def confidence_claims(model: Any, n_gold: int = 0, *, measured: bool = False) -> list[Claim]:
    """How sure the consensus is, and how many of its answers are wrong where the model has an estimate of that.

    Where it has none, its confidence is called unchecked, unless it is `measured` beside it.
    """
    sure = confidences(model)
    most, few = int((sure >= SURE).sum()), int((sure < UNSURE).sum())
    all_of = "all" if most == sure.size else f"{most:,} of"
    text = f"The consensus is at least 90% sure of {all_of} {counted(sure.size, 'task')}, and less than 60% sure of "
    text += f"{few:,}." if few else "none."
    wrong = expected_wrong(model)
    if wrong is None:
        text += f" This confidence is the method's own ({model.slug}){'' if measured else ', and unchecked'}."
        return [Claim(text, rests_on(n_gold))]
    low, high = interval_of(wrong)
    expected = (
        f"About {wrong.count:,.0f} of its {counted(sure.size, 'answer')} {'is' if sure.size == 1 else 'are'} wrong: "
        f"between {low:,} and {high:,}, with a chance of 90 in 100."
    )
    return [Claim(text, rests_on(n_gold)), Claim(expected, wrong.basis)]


def gold_calibration(model: Any) -> Reliability | None:
    """Confidence against the share that is right among the gold answers; None where no gold was given."""
    make = getattr(model, "calibration", None)
    table = None if make is None else make()
    if table is None:
        return None
    columns = {name: np.asarray(table[name]) for name in ("low", "high", "n", "confidence", "right")}
    return Reliability(columns["low"], columns["high"], columns["n"], columns["confidence"], columns["right"])


def skill_sentences(audit: Audit, names: Sequence[Any]) -> dict[Any, str]:
    """How often each of some workers is right, with its interval, as the consensus sees it."""
    if not names:
        return {}
    each = list(dict.fromkeys(names))
    place = positions(as_vocabulary(each, "worker"), audit.labels.workers).tolist()
    table = audit.model.workers(LEVEL)
    skill, low, high = (table[column].to_numpy() for column in ("skill", "skill_low", "skill_high"))
    guessing = percent(1 / len(audit.model.classes_))
    return {
        name: f"Skill by the consensus: {percent(skill[at])} (90% interval {percent(low[at])} to {percent(high[at])}; "
        f"guessing has {guessing})."
        for name, at in zip(each, place, strict=True)
        if at >= 0
    }


# ---- what a truth says of it ------------------------------------------------------------------------------


def codes_for(model: Any, truth: Any) -> IntArray:
    """Known truth of each task of a fitted model as a position in its classes, -1 where unknown."""
    nobody = np.empty(0, np.int64)
    names = {"tasks": model.tasks_, "workers": model.workers_, "classes": model.classes_}
    return truth_codes(truth, CrowdLabels.from_codes(nobody, nobody, nobody, **names))


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
    def table(self) -> Reliability:
        """Confidence against the share that is right, in tenths of confidence."""
        return binned(self.sure, self.right, N_BINS)


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


def measured_accuracy(score: Score) -> Claim:
    """How often the consensus is right where the truth was given, beside what its confidence says there."""
    n, accuracy, sure = score.right.size, score.accuracy, float(score.sure.mean())
    low, high = wilson(accuracy, n)
    told = "as its confidence says"
    if abs(sure - accuracy) > LOOSE:
        told = "less often than it says" if sure > accuracy else "more often than it says"
    return Claim(
        f"Measured on {counted(n, 'task')}: {round(accuracy * n):,} answers are right, {accuracy:.1%} (90% interval "
        f"{low:.1%} to {high:.1%}), where its confidence says {sure:.1%}: right {told}. Confidence is off by "
        f"{score.calibration_error:.1%} on average (the calibration error).",
        TRUTH,
    )


def consensus_claims(audit: Audit, score: Score | None) -> list[Claim]:
    """How sure the consensus of an audit is, how many answers are wrong, and what a truth says of that."""
    found = confidence_claims(audit.model, int(gold_tasks(audit).sum()), measured=score is not None)
    return found if score is None else [*found, measured_accuracy(score)]
