"""Effective crowd size: how many independent workers a crowd is worth.

The correlation of two workers is κ of their agreement beyond what the truth explains, as the rest of the crowd tells
the truth (`crowdwise.fitting.company`): 0 for independent workers, 1 for copies. The two themselves, and the companies
they belong to, have no say in that truth. b is κ of pairs of different companies. From the correlations:

| what | formula | here |
|---|---|---|
| correlation in company g, beyond what all share | ρ_g = (κ_g - b) / (1 - b) | `beyond` |
| worth, every company counted as what it adds | Σ_g m_g / (1 + (m_g - 1) ρ_g) | `worth` |
| worth in a plain vote, where copies each have theirs | n / (1 + (n - 1) ρ̄), ρ̄ the mean over all pairs | `in_a_vote` |
| the same with what all share counted too | the same with κ in place of ρ | `with_common` |

n / (1 + (n - 1) ρ̄) is the design effect of L. Kish (1965), "Survey Sampling"; Σ_g … is 1ᵀR⁻¹1 for correlations R that
are ρ_g in a company and 0 between, the number of independent votes with the variance of the best weighting. Companies
are those of `find_dependence`; a company that the labels do not give away counts as independent workers.

What all workers share, b, is difficulty, the method's own bias where labels are few, and errors common to the whole
crowd. Labels alone cannot tell these apart, nor see an error that all make, so the last line is a rough lower end.

Intervals: tasks are dealt into batches, and batches drawn again with replacement; the companies stay as found. Cost:
that of `find_dependence` and one more pass over pairs of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.dependence import company_of
from crowdwise.fitting.company import pair_batches
from crowdwise.fitting.parameters import check_count, check_number
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.fitting.company import Company
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["EffectiveSize", "effective_size", "size_of"]

BATCHES = 30  # of tasks
DRAWS = 1000  # of as many batches
INTERVAL = 0.9


@dataclass(frozen=True)
class EffectiveSize:
    """What a crowd is worth.

    Attributes
    ----------
    n_workers : int
        Workers who share enough tasks to be judged; the other numbers are about them.
    size, low, high : float
        Independent workers that they are worth if every group counts as what it adds, and a 90 % interval.
    in_a_vote, in_a_vote_low, in_a_vote_high : float
        The same where every worker has one vote.
    with_common : float
        `in_a_vote` if what all share (hard tasks, errors of everybody) is counted as dependence too.
    correlation : float
        Mean correlation of two workers beyond what all share.
    common : float
        What all share.
    labels_per_task, effective_labels_per_task : float
        Mean answers of a task, and how many independent ones they are worth.
    groups : (M,)
        Group of each worker, -1 for those who depend on nobody.
    summary : str
        In words.
    skipped : str
        Why nothing can be said, in words; "" where it can.
    """

    n_workers: int
    size: float
    low: float
    high: float
    in_a_vote: float
    in_a_vote_low: float
    in_a_vote_high: float
    with_common: float
    correlation: float
    common: float
    labels_per_task: float
    effective_labels_per_task: float
    groups: IntArray
    summary: str
    skipped: str = ""


def beyond(kappa: FloatArray, common: FloatArray) -> FloatArray:
    """Correlation beyond what all share, from 0 to 1."""
    rest: FloatArray = np.clip((kappa - common) / np.maximum(1 - common, 1e-9), 0, 1)
    return rest


def worth(sizes: FloatArray, correlation: FloatArray) -> FloatArray:
    """Independent votes that companies of these sizes (J,) are worth, added up over the last axis.

    >>> float(worth(np.array([8.0, 1.0, 1.0]), np.array([1.0, 0.0, 0.0])))
    3.0
    """
    total: FloatArray = (sizes / (1 + (sizes - 1) * correlation)).sum(axis=-1)
    return total


def in_a_vote(n_workers: int, correlation: FloatArray) -> FloatArray:
    """Independent votes that as many are worth whose mean correlation is given (Kish).

    >>> float(in_a_vote(20, np.array(0.5)).round(2))
    1.9
    """
    return n_workers / (1 + (n_workers - 1) * correlation)


def effective_size(labels: CrowdLabels, *, level: float = 0.05, seed: int = 0) -> EffectiveSize:
    """How many independent workers the crowd is worth.

    Parameters
    ----------
    level
        At which dependence is found, as for `find_dependence`.
    seed
        Same seed, same answer.
    """
    check_number("level", level, low=0, high=1, above=True)
    check_count("seed", seed, low=0)
    if not labels.n_labels:
        raise InputError("There are no labels to judge. Give at least one answer of one worker to one task.")
    return size_of(labels, company_of(labels, level, seed), seed)


def size_of(labels: CrowdLabels, company: Company | None, seed: int) -> EffectiveSize:
    """What the crowd is worth, given who depends on whom."""
    per_task = labels.n_labels / np.count_nonzero(labels.labels_per_task)
    if company is None:
        why = "Too few workers share enough tasks to say how much they depend on each other."
        no, alone = float("nan"), np.full(labels.n_workers, -1)
        return EffectiveSize(0, no, no, no, no, no, no, no, no, no, per_task, no, alone, why, why)
    n_workers, groups = company.tested.size, company.groups
    mine = groups[company.tested]
    n_groups = int(mine.max(initial=-1)) + 1
    if (company.same == company.shared).all():
        words = (
            f"{_of_all(n_workers, labels)} who never disagree: as good as one, unless all are always right. "
            "Labels alone cannot tell."
        )
        apart = 1.0, 1.0, float(n_workers)
        return EffectiveSize(n_workers, *apart, *apart, 1.0, 1.0, 0.0, per_task, 1.0, groups, words)

    # Of each batch: agreement beyond what is expected and the most that it could be, of every company and between them.
    rows, columns = np.triu_indices(n_workers, 1)
    part = np.where((mine[rows] == mine[columns]) & (mine[rows] >= 0), mine[rows], n_groups)
    gain, room = (
        np.array([np.bincount(part, values[rows, columns], n_groups + 1) for values in tables])
        for tables in zip(*pair_batches(labels, company, BATCHES, seed=seed), strict=True)
    )
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(BATCHES, np.full(BATCHES, 1 / BATCHES), DRAWS)
    weights = np.concatenate([np.ones((1, BATCHES)), drawn])  # first, all batches as they are
    gain, room = weights @ gain, np.maximum(weights @ room, 1e-9)
    kappa = gain / room
    common = np.maximum(kappa[:, -1:], 0)
    inside = beyond(kappa[:, :-1], common)
    sizes = np.bincount(mine[mine >= 0], minlength=n_groups).astype(np.float64)
    lone = n_workers - sizes.sum()
    size = worth(sizes, inside) + lone
    # Pairs count alike, however many tasks they share.
    pairs = n_workers * (n_workers - 1) / 2
    correlation = inside @ (sizes * (sizes - 1) / 2) / pairs
    vote = in_a_vote(n_workers, correlation)
    together = np.clip(kappa[:, :-1], 0, 1) @ (sizes * (sizes - 1) / 2)
    together = (together + common[:, 0] * (pairs - (sizes * (sizes - 1) / 2).sum())) / pairs
    low, high = _interval(size)
    vote_low, vote_high = _interval(vote)
    rest = float(in_a_vote(n_workers, together[:1])[0])
    return EffectiveSize(
        n_workers,
        float(size[0]),
        low,
        high,
        float(vote[0]),
        vote_low,
        vote_high,
        rest,
        float(correlation[0]),
        float(common[0, 0]),
        per_task,
        _labels_worth(labels, groups, inside[0]),
        groups,
        _words(_of_all(n_workers, labels), n_groups, float(size[0]), low, high, float(vote[0]), rest),
    )


def _interval(values: FloatArray) -> tuple[float, float]:
    """Quantiles of the draws, stretched to the estimate, which comes first."""
    low, high = np.quantile(values[1:], [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return float(min(low, values[0])), float(max(high, values[0]))


def _labels_worth(labels: CrowdLabels, groups: IntArray, correlation: FloatArray) -> float:
    """Mean over tasks of the independent answers that a task's answers are worth."""
    group = groups[labels.worker].astype(np.int64)
    together = group >= 0
    key = group[together] * labels.n_tasks + labels.task[together]
    found, answers = np.unique(key, return_counts=True)
    joint = answers / (1 + (answers - 1) * correlation[found // labels.n_tasks])
    total = np.count_nonzero(~together) + joint.sum()
    return float(total / np.count_nonzero(labels.labels_per_task))


def _of_all(n_workers: int, labels: CrowdLabels) -> str:
    """Who is judged: workers with few labels beside others' are not."""
    if n_workers == labels.n_workers:
        return f"{n_workers:,} workers"
    return f"{n_workers:,} workers with enough labels to tell (of {labels.n_workers:,})"


def _words(who: str, n_groups: int, size: float, low: float, high: float, vote: float, rest: float) -> str:
    common = f"; {rest:.1f} in a plain vote if what all share, such as hard tasks, is counted as dependence too."
    if n_groups and round(rest, 1) == round(vote, 1):
        common = "."
    if not n_groups:
        return f"{who}, among whom no dependence was found: worth as many{common}"
    between = f" ({low:.1f} to {high:.1f})" if high - low >= 0.1 else ""
    groups = "the group" if n_groups == 1 else f"each of the {n_groups} groups"
    return (
        f"{who}, worth about {size:.1f} independent ones{between} if {groups} of dependent workers "
        f"counts as what it adds, about {vote:.1f} in a plain vote{common}"
    )
