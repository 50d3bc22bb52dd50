"""Hard tasks: those whose labellers differ more than their skills explain.

The score is the share D of the pairs of a task's labellers who differ, less what their own matrices A (`reference`)
lead one to expect over all classes,

    E[D] = Σ_k prior[k] mean_pairs (1 − Σ_l A[w, k, l] A[w', k, l]).

The test asks how badly even the class that explains a task's labels best does so, u = −max_k Σ_w log A[w, k, l_w], less
its mean over draws. Truth and labels of every task are drawn anew from the model, and the share of draws whose
*largest* u of all tasks reaches a task's own is its p-value. To single out one task among hundreds takes many labels on
it: of tasks on which everyone guesses among three classes, with 90 % right elsewhere, a sixth is found at 10 labels a
task, and nearly all at 25.

Assumes Dawid and Skene's model. Fails where a task's labels are fewer than three, or its labellers unreliable.

Cost: O(draws × labels), and less where nothing is found: draws end once nothing can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.leave_out_consensus import fit_reference
from crowdwise.audit.parametric_bootstrap import (
    affordable_label_draws,
    class_log_scores,
    max_statistic_p_values,
    simulate_scores_in_chunks,
)
from crowdwise.kernels.grouped_sums import sum_groups
from crowdwise.labels.engine_choice import choose_engine
from crowdwise.labels.errors import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TEST", "excess_disagreement", "find_hard_tasks"]

KIND = "hard task"
FEWEST_LABELS = 3  # of a task that may be called hard
MOMENTS = 100  # draws for the mean of a task's statistic


def excess_disagreement(labels: CrowdLabels, reference: CrowdReference | None = None) -> FloatArray:
    """How much more of a task's pairs of labellers differ than their skills explain (N,); NaN under three labels."""
    return disagreement_share(labels, labels.label) - expected_disagreement_share(
        labels, fit_reference(labels, fitted=reference)
    )


def find_hard_tasks(
    labels: CrowdLabels, *, level: float = 0.05, random_state: int = 0, reference: CrowdReference | None = None
) -> Screen:
    """Tasks whose labellers differ more than their skills explain.

    The `level` is the chance that any task is flagged where none is harder than others of its class. Other
    parameters: see `audit_tests`.
    """
    n = labels.labels_per_task
    if labels.n_classes < 2 or (n >= FEWEST_LABELS).sum() == 0:
        return Screen(KIND, skipped=f"No task has {FEWEST_LABELS} labels of two classes or more.")
    model = fit_reference(labels, fitted=reference)
    rng = np.random.default_rng(random_state)
    prior = np.exp(model.log_prior)
    table, flat = np.log(model.confusion), np.zeros(labels.n_classes)
    judged = n >= FEWEST_LABELS

    def draw_truths(tasks: slice) -> IntArray:
        drawn: IntArray = rng.choice(labels.n_classes, tasks.stop - tasks.start, p=prior / prior.sum())
        return drawn

    def simulate_misfits(draws: int) -> Iterator[tuple[slice, slice, FloatArray]]:
        for some, tasks, (best, _) in simulate_scores_in_chunks(
            labels, draw_truths, model.confusion, flat, table, rng, draws
        ):
            yield some, tasks, -best

    mean = np.zeros(labels.n_tasks)
    for _, tasks, worst in simulate_misfits(MOMENTS):
        mean[tasks] += worst.sum(axis=0) / MOMENTS
    draws = affordable_label_draws(labels)
    h = np.where(judged, -class_log_scores(labels, labels.label, flat, table).max(axis=1) - mean, np.nan)
    beyond = (
        (some, np.where(judged[tasks], worst - mean[tasks], -np.inf)) for some, tasks, worst in simulate_misfits(draws)
    )
    p_value = max_statistic_p_values(h, beyond, draws, level)
    if not (p_value <= level).any():
        return Screen(KIND)
    expected, observed = expected_disagreement_share(labels, model), disagreement_share(labels, labels.label)
    flagged = np.flatnonzero((p_value <= level) & (observed > expected))  # strange, but not disputed, is not hard
    findings = [
        Finding(
            kind=KIND,
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
    return Screen(KIND, tuple(findings))


def disagreement_share(labels: CrowdLabels, label: IntArray) -> FloatArray:
    """Share of the pairs of each task's labels that differ (N,); NaN under three labels.

    >>> from crowdwise.labels.crowd_labels import CrowdLabels
    >>> one = CrowdLabels.from_codes([0, 0, 0, 0], [0, 1, 2, 3], [1, 1, 1, 0], tasks=1, workers=4, classes=2)
    >>> disagreement_share(one, one.label).tolist()
    [0.5]
    """
    size = labels.n_classes
    votes = np.bincount(labels.task * np.int64(size) + label, minlength=labels.n_tasks * size).reshape(-1, size)
    n = labels.labels_per_task
    pairs = np.where(n >= FEWEST_LABELS, n * (n - 1.0), np.nan)
    return np.asarray(1 - (votes * (votes - 1)).sum(axis=1) / pairs, np.float64)


def expected_disagreement_share(labels: CrowdLabels, reference: CrowdReference) -> FloatArray:
    """Share of the pairs of each task's labellers who would differ by their matrices, over all classes (N,)."""
    n = labels.labels_per_task
    pairs = np.where(n >= FEWEST_LABELS, n * (n - 1.0), np.nan)
    same = np.zeros(labels.n_tasks)
    prior = np.exp(reference.log_prior)
    for k in range(labels.n_classes):
        total, alone = _sum_labeller_rows(labels, reference.confusion[:, k])
        same += prior[k] * ((total**2).sum(axis=1) - alone)
    return np.asarray(1 - same / pairs, np.float64)


def _sum_labeller_rows(labels: CrowdLabels, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum (N, K) of the rows (M, K) of each task's labellers, and of their squares (N,)."""
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        said = rows[labels.worker]
        return sum_groups(said, labels.task_ptr), sum_groups((said**2).sum(axis=1), labels.task_ptr)
    from crowdwise.kernels.compiled.row_sums_by_task import add_rows

    total, squares = np.zeros((labels.n_tasks, labels.n_classes)), np.zeros(labels.n_tasks)
    add_rows(labels.task, labels.worker, rows, total, squares)
    return total, squares


TEST = AuditTest(
    order=90,
    kinds=(
        FindingKind(
            KIND,
            "Hard tasks",
            "hard task",
            "hard tasks",
            means="labellers differ more than their skills explain",
            assumes="several labels a task",
        ),
    ),
    question="On which tasks do workers differ more than skill explains?",
    run=fill_arguments_from_crowd(find_hard_tasks),
)
