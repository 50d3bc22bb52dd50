"""Workers who depend on each other given the truth: groups of them, found and tested from the labels alone.

The model (Jaffe et al. 2016; Traganitis & Giannakis 2022): workers fall into disjoint groups; given the truth the
groups are independent, but in a group the members follow a common latent class. Two workers of different groups
therefore agree as often as their confusion matrices and the truth say; two of the same agree more often.

What is compared. For every two workers, the tasks on which they agree (second-order statistics, as in both papers),
with the number expected if they were independent given the truth. The truth of a task is what the *other* groups say
of it (`pair_sums`), in a Dawid–Skene model fitted to one label of each group on each task, drawn at random, so that a
group counts once and independent workers stay what they were (`pooled.fit_pooled_dawid_skene`). The excess agreement of
two is

    κ = (seen - expected) / (shared tasks - expected),

0 for independent workers and 1 for copies.

Difficulty is the trap: on hard tasks independent workers err together. Four things allow for it: other workers who err
on a task lower what is expected there; κ must stand out from the crowd's own background, the median κ of all its pairs
(at least 0), to which a difficulty that all share raises everybody; and it must do so by `MARGIN`, as difficulty weighs
on some workers more than on others. With more than two classes a group must also give the same *wrong* answers
(`find_members_sharing_errors`).

The test. Each worker's partners are chosen by one half of the tasks and tested on the other, both ways, so that the
choice costs nothing: a task counts the share of their partners there who give their answer, which lies in [0, 1], and
the p-value is Hoeffding's bound exp(-n KL(seen ‖ expected)), valid for any number of tasks, times the number of tests.
Those who pass are clustered (`cluster_agreeing_workers`); the number of groups follows. Groups that are found give a
better model of the truth: all is done once more with them.

| the step | here |
|---|---|
| one label of each group on each task | `draw_representatives` |
| who counts once to begin with | `start_groups`, with few labels a task `join_identical_workers` |
| prior and confusion matrices from those | `pooled.fit_pooled_dawid_skene` |
| agreement of pairs, seen and expected; the background | `pair_sums`, `background_kappa` |
| whom each worker follows, by half of the tasks | `select_partners` |
| the test on the other half | `hoeffding_p_values` |
| whether one of two copies the other, on all tasks; half of the level | `copying.copy_p_values` |
| groups | `cluster_agreeing_workers`, and copies joined to them by `merge_groups` |

A. Jaffe, E. Fetaya, B. Nadler, T. Jiang and Y. Kluger (2016), "Unsupervised ensemble learning with dependent
classifiers", AISTATS. P. A. Traganitis and G. B. Giannakis (2022), as told in
Ibrahim et al. 2025, "Identifying annotator dependencies".

Departures: the papers cluster a score matrix of 2×2 minors of the covariance by its spectrum; here what a common truth
explains is taken off directly, so that any number of classes and missing labels are dealt with alike, and each worker
gets a p-value.

Assumes that no single group outweighs the rest of the crowd: then *its* answers would be taken for the truth, and the
independent rest for the group. Cost: O(labels × K) for an iteration of EM, O(pairs of labels of a task × K²) twice a
round, at most `MOST_PAIRS`, on tasks drawn at random; the `MOST_WORKERS` busiest workers are tested.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crowdwise.dependence.copying import FEWEST as FEWEST_COPIED
from crowdwise.dependence.copying import copy_p_values
from crowdwise.dependence.excess_agreement import (
    background_kappa,
    cluster_agreeing_workers,
    excess_agreement_kappa,
    find_members_sharing_errors,
    hoeffding_p_values,
    select_partners,
)
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.parameter_checks import check_number, check_random_state
from crowdwise.fitting.pooled_dawid_skene import fit_pooled_dawid_skene
from crowdwise.kernels import worker_answer_sums
from crowdwise.kernels.block_layout import transpose_truth_and_label
from crowdwise.kernels.pair_agreement import IndependenceModel, pair_sums, partner_sums
from crowdwise.labels.read import read_labels

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "FEWEST",
    "LEAST_WORKERS",
    "Dependence",
    "cluster_workers",
    "detect_groups",
    "find_groups",
    "find_testable_workers",
]

FEWEST = 20  # answers of a worker, and tasks shared with others, below which a worker is not tested
LEAST_WORKERS = 5  # with fewer, what two share cannot be told from difficulty
MOST_WORKERS = 1000  # tested: sums are kept for every two of them
LEAST_LABELS = 3  # a task, on average, that joining workers who agree much must leave
MOST_PAIRS = 4_000_000  # pairs of labels gone through
AHEAD = 0.8, 1 / 3  # of the way from usual to full agreement: likely copies; workers who agree much
SAME_TASKS, SAME_ANSWERS = 0.9, 0.99  # shares of their tasks and answers, from which on two count once where few do
ROUNDS = 2  # the second with the groups that the first found
SPLIT_SEED = 0  # of the halves of the tasks, where no seed is given


@dataclass(frozen=True)
class Dependence:
    """Which workers depend on each other given the truth, and how far every two agree beyond it.

    Attributes
    ----------
    tested : (m,)
        Positions of the workers that could be tested.
    groups : (M,)
        Number of each worker's group, counted from 0; -1 for workers who are alone.
    p_value : (M,)
        Of each worker, corrected for the number tested; not a number where not tested.
    background : float
        The crowd's own κ.
    shared, same, expected, wrong, expected_wrong, same_wrong, expected_same_wrong : (m, m)
        Of every two tested workers: tasks; those with the same answer, seen and expected; those that both got wrong, by
        what the others think, seen and expected; and of these those with the same answer, seen and expected.
    """

    tested: IntArray
    groups: IntArray
    p_value: FloatArray
    background: float
    shared: FloatArray
    same: FloatArray
    expected: FloatArray
    wrong: FloatArray
    expected_wrong: FloatArray
    same_wrong: FloatArray
    expected_same_wrong: FloatArray

    @property
    def excess(self) -> FloatArray:
        """κ of every two tested workers (m, m), not a number where they share no task or cannot but agree."""
        return excess_agreement_kappa(self.shared, self.same, self.expected)

    def restore_order(self, workers: IntArray, n_workers: int) -> Dependence:
        """The same with the workers as the labels have them; `workers` are their positions."""
        sorting = np.argsort(workers[self.tested])
        pairs = {
            each.name: getattr(self, each.name)[np.ix_(sorting, sorting)]
            for each in fields(Dependence)
            if np.ndim(getattr(self, each.name)) == 2
        }
        groups, p_value = np.full(n_workers, -1), np.full(n_workers, np.nan)
        groups[workers], p_value[workers] = self.groups, self.p_value
        joined = groups >= 0
        _, first, number = np.unique(groups[joined], return_index=True, return_inverse=True)
        groups[joined] = np.argsort(np.argsort(first))[number]  # counted from the first worker on
        return replace(self, tested=workers[self.tested][sorting], groups=groups, p_value=p_value, **pairs)


def draw_representatives(labels: CrowdLabels, groups: IntArray, generator: np.random.Generator) -> IntArray:
    """The edge (S,) that represents each edge's group on its task: one of the group's labels there, at random."""
    alone = np.flatnonzero(groups < 0)
    group = groups.astype(np.int64)
    group[alone] = groups.max(initial=-1) + 1 + np.arange(alone.size)
    order = generator.permutation(labels.n_labels)
    key = labels.task[order].astype(np.int64) * (group.max(initial=0) + 1) + group[labels.worker[order]]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    representative = np.empty(labels.n_labels, np.int64)
    representative[order] = order[first][inverse]
    return representative


def fit_independence_model(labels: CrowdLabels, groups: IntArray, generator: np.random.Generator) -> IndependenceModel:
    """The labels, with a model of the truth in which every group counts once."""
    representative = draw_representatives(labels, groups, generator)
    counts = representative == np.arange(labels.n_labels)
    log_prior, log_table = fit_pooled_dawid_skene(labels if counts.all() else labels.keep(counts))
    return IndependenceModel(
        labels.task_ptr, labels.worker, labels.label, representative, log_prior, transpose_truth_and_label(log_table)
    )


def find_testable_workers(labels: CrowdLabels) -> IntArray:
    """Positions of the busiest workers with enough answers to tasks that others answered too."""
    beside = labels.labels_per_task[labels.task] > 1
    met = np.bincount(labels.worker[beside], minlength=labels.n_workers)
    busiest = np.argsort(-met, kind="stable")[:MOST_WORKERS]
    return np.sort(busiest[met[busiest] >= FEWEST])


def split_tasks(labels: CrowdLabels, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Tasks in two halves at random; of very many pairs of labels, as many tasks as `MOST_PAIRS` allows."""
    per_task = labels.labels_per_task.astype(np.int64)
    order = generator.permutation(np.flatnonzero(per_task > 1))
    cost = np.cumsum(per_task[order] * (per_task[order] - 1) // 2 * max(1, labels.n_classes**2 // 16))
    order = order[: max(2, int(np.searchsorted(cost, MOST_PAIRS)))]
    return np.sort(order[::2]), np.sort(order[1::2])


def start_groups(labels: CrowdLabels, sums: FloatArray, members: IntArray, ahead: float) -> IntArray:
    """Groups (M,) to begin with: workers who agree so much more than others do that they may be copies.

    Copies would otherwise pass for experts, and their common answers for the truth. Experts who agree because they are
    right are joined too, which only costs the model of the truth some of their labels; where that would leave
    fewer than `LEAST_LABELS` labels a task, only those who answer as one are joined (`join_identical_workers`).

    Parameters
    ----------
    sums : (3, m, m)
        Shared tasks, the same answer, and how many would be the same by chance.
    ahead
        Part of the way from usual to full agreement that they must be ahead.
    """
    usual = background_kappa(sums)
    groups = np.full(labels.n_workers, -1)
    for number, rows in enumerate(cluster_agreeing_workers(sums, np.arange(members.size), usual, (1 - usual) * ahead)):
        groups[members[rows]] = number
    representative = draw_representatives(labels, groups, np.random.default_rng(0))
    enough = np.count_nonzero(representative == np.arange(labels.n_labels)) >= LEAST_LABELS * np.count_nonzero(
        labels.labels_per_task
    )
    return groups if enough else join_identical_workers(labels, sums, members)


def join_identical_workers(labels: CrowdLabels, sums: FloatArray, members: IntArray) -> IntArray:
    """Groups (M,) of workers who gave the same answers to the same tasks, where nobody else shares all tasks.

    Where tasks have few labels, copies outvote the rest and pass for experts: they count once. Nobody is joined if most
    of those who did the same tasks gave different answers: then tasks are dealt in batches, and two of many who are
    alike may both be good. Nor if that would be half of the workers: a crowd that agrees may be right.
    """
    shared, same = sums[:2]
    answers = labels.labels_per_worker[members]
    beside = (shared >= FEWEST_COPIED) & (shared >= SAME_TASKS * (answers[:, None] + answers - shared))
    np.fill_diagonal(beside, False)
    alike = beside & (same >= SAME_ANSWERS * shared)
    groups = np.full(labels.n_workers, -1)
    n_workers = np.count_nonzero(labels.labels_per_worker >= FEWEST)
    if 2 * alike.sum() >= beside.sum() and 2 * alike.any(axis=1).sum() < n_workers:
        for number, rows in enumerate(merge_groups([], alike)):
            groups[members[rows]] = number
    return groups


def count_agreement(labels: CrowdLabels, tasks: IntArray, place: IntArray, members: IntArray) -> FloatArray:
    """Shared tasks of every two workers, the same answer, and how many would be by chance, given their habits."""
    size = labels.n_classes
    flat = np.full((labels.n_workers, size, size), -np.log(size))
    edges = labels.task_ptr, labels.worker, labels.label, np.arange(labels.n_labels)
    sums = pair_sums(IndependenceModel(*edges, np.zeros(size), flat), tasks, place, members.size)[:3]
    habit = worker_answer_sums(labels)[members]
    habit = habit / habit.sum(axis=1, keepdims=True)
    sums[2] = sums[0] * (habit @ habit.T)
    return sums


def merge_groups(clusters: list[IntArray], copies: BoolArray) -> list[IntArray]:
    """Groups of two or more: clusters, and pairs of copies (m, m), put together where they have a worker in common.

    >>> [rows.tolist() for rows in merge_groups([np.array([0, 1])], np.eye(5, k=1, dtype=bool) & (np.arange(5) != 3))]
    [[0, 1, 2], [3, 4]]
    """
    linked = copies.copy()
    for rows in clusters:
        linked[rows[:-1], rows[1:]] = True
    _, number = connected_components(coo_array(linked.astype(np.int8)), directed=False)
    return [np.flatnonzero(number == each) for each in np.flatnonzero(np.bincount(number) > 1)]


def find_groups(labels: CrowdLabels, *, level: float, random_state: int) -> Dependence | None:
    """Who depends on whom; None where too few workers share enough tasks.

    Begins with likely copies joined, and once more with all joined who agree much more than usual, where that is not
    the same; keeps the search that leaves the lower background, as a group that passes for the truth, or a truth
    without its experts, leaves everybody else agreeing for no reason. Flags anyone of an independent crowd with chance
    at most `level`, as far as the model of the truth holds.
    """
    check_number("level", level, low=0, high=1, above=True)
    check_random_state(random_state)
    labels = read_labels(labels)
    order = order_by_content(labels)  # which draws go by, so that rows may come in any order
    found = _find_groups_in_order(order.arrange(labels), level, random_state)
    return None if found is None else found.restore_order(order.workers, labels.n_workers)


def _find_groups_in_order(labels: CrowdLabels, level: float, random_state: int) -> Dependence | None:
    members = find_testable_workers(labels)
    if members.size < LEAST_WORKERS:
        return None
    parts = split_tasks(labels, np.random.default_rng(random_state))
    place = np.full(labels.n_workers, -1)
    place[members] = np.arange(members.size)
    raw = count_agreement(labels, np.sort(np.concatenate(parts)), place, members)
    starts = [start_groups(labels, raw, members, ahead) for ahead in AHEAD]
    if np.array_equal(starts[0], starts[1]):
        starts.pop()
    found = [
        _search_groups(labels, groups, members, place, parts, level, np.random.default_rng(random_state))
        for groups in starts
    ]
    return min(found, key=lambda each: each.background)


def detect_groups(labels: CrowdLabels, level: float) -> Dependence | None:
    """As `find_groups`, with tasks split in the same way every time; None also without labels or with one class.

    The same labels give the same answer whatever the seed of an audit: a group near the level would else come and go
    with it.
    """
    if not labels.n_labels or labels.n_classes < 2:
        return None
    return find_groups(labels, level=level, random_state=SPLIT_SEED)


def cluster_workers(labels: CrowdLabels, n_groups: int, *, random_state: int) -> IntArray:
    """A given number of groups (M,), tested or not: the workers who agree most beyond the truth are joined.

    -1 for workers who are alone: those of a group of one, and those with too few answers to tell.
    """
    members = find_testable_workers(labels)
    groups = np.full(labels.n_workers, -1)
    if members.size <= n_groups:
        return groups
    generator = np.random.default_rng(random_state)
    tasks = np.sort(np.concatenate(split_tasks(labels, generator)))
    place = np.full(labels.n_workers, -1)
    place[members] = np.arange(members.size)
    for _ in range(ROUNDS):
        sums = pair_sums(fit_independence_model(labels, groups, generator), tasks, place, members.size)
        found = cluster_agreeing_workers(sums, np.arange(members.size), background_kappa(sums), -np.inf, n_groups)
        groups = np.full(labels.n_workers, -1)
        for number, rows in enumerate(found):
            groups[members[rows]] = number
    return groups


def _search_groups(
    labels: CrowdLabels,
    groups: IntArray,
    members: IntArray,
    place: IntArray,
    parts: tuple[IntArray, IntArray],
    level: float,
    generator: np.random.Generator,
) -> Dependence:
    """What is found from given groups to begin with."""
    for _ in range(ROUNDS):
        model = fit_independence_model(labels, groups, generator)
        sums = [pair_sums(model, tasks, place, members.size) for tasks in parts]
        total = sums[0] + sums[1]
        background = background_kappa(total)
        both = np.full((2, members.size), np.nan)
        for way in range(2):
            partners = select_partners(sums[way], background)
            both[way] = hoeffding_p_values(partner_sums(model, parts[1 - way], place, partners), background)
        by_group = np.minimum(np.fmin(both[0], both[1]) * 2 * members.size, 1.0)
        copies = copy_p_values(model, np.sort(np.concatenate(parts)), place, total)
        p_value = np.minimum(2 * np.fmin(by_group, copies.min(axis=1)), 1.0)  # two tests share the level
        clusters = cluster_agreeing_workers(total, np.flatnonzero(2 * by_group <= level), background)
        if labels.n_classes > 2:
            clusters = [rows[find_members_sharing_errors(total, rows)] for rows in clusters]
        groups = np.full(labels.n_workers, -1)
        for number, rows in enumerate(merge_groups(clusters, 2 * copies <= level)):
            groups[members[rows]] = number
        if groups.max() < 0:
            break
    every = np.full(labels.n_workers, np.nan)
    every[members] = p_value
    return Dependence(members, groups, every, background, *total)
