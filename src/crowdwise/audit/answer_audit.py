"""The audit of answers that are no classes: who answers without looking, says the opposite, leans to a side, or copies.

The workers are dealt into five parts; the consensus that judges a worker is fitted without the worker's part. Of each
answer it is asked how far it agrees with that consensus (`kinds.agreement`), and on which side of it the answer lies. A
worker's slope, or mean, is then tested by Student's t with variances drawn to the crowd's (Smyth 2004);
p-values are corrected by Holm's method.

| finding | tested |
|---|---|
| unreliable | the agreement is below that of others, and less than half of it |
| opposite | the agreement is below 0 |
| leaning | the mean side lies beyond what matters, which each kind names |
| copies | equal answers (`identical_answers`), or dependence as of labels where there are few different answers |

What it assumes: most workers are honest, and those outside a part suffice for a consensus. When it fails: workers with
fewer than five answers that others gave too are not tested; a majority that says the opposite is believed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr

from crowdwise.audit.dependent_workers import find_dependence
from crowdwise.audit.finding_types import FINE, Finding, holm_correction
from crowdwise.audit.identical_answers import find_equal_pairs
from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.estimator_parameters import clone
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.kinds.agreement import Agreement
from crowdwise.kinds.answers import check_answers
from crowdwise.kinds.kind_registry import kind
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.kinds.answers import Answers
    from crowdwise.kinds.model import KindModel
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["AnswerAudit", "audit_answers"]

PARTS = 5  # of the workers; each is judged by the others
FEWEST = 5  # answers of a worker that can be tested
PRIOR_ANSWERS = 4.0  # answers' worth of the crowd's variance in that of a worker
SHARES = {"reliability": 0.6, "leaning": 0.2, "copies": 0.2}  # of the level, that each test has
LEAST_SHARE = 0.5  # of the agreement of others, below which a worker is unreliable
ADVICE = {
    "unreliable": "Look at some of the worker's answers; leave them out, or explain the task again.",
    "opposite": "Look at some of the worker's answers: the scale or the sides may have been taken the wrong way round.",
    "leaning": "Remind the worker of the scale; the methods with a bias for every worker correct for it.",
    "copies": "Ask whether they work together, share an account or a tool. Until then keep one answer of the two.",
}


@dataclass(frozen=True, eq=False)
class AnswerAudit:
    """What was found among the workers of answers of one kind.

    Attributes
    ----------
    model
        Fitted to all answers: its consensus and workers are shown.
    agreement, n_tested : (M,)
        Of each worker with the consensus of the others: 0 is chance, about 1 is usual of numbers and comparisons; not a
        number where no answer could be judged. And how many answers could be.
    findings
        The surest first.
    skipped
        Tests that do not apply, and why.
    """

    answers: Answers
    model: KindModel[Any]
    level: float
    agreement: FloatArray
    n_tested: IntArray
    findings: tuple[Finding, ...]
    skipped: dict[str, str]

    @property
    def verdicts(self) -> list[str]:
        """The kind of each worker's worst finding, by position among the workers."""
        place = {name: number for number, name in enumerate(self.answers.workers.to_pylist())}
        found = [FINE] * len(place)
        for finding in sorted(self.findings, key=lambda each: each.score):
            for name in finding.names:
                found[place[name]] = finding.kind
        return found

    def prune(self) -> tuple[Answers, list[Any]]:
        """The answers without the workers named, but for one of each group that copies; and who was left out."""
        counts = dict(zip(self.answers.workers.to_pylist(), self.answers.answers_per_worker.tolist(), strict=True))
        out: set[Any] = set()
        for finding in self.findings:
            if finding.kind == "leaning":
                continue
            stays = max(finding.names, key=counts.__getitem__) if finding.about == "workers" else None
            out |= {name for name in finding.names if name != stays}
        flagged = np.array([name in out for name in counts])
        if flagged[self.answers.worker].all():
            raise InputError("All workers who have answers are named: nothing would be left.")
        return self.answers.keep(~flagged[self.answers.worker]), [name for name in counts if name in out]


@ignore_underflow
def audit_answers(answers: Answers, *, method: str | None = None, gold: Any = None, level: float = 0.05) -> AnswerAudit:
    """Ask of the workers of any kind of answers who can be relied on; no truth is needed.

    Parameters
    ----------
    answers
        Answers of a kind, as its reader gives them.
    method
        Slug of the method that makes the consensus; by default that of the kind.
    gold
        Known truth of some tasks, for the consensus that is shown.
    level
        Chance that anyone is named in a crowd where there is nothing to find.

    Examples
    --------
    >>> from crowdwise.kinds import simulate_comparisons
    >>> crowd = simulate_comparisons(20, 10, answers_per_worker=60, adversaries=0.2, random_state=1)
    >>> [(found.kind, found.names) for found in audit_answers(crowd.answers).findings]
    [('opposite', (3,)), ('opposite', (6,))]
    """
    check_answers(answers)
    check_number("level", level, low=0, high=1, above=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)
        model = kind(answers.kind).method(method).load()()
        shown = clone(model).fit(answers, gold)
        judged = agreement_with_others(model, answers)
    findings: list[Finding] = []
    skipped: dict[str, str] = {}
    agreement, tested = np.full(answers.n_workers, np.nan), np.zeros(answers.n_workers, np.int64)
    if judged is None:
        skipped["reliability"] = "Nobody can be judged: that needs at least two workers who answered the same things."
    else:
        slopes, _ = _slopes(judged, answers.n_workers)
        tested = slopes.number
        agreement = np.where(tested > 0, slopes.mean, np.nan)
        findings += _find_unreliable(answers, judged, level * SHARES["reliability"])
        findings += _find_leaning(answers, judged, level * SHARES["leaning"])
    findings += _find_copies(answers, level * SHARES["copies"], skipped)
    findings.sort(key=lambda finding: (finding.p_value, -finding.score))
    return AnswerAudit(answers, shown, level, agreement, tested, tuple(findings), skipped)


def agreement_with_others(model: KindModel[Any], answers: Answers) -> Agreement | None:
    """How far each answer agrees with a consensus that its worker had no part in; None where there are no others."""
    there = np.flatnonzero(answers.answers_per_worker > 0)
    if there.size < 2:
        return None
    names = np.asarray(answers.workers.cast("string").to_pylist(), object)
    part = np.full(answers.n_workers, -1)
    by_name = there[np.argsort(names[there])]
    part[by_name] = np.random.default_rng(0).permutation(np.arange(there.size) % min(PARTS, there.size))
    found = []
    for number in range(int(part.max()) + 1):
        own = part[answers.worker] == number
        found.append(clone(model).fit(answers.keep(~own))._agreement(answers.keep(own)))
    names_of_arrays = ("worker", "question", "said", "expected", "lean")
    arrays = {name: np.concatenate([getattr(each, name) for each in found]) for name in names_of_arrays}
    return Agreement(**arrays, sides=found[0].sides, least_lean=found[0].least_lean)


# ---- tests ------------------------------------------------------------------------------------------------


def _find_unreliable(answers: Answers, judged: Agreement, level: float) -> list[Finding]:
    own, others = _slopes(judged, answers.n_workers)
    unreliable, opposite = holm_correction(own.p_below(others)), holm_correction(own.p_below(0.0))
    few = own.mean < LEAST_SHARE * others
    found = []
    for who in np.flatnonzero((few & (unreliable <= level)) | (opposite <= level)):
        against = bool(opposite[who] <= level)
        share = own.mean[who] / max(others[who], 1e-12)
        evidence = (
            f"Over {own.number[who]:,} answers the agreement with the consensus of the others is {own.mean[who]:.2f}; "
            f"that of others is {others[who]:.2f}, and 0 is chance."
        )
        found.append(
            Finding(
                "opposite" if against else "unreliable",
                "worker",
                (answers.workers[int(who)].as_py(),),
                float(np.clip(1 - share, 0, 1)),
                "says the opposite of the others" if against else "agrees little with the others",
                evidence,
                float(opposite[who] if against else unreliable[who]),
                "Student's t over answers, × workers (Holm)",
                ADVICE["opposite" if against else "unreliable"],
            )
        )
    return found


def _find_leaning(answers: Answers, judged: Agreement, level: float) -> list[Finding]:
    if not judged.lean.size:
        return []
    known = np.isfinite(judged.lean) & np.isfinite(judged.said)
    lean = _Slopes.fit(judged.worker[known], judged.lean[known], np.ones(int(known.sum())), answers.n_workers)
    low, high = lean.p_below(-judged.least_lean), 1 - lean.p_below(judged.least_lean)
    p_value = holm_correction(np.minimum(2 * np.fmin(low, high), 1.0))
    means = lean.mean
    found = []
    for who in np.flatnonzero(p_value <= level):
        side = judged.sides[int(means[who] > 0)]
        found.append(
            Finding(
                "leaning",
                "worker",
                (answers.workers[int(who)].as_py(),),
                float(np.clip(abs(means[who]) / 2, 0, 1)),
                side,
                f"Over {lean.number[who]:,} answers the worker is off by {abs(means[who]):.2f} to that side on "
                f"average, where {judged.least_lean:g} matters"
                + (", in standard deviations of the consensus." if "answers" in side else ", 0 being even."),
                float(p_value[who]),
                "Student's t over answers, × workers (Holm)",
                ADVICE["leaning"],
            )
        )
    return found


def _find_copies(answers: Answers, level: float, skipped: dict[str, str]) -> list[Finding]:
    labels = answers.to_labels()
    if labels is not None:
        screen = find_dependence(labels, level=level)
        if screen.skipped:
            skipped["copies"] = screen.skipped
        return list(screen.findings)
    columns = answers.equality_columns()
    if columns is None:
        skipped["copies"] = "Equal answers say nothing of this kind: right ones are equal as well."
        return []
    question, said = columns
    names = answers.workers
    return [
        Finding(
            "copies",
            "workers",
            (names[pair.first].as_py(), names[pair.second].as_py()),
            min(pair.equal / max(pair.shared, 1), 1.0),
            "give the very same answers",
            f"Of {pair.shared:,} answers of the first that are unusual, to what both were asked, the second gave the "
            f"very same to {pair.equal:,}; chance makes {pair.expected:.1f} likely.",
            pair.p_value,
            "Poisson tail, × pairs of workers",
            ADVICE["copies"],
        )
        for pair in find_equal_pairs(answers.worker, question, said, level)
    ]


# ---- statistics -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Slopes:
    """Of each worker (M,): the slope of what they said on what was expected, its error, and over how many answers."""

    mean: FloatArray
    error: FloatArray
    number: IntArray

    @classmethod
    def fit(cls, worker: IntArray, said: FloatArray, expected: FloatArray, n_workers: int) -> _Slopes:
        """By least squares through 0, with variances about the line drawn to that of all workers."""
        number = np.bincount(worker, minlength=n_workers)
        squares = np.maximum(np.bincount(worker, expected**2, n_workers), 1e-12)
        slope = np.bincount(worker, said * expected, n_workers) / squares
        left = np.bincount(worker, (said - slope[worker] * expected) ** 2, n_workers)
        within = float(left.sum() / max((number - 1).clip(min=0).sum(), 1))
        variance = (PRIOR_ANSWERS * within + left) / (PRIOR_ANSWERS + np.maximum(number - 1, 0))
        return cls(slope, np.sqrt(variance / squares), number)

    def p_below(self, value: FloatArray | float) -> FloatArray:
        """The p-value of a slope's being at least this value; NaN for workers of too few answers."""
        freedom = PRIOR_ANSWERS + np.maximum(self.number - 1, 0)
        p_value = stdtr(freedom, (self.mean - value) / np.maximum(self.error, 1e-300))
        tested: FloatArray = np.where(self.number >= FEWEST, p_value, np.nan)
        return tested


def _slopes(judged: Agreement, n_workers: int) -> tuple[_Slopes, FloatArray]:
    """The slope of each worker, and that of the others (M,): on the same questions where a slope is a mean."""
    known = np.isfinite(judged.said) & np.isfinite(judged.expected)
    worker, said, expected = judged.worker[known], judged.said[known], judged.expected[known]
    own = _Slopes.fit(worker, said, expected, n_workers)
    if np.all(expected == 1):
        usual = np.bincount(worker, _mean_of_others(judged.question[known], said), n_workers)
        return own, usual / np.maximum(own.number, 1)
    products, squares = np.bincount(worker, said * expected, n_workers), np.bincount(worker, expected**2, n_workers)
    others: FloatArray = (products.sum() - products) / np.maximum(squares.sum() - squares, 1e-12)
    return own, others


def _mean_of_others(question: IntArray, values: FloatArray) -> FloatArray:
    """Mean (n,) of the other answers to the same question; of a question that has no other that of all."""
    if not values.size:
        return values
    _, codes = np.unique(question, return_inverse=True)
    sums, counts = np.bincount(codes, values)[codes], np.bincount(codes)[codes]
    others: FloatArray = np.where(counts > 1, (sums - values) / np.maximum(counts - 1, 1), values.mean())
    return others
