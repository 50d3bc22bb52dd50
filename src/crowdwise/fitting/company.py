"""Workers who depend on each other given the truth: who keeps company with whom, found from the labels alone.

The model (Jaffe et al. 2016; Traganitis & Giannakis 2022): workers fall into disjoint companies; given the truth the
companies are independent, but in a company the members follow a common hidden opinion. Two workers of different
companies therefore agree as often as their confusion matrices and the truth say; two of the same agree more often.

What is compared. For every two workers, the tasks on which they agree (second-order statistics, as in both papers),
with the number expected if only the truth joined them. The truth of a task is what the *other* companies say of it
(`kernels.pairs_pass`), in a Dawid–Skene model fitted to one label of each company on each task, drawn at random, so
that a company counts once and independent workers stay what they were (`pooled.fit_pooled`). The excess of two is

    κ = (seen - expected) / (shared tasks - expected),

0 for independent workers and 1 for copies.

Difficulty is the trap: on hard tasks independent workers err together. Four things allow for it: outsiders who err on
a task lower what is expected there; κ must stand out from the crowd's own background, the median κ of all its pairs
(at least 0), to which a difficulty that all share raises everybody; and it must do so by `excess.MARGIN`, as difficulty
weighs on some workers more than on others. With more than two classes a company must also give the same *wrong* answers
(`err_alike`).

The test. Each worker's company is chosen by one half of the tasks and tested on the other, both ways, so that the
choice costs nothing: a task counts the share of their mates there who give their answer, which lies in [0, 1], and the
p-value is Hoeffding's bound exp(-n KL(seen ‖ expected)), valid for any number of tasks, times the number of
tests. Those who pass are clustered (`clusters`); the number of companies follows. Found companies give a better truth
model: all is done once more with them.

| the step | here |
|---|---|
| one label of each company on each task | `spokesmen` |
| prior and confusion matrices from those | `pooled.fit_pooled` |
| agreement of pairs, seen and expected; the background | `kernels.pairs_pass`, `background_of` |
| whom each worker follows, by half of the tasks | `chosen_mates` |
| the test on the other half | `tested` |
| whether one of two copies the other, on all tasks; half of the level | `copies.copy_p_values` |
| companies | `clusters`, and copies joined to them by `joined` |

A. Jaffe, E. Fetaya, B. Nadler, T. Jiang and Y. Kluger (2016), "Unsupervised ensemble learning with dependent
classifiers", AISTATS. P. A. Traganitis and G. B. Giannakis (2022), as told in seed 002, "Identifying annotator
dependencies".

Departures: the papers cluster a score matrix of 2×2 minors of the covariance by its spectrum; here what a common truth
explains is taken off directly, so that any number of classes and missing labels are dealt with alike, and each worker
gets a p-value.

Assumes that no single company outweighs the rest of the crowd: then *its* opinion would be taken for the truth, and
the independent rest for the company. Cost: O(labels × K) for an iteration of EM, O(pairs of labels of a task × K²)
twice a round, at most `MOST_PAIRS`, on tasks drawn at random; the `MOST_WORKERS` busiest workers are tested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crowdwise.fitting.copies import copy_p_values
from crowdwise.fitting.excess import background_of, chosen_mates, clusters, err_alike, kappa, tested
from crowdwise.fitting.pooled import fit_pooled
from crowdwise.kernels import answer_sums
from crowdwise.kernels.company import Voices, mates_pass, pairs_pass
from crowdwise.kernels.truth_first import by_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Company", "divided", "find_company", "pair_batches"]

FEWEST = 20  # answers of a worker, and tasks shared with others, below which a worker is not tested
LEAST_WORKERS = 5  # with fewer, what two share cannot be told from difficulty
MOST_WORKERS = 1000  # tested: sums are kept for every two of them
LEAST_VOICES = 3  # a task, on average, that joining look-alikes must leave
MOST_PAIRS = 4_000_000  # pairs of labels gone through
STANDING_OUT = 0.8, 1 / 3  # of the way from usual to full agreement: likely copies; look-alikes
ROUNDS = 2  # the second with the companies that the first found


@dataclass(frozen=True)
class Company:
    """Who keeps company with whom.

    Attributes
    ----------
    tested : (m,)
        Positions of the workers that could be tested.
    groups : (M,)
        Number of each worker's company, counted from 0; -1 for workers who are alone.
    p_value : (M,)
        Of each worker, corrected for the number tested; not a number where not tested.
    background : float
        The crowd's own κ.
    shared, same, expected, wrong, expected_wrong, same_wrong, expected_same_wrong : (m, m)
        Of every two tested workers: tasks; those with the same answer, seen and expected; those that both got wrong, by
        what the others think, seen and expected; and of these those with the same answer, seen and expected.
    voices
        The labels as they were heard, if everyone is alone: a second fit would find the same.
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
    voices: Voices | None = None

    @property
    def excess(self) -> FloatArray:
        """κ of every two tested workers (m, m), not a number where they share no task or cannot but agree."""
        return kappa(self.shared, self.same, self.expected)


def spokesmen(labels: CrowdLabels, groups: IntArray, generator: np.random.Generator) -> IntArray:
    """The edge (S,) that speaks for each edge's company on its task: one of the company's labels there, at random."""
    alone = np.flatnonzero(groups < 0)
    company = groups.astype(np.int64)
    company[alone] = groups.max(initial=-1) + 1 + np.arange(alone.size)
    order = generator.permutation(labels.n_labels)
    key = labels.task[order].astype(np.int64) * (company.max(initial=0) + 1) + company[labels.worker[order]]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    voice = np.empty(labels.n_labels, np.int64)
    voice[order] = order[first][inverse]
    return voice


def heard(labels: CrowdLabels, groups: IntArray, generator: np.random.Generator) -> Voices:
    """The labels, with a truth model in which every company has one voice."""
    voice = spokesmen(labels, groups, generator)
    speaks = voice == np.arange(labels.n_labels)
    log_prior, log_table = fit_pooled(labels if speaks.all() else labels.keep(speaks))
    return Voices(labels.task_ptr, labels.worker, labels.label, voice, log_prior, by_label(log_table))


def testable(labels: CrowdLabels) -> IntArray:
    """Positions of the busiest workers with enough answers to tasks that others answered too."""
    company = labels.labels_per_task[labels.task] > 1
    met = np.bincount(labels.worker[company], minlength=labels.n_workers)
    busiest = np.argsort(-met, kind="stable")[:MOST_WORKERS]
    return np.sort(busiest[met[busiest] >= FEWEST])


def halves(labels: CrowdLabels, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Tasks in two halves at random; of very many pairs of labels, as many tasks as `MOST_PAIRS` allows."""
    per_task = labels.labels_per_task.astype(np.int64)
    order = generator.permutation(np.flatnonzero(per_task > 1))
    cost = np.cumsum(per_task[order] * (per_task[order] - 1) // 2 * max(1, labels.n_classes**2 // 16))
    order = order[: max(2, int(np.searchsorted(cost, MOST_PAIRS)))]
    return np.sort(order[::2]), np.sort(order[1::2])


def look_alikes(labels: CrowdLabels, sums: FloatArray, members: IntArray, standing_out: float) -> IntArray:
    """Companies (M,) to begin with: workers who agree so much more than others do that they may be copies.

    Copies would otherwise pass for experts, and their common opinion for the truth. Experts who agree because they are
    right are joined too, which only costs the truth model some of their labels; nobody is joined where that would leave
    fewer than `LEAST_VOICES` labels a task.

    Parameters
    ----------
    sums : (3, m, m)
        Shared tasks, the same answer, and how many would be the same by chance.
    standing_out
        Part of the way from usual to full agreement that they must be ahead.
    """
    usual = background_of(sums)
    groups = np.full(labels.n_workers, -1)
    for number, rows in enumerate(clusters(sums, np.arange(members.size), usual, (1 - usual) * standing_out)):
        groups[members[rows]] = number
    speaking = np.count_nonzero(spokesmen(labels, groups, np.random.default_rng(0)) == np.arange(labels.n_labels))
    enough = speaking >= LEAST_VOICES * np.count_nonzero(labels.labels_per_task)
    return groups if enough else np.full(labels.n_workers, -1)


def agreements(labels: CrowdLabels, tasks: IntArray, place: IntArray, members: IntArray) -> FloatArray:
    """Shared tasks of every two workers, the same answer, and how many would be by chance, given their habits."""
    size = labels.n_classes
    flat = np.full((labels.n_workers, size, size), -np.log(size))
    silent = Voices(labels.task_ptr, labels.worker, labels.label, np.arange(labels.n_labels), np.zeros(size), flat)
    sums = pairs_pass(silent, tasks, place, members.size)[:3]
    habit = answer_sums(labels)[members]
    habit = habit / habit.sum(axis=1, keepdims=True)
    sums[2] = sums[0] * (habit @ habit.T)
    return sums


def joined(parties: list[IntArray], copies: BoolArray) -> list[IntArray]:
    """Companies of two or more: parties, and pairs of copies (m, m), put together where they have a worker in common.

    >>> [rows.tolist() for rows in joined([np.array([0, 1])], np.eye(5, k=1, dtype=bool) & (np.arange(5) != 3))]
    [[0, 1, 2], [3, 4]]
    """
    linked = copies.copy()
    for rows in parties:
        linked[rows[:-1], rows[1:]] = True
    _, number = connected_components(coo_array(linked.astype(np.int8)), directed=False)
    return [np.flatnonzero(number == each) for each in np.flatnonzero(np.bincount(number) > 1)]


def find_company(labels: CrowdLabels, *, level: float, seed: int) -> Company | None:
    """Who depends on whom; None where too few workers share enough tasks.

    Begins with likely copies joined, and once more with all joined who agree much more than usual, where that is not
    the same; keeps the search that leaves the lower background, as a company that passes for the truth, or a truth
    without its experts, leaves everybody else agreeing for no reason. Flags anyone of an independent crowd with chance
    at most `level`, as far as the truth model holds.
    """
    members = testable(labels)
    if members.size < LEAST_WORKERS:
        return None
    parts = halves(labels, np.random.default_rng(seed))
    place = np.full(labels.n_workers, -1)
    place[members] = np.arange(members.size)
    raw = agreements(labels, np.sort(np.concatenate(parts)), place, members)
    starts = [look_alikes(labels, raw, members, standing_out) for standing_out in STANDING_OUT]
    if np.array_equal(starts[0], starts[1]):
        starts.pop()
    found = [_searched(labels, groups, members, place, parts, level, np.random.default_rng(seed)) for groups in starts]
    return min(found, key=lambda company: company.background)


def divided(labels: CrowdLabels, n_groups: int, *, seed: int) -> IntArray:
    """A given number of companies (M,), tested or not: the workers who agree most beyond the truth are joined.

    -1 for workers who are alone: those of a company of one, and those with too few answers to tell.
    """
    members = testable(labels)
    groups = np.full(labels.n_workers, -1)
    if members.size <= n_groups:
        return groups
    generator = np.random.default_rng(seed)
    tasks = np.sort(np.concatenate(halves(labels, generator)))
    place = np.full(labels.n_workers, -1)
    place[members] = np.arange(members.size)
    for _ in range(ROUNDS):
        sums = pairs_pass(heard(labels, groups, generator), tasks, place, members.size)
        found = clusters(sums, np.arange(members.size), background_of(sums), -np.inf, n_groups)
        groups = np.full(labels.n_workers, -1)
        for number, rows in enumerate(found):
            groups[members[rows]] = number
    return groups


def pair_batches(
    labels: CrowdLabels, company: Company, n_batches: int, *, seed: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Agreement of tested workers beyond what is expected, and the most it could be, (m, m), by batches of tasks."""
    generator = np.random.default_rng(seed)
    tasks = generator.permutation(np.concatenate(halves(labels, generator)))
    place = np.full(labels.n_workers, -1)
    place[company.tested] = np.arange(company.tested.size)
    voices = company.voices or heard(labels, company.groups, generator)
    for batch in np.array_split(tasks, n_batches):
        shared, same, expected = pairs_pass(voices, np.sort(batch), place, company.tested.size)[:3]
        yield same - expected, shared - expected


def _searched(
    labels: CrowdLabels,
    groups: IntArray,
    members: IntArray,
    place: IntArray,
    parts: tuple[IntArray, IntArray],
    level: float,
    generator: np.random.Generator,
) -> Company:
    """Company found from given groups to begin with."""
    for _ in range(ROUNDS):
        voices, alone = heard(labels, groups, generator), groups.max() < 0
        sums = [pairs_pass(voices, tasks, place, members.size) for tasks in parts]
        total = sums[0] + sums[1]
        background = background_of(total)
        both = np.full((2, members.size), np.nan)
        for way in range(2):
            mates = chosen_mates(sums[way], background)
            both[way] = tested(mates_pass(voices, parts[1 - way], place, mates), background)
        by_group = np.minimum(np.fmin(both[0], both[1]) * 2 * members.size, 1.0)
        copies = copy_p_values(voices, np.sort(np.concatenate(parts)), place, total)
        p_value = np.minimum(2 * np.fmin(by_group, copies.min(axis=1)), 1.0)  # two tests share the level
        parties = clusters(total, np.flatnonzero(2 * by_group <= level), background)
        if labels.n_classes > 2:
            parties = [rows[err_alike(total, rows)] for rows in parties]
        groups = np.full(labels.n_workers, -1)
        for number, rows in enumerate(joined(parties, 2 * copies <= level)):
            groups[members[rows]] = number
        if groups.max() < 0:
            break
    every = np.full(labels.n_workers, np.nan)
    every[members] = p_value
    found = Company(members, groups, every, background, *total)
    return replace(found, voices=voices) if alone and groups.max() < 0 else found
