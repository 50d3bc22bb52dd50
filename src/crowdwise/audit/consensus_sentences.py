"""What a consensus says of itself, sentence by sentence, each with what it rests on.

The page and the terminal take their sentences from here, so that both say the same numbers. An expected number of wrong
answers is said only where the model has one with an interval (`expected_wrong`); the mean confidence of a method that
was never checked is no such number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.audit.consensus_scores import LEVEL, gold_calibration_bins, mark_gold_tasks
from crowdwise.labels.source_location import format_count
from crowdwise.labels.vocabulary import as_vocabulary, positions
from crowdwise.metrics.calibration import wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.audit.audit import Audit
    from crowdwise.audit.consensus_scores import ConsensusScore
    from crowdwise.labels.types import FloatArray

__all__ = [
    "COUNTED",
    "SURE",
    "TRUTH",
    "Claim",
    "confidence_claims",
    "consensus_claims",
    "describe_measured_accuracy",
    "describe_model_basis",
    "expected_wrong_answers",
    "format_percent",
    "most_common_mistake",
    "skill_sentences",
    "whole_number_interval",
]

SURE, UNSURE = 0.9, 0.6
COUNTED = "a count of the labels"
TRUTH = "the truth given"


class Claim(NamedTuple):
    """A sentence with a number in it, and what the number rests on: in a few words, or in a sentence."""

    text: str
    basis: str

    @property
    def source(self) -> str:
        """What it rests on, as a sentence."""
        return self.basis if self.basis[:1].isupper() else f"Rests on: {self.basis}."


def format_percent(share: float) -> str:
    """A share as one reads it; 100 % and 0 % only where that is so.

    >>> format_percent(0.123), format_percent(0.9962), format_percent(1), format_percent(0.0001)
    ('12%', 'over 99%', '100%', 'under 1%')
    """
    if 0.99 < share < 1:
        return "over 99%"
    if 0 < share < 0.01:
        return "under 1%"
    return f"{share:.0%}"


def describe_model_basis(n_gold: int) -> str:
    """What a fitted model rests on.

    >>> describe_model_basis(0), describe_model_basis(50)
    ('the labels alone', 'the labels and 50 gold answers')
    """
    return f"the labels and {format_count(n_gold, 'gold answer')}" if n_gold else "the labels alone"


# ---- what the model says ----------------------------------------------------------------------------------


def expected_wrong_answers(model: Any) -> Any:
    """How many answers of the consensus are wrong (count, low, high, basis); None where the model cannot say."""
    estimate = getattr(model, "expected_wrong", None)
    return None if estimate is None else estimate(level=LEVEL)


def whole_number_interval(wrong: Any) -> tuple[int, int]:
    """Whole numbers around the interval of an expected number of wrong answers."""
    return math.floor(wrong.low), math.ceil(wrong.high)


def task_confidences(model: Any) -> FloatArray:
    """How sure the consensus is of each task that anyone labelled."""
    chosen = model._decide(model.posterior_)
    sure: FloatArray = model.posterior_[np.arange(chosen.size), chosen][model.labels_per_task_ > 0]
    return sure


def confidence_claims(model: Any, n_gold: int = 0, *, measured: bool = False) -> list[Claim]:
    """How sure the consensus is, how many of its answers are wrong, and how far gold answers bear that out.

    The two latter where the model can tell. Its confidence is called unchecked where neither they nor a truth
    (`measured`) speak of it.
    """
    sure = task_confidences(model)
    most, few = int((sure >= SURE).sum()), int((sure < UNSURE).sum())
    all_of = "all" if most == sure.size else f"{most:,} of"
    text = (
        f"The consensus is at least 90% sure of {all_of} {format_count(sure.size, 'task')}, and less than 60% sure of "
    )
    text += f"{few:,}." if few else "none."
    wrong, bins = expected_wrong_answers(model), gold_calibration_bins(model, n_gold)
    if wrong is None and not bins:
        text += f" This confidence is the method's own ({model.slug}){'' if measured else ', and unchecked'}."
    found = [Claim(text, describe_model_basis(n_gold))]
    if wrong is not None and sure.size > n_gold:
        low, high = whole_number_interval(wrong)
        of_all = f"{format_count(sure.size - n_gold, 'answer')}{' that are not gold' if n_gold else ''} are wrong"
        about = f"About {wrong.count:,.0f} of its {of_all} (90% interval {low:,} to {high:,})."
        found.append(Claim(about, wrong.basis))
    if bins:
        n = sum(each.n for each in bins)
        right, says = (sum(each.n * getattr(each, name) for each in bins) / n for name in ("right", "confidence"))
        answers = format_count(n, "gold answer")
        judged = f"On {answers}, each judged as if it were not known, it is right {right:.1%} of the time"
        found.append(Claim(f"{judged}, where its confidence says {says:.1%}.", "the labels and the other gold answers"))
    return found


def skill_sentences(audit: Audit, names: Sequence[Any]) -> dict[Any, str]:
    """How often each of some workers is right, with its interval, as the consensus sees it."""
    if not names:
        return {}
    each = list(dict.fromkeys(names))
    place = positions(as_vocabulary(each, "worker"), audit.labels.workers).tolist()
    table = audit.model.workers(LEVEL)
    skill, low, high = (table[column].to_numpy() for column in ("skill", "skill_low", "skill_high"))
    guessing = format_percent(1 / len(audit.model.classes_))
    return {
        name: f"Skill by the consensus: {format_percent(skill[at])} "
        f"(90% interval {format_percent(low[at])} to {format_percent(high[at])}; "
        f"guessing has {guessing})."
        for name, at in zip(each, place, strict=True)
        if at >= 0
    }


def most_common_mistake(model: Any, worker: int) -> tuple[int, int, float]:
    """The mistake that a worker makes most often: the true class, what they say, and how often they say it then."""
    wrong = model.confusion_[worker] * model.prior_[:, None]
    np.fill_diagonal(wrong, 0)
    truth, label = (int(at) for at in np.unravel_index(int(wrong.argmax()), wrong.shape))
    return truth, label, float(model.confusion_[worker, truth, label])


# ---- what a truth says of it ------------------------------------------------------------------------------


def describe_measured_accuracy(score: ConsensusScore) -> Claim:
    """How often the consensus is right where the truth was given, beside what its confidence says there."""
    n, accuracy, sure = score.right.size, score.accuracy, float(score.sure.mean())
    low, high = (float(bound) for bound in wilson_interval(np.asarray(accuracy), n, LEVEL))
    told = "as often as that, within chance"
    if not low <= sure <= high:
        told = "less often than that" if sure > accuracy else "more often than that"
    return Claim(
        f"Measured on {format_count(n, 'task')}: {round(accuracy * n):,} answers are right, {accuracy:.1%} (90% "
        f"interval {low:.1%} to {high:.1%}), where its confidence says {sure:.1%}: right {told}. Confidence is off by "
        f"{score.calibration_error:.1%} on average (the calibration error).",
        TRUTH,
    )


def consensus_claims(audit: Audit, score: ConsensusScore | None) -> list[Claim]:
    """How sure the consensus of an audit is, how many answers are wrong, and what a truth says of that."""
    found = confidence_claims(audit.model, int(mark_gold_tasks(audit).sum()), measured=score is not None)
    return found if score is None else [*found, describe_measured_accuracy(score)]
