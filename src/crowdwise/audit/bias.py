"""Bias: groups of workers who label unlike the others, everywhere or on a group of tasks.

The tutorial (Ibrahim et al. 2025, "Taking bias into account") writes a worker's matrix for tasks with attribute z as

    [A_m(z)]_{k,k'} = Pr(label = k | truth = k', z),

here `[truth, label]`, and estimates it from a known truth. Without one, labels are held against the consensus of the
workers *outside* the group (`reference`), and rates are regressions on its posterior. Two questions are asked, the
second with the others' labels on the group's own tasks:

| question | effect | dealt anew | here |
|---|---|---|---|
| does group G label unlike the others O? | A_G − A_O | G over workers | `_find_overall_bias` |
| are tasks of Z treated unlike others? | (A_GZ − A_GZ') − (A_OZ − A_OZ') | Z in classes | `_find_bias_on_task_groups` |

The second is a difference of differences of rates: that tasks of Z are harder, for everyone, is no bias of G. Each
worker is held against her own matrix first, so that a strict worker who happens to meet Z more often is none either.
Every rate [truth, label] of every pair of groups is tested at once (`resampling.max_statistic_test`); where both
questions are asked, each has half of `level`. Where no attribute of workers is given, each of the busiest workers is a
group of her own. With a truth, the crowd as a whole is a group too, with no others to compare with: A_Z − A_Z'.

Assumes that, but for the bias, tasks (workers) of a group are exchangeable with others of their class. Fails where a
whole crowd shares a bias, which its consensus then shares (only a truth shows it), and where G gives most labels of
most tasks, so that few others are left to hold it against. Where one worker's bias is large, others seem biased the
other way beside her: believe the largest first. A rate with fewer than `ENOUGH` labels in any corner is not tested.

Intervals are 95 % bootstrap, of tasks and of workers apart, of which the wider is given.

Cost: O(draws × tasks × groups × K²) as matrix products in single precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from crowdwise.audit.attribute_groups import (
    EVERYONE,
    ONESELF,
    Group,
    GroupEffect,
    SignedLabels,
    estimate_effect,
    make_worker_groups,
    runs_of_same_attribute,
)
from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.leave_out_consensus import fit_reference, one_hot, solve_rates, true_or_probable_classes
from crowdwise.audit.resampling import (
    DRAWS,
    GroupContrast,
    UnitValues,
    find_strongest,
    groups_to_test,
    has_enough_counts,
    max_statistic_test,
)
from crowdwise.kernels import outer_sums
from crowdwise.labels.attributes import read_attributes, usable_attributes
from crowdwise.labels.errors import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.labels.attributes import Attribute
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["TEST", "find_bias"]

KIND = "bias"

ENOUGH = 10  # labels on tasks of a class that a group of workers must have in a group of tasks, and outside it


class TestPlan(NamedTuple):
    """How both questions are tested: at which level, how many questions share it, and with which seed."""

    level: float
    times: int
    random_state: int


def find_bias(
    labels: CrowdLabels,
    *,
    task_attributes: Any = None,
    worker_attributes: Any = None,
    truth: Any = None,
    level: float = 0.05,
    random_state: int = 0,
    reference: CrowdReference | None = None,
) -> Screen:
    """Groups of workers who label unlike the others, everywhere or on a group of tasks.

    Parameters
    ----------
    task_attributes, worker_attributes
        As for `read_attributes`: a mapping from name to value, or a table with a column for each attribute.
    truth
        Known truths, as for `read_truth`; labels are then held against it, and other tasks are left aside.
    level
        Chance that anything is flagged in a crowd without bias.

    Returns
    -------
    Screen
        For each attribute of workers, and each with each attribute of tasks, at most one finding, about the groups that
        differ most; its score is the size of the difference.
    """
    of_tasks = usable_attributes(read_attributes(task_attributes, labels.tasks, "task"))
    of_workers = usable_attributes(read_attributes(worker_attributes, labels.workers, "worker"))
    if not of_tasks and not of_workers:
        return Screen(KIND, skipped="No attribute makes groups of tasks or workers: there is nothing to compare.")
    if labels.n_workers < 2 or labels.n_classes < 2 or labels.n_labels < 4 * ENOUGH:
        return Screen(KIND, skipped=f"Bias needs two workers, two classes and {4 * ENOUGH} labels.")
    plan = TestPlan(level, bool(of_tasks) + bool(of_workers), random_state)
    if not any(
        _has_enough_permutations(attribute, labels.labels_per_task, level / plan.times) for attribute in of_tasks
    ) and not any(
        _has_enough_permutations(attribute, labels.labels_per_worker, level / plan.times) for attribute in of_workers
    ):
        return Screen(KIND, skipped="No attribute has two groups large enough to be told from chance.")
    reference = fit_reference(labels, truth, reference)
    if truth is not None:
        known = reference.truth[labels.task] >= 0
        labels, reference = labels.keep(known), reference.restrict_to_labels(known)
    findings = [
        *_find_overall_bias(labels, reference, of_workers, plan),
        *_find_bias_on_task_groups(labels, reference, of_tasks, of_workers, plan),
    ]
    return Screen(KIND, tuple(sorted(findings, key=lambda finding: (finding.p_value, -finding.score))))


def _find_overall_bias(
    labels: CrowdLabels, reference: CrowdReference, attributes: tuple[Attribute, ...], plan: TestPlan
) -> Iterator[Finding]:
    """Groups of workers who label unlike the others, whatever the task."""
    if not attributes:
        return
    q, said, size = reference.posterior_without_worker(labels), one_hot(labels), labels.n_classes
    gram = outer_sums(q, q, labels.worker, labels.n_workers)
    cross = outer_sums(q, said, labels.worker, labels.n_workers)
    excess = solve_rates(gram.sum(axis=0), cross - gram @ solve_rates(gram.sum(axis=0), cross.sum(axis=0)))
    table = UnitValues(np.arange(labels.n_workers), excess.reshape(-1, size**2))
    contrasts = []
    for attribute in attributes:
        code = np.where(labels.labels_per_worker > 0, attribute.code, -1)
        tested = groups_to_test(code, len(attribute.values))
        usable = np.repeat(
            has_enough_counts(code, np.einsum("wkk->wk", gram), tested, ENOUGH), size, axis=1
        ) & _mark_informative_rates(size)
        contrasts.append(GroupContrast([table], code, np.zeros_like(code), tested, usable))
    for attribute, contrast, (t, p) in zip(
        attributes, contrasts, max_statistic_test(contrasts, random_state=plan.random_state), strict=True
    ):
        place = find_strongest(t, p * plan.times, plan.level)
        if place is None:
            continue
        value = int(contrast.tested[place[0]])
        group = Group(attribute.name, attribute.values[value], contrast.code == value, contrast.code >= 0)
        cell = divmod(place[1], size)
        inside = group.mine[labels.worker]
        units = ((labels.task, labels.n_tasks), (labels.worker, labels.n_workers))
        sides = [SignedLabels(1, inside), SignedLabels(-1, group.others[labels.worker] & ~inside)]
        found = estimate_effect(units, q, said, said, sides, cell, plan.random_state)._replace(group=group)
        yield _make_finding(labels, reference, found, cell, float(p[place]) * plan.times, "workers")


def _find_bias_on_task_groups(
    labels: CrowdLabels,
    reference: CrowdReference,
    of_tasks: tuple[Attribute, ...],
    of_workers: tuple[Attribute, ...],
    plan: TestPlan,
) -> Iterator[Finding]:
    """Groups of workers who treat a group of tasks unlike other tasks, more than the others do."""
    if not of_tasks:
        return
    groups, size, classes = (
        list(make_worker_groups(labels, reference, of_workers)),
        labels.n_classes,
        true_or_probable_classes(reference),
    )
    if not groups:
        return
    tables: list[UnitValues] = []
    counts: list[list[FloatArray]] = []
    for group in groups:
        corners = _split_group_and_others(labels, reference, group)
        rows = np.unique(labels.task[corners.edges])
        row = np.searchsorted(rows, labels.task[corners.edges])
        sides = (corners.mine, ~corners.mine) if group.others.any() else (corners.mine,)
        parts = [_task_influence(corners, row, side, rows.size) for side in sides]
        tables.append(UnitValues(rows, parts[0][0] if len(parts) == 1 else parts[0][0] - parts[1][0]))
        counts.append([_expand_rows_to_tasks(count, rows, labels.n_tasks) for _, count in parts])
    contrasts = []
    for attribute in of_tasks:
        code = np.where(labels.labels_per_task > 0, attribute.code, -1)
        tested = groups_to_test(code, len(attribute.values))
        usable = [
            np.repeat(
                np.logical_and.reduce([has_enough_counts(code, count, tested, ENOUGH) for count in each]), size, axis=1
            )
            & _mark_informative_rates(size)
            for each in counts
        ]
        contrasts.append(GroupContrast(tables, code, classes, tested, np.concatenate(usable, axis=1)))
    for attribute, contrast, (t, p) in zip(
        of_tasks, contrasts, max_statistic_test(contrasts, random_state=plan.random_state), strict=True
    ):
        for first, last in runs_of_same_attribute(groups):
            columns = slice(first * size**2, last * size**2)
            place = find_strongest(t[:, columns], p[:, columns] * plan.times, plan.level)
            if place is None:
                continue
            number, flat = divmod(place[1] + columns.start, size**2)
            cell = divmod(flat, size)
            chance = float(p[:, columns][place]) * plan.times
            value = int(contrast.tested[place[0]])
            found = _estimate_worker_group_effect(
                labels, reference, attribute, value, groups[number], cell, plan.random_state
            )
            # Of two groups of workers, that is meant which treats tasks less alike.
            if last - first == 2 and abs(found.others_gap_between_task_groups) > abs(
                found.group_gap_between_task_groups
            ):
                found = _estimate_worker_group_effect(
                    labels, reference, attribute, value, groups[first + last - 1 - number], cell, plan.random_state
                )
            yield _make_finding(labels, reference, found, cell, chance, "tasks")


def _estimate_worker_group_effect(
    labels: CrowdLabels,
    reference: CrowdReference,
    attribute: Attribute,
    value: int,
    group: Group,
    cell: tuple[int, int],
    random_state: int,
) -> GroupEffect:
    """Size what a group of workers does to a group of tasks."""
    alone = not group.others.any()
    corners = _split_group_and_others(labels, reference, group)
    units = ((labels.task[corners.edges], labels.n_tasks), (labels.worker[corners.edges], labels.n_workers))
    code, mine = attribute.code[units[0][0]], corners.mine

    def effect_on_task_group(z: int) -> GroupEffect:
        sides = [SignedLabels(1, mine & (code == z)), SignedLabels(-1, mine & (code >= 0) & (code != z))]
        if not alone:
            sides += [SignedLabels(-1, ~mine & (code == z)), SignedLabels(1, ~mine & (code >= 0) & (code != z))]
        return estimate_effect(units, corners.q, corners.beyond, corners.said, sides, cell, random_state)._replace(
            group=group, where=(attribute.name, attribute.values[z])
        )

    found = effect_on_task_group(value)
    if len(attribute.values) != 2:
        return found
    # Of two groups of tasks, that is meant on which the workers are further from the others, or from the truth.
    right = float(cell[0] == cell[1])
    there, elsewhere = (abs(found.each[i] - (right if alone else found.each[i + 2])) for i in (0, 1))
    return effect_on_task_group(1 - value) if elsewhere > there else found


def _has_enough_permutations(attribute: Attribute, n_labels: IntArray, level: float) -> bool:
    """Whether there are so many ways to deal some group anew that the one given can be rare among them."""
    sizes = np.bincount(attribute.code[(attribute.code >= 0) & (n_labels > 0)])
    ways = gammaln(sizes.sum() + 1) - gammaln(sizes + 1) - gammaln(sizes.sum() - sizes + 1)  # log of n over k
    return bool((ways > -np.log(level)).any())


# ---- parts -------------------------------------------------------------------------------------------------


class GroupAndOtherLabels(NamedTuple):
    """Labels of a group and of the others on the group's tasks.

    Attributes
    ----------
    edges : (n,)
        Which labels.
    mine : (n,)
        Whether they are the group's.
    q, said, beyond : (n, K)
        The consensus of the others, the labels, and the labels less what the worker's own matrix expects.
    """

    edges: IntArray
    mine: BoolArray
    q: FloatArray
    said: FloatArray
    beyond: FloatArray


def _split_group_and_others(labels: CrowdLabels, reference: CrowdReference, group: Group) -> GroupAndOtherLabels:
    theirs = np.zeros(labels.n_tasks, np.bool_)
    theirs[labels.task[group.mine[labels.worker]]] = True
    edges = np.flatnonzero(theirs[labels.task])
    q = reference.posterior_without_worker(labels, group.mine if group.others.any() else None, edges)
    kept = (group.mine | group.others)[labels.worker[edges]]
    edges, q = edges[kept], q[kept]
    worker, said = labels.worker[edges], np.eye(labels.n_classes)[labels.label[edges]]
    beyond = said.copy()
    for k in range(labels.n_classes):
        beyond -= q[:, [k]] * reference.confusion[worker, k]
    return GroupAndOtherLabels(edges, group.mine[worker], q, said, beyond)


def _task_influence(
    corners: GroupAndOtherLabels, place: IntArray, side: BoolArray, n_rows: int
) -> tuple[FloatArray, FloatArray]:
    """What each task adds to the rates of one side (R, K²), and how many labels of each class it has (R, K)."""
    q, beyond, place = corners.q[side], corners.beyond[side], place[side]
    gram, size = q.T @ q, q.shape[1]
    left = beyond - q @ solve_rates(gram, q.T @ beyond)
    pull = q @ np.linalg.inv(gram + np.eye(size))  # one answer's worth: a class that nobody met stays at zero
    counts = np.array([np.bincount(place, q[:, k] ** 2, n_rows) for k in range(size)], np.float64).T
    return outer_sums(pull, left, place, n_rows).reshape(-1, size**2), counts


def _expand_rows_to_tasks(counts: FloatArray, rows: IntArray, n_tasks: int) -> FloatArray:
    full = np.zeros((n_tasks, counts.shape[1]))
    full[rows] = counts
    return full


def _mark_informative_rates(size: int) -> BoolArray:
    """Rates that say something of their own: with two classes, the errors; the rest is their complement."""
    return ~np.eye(size, dtype=np.bool_).ravel() if size == 2 else np.ones(size**2, np.bool_)


def _make_finding(
    labels: CrowdLabels, reference: CrowdReference, found: GroupEffect, cell: tuple[int, int], chance: float, dealt: str
) -> Finding:
    group, each = found.group, np.clip(found.each, 0.0, 1.0)  # corrected rates may stray
    assert group is not None  # noqa: S101
    truth, label = (quote(labels.classes[k].as_py()) for k in cell)
    one = group.attribute == ONESELF
    name = group.value if group.attribute in (ONESELF, EVERYONE) else f"{group.attribute} = {group.value}"
    if found.where is None:
        names: tuple[Any, ...] = (name,)
        tasks = "tasks"
        shown = f"{each[0]:.0%} of their labels are {label} there, {each[1]:.0%} of the other workers'"
    else:
        names = (name,) if one else (name, f"{found.where[0]} = {found.where[1]}")  # of a worker, her name alone
        tasks = f"tasks with {found.where[0]} = {quote(found.where[1])}"
        shown = f"{each[0]:.0%} of the labels are {label} there, {each[1]:.0%} on other such tasks"
        if group.others.any():
            shown += f"; of the other workers' {each[2]:.0%} and {each[3]:.0%}"
    judged = "that truly are" if (reference.truth >= 0).any() else "that the others call"
    return Finding(
        kind=KIND,
        about="worker" if one else "attribute",
        names=names,
        score=min(1.0, abs(found.size)),
        verdict=f"{group} say{'s' if one or group.attribute == EVERYONE else ''} {label} "
        f"{'more' if found.size > 0 else 'less'} often to {tasks} {judged} {truth}.",
        evidence=f"{shown}: {found.size:+.2f} in all (95 % interval {found.low:+.2f} to {found.high:+.2f}).",
        p_value=min(1.0, chance),
        how=f"permutation of the attribute over {dealt}, {DRAWS} draws, largest of all rates; bootstrap interval",
        advice="Look at some of these tasks with people of several groups; give such tasks to a mixed set of workers, "
        "and fit a model that knows the groups.",
    )


TEST = AuditTest(
    order=40,
    kinds=(
        FindingKind(
            KIND,
            "Bias",
            "with a bias",
            "with a bias",
            means="a group of workers labels unlike the others, everywhere or on a group of tasks",
            assumes="attributes of workers or tasks",
        ),
        FindingKind("bias of groups", "Bias", "bias of a group", "biases of groups"),
    ),
    question="Do workers, or groups of them, label unlike the others?",
    run=fill_arguments_from_crowd(find_bias),
    accuses=True,
    needs=("task_attributes", "worker_attributes"),
)
