"""Labels of tasks that are probably wrong: given as true or gold, or the majority's.

The label g that a task has is the truth or gold given, else the majority's. With A the workers' matrices counted
against g over all tasks, a task's label is doubted by

    s = log max_k prior[k] Π_w A[w, k, l_w] − log prior[g] Π_w A[w, g, l_w].

As if every g were right and no task misled the crowd, labels are drawn anew from A and g, and the share of draws whose
largest s of all tasks reaches a task's own is its p-value: the crowd contradicts g. Where g was given, tasks may be
harder for everyone, and right answers to those are contradicted by many: how many and how hard they are is told from
the answers given (`difficulty`), labels are drawn from easy and hard tasks accordingly, and each class counts in s by
the better of the two. Whether g is wrong, or the task misleads the crowd, is another question: `gold_doubt` compares
the two readings. A "mislabel" is found where a wrong answer has a probability of `SURE` or more; else the task is a
"disputed answer", a question to an expert. (Dawid and Skene's own posterior is too sure of itself where labels are few:
flagging the least probable labels while the sum of their posteriors stays under 0.05 doubted right ones in 25 of 60
simulated honest crowds.) The score of a majority's label, 1 − P(g | labels of the crowd), is that of cleanlab for many
annotators (Goh et al. 2022, "CROWDLAB"), with the crowd's model in place of a classifier; that of a given label is the
probability that it is wrong.

Assumes Dawid and Skene's model. Fails for majorities that are doubted where the crowd shares an error (check by hand).

Cost: O(draws × labels), and less where nothing is found: draws end once nothing can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.difficulty import (
    DrawPlan,
    allocate_draws_over_grid,
    fit_difficulty,
    likeliest_log_matrices_by_level,
)
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.gold_doubt import classify_gold, estimate_log_confusions
from crowdwise.audit.parametric_bootstrap import (
    affordable_label_draws,
    class_log_scores,
    max_statistic_p_values,
    simulate_scores_in_chunks,
)
from crowdwise.labels.errors import quote
from crowdwise.labels.truth import truth_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TEST", "find_mislabels", "given_or_majority_labels", "label_doubts"]

KIND = "mislabel"
DISPUTE = "disputed answer"
SURE = 0.8  # probability from which a given label is called wrong; under 5 % of simulated misleading crowds reach it


def label_doubts(labels: CrowdLabels, truth: Any = None) -> FloatArray:
    """How much the label of each task is doubted (N,), from 0 to 1: the one given, else the majority's.

    NaN for tasks without labels, and for those without a given label where labels are given.
    """
    given = given_or_majority_labels(labels, truth)
    scores = class_log_scores(labels, labels.label, *_estimate_log_confusions(labels, given))
    right = np.exp(scores[np.arange(given.size), given] - logsumexp(scores, axis=1))
    return np.where(given >= 0, 1 - right, np.nan)


def find_mislabels(labels: CrowdLabels, *, truth: Any = None, level: float = 0.05, random_state: int = 0) -> Screen:
    """Tasks whose given label (or, without one, the majority's) the crowd contradicts.

    Findings are of kind "mislabel" where the label is probably wrong, and of kind "disputed answer" where the task may
    as well mislead the crowd.

    Parameters
    ----------
    truth
        The labels that tasks are given as true or gold, as for `read_truth`.
    level
        Chance that any task is found where all these labels are right, workers err independently but for the
        difficulty of given tasks, and no task misleads.
    """
    if labels.n_classes < 2 or labels.n_workers < 2 or labels.n_labels == 0:
        return Screen(KIND, skipped="Mislabels need two workers and two classes.")
    if truth is None and labels.labels_per_task.max(initial=0) < 2:
        return Screen(KIND, skipped="No task has two labels.")
    given, draws = given_or_majority_labels(labels, truth), affordable_label_draws(labels)
    if not (given >= 0).any():
        return Screen(KIND, skipped="No task with labels has a truth.")
    if truth is None:
        log_prior, table = _estimate_log_confusions(labels, given)
        plans: Iterable[DrawPlan] = [DrawPlan(draws, np.exp(table), 0.0)]
        wrong = label_doubts(labels)
    else:
        difficulty = fit_difficulty(labels, given)
        log_prior, table = likeliest_log_matrices_by_level(labels, difficulty)
        plans = allocate_draws_over_grid(labels, difficulty, draws)
        wrong = classify_gold(labels, given, difficulty.if_right).wrong
    scores = (
        class_log_scores(labels, labels.label, log_prior, table)
        .reshape(labels.n_tasks, -1, labels.n_classes)
        .max(axis=1)
    )
    likeliest = scores.argmax(axis=1)
    observed = np.where(given >= 0, scores.max(axis=1) - scores[np.arange(labels.n_tasks), given], np.nan)
    drawn = simulate_if_labels_right(labels, given, plans, (log_prior, table), np.random.default_rng(random_state))
    p_value = max_statistic_p_values(observed, drawn, draws, level)
    flagged = np.flatnonzero((p_value <= level) & (likeliest != given))
    how = f"labels drawn as if all were right and no task misled the crowd, {draws} draws, largest of all tasks"
    findings = []
    for t in flagged[np.lexsort((-observed[flagged], -wrong[flagged]))]:
        name = labels.tasks[int(t)].as_py()
        likely, doubted = (_quote_class(labels, int(each[t])) for each in (likeliest, given))
        words = MAJORITY if truth is None else MISLABEL if wrong[t] >= SURE else DISPUTED
        said = np.count_nonzero(labels.label[labels.task == t] == likeliest[t])
        findings.append(
            Finding(
                kind=words.kind,
                about="task",
                names=(name,),
                score=float(wrong[t]),
                verdict=f"Task {quote(name)}{words.verdict.format(likely=likely, doubted=doubted)}",
                evidence=f"{said} of its {labels.labels_per_task[t]} labels say {likely}{words.evidence}",
                p_value=float(p_value[t]),
                how=how,
                advice=words.advice,
            )
        )
    return Screen(KIND, tuple(findings))


class DoubtWording(NamedTuple):
    """What is said of a task whose label is doubted, after its name and after how many labels contradict."""

    kind: str
    verdict: str
    evidence: str
    advice: str


MISLABEL = DoubtWording(
    kind=KIND,
    verdict=" is probably {likely}, not {doubted}, its given label.",
    evidence=", as workers do on ordinary tasks of that class; tasks that mislead the crowd look otherwise here.",
    advice="Have an expert decide, and mend the answer.",
)
DISPUTED = DoubtWording(
    kind=DISPUTE,
    verdict=": most workers, by their record, contradict its given answer, {doubted}: look at it.",
    evidence=". Either the answer is wrong or the task misleads; these labels cannot tell.",
    advice="Ask an expert. If the answer is right, the crowd needs instructions for tasks like this one.",
)
MAJORITY = DoubtWording(
    kind=KIND,
    verdict=" is probably {likely}, not {doubted}, its majority's label.",
    evidence=", but those who do are right more often elsewhere than the others.",
    advice="Have an expert decide: the majority is wrong, or its best workers are.",
)


def simulate_if_labels_right(
    labels: CrowdLabels,
    given: IntArray,
    plans: Iterable[DrawPlan],
    scored_by: tuple[FloatArray, FloatArray],
    rng: np.random.Generator,
) -> Iterator[tuple[slice, FloatArray]]:
    """Draw labels as if all given ones were right: which draws, and s of some tasks in them.

    Parameters
    ----------
    scored_by
        Log shares and log matrices [worker, state, label] of the statistic.
    """
    right = np.maximum(given, 0)
    first = 0
    for plan in plans:

        def draw_task_states(tasks: slice, share: float = plan.share) -> IntArray:
            hard = rng.random(tasks.stop - tasks.start) < share
            return np.asarray(right[tasks] + labels.n_classes * hard, np.int64)

        for some, tasks, (best, own) in simulate_scores_in_chunks(
            labels, draw_task_states, plan.matrices, *scored_by, rng, plan.draws
        ):
            yield slice(first + some.start, first + some.stop), np.where(given[tasks] >= 0, best - own, -np.inf)
        first += plan.draws


def given_or_majority_labels(labels: CrowdLabels, truth: Any = None) -> IntArray:
    """The label of each task that is doubted: the one given, else the majority's; -1 where there is none."""
    asked = labels.labels_per_task > 0
    if truth is not None:
        return np.where(asked, truth_codes(truth, labels), -1)
    votes = labels.vote_counts() + labels.class_shares / 2  # ties go to the class more common
    return np.where(asked, votes.argmax(axis=1), -1)


def _estimate_log_confusions(labels: CrowdLabels, given: IntArray) -> tuple[FloatArray, FloatArray]:
    """Log of class shares and of the workers' matrices [worker, truth, label], counted against the given labels."""
    known = np.flatnonzero(given >= 0)
    weight = np.zeros((labels.n_tasks, labels.n_classes))
    weight[known, given[known]] = 1.0
    return estimate_log_confusions(labels, weight)


def _quote_class(labels: CrowdLabels, k: int) -> str:
    return quote(labels.classes[k].as_py())


TEST = AuditTest(
    order=80,
    kinds=(
        FindingKind(
            KIND,
            "Probably wrong labels",
            "probably wrong label",
            "probably wrong labels",
            means="the given label of a task, or the majority's, is probably wrong",
            assumes="of given labels: several that are disputed, and ten labels a task or so",
        ),
        FindingKind(
            DISPUTE,
            "Given answers that the crowd contradicts",
            "disputed given answer",
            "disputed given answers",
            means="the crowd contradicts a given label; it may be wrong, or the task may mislead",
            assumes="an expert to look at it",
        ),
    ),
    question="Which labels, given as true or by the majority, are probably wrong?",
    run=fill_arguments_from_crowd(find_mislabels),
)
