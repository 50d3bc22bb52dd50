"""Tasks in doubt: hard ones, wrong labels, and classes that the crowd mixes up.

**Hard tasks** (`find_hard_tasks`). The score is the share D of the pairs of a task's labellers who differ, less what
their own matrices A (`reference`) lead one to expect over all classes,

    E[D] = Σ_k prior[k] mean_pairs (1 − Σ_l A[w, k, l] A[w', k, l]).

The test asks how badly even the class that explains a task's labels best does so, u = −max_k Σ_w log A[w, k, l_w], less
its mean over draws. Truth and labels of every task are drawn anew from the model, and the share of draws whose
*largest* u of all tasks reaches a task's own is its p-value. To single out one task among hundreds takes many labels on
it: of tasks on which everyone guesses among three classes, with 90 % right elsewhere, a sixth is found at 10 labels a
task, and nearly all at 25.

**Probable mislabels** (`find_mislabels`). The label g that a task has: the truth or gold given, else the majority's.
With A the workers' matrices counted against g over all tasks, a task's label is doubted by

    s = log max_k prior[k] Π_w A[w, k, l_w] − log prior[g] Π_w A[w, g, l_w],    score = 1 − P(g | labels of the crowd).

As if every g were right and no task misled the crowd, labels are drawn anew from A and g, and the share of draws whose
largest s of all tasks reaches a task's own is its p-value: the crowd contradicts g. Whether g is wrong, or the task
misleads the crowd, is another question: where g was given, `gold_doubt` compares the two readings. A "mislabel" is
found where a wrong answer has a probability of `SURE` or more; else the task is a "disputed answer", a question to an
expert. (Dawid and Skene's own posterior is too sure of itself where labels are few: flagging the least probable labels
while the sum of their posteriors stays under 0.05 doubted right ones in 25 of 60 simulated honest crowds.) The score of
a majority's label is that of cleanlab for many annotators (Goh et al. 2022, "CROWDLAB"), with the crowd's model in
place of a classifier; that of a given label is the probability that it is wrong.

**Classes mixed up** (`find_confused_classes`): see `confused_classes`.

Assumes Dawid and Skene's model. Fails for hard tasks where a task's labels are fewer than three, or its labellers
unreliable; for majorities that are doubted where the crowd shares an error (check by hand).

Cost: O(draws × labels), and less where nothing is found: draws end once nothing can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from scipy.special import logsumexp

from crowdwise.audit.confused_classes import find_confused_classes
from crowdwise.audit.findings import Finding, Screen
from crowdwise.audit.gold_doubt import classify_gold
from crowdwise.audit.leave_out_consensus import fit_reference
from crowdwise.audit.parametric_bootstrap import drawn_again, largest_p_values
from crowdwise.labels.errors import quote
from crowdwise.labels.truth import truth_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.audit.leave_out_consensus import Reference
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["doubts", "find_confused_classes", "find_hard_tasks", "find_mislabels", "hardness"]

FEWEST_LABELS = 3  # of a task that may be called hard
SURE = 0.8  # probability from which a given label is called wrong; under 5 % of simulated misleading crowds reach it
DRAWS = 999
MOMENTS = 100  # draws for the mean of a task's statistic
MOST_DRAWN = 2 * 10**8  # labels drawn, or errors dealt, in all


# ---- hard tasks --------------------------------------------------------------------------------------------


def hardness(labels: CrowdLabels, reference: Reference | None = None) -> FloatArray:
    """How much more of a task's pairs of labellers differ than their skills explain (N,); NaN under three labels."""
    return differing(labels, labels.label) - expected_differing(labels, fit_reference(labels, fitted=reference))


def find_hard_tasks(
    labels: CrowdLabels, *, level: float = 0.05, seed: int = 0, reference: Reference | None = None
) -> Screen:
    """Tasks whose labellers differ more than their skills explain.

    Parameters
    ----------
    labels
        Who said what.
    level
        Chance that any task is flagged where none is harder than others of its class.
    seed
        Same seed, same answer.
    reference
        The crowd's model, if it is at hand.
    """
    n = labels.labels_per_task
    if labels.n_classes < 2 or (n >= FEWEST_LABELS).sum() == 0:
        return Screen("hard task", skipped=f"No task has {FEWEST_LABELS} labels of two classes or more.")
    model = fit_reference(labels, fitted=reference)
    rng = np.random.default_rng(seed)
    prior = np.exp(model.log_prior)
    table, flat = np.log(model.confusion), np.zeros(labels.n_classes)
    judged = n >= FEWEST_LABELS

    def truths(tasks: slice) -> IntArray:
        drawn: IntArray = rng.choice(labels.n_classes, tasks.stop - tasks.start, p=prior / prior.sum())
        return drawn

    def drawn(draws: int) -> Iterator[tuple[slice, slice, FloatArray]]:
        for some, tasks, (best, _) in drawn_again(labels, truths, model.confusion, flat, table, rng, draws):
            yield some, tasks, -best

    mean = np.zeros(labels.n_tasks)
    for _, tasks, worst in drawn(MOMENTS):
        mean[tasks] += worst.sum(axis=0) / MOMENTS
    draws = _draws(labels)
    h = np.where(judged, -_scores(labels, labels.label, flat, table).max(axis=1) - mean, np.nan)
    beyond = ((some, np.where(judged[tasks], worst - mean[tasks], -np.inf)) for some, tasks, worst in drawn(draws))
    p_value = largest_p_values(h, beyond, draws, level)
    if not (p_value <= level).any():
        return Screen("hard task")
    expected, observed = expected_differing(labels, model), differing(labels, labels.label)
    flagged = np.flatnonzero((p_value <= level) & (observed > expected))  # strange, but not disputed, is not hard
    findings = [
        Finding(
            kind="hard task",
            about="task",
            names=(labels.tasks[int(t)].as_py(),),
            score=float(np.clip(observed[t] - expected[t], 0, 1)),
            verdict=f"Task {quote(labels.tasks[int(t)].as_py())} is harder than others, or has no one answer.",
            evidence=f"{observed[t]:.0%} of the pairs among its {n[t]} labellers differ; their skills explain "
            f"{expected[t]:.0%}.",
            p_value=float(p_value[t]),
            how=f"labels drawn from the crowd's model, {draws} draws, largest of all tasks",
            advice="Read it: is it ambiguous, outside all classes, or badly shown? Mend or drop it, or ask an expert.",
        )
        for t in flagged[np.argsort(-h[flagged], kind="stable")]
    ]
    return Screen("hard task", tuple(findings))


def differing(labels: CrowdLabels, label: IntArray) -> FloatArray:
    """Share of the pairs of each task's labels that differ (N,); NaN under three labels.

    >>> from crowdwise.labels.model import CrowdLabels
    >>> one = CrowdLabels.from_codes([0, 0, 0, 0], [0, 1, 2, 3], [1, 1, 1, 0], tasks=1, workers=4, classes=2)
    >>> differing(one, one.label).tolist()
    [0.5]
    """
    size = labels.n_classes
    votes = np.bincount(labels.task * np.int64(size) + label, minlength=labels.n_tasks * size).reshape(-1, size)
    n = labels.labels_per_task
    pairs = np.where(n >= FEWEST_LABELS, n * (n - 1.0), np.nan)
    return np.asarray(1 - (votes * (votes - 1)).sum(axis=1) / pairs, np.float64)


def expected_differing(labels: CrowdLabels, reference: Reference) -> FloatArray:
    """Share of the pairs of each task's labellers who would differ by their matrices, over all classes (N,)."""
    n = labels.labels_per_task
    pairs = np.where(n >= FEWEST_LABELS, n * (n - 1.0), np.nan)
    same = np.zeros(labels.n_tasks)
    prior = np.exp(reference.log_prior)
    for k in range(labels.n_classes):
        total = np.zeros((labels.n_tasks, labels.n_classes))
        alone = np.zeros(labels.n_tasks)
        _add_rows(labels.task, labels.worker, reference.confusion[:, k], total, alone)
        same += prior[k] * ((total**2).sum(axis=1) - alone)
    return np.asarray(1 - same / pairs, np.float64)


# ---- mislabels ---------------------------------------------------------------------------------------------


def doubts(labels: CrowdLabels, truth: Any = None) -> FloatArray:
    """How much the label of each task is doubted (N,), from 0 to 1: the one given, else the majority's.

    NaN for tasks without labels, and for those without a given label where labels are given.
    """
    given = given_labels(labels, truth)
    return _doubts(_scores(labels, labels.label, *_counted(labels, given)), given)


def _doubts(scores: FloatArray, given: IntArray) -> FloatArray:
    right = np.exp(scores[np.arange(given.size), given] - logsumexp(scores, axis=1))
    return np.where(given >= 0, 1 - right, np.nan)


def find_mislabels(labels: CrowdLabels, *, truth: Any = None, level: float = 0.05, seed: int = 0) -> Screen:
    """Tasks whose given label (or, without one, the majority's) the crowd contradicts.

    Findings are of kind "mislabel" where the label is probably wrong, and of kind "disputed answer" where the task may
    as well mislead the crowd.

    Parameters
    ----------
    labels
        Who said what.
    truth
        The labels that tasks are given as true or gold, as for `read_truth`.
    level
        Chance that any task is found where all these labels are right, workers err independently, and no task is
        hard for everyone or misleads.
    seed
        Same seed, same answer.
    """
    if labels.n_classes < 2 or labels.n_workers < 2 or labels.n_labels == 0:
        return Screen("mislabel", skipped="Mislabels need two workers and two classes.")
    if truth is None and labels.labels_per_task.max(initial=0) < 2:
        return Screen("mislabel", skipped="No task has two labels.")
    given = given_labels(labels, truth)
    if not (given >= 0).any():
        return Screen("mislabel", skipped="No task with labels has a truth.")
    kinds = None if truth is None else classify_gold(labels, given)
    log_prior, table = _counted(labels, given)
    scores = _scores(labels, labels.label, log_prior, table)
    likeliest, score = scores.argmax(axis=1), _doubts(scores, given)
    observed = np.where(given >= 0, scores.max(axis=1) - scores[np.arange(labels.n_tasks), given], np.nan)
    rng = np.random.default_rng(seed)
    draws = _draws(labels)
    right = np.maximum(given, 0)
    drawn = drawn_again(labels, lambda tasks: right[tasks], np.exp(table), log_prior, table, rng, draws)
    p_value = largest_p_values(
        observed,
        ((some, np.where(given[tasks] >= 0, best - own, -np.inf)) for some, tasks, (best, own) in drawn),
        draws,
        level,
    )
    flagged = np.flatnonzero((p_value <= level) & (likeliest != given))
    wrong = score if kinds is None else kinds.wrong
    how = f"labels drawn as if all were right and no task misled the crowd, {draws} draws, largest of all tasks"
    findings = []
    for t in flagged[np.lexsort((-observed[flagged], -wrong[flagged]))]:
        place = int(t)
        said = int(np.count_nonzero(labels.label[labels.task == t] == likeliest[t]))
        doubt = Doubt(
            labels.tasks[place].as_py(),
            _class(labels, int(likeliest[t])),
            _class(labels, int(given[t])),
            said,
            int(labels.labels_per_task[t]),
        )
        words = _doubted_majority if kinds is None else _mislabel if wrong[t] >= SURE else _disputed
        findings.append(words(doubt, float(wrong[t]), float(p_value[t]), how))
    return Screen("mislabel", tuple(findings))


class Doubt(NamedTuple):
    """A task's name, the class that its labels speak for, its label, and how many of its labels say the former."""

    name: Any
    likely: str
    doubted: str
    said: int
    n_labels: int

    @property
    def votes_against(self) -> str:
        """How many labels contradict."""
        return f"{self.said} of its {self.n_labels} labels say {self.likely}"


def _mislabel(doubt: Doubt, score: float, p_value: float, how: str) -> Finding:
    return Finding(
        kind="mislabel",
        about="task",
        names=(doubt.name,),
        score=score,
        verdict=f"Task {quote(doubt.name)} is probably {doubt.likely}, not {doubt.doubted}, its given label.",
        evidence=f"{doubt.votes_against}, as workers do on ordinary tasks of that class; tasks that mislead the crowd "
        "look otherwise here.",
        p_value=p_value,
        how=how,
        advice="Have an expert decide, and mend the answer.",
    )


def _disputed(doubt: Doubt, score: float, p_value: float, how: str) -> Finding:
    return Finding(
        kind="disputed answer",
        about="task",
        names=(doubt.name,),
        score=score,
        verdict=f"Task {quote(doubt.name)}: most workers, by their record, contradict its given answer, "
        f"{doubt.doubted}: look at it.",
        evidence=f"{doubt.votes_against}. Either the answer is wrong or the task misleads; these labels cannot tell.",
        p_value=p_value,
        how=how,
        advice="Ask an expert. If the answer is right, the crowd needs instructions for tasks like this one.",
    )


def _doubted_majority(doubt: Doubt, score: float, p_value: float, how: str) -> Finding:
    return Finding(
        kind="mislabel",
        about="task",
        names=(doubt.name,),
        score=score,
        verdict=f"Task {quote(doubt.name)} is probably {doubt.likely}, not {doubt.doubted}, its majority's label.",
        evidence=f"{doubt.votes_against}, but those who do are right more often elsewhere than the others.",
        p_value=p_value,
        how=how,
        advice="Have an expert decide: the majority is wrong, or its best workers are.",
    )


def given_labels(labels: CrowdLabels, truth: Any = None) -> IntArray:
    """The label of each task that is doubted: the one given, else the majority's; -1 where there is none."""
    asked = labels.labels_per_task > 0
    if truth is not None:
        return np.where(asked, truth_codes(truth, labels), -1)
    votes = labels.vote_counts() + labels.class_shares / 2  # ties go to the class more common
    return np.where(asked, votes.argmax(axis=1), -1)


def _counted(labels: CrowdLabels, given: IntArray) -> tuple[FloatArray, FloatArray]:
    """Log of class shares and of the workers' matrices [worker, truth, label], counted against the given labels.

    Matrices are drawn towards the crowd's own by as many labels as there are classes, and that towards uniform by one.
    """
    size = labels.n_classes
    edges = given[labels.task] >= 0
    cell = (labels.worker[edges].astype(np.int64) * size + given[labels.task[edges]]) * size + labels.label[edges]
    counts = np.bincount(cell, minlength=labels.n_workers * size**2).reshape(-1, size, size).astype(np.float64)
    crowd = counts.sum(axis=0) + 1 / size
    crowd /= crowd.sum(axis=1, keepdims=True)
    counts += size * crowd
    shares = np.bincount(given[given >= 0], minlength=size) + 1.0
    return np.log(shares / shares.sum()), np.log(counts / counts.sum(axis=2, keepdims=True))


def _scores(labels: CrowdLabels, label: IntArray, log_prior: FloatArray, table: FloatArray) -> FloatArray:
    """Log of prior times likelihood of every class (N, K)."""
    found = np.empty((labels.n_tasks, labels.n_classes))
    for k in range(labels.n_classes):
        found[:, k] = log_prior[k] + np.bincount(labels.task, table[labels.worker, k, label], labels.n_tasks)
    return found


@njit(cache=True, nogil=True)
def _add_rows(task: IntArray, worker: IntArray, rows: FloatArray, total: FloatArray, squares: FloatArray) -> None:
    for edge in range(task.size):
        for k in range(total.shape[1]):
            chance = rows[worker[edge], k]
            total[task[edge], k] += chance
            squares[task[edge]] += chance * chance


def _draws(labels: CrowdLabels) -> int:
    """How many draws of all labels can be paid for."""
    return int(np.clip(MOST_DRAWN // (labels.n_labels * max(4, labels.n_classes // 4)), 199, DRAWS))


def _class(labels: CrowdLabels, k: int) -> str:
    return quote(labels.classes[k].as_py())
