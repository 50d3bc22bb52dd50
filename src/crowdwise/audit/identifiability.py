"""Can any of this be believed? What the theorems need of the labels, one by one, each answer with its consequence.

| question | who needs it | here |
|---|---|---|
| do workers agree more than by chance? | everyone | `check_agreement` |
| are all workers linked by tasks in common? | every method that compares workers | `check_connected` |
| do three groups of workers tell all classes apart? | Moments (Zhang et al. 2014) | `check_three_views` |
| is the mean matrix diagonally dominant? | Tanno et al. 2019, theorem 1; EM's start | `check_dominance` |
| does the consensus tell all classes apart? | Ibrahim et al.'s log det criterion | `check_class_separation` |
| has every class an anchor task or an expert? | separability, Ibrahim et al. 2025 | `check_anchors` |
| are the workers' answers scattered enough? | sufficiently scattered condition, Huang et al. 2014 | `check_scatter` |

Answers are yes, no, or "the labels do not show it". No is said of what is plain from who labelled what, or where a
bootstrap of tasks is sure at `level`.

A model fitted to labels finds in them what it looks for. Rates are therefore those of workers it has not seen: the
crowd is halved at random, and the labels of each half are regressed (`reference.rates`) on the posterior by the other.

Assumes Dawid and Skene's model, fitted from the majority's start. One thing labels alone never show: whether the
majority is right. A crowd that swaps two classes throughout gives the same labels, with the names exchanged, as one
that does not; all answers are relative to the majority. Some tasks with a known truth settle it. Of classes that the
consensus hardly ever gives (`ENOUGH`) nothing is claimed.

Cost: O(labels × K²), and the bootstrap O(400 × tasks × K²).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.finding_types import FACT, Finding, Screen
from crowdwise.audit.leave_out_consensus import fit_reference, one_hot, solve_rates
from crowdwise.audit.resampling import bayesian_bootstrap
from crowdwise.kernels import outer_sums, outer_sums_with_zeros
from crowdwise.labels.describe import find_connected_parts
from crowdwise.labels.errors import listing
from crowdwise.metrics.identifiability_conditions import (
    class_separation,
    crowd_confusion,
    expert_radius,
    find_unanchored,
    scatter_radius,
)

if TYPE_CHECKING:
    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

    Sums = tuple[FloatArray, FloatArray]

__all__ = ["TEST", "ConditionAnswer", "check_conditions", "find_unidentifiable"]

KIND = "identifiability"

GUESSES = 0.05  # agreement beyond habits, as a share of what is possible (κ), under which workers might all guess
FLAT = 0.01  # contrast under which the consensus hardly tells some classes apart
ENOUGH = 10  # labels of tasks of a class by the consensus, without which nothing is claimed of it
NOISE = 2.0  # deviations of its least known row that a matrix's smallest singular value has, to be of full rank
SCATTER_ANSWERS = 30  # answers "l" of a worker, without which they are not asked what l says of the classes
DRAW = 10  # answers of the crowd that count as a worker's own there: the farthest of many rows is so by chance as well
MOST_ROWS = 2000  # labels of workers that are looked at, the most frequent first
MOST_CELLS = 10**8  # of matrices of all tasks, in memory at one time


class ConditionAnswer(NamedTuple):
    """A question that a theorem asks, answered.

    Attributes
    ----------
    question
        In a few words.
    holds
        True, False, or None where the labels do not show it.
    words
        The answer, in a sentence.
    consequence
        What follows for the user.
    score
        How bad, from 0 to 1.
    """

    question: str
    holds: bool | None
    words: str
    consequence: str
    score: float = 0.0


def check_conditions(
    labels: CrowdLabels, *, level: float = 0.05, random_state: int = 0, reference: CrowdReference | None = None
) -> tuple[ConditionAnswer, ...]:
    """Every question with its answer; `level` is the chance of a no, where a test is made, that should be a yes."""
    reference = fit_reference(labels, fitted=reference)
    q = posterior_from_other_workers(labels, random_state)
    used = np.flatnonzero((q**2).sum(axis=0) >= ENOUGH)
    q, said = q[:, used], one_hot(labels)[:, used]
    of_workers = regression_sums(q, said, labels.worker, labels.n_workers)
    return (
        check_agreement(labels, level),
        check_connected(labels),
        check_three_views(labels, of_workers, used),
        check_dominance(labels, q, said, used, level, random_state),
        check_class_separation(labels, reference, used),
        check_anchors(labels, reference, of_workers, used),
        check_scatter(labels, of_workers, used, random_state),
    )


def regression_sums(q: FloatArray, said: FloatArray, unit: IntArray, n_units: int) -> Sums:
    """Σ q qᵀ and Σ q saidᵀ over the labels of each unit, for `solve_rates`."""
    return outer_sums(q, q, unit, n_units), outer_sums_with_zeros(q, said, unit, n_units)


def posterior_from_other_workers(labels: CrowdLabels, random_state: int) -> FloatArray:
    """Posterior of each label's task (n_labels, K) by the half of the workers who do not count hers among them."""
    half = np.zeros(labels.n_workers, np.bool_)
    half[np.random.default_rng(random_state).permutation(labels.n_workers)[: labels.n_workers // 2]] = True
    first = half[labels.worker]
    q = np.tile(labels.class_shares, (labels.n_labels, 1))
    for mine in (first, ~first):
        if mine.any():
            q[~mine] = fit_reference(labels.keep(mine)).posterior[labels.task[~mine]]
    return q


def find_unidentifiable(
    labels: CrowdLabels, *, level: float = 0.05, random_state: int = 0, reference: CrowdReference | None = None
) -> Screen:
    """What speaks against believing any model of these labels: the questions whose answer is no.

    The `level` is the chance of a no, where a test is made, that should be a yes. Other parameters: see
    `audit_tests`.
    """
    if labels.n_labels == 0 or int((labels.class_shares > 0).sum()) < 2:
        return Screen(KIND, skipped="There are no labels of two classes: nothing is to be told apart.")
    findings = [
        Finding(
            kind=KIND,
            about="crowd",
            names=(answer.question,),
            score=answer.score,
            verdict=answer.words,
            evidence=answer.consequence,
            p_value=level if answer.question in HOW else 0.0,
            how=HOW.get(answer.question, FACT),
            advice="Find the truth of some tasks of each class and part, give it as gold; collect labels that overlap.",
        )
        for answer in check_conditions(labels, level=level, random_state=random_state, reference=reference)
        if answer.holds is False
    ]
    return Screen(KIND, tuple(sorted(findings, key=lambda finding: -finding.score)))


# ---- the questions -----------------------------------------------------------------------------------------

AGREEING = "Do workers agree more than by chance?"
LINKED = "Are all workers linked by tasks in common?"
VIEWS = "Do three groups of workers tell all classes apart?"
DOMINANT = "Is every class said most often when it is true?"
APART = "Does the consensus tell all classes apart?"
ANCHORED = "Has every class a sure task or an expert?"
SCATTERED = "Are the workers' answers scattered enough?"
HOW = {AGREEING: f"κ with the tasks as sample, surely under {GUESSES}", DOMINANT: "bootstrap of tasks"}


def check_agreement(labels: CrowdLabels, level: float) -> ConditionAnswer:
    """Whether labels of a task agree more often than their workers' habits make them; tasks are the sample."""
    labels = labels.keep(labels.labels_per_worker[labels.worker] > 1)  # one label shows no habit
    alike, by_habit = np.zeros((2, labels.n_tasks))
    for k in range(labels.n_classes):
        said = labels.label == k
        habit = np.bincount(labels.worker, said, labels.n_workers) / np.maximum(labels.labels_per_worker, 1)
        times = np.bincount(labels.task, said, labels.n_tasks)
        chances = habit[labels.worker]
        alike += times * (times - 1) / 2
        by_habit += np.bincount(labels.task, chances, labels.n_tasks) ** 2 / 2
        by_habit -= np.bincount(labels.task, chances**2, labels.n_tasks) / 2
    pairs = labels.labels_per_task * (labels.labels_per_task - 1) / 2
    left = float((pairs - by_habit).sum())  # what habits leave to agree on
    if left <= 0 or (pairs > 0).sum() < ENOUGH:
        why = "Too few tasks have labels of two workers whose habits are known."
        return ConditionAnswer(AGREEING, None, "The labels do not show it.", why)
    kappa = float((alike - by_habit).sum()) / left
    error = float(np.sqrt(((alike - by_habit - kappa * (pairs - by_habit)) ** 2).sum())) / left
    shares = (
        f"{alike.sum() / pairs.sum():.0%} of the pairs agree, {by_habit.sum() / pairs.sum():.0%} would by habit alone"
    )
    if kappa > -ndtri(level) * error:
        return ConditionAnswer(AGREEING, True, f"Yes: {shares}.", "There is something in the tasks that workers see.")
    consequence = "The labels may be guesses, and then so is all that is said of tasks and workers here."
    if kappa + ndtri(1 - level) * error < GUESSES:
        return ConditionAnswer(AGREEING, False, f"No: {shares}.", consequence, 1 - max(kappa, 0.0) / GUESSES)
    return ConditionAnswer(AGREEING, None, f"The labels do not show it: {shares}.", consequence)


def check_connected(labels: CrowdLabels) -> ConditionAnswer:
    """Whether the graph of workers and tasks has one part."""
    active = labels.labels_per_worker > 0
    parts = np.bincount(find_connected_parts(labels.task_ptr, labels.worker, labels.n_workers)[active], minlength=1)
    sizes = np.sort(parts[parts > 0])[::-1]
    if sizes.size == 1 and active.sum() > 1:
        return ConditionAnswer(
            LINKED, True, "Yes: every worker is linked to every other by tasks in common.", "All are comparable."
        )
    if active.sum() == 1:
        words, alone = "No: there is a single worker.", 1.0
    else:
        counts = listing(sizes.tolist())
        words = f"No: the crowd falls into {sizes.size} parts without a task in common (workers: {counts})."
        alone = 1 - float(sizes[0]) / float(sizes.sum())
    consequence = (
        "Workers of different parts cannot be compared, and one part's classes may be swapped against another's."
    )
    return ConditionAnswer(LINKED, False, words, consequence, alone)


def check_three_views(labels: CrowdLabels, of_workers: Sums, used: IntArray) -> ConditionAnswer:
    """Whether three groups of workers have mean matrices of full rank, beyond doubt by their numbers of labels."""
    active = np.flatnonzero(labels.labels_per_worker)
    if active.size < 3:
        return ConditionAnswer(
            VIEWS,
            False,
            "No: there are fewer than three workers.",
            "Many different pairs of matrices explain the labels of two workers equally well: skills are guesses.",
            1.0,
        )
    if used.size < 2:
        return ConditionAnswer(
            VIEWS, None, "The labels do not show it.", "The consensus hardly ever gives a second class."
        )
    busiest = active[np.argsort(-labels.labels_per_worker[active], kind="stable")]
    gram, cross = (np.array([each[busiest[group::3]].sum(axis=0) for group in range(3)]) for each in of_workers)
    smallest = np.linalg.svd(solve_rates(gram, cross), compute_uv=False)[:, -1]
    least = np.maximum(np.einsum("gkk->gk", gram).min(axis=1), 1e-12)
    if (smallest >= NOISE / np.sqrt(least)).all():
        return ConditionAnswer(VIEWS, True, "Yes.", "Workers' matrices can be told from the truth.")
    return ConditionAnswer(
        VIEWS,
        None,
        "The labels do not show it.",
        "Workers' matrices may not be unique; a simpler model (one-coin) asks less of the labels.",
    )


def check_dominance(
    labels: CrowdLabels, q: FloatArray, said: FloatArray, used: IntArray, level: float, random_state: int
) -> ConditionAnswer:
    """Whether each class is said more often when it is true than when any other is, by a bootstrap of tasks."""
    if used.size < 2:
        return ConditionAnswer(
            DOMINANT, None, "The labels do not show it.", "The consensus hardly ever gives a second class."
        )
    if labels.n_tasks * used.size**2 > MOST_CELLS:
        return ConditionAnswer(
            DOMINANT, None, "Not asked: there are too many tasks and classes.", "Classes may be swapped."
        )
    gram, cross = regression_sums(q, said, labels.task, labels.n_tasks)
    others = ~np.eye(used.size, dtype=np.bool_)

    def dominance_margins(weights: FloatArray) -> FloatArray:
        mean = solve_rates(np.tensordot(weights, gram, 1), np.tensordot(weights, cross, 1))
        rest = np.where(others, mean, -np.inf).max(axis=1)
        return np.asarray(np.einsum("bkk->bk", mean) - rest)

    found = bayesian_bootstrap(dominance_margins, labels.n_tasks, random_state=random_state)
    low, high = np.quantile(found, [level / used.size / 2, 1 - level / used.size / 2], axis=0)
    names = [labels.classes[int(k)].as_py() for k in used]
    weak = sorted(name for name, most in zip(names, high, strict=True) if most < 0)
    unsure = sorted(name for name, least in zip(names, low, strict=True) if least <= 0)
    if weak:
        return ConditionAnswer(
            DOMINANT,
            False,
            f"No: the crowd says {listing(weak)} no more often when it is true than when something else is.",
            "Classes may have been swapped, by any method, without anyone noticing.",
            float(np.clip(-np.median(found, axis=0).min(), 0, 1)),
        )
    if unsure:
        return ConditionAnswer(
            DOMINANT,
            None,
            f"The labels do not show it for {listing(unsure)}.",
            "These classes may have been swapped with others.",
        )
    return ConditionAnswer(
        DOMINANT, True, "Yes, if the majority is right more often than not.", "Classes keep their names."
    )


def check_class_separation(labels: CrowdLabels, reference: CrowdReference, used: IntArray) -> ConditionAnswer:
    """Whether the posterior of tasks makes differences between all classes."""
    if used.size < 2:
        return ConditionAnswer(
            APART, None, "The labels do not show it.", "The consensus hardly ever gives a second class."
        )
    found = class_separation(reference.posterior[labels.labels_per_task > 0][:, used])
    if found >= FLAT:
        return ConditionAnswer(APART, True, "Yes.", "The classes are different things to this crowd.")
    return ConditionAnswer(
        APART,
        False,
        f"No: some classes are hardly told apart (contrast {found:.3f} of 1).",
        "The consensus between these classes is arbitrary. Merge them, or get labels of those who know the difference.",
        1 - found / FLAT,
    )


def check_anchors(labels: CrowdLabels, reference: CrowdReference, of_workers: Sums, used: IntArray) -> ConditionAnswer:
    """Whether each class has a task of which the consensus is sure, or a worker who says it when and only when true."""
    if used.size == 0:
        return ConditionAnswer(ANCHORED, None, "The labels do not show it.", "They are too few to say.")
    cells = labels.worker.astype(np.int64) * labels.n_classes + labels.label
    said = np.bincount(cells, minlength=labels.n_workers * labels.n_classes).reshape(-1, labels.n_classes)
    confusion = np.clip(solve_rates(*of_workers), 0, 1)
    alone = find_unanchored(reference.posterior[labels.labels_per_task > 0][:, used], confusion, said[:, used])
    names = sorted(labels.classes[int(used[k])].as_py() for k in alone)
    if not names:
        return ConditionAnswer(ANCHORED, True, "Yes.", "Each class is pinned to something.")
    return ConditionAnswer(
        ANCHORED,
        False,
        f"No: there is neither a task that is surely {listing(names)} nor a worker who is an expert of it.",
        "What the model calls by these names may be a mixture of classes.",
        len(names) / used.size,
    )


def check_scatter(labels: CrowdLabels, of_workers: Sums, used: IntArray, random_state: int) -> ConditionAnswer:
    """Whether the answers of workers are as scattered as with an expert of each class; a no is no fault by itself."""
    cells = labels.worker.astype(np.int64) * labels.n_classes + labels.label
    said = np.bincount(cells, minlength=labels.n_workers * labels.n_classes).reshape(-1, labels.n_classes)[:, used]
    confusion = np.clip(solve_rates(*of_workers), 0, 1)
    often = np.argsort(-said, axis=None, kind="stable")[:MOST_ROWS]
    often = often[said.ravel()[often] >= SCATTER_ANSWERS]
    worker, label = np.unravel_index(often, said.shape)
    own = said[worker, label, None] / (said[worker, label, None] + DRAW)
    rows = own * confusion[worker, :, label] + (1 - own) * crowd_confusion(confusion, said.sum(axis=1))[:, label].T
    rows = rows[rows.sum(axis=1) > 0]
    if used.size < 2 or not len(rows):
        return ConditionAnswer(SCATTERED, None, "The labels do not show it.", "They are too few to say.")
    radius, exact = scatter_radius(rows, random_state)
    limit = expert_radius(used.size)
    figures = f"{radius:.2f} where a crowd with an expert of each class has at most {limit:.2f}"
    if radius <= limit and exact:
        return ConditionAnswer(
            SCATTERED, True, f"Yes: {figures}.", "Pairs of workers alone determine their matrices (cnmf, sym-nmf)."
        )
    return ConditionAnswer(
        SCATTERED,
        None,
        f"The labels do not show it: {figures}."
        if exact
        else "The labels do not show it: too many classes to be sure.",
        "Several matrices may explain the answers of pairs; methods that look at more (EM, coupled-cpd) ask less.",
    )


TEST = AuditTest(
    order=110,
    kinds=(
        FindingKind(
            KIND,
            "What these labels cannot tell",
            "doubt whether these labels can tell",
            "doubts whether these labels can tell",
            means="do workers agree more than by chance, and what the theorems need: linked workers, "
            "dominant classes, …",
        ),
    ),
    question="Can the truth and the workers be told from these labels at all?",
    run=fill_arguments_from_crowd(find_unidentifiable),
    nothing="they suffice",
)
