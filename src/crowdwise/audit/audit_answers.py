"""The audit of answers that are no classes: who answers without looking, says the opposite, leans to a side, or copies.

The workers are dealt into five parts; the consensus that judges a worker is fitted without the worker's part. Of each
answer it is asked how much nearer it is to that consensus than chance makes it (`kinds.agreement`), and on which side
of it the answer lies. A worker's mean is then tested by Student's t with variances drawn to the crowd's (Smyth 2004);
p-values are corrected by Holm's method.

| finding | tested |
|---|---|
| unreliable | gains are less than half of what others gain on the same questions |
| opposite | gains are below 0 |
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
from crowdwise.kinds.agreement import Agreement
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
TESTS = 3  # that share the level
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
    gain, n_tested : (M,)
        Mean gain of each worker's answers over chance, not a number where none could be judged; and how many could.
    findings
        The surest first.
    skipped
        Tests that do not apply, and why.
    """

    answers: Answers
    model: KindModel[Any]
    level: float
    gain: FloatArray
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
    [('opposite', (8,)), ('opposite', (9,))]
    """
    check_number("level", level, low=0, high=1, above=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)
        model = kind(answers.kind).method(method).load()()
        shown = clone(model).fit(answers, gold)
        judged = agreement_with_others(model, answers)
    findings: list[Finding] = []
    skipped: dict[str, str] = {}
    gain, tested = np.full(answers.n_workers, np.nan), np.zeros(answers.n_workers, np.int64)
    if judged is None:
        skipped["reliability"] = "Nobody can be judged: that needs at least two workers who answered the same things."
    else:
        known = np.isfinite(judged.gain)
        tested = np.bincount(judged.worker[known], minlength=answers.n_workers)
        sums = np.bincount(judged.worker[known], judged.gain[known], answers.n_workers)
        gain = np.where(tested > 0, sums / np.maximum(tested, 1), np.nan)
        findings += _find_unreliable(answers, judged, level / TESTS) + _find_leaning(answers, judged, level / TESTS)
    findings += _find_copies(answers, level / TESTS, skipped)
    findings.sort(key=lambda finding: (finding.p_value, -finding.score))
    return AnswerAudit(answers, shown, level, gain, tested, tuple(findings), skipped)


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
    arrays = {
        name: np.concatenate([getattr(each, name) for each in found]) for name in ("worker", "question", "gain", "lean")
    }
    return Agreement(**arrays, sides=found[0].sides, least_lean=found[0].least_lean)


# ---- tests ------------------------------------------------------------------------------------------------


def _find_unreliable(answers: Answers, judged: Agreement, level: float) -> list[Finding]:
    known = np.isfinite(judged.gain)
    worker, gain = judged.worker[known], judged.gain[known]
    usual = _gain_of_others(judged.question[known], gain)
    short = _t_test(worker, gain - usual / 2, answers.n_workers)
    below = _t_test(worker, gain, answers.n_workers)
    expected = _t_test(worker, usual, answers.n_workers).mean
    unreliable, opposite = holm_correction(short.p_low), holm_correction(below.p_low)
    found = []
    for who in np.flatnonzero((unreliable <= level) | (opposite <= level)):
        against = bool(opposite[who] <= level)
        share = below.mean[who] / max(expected[who], 1e-12)
        evidence = (
            f"Over {below.number[who]:,} answers the agreement with the consensus of the others is "
            f"{below.mean[who]:.2f}; that of others on the same questions is {expected[who]:.2f}, and 0 is chance."
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
    known = np.isfinite(judged.lean) & np.isfinite(judged.gain)
    worker, lean = judged.worker[known], judged.lean[known]
    above = _t_test(worker, judged.least_lean - lean, answers.n_workers)
    below = _t_test(worker, lean + judged.least_lean, answers.n_workers)
    p_value = holm_correction(np.minimum(2 * np.fmin(above.p_low, below.p_low), 1.0))
    means = _t_test(worker, lean, answers.n_workers).mean
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
                f"Over {above.number[who]:,} answers the worker is off by {abs(means[who]):.2f} to that side on "
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
class _Means:
    """Of each worker (M,): the mean, how many it is over, and the p-value of its being 0 or more; NaN if not tested."""

    mean: FloatArray
    number: IntArray
    p_low: FloatArray


def _t_test(worker: IntArray, values: FloatArray, n_workers: int) -> _Means:
    """Whether the mean of a worker's values lies below 0, with the variance drawn to that within all workers."""
    number = np.bincount(worker, minlength=n_workers)
    mean = np.bincount(worker, values, n_workers) / np.maximum(number, 1)
    squares = np.bincount(worker, (values - mean[worker]) ** 2, n_workers)
    within = float(squares.sum() / max((number - 1).clip(min=0).sum(), 1))
    freedom = PRIOR_ANSWERS + np.maximum(number - 1, 0)
    error = np.sqrt((PRIOR_ANSWERS * within + squares) / freedom / np.maximum(number, 1))
    p_low = np.where(number >= FEWEST, stdtr(freedom, mean / np.maximum(error, 1e-300)), np.nan)
    return _Means(mean, number, p_low)


def _gain_of_others(question: IntArray, gain: FloatArray) -> FloatArray:
    """Mean gain (n,) of the other answers to the same question; of a question that has no other that of all."""
    _, codes = np.unique(question, return_inverse=True)
    sums, counts = np.bincount(codes, gain)[codes], np.bincount(codes)[codes]
    others: FloatArray = np.where(counts > 1, (sums - gain) / np.maximum(counts - 1, 1), gain.mean())
    return others
