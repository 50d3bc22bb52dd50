"""Effective crowd size: how many independent workers a crowd is worth in a vote.

With e_i = 1[worker i is wrong], against the truth, and r̄ the mean correlation of e_i and e_j over all pairs of workers,

    n_eff = n / (1 + (n - 1) r̄)

is the number of independent workers whose errors would average out as well (the design effect of L. Kish, 1965, "Survey
Sampling"). Pairs count by the tasks that they share, so that all is O(labels).

| what is known | r̄ | here |
|---|---|---|
| labels alone | posterior of truth and families together, for the best partitions | `draw_log_effective_sizes` |
| true answers of some tasks | counted on these tasks, weights of tasks drawn anew | `log_sizes_on_gold` |
| both | the two, weighed by their precision, on the scale of log n_eff | `pool_sizes` |

The model and the search for families are `family_model` and `family_search`. Partitions whose score is within `WITHIN`
of the best take part by their weight exp(score). The 90 % interval is that of the draws, widened for what the model
gets wrong (`MODEL_ERROR`, chosen on simulated panels whose errors are shared in two ways, as those of
`benchmarks/effective_size.py`).

**What labels cannot tell.** An error that all make alike looks like the truth. Where one family makes up nearly the
whole crowd, or there are fewer than three independent voters, its answers cannot be told from the truth; without
`FEWEST_GOLD` true answers the interval then reaches from what the crowd is worth if nothing but shared errors made it
agree, to what it is worth if its vote is always right. The same can be the case where no family is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.dependence.family_model import arrange_edges, error_correlation, limit_classes, sample_correlations
from crowdwise.dependence.family_search import renumber_families, sample_tasks, search_families
from crowdwise.dependence.groups import detect_groups, find_testable_workers
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.parameter_checks import check_number, check_random_state
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.labels.errors import InputError
from crowdwise.labels.old_names import accept_seed
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import truth_codes

if TYPE_CHECKING:
    from crowdwise.dependence.family_search import Partition
    from crowdwise.dependence.groups import Dependence
    from crowdwise.kernels.family_model import FamilyEdges
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["EffectiveSize", "cap_sizes", "effective_size", "estimate_size", "kish_effective_size"]

FEWEST_TASKS = 30  # with two answers of such workers
FEWEST_GOLD = 20  # true answers, for r̄ to be counted on them
MOST_COST = 1_500_000  # labels × K (K + 1) in a sweep of the sampler
PARTITIONS, WITHIN = 4, 4.0  # how many take part, and how far in score from the best
WARM, DRAWS, THIN = 60, 200, 2  # sweeps before the first draw; draws of all partitions; sweeps between draws
FEWEST_DRAWS = 10  # of a partition
GOLD_DRAWS = 400
FEWEST_INDEPENDENT = 3  # families and workers in none, with fewer of which the truth cannot be told from shared errors
DOMINATES = 0.7  # share of the workers in one family from which the rest cannot outvote it
MODEL_ERROR, DOMINATED_ERROR = 0.09, 0.35  # standard error of log n_eff beside the sampler's own
GOLD_ERROR = 1.2  # times the bootstrap's standard error on gold, which is too small on a hundred tasks
NORMAL = 1.645  # for 90 %


@dataclass(frozen=True)
class EffectiveSize:
    """What a crowd is worth.

    Attributes
    ----------
    n_workers : int
        Workers with enough labels beside others' to be judged; the other numbers are about them.
    size, low, high : float
        Independent workers that they are worth in a vote, n / (1 + (n - 1) r̄), and a 90 % interval.
    correlation : float
        r̄: mean correlation of the errors of two workers.
    labels_per_task, effective_labels_per_task : float
        Mean answers of a task, and how many independent ones they are worth.
    families : (M,)
        Workers with the same number err together, by the joint model that fits best; -1 for those in no family.
    groups : (M,)
        Groups that the test of dependent workers flags, -1 for workers in none: fewer than the families, but sure.
    n_gold : int
        True answers that took part.
    certain : bool
        False where labels alone cannot tell what the crowd believes from the truth; the interval is as wide as that.
    summary : str
        In words.
    skipped : str
        Why nothing can be said, in words; "" where it can.
    """

    n_workers: int
    size: float
    low: float
    high: float
    correlation: float
    labels_per_task: float
    effective_labels_per_task: float
    families: IntArray
    groups: IntArray
    n_gold: int
    certain: bool
    summary: str
    skipped: str = ""

    @property
    def basis(self) -> str:
        """What the numbers rest on."""
        return f"the labels and {self.n_gold:,} true answers" if self.n_gold >= FEWEST_GOLD else "the labels alone"


def cap_sizes(n_workers: int, *sizes: float) -> list[float]:
    """Sizes, none above the number of workers, where chance or errors that avoid each other take them."""
    return [min(size, float(n_workers)) for size in sizes]


def kish_effective_size(n_workers: Any, correlation: Any) -> Any:
    """Independent workers that as many are worth whose errors have this mean correlation.

    >>> round(kish_effective_size(20, 0.5), 2)
    1.9
    """
    return n_workers / (1 + (n_workers - 1) * correlation)


@accept_seed
def effective_size(
    labels: CrowdLabels, *, truth: Any = None, level: float = 0.05, random_state: int = 0
) -> EffectiveSize:
    """How many independent workers the crowd is worth.

    Parameters
    ----------
    truth
        True labels of some tasks, as for `read_truth`: with twenty or more, errors are counted on them too.
    level
        At which groups are flagged, as for `find_dependence`.
    random_state
        Same seed, same answer.
    """
    check_number("level", level, low=0, high=1, above=True)
    check_random_state(random_state)
    labels = read_labels(labels)
    if not labels.n_labels:
        raise InputError("There are no labels to judge. Give at least one answer of one worker to one task.")
    return estimate_size(labels, detect_groups(labels, level), random_state, truth=truth)


def estimate_size(
    labels: CrowdLabels, dependence: Dependence | None, random_state: int, *, truth: Any = None
) -> EffectiveSize:
    """What the crowd is worth, given the groups that were flagged."""
    groups = np.full(labels.n_workers, -1) if dependence is None else dependence.groups
    per_task = labels.n_labels / np.count_nonzero(labels.labels_per_task)
    known = np.full(labels.n_tasks, -1, np.int64) if truth is None else truth_codes(truth, labels).astype(np.int64)
    judged, kept, gold = _arrange_by_content(*select_testable_workers(labels), known)
    n_gold = int((gold >= 0).sum())
    if why := _reason_to_skip(kept, judged, n_gold):
        no, nobody = float("nan"), np.full(labels.n_workers, -1)
        return EffectiveSize(0, no, no, no, no, per_task, no, nobody, groups, 0, False, why, why)
    n_workers = judged.size
    who = f"{n_workers:,} workers" + (
        "" if n_workers == labels.n_workers else f" with enough labels to tell (of {labels.n_workers:,})"
    )
    rng = np.random.default_rng(random_state)
    narrow, told = limit_classes(kept, gold, rng)
    alone = np.full(n_workers, -1)
    if n_gold < FEWEST_GOLD and not _has_disagreement(kept):
        words = f"{who} who never disagree: as good as one, unless all are always right. Labels alone cannot tell."
        families = np.full(labels.n_workers, -1)
        families[judged] = 0
        worth = 1.0, 1.0, float(n_workers)
        return EffectiveSize(n_workers, *worth, 1.0, per_task, 1.0, families, groups, n_gold, False, words)

    partitions = search_families(narrow, told, rng, most=PARTITIONS, within=WITHIN)
    best = partitions[0].family
    dominated = _is_dominated(best)
    drawn = draw_log_effective_sizes(narrow, told, partitions, rng)
    model_error = DOMINATED_ERROR if dominated else MODEL_ERROR
    spread = float(np.hypot(np.subtract(*np.quantile(drawn, [0.95, 0.05])) / (2 * NORMAL), model_error))
    middle = float(np.median(drawn))
    edges = arrange_edges(narrow, alone, told)
    if n_gold >= FEWEST_GOLD:
        middle, spread = pool_sizes(middle, spread, log_sizes_on_gold(edges, rng))
    size = float(np.exp(middle))
    low, high = float(np.exp(middle - NORMAL * spread)), float(np.exp(middle + NORMAL * spread))
    certain = not dominated or n_gold >= FEWEST_GOLD
    if not certain:
        least, most = size_bounds_without_truth(edges, rng)
        low, high = min(low, least), max(high, most)
    correlation = (n_workers / size - 1) / (n_workers - 1)
    families = np.full(labels.n_workers, -1)
    families[judged] = best
    families = renumber_families(families)
    answers = kept.labels_per_task[kept.labels_per_task > 0]
    return EffectiveSize(
        n_workers,
        size,
        low,
        high,
        correlation,
        per_task,
        float(kish_effective_size(answers, max(correlation, 0.0)).mean()),
        families,
        groups,
        n_gold,
        certain,
        _summarise_size(who, n_workers, (size, low, high), best, n_gold, certain),
    )


def select_testable_workers(labels: CrowdLabels) -> tuple[IntArray, CrowdLabels]:
    """Positions of the busiest workers with enough answers beside others', and their labels as a crowd."""
    judged = find_testable_workers(labels)
    place = np.full(labels.n_workers, -1)
    place[judged] = np.arange(judged.size)
    kept = labels.keep(place[labels.worker] >= 0)
    codes = kept.task, place[kept.worker], kept.label
    return judged, type(labels).from_codes(
        *codes, tasks=labels.n_tasks, workers=max(judged.size, 1), classes=labels.n_classes, on_duplicate="all"
    )


def _arrange_by_content(judged: IntArray, kept: CrowdLabels, known: IntArray) -> tuple[IntArray, CrowdLabels, IntArray]:
    """Workers, labels and gold in an order that draws go by, so that rows may come in any; gold of shared tasks."""
    told = PriorKnowledge(gold=np.where(kept.labels_per_task > 1, known, -1))
    order = order_by_content(kept, told)
    return judged[order.workers], order.arrange(kept), order.arrange_knowledge(told).gold


def _reason_to_skip(kept: CrowdLabels, judged: IntArray, n_gold: int) -> str:
    tasks = int((kept.labels_per_task > 1).sum())
    if kept.n_classes < 2:
        return "With a single class nobody can err."
    if judged.size < 2 or tasks < FEWEST_TASKS:
        return "Too few workers share enough tasks to say how much they depend on each other."
    if judged.size < FEWEST_INDEPENDENT and n_gold < FEWEST_GOLD:
        return (
            "Two workers alone cannot show whether they agree because they are right or because they err together. "
            f"Give true answers of {FEWEST_GOLD} tasks or more, or ask a third worker."
        )
    return ""


def _has_disagreement(labels: CrowdLabels) -> bool:
    first = labels.label[labels.task_ptr[:-1].clip(max=labels.n_labels - 1)]
    return bool((labels.label != first[labels.task]).any())


def _is_dominated(family: IntArray) -> bool:
    """Whether one family's answers can pass for the truth."""
    independent = np.count_nonzero(family < 0) + family.max(initial=-1) + 1
    largest = np.bincount(family[family >= 0], minlength=1).max()
    return bool(independent < FEWEST_INDEPENDENT or largest >= DOMINATES * family.size)


def draw_log_effective_sizes(
    labels: CrowdLabels, gold: IntArray, partitions: list[Partition], rng: np.random.Generator
) -> FloatArray:
    """Draws from the posterior of log n_eff, of every partition as many as its weight."""
    weight = np.exp([partition.score - partitions[0].score for partition in partitions])
    drawn: list[float] = []
    chosen = sample_tasks(labels, MOST_COST, rng) | (gold >= 0)
    some = labels if chosen.all() else labels.keep(chosen[labels.task])
    for partition, share in zip(partitions, weight / weight.sum(), strict=True):
        edges = arrange_edges(some, partition.family, gold)
        draws = max(round(DRAWS * share), FEWEST_DRAWS)
        drawn += sample_correlations(edges, partition.parameters, rng, warm=WARM, draws=draws, thin=THIN)
    return log_effective_sizes(labels.n_workers, np.array(drawn))


def log_effective_sizes(n_workers: int, correlations: FloatArray) -> FloatArray:
    """Log n_eff of correlations, which chance can take below what n workers allow: at most twice n."""
    found: FloatArray = np.log(n_workers / np.maximum(1 + (n_workers - 1) * correlations, 0.5))
    return found


def log_sizes_on_gold(edges: FamilyEdges, rng: np.random.Generator) -> FloatArray:
    """Log n_eff counted on the tasks whose truth is known: as it is, then with weights of the tasks drawn anew."""
    known = (edges.gold >= 0).astype(np.float64)
    weights = [known] + [known * rng.standard_exponential(known.size) for _ in range(GOLD_DRAWS)]
    truth = np.maximum(edges.gold, 0)
    return log_effective_sizes(
        edges.family.size, np.array([error_correlation(edges, truth, weight) for weight in weights])
    )


def pool_sizes(middle: float, spread: float, on_gold: FloatArray) -> tuple[float, float]:
    """Mean and standard error of log n_eff from the model's and the one counted on gold, weighed by precision."""
    counted = max(GOLD_ERROR * float(on_gold[1:].std()), 1e-6)
    one, two = 1 / spread**2, 1 / counted**2
    return (one * middle + two * float(on_gold[0])) / (one + two), float((one + two) ** -0.5)


def size_bounds_without_truth(edges: FamilyEdges, rng: np.random.Generator) -> tuple[float, float]:
    """What the crowd is worth if its agreement owes nothing to the truth, and if its vote is always right."""
    n_tasks, n_workers = edges.gold.size, edges.family.size
    task = np.repeat(np.arange(n_tasks), np.diff(edges.task_ptr))
    size = int(edges.label.max()) + 1
    votes = np.bincount(task * size + edges.label, minlength=n_tasks * size).reshape(n_tasks, size)
    alike = np.ones(n_tasks)
    least = np.mean([error_correlation(edges, rng.integers(0, size, n_tasks), alike) for _ in range(5)])
    most = error_correlation(edges, votes.argmax(axis=1), alike)
    ends = np.exp(log_effective_sizes(n_workers, np.array([least, most])))
    return max(1.0, float(ends[0])), min(float(n_workers), float(ends[1]))


def _summarise_size(
    who: str, n_workers: int, worth: tuple[float, float, float], family: IntArray, n_gold: int, certain: bool
) -> str:
    size, low, high = cap_sizes(n_workers, *worth)
    told = n_gold >= FEWEST_GOLD
    sizes = np.sort(np.bincount(family[family >= 0]))[::-1]
    if not sizes.size:
        found = "No families of workers who err together were found"
    elif sizes.size == 1:
        found = f"{sizes[0]} of them seem to err together, as one family"
    else:
        found = (
            f"They fall into {sizes.size} families whose members seem to err together (of {', '.join(map(str, sizes))})"
        )
    if not certain:
        return (
            f"{who}, worth between {low:.1f} and {high:.1f} independent ones in a vote. {found}, and nearly the whole "
            "crowd: labels alone cannot tell what it believes from what is true. "
            f"Give the true answers of {FEWEST_GOLD} tasks or more."
        )
    worth_words = (
        "about as many independent ones"
        if high >= n_workers and size > 0.9 * n_workers
        else (f"about {size:.1f} independent ones")
    )
    interval = f"({low:.1f} to {high:.1f})"
    if told:
        return f"{who}, worth {worth_words} in a vote {interval}, by the labels and {n_gold:,} true answers. {found}."
    return (
        f"{who}, worth at most {worth_words} in a vote {interval}, by the labels alone. {found}. Errors that all make "
        f"alike do not show without true answers: give those of {FEWEST_GOLD} tasks or more."
    )
