"""What the moment methods share: who is asked, whose classes are whose, and from moments back to every worker.

A moment method finds the confusion matrices of a *core* of workers from how they answered the tasks they share. It
finds them up to the order of the classes, and says nothing of workers who share little. Here

1. the core is chosen: the workers with the most answers beside others' (`gather_core_answers`);
2. the classes are named: rows are matched with the confusions against the majority vote (`find_common_row_order`,
   `align_rows_of_each`);
3. the others get the matrix that one M-step finds against the posterior of the core (`complete_parameters`), and
   nothing that anyone said is impossible: every probability is at least `FLOOR`.

Matrices are [worker, truth, label]: the columns of the papers' are the rows of these, and sum to 1. Nothing depends on
how the table of labels is ordered: the core stands in an order that the answers decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment, nnls

from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import ConfusionParameters, make_confusion_fit
from crowdwise.fitting.content_order import average_twins, order_by_content
from crowdwise.kernels import PairCounts, pair_counts, vote_shares, worker_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.engines import Prepared, Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.em import Climb
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "ENOUGH",
    "FEWEST",
    "SHARED_TASKS",
    "WEIGHTINGS",
    "CoreAnswers",
    "CoreEstimate",
    "align_rows_of_each",
    "apply_floor",
    "complete_parameters",
    "estimate_prior_from_pairs",
    "find_common_row_order",
    "fit_core",
    "gather_core_answers",
    "normalise_rows",
    "rank_workers_by_shared_answers",
    "starting_counts",
]

FLOOR = 1e-6  # least probability of a label or a class, as in Zhang et al. (2014)
ENOUGH = 10  # answers beside another's, for each cell of a matrix, that make a worker one of the core
FEWEST = 3  # workers: two can always be explained by copying
SHARED_TASKS = "shared-tasks"
WEIGHTINGS = (SHARED_TASKS, "equal")  # what a pair or a triplet of workers may count for
CROWD = 1.0  # answers of the crowd that count as a worker's own where her matrix is an M-step's


@dataclass(frozen=True)
class CoreAnswers:
    """What the core answered together.

    Attributes
    ----------
    workers : (C,)
        Positions of the core's workers.
    classes : (k,)
        Positions of the classes that anyone named.
    pairs
        Joint answers of the core; workers and classes by their place in the two above.
    reference : (C, k, k) [worker, truth, label]
        The core's confusions against the majority vote.
    """

    workers: IntArray
    classes: IntArray
    pairs: PairCounts
    reference: FloatArray


@dataclass(frozen=True)
class CoreEstimate:
    """What a method found: the prior (k,) and the matrices (C, k, k) [worker, truth, label] of `workers` (C,)."""

    workers: IntArray
    prior: FloatArray
    confusion: FloatArray


def rank_workers_by_shared_answers(labels: CrowdLabels, gold: IntArray) -> tuple[IntArray, FloatArray]:
    """Workers by answers beside others' (most first), then by agreement with the vote; and those answers (M,).

    Those who tie are in the order of their answers' content.
    """
    beside = _count_shared_answers(labels)
    agreement = worker_sums(labels, vote_shares(labels, gold)[labels.task, labels.label]).round(9)
    order = np.lexsort((-agreement, -beside))
    if ((np.diff(agreement[order]) == 0) & (np.diff(beside[order]) == 0)).any():
        content = order_by_content(labels).workers
        order = np.concatenate([content, np.flatnonzero(labels.labels_per_worker == 0)])
        order = order[np.lexsort((-agreement[order], -beside[order]))]
    return order, beside


def _count_shared_answers(labels: CrowdLabels) -> FloatArray:
    """Answers of each worker beside others' to the same tasks (M,)."""
    return worker_sums(labels, labels.labels_per_task[labels.task] - 1)


def _labels_of_workers(labels: CrowdLabels, workers: IntArray) -> CrowdLabels:
    """The labels of some workers."""
    wanted = np.zeros(labels.n_workers, np.bool_)
    wanted[workers] = True
    return labels.keep(wanted[labels.worker])


def gather_core_answers(labels: CrowdLabels, known: PriorKnowledge, start: Statistics, most: int) -> CoreAnswers | None:
    """Choose the core, at most so many workers, and count its joint answers; None where too few share tasks.

    `start` holds the counts against the share of votes.
    """
    classes = np.flatnonzero(labels.class_shares)
    order, beside = rank_workers_by_shared_answers(labels, known.gold)
    enough = ENOUGH * classes.size**2
    core = order[beside[order] >= enough][:most]
    if core.size < labels.n_workers:
        # What counts is what the core answered beside each other.
        labels = _labels_of_workers(labels, core)
        core = core[_count_shared_answers(labels)[core] >= enough]
        labels = _labels_of_workers(labels, core)
    if core.size < FEWEST or classes.size < 2:
        return None
    found = pair_counts(labels)
    place = np.full(labels.n_workers, -1)
    place[core] = np.arange(core.size)
    counts = found.counts[:, classes[:, None], classes]
    first, second = place[found.first], place[found.second]
    swap = first > second
    counts[swap] = np.moveaxis(counts[swap], 1, 2)
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    by_place = np.lexsort((second, first))
    pairs = PairCounts(first[by_place], second[by_place], counts[by_place])
    reference = normalise_rows(start.counts[core][:, classes[:, None], classes])
    return CoreAnswers(core, classes, pairs, reference)


def normalise_rows(counts: FloatArray) -> FloatArray:
    """Counts or weights [..., truth, label] with every row made to sum to 1; an empty one becomes uniform."""
    kept = np.maximum(counts, 0)
    total = kept.sum(axis=-1, keepdims=True)
    made: FloatArray = np.where(total > 0, kept / np.where(total > 0, total, 1), 1 / counts.shape[-1])
    return made


def apply_floor(probability: FloatArray, axis: int = 0) -> FloatArray:
    """Probabilities along an axis, none below `FLOOR` by more than rounding."""
    raised = np.maximum(probability, FLOOR)
    made: FloatArray = raised / raised.sum(axis=axis, keepdims=True)
    return made


def find_common_row_order(confusion: FloatArray, reference: FloatArray) -> IntArray:
    """The order of the rows, the same for all workers, in which the matrices are most like the reference."""
    return _match_rows_to_classes(np.einsum("wkl,wrl->kr", confusion, reference))


def align_rows_of_each(confusion: FloatArray, reference: FloatArray) -> FloatArray:
    """Every worker's matrix with its rows in the order that is most like their reference."""
    scores = np.einsum("wkl,wrl->wkr", confusion, reference)
    return np.stack([matrix[_match_rows_to_classes(score)] for matrix, score in zip(confusion, scores, strict=True)])


def _match_rows_to_classes(score: FloatArray) -> IntArray:
    """For each class of the reference, the row that it is matched with: the largest total score."""
    row, truth = linear_sum_assignment(score, maximize=True)
    return np.asarray(row[np.argsort(truth)])


def estimate_prior_from_pairs(pairs: PairCounts, confusion: FloatArray) -> FloatArray:
    """The class prior (k,) that explains the joint answers best, given matrices [worker, truth, label].

    Least squares over all pairs, weighed by their shared tasks: R ≈ Σ_k d[k] a[k]ᵀ b[k], d ≥ 0, made to sum to 1.
    """
    one, two = confusion[pairs.first], confusion[pairs.second]
    weight = pairs.n_shared_tasks
    gram = np.einsum("p,pka,pja,pkb,pjb->kj", weight, one, one, two, two, optimize=True)
    right = np.einsum("pab,pka,pkb->k", pairs.counts, one, two, optimize=True)
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * 1e-12
    root, inverse = np.sqrt(values[kept]), vectors[:, kept].T
    prior, _ = nnls(root[:, None] * inverse, (inverse @ right) / root)
    total = prior.sum()
    return prior / total if total > 0 else np.full(prior.size, 1 / prior.size)


def complete_parameters(
    labels: CrowdLabels, prepared: Prepared, known: PriorKnowledge, start: Statistics, found: CoreEstimate | None
) -> ConfusionParameters:
    """Parameters for every worker and class from an estimate for some; from the majority vote where there is none.

    Workers outside the estimate get the M-step's matrix against the posterior in which they take part with their
    confusions against the majority vote. A class that nobody named has the prior of its gold labels, none without,
    and labels at random.
    """
    classes = np.flatnonzero(labels.class_shares)
    table = _m_step(start.counts)
    if found is None:
        return ConfusionParameters(_estimate_log_prior(labels, known, start.class_counts), table)
    weight = np.bincount(known.gold[known.gold >= 0], minlength=labels.n_classes) / labels.n_tasks
    weight[classes] = found.prior
    log_prior = _estimate_log_prior(labels, known, weight)
    whole = np.full((found.workers.size, labels.n_classes, labels.n_classes), 1 / labels.n_classes)
    whole[:, classes] = 0
    whole[:, classes[:, None], classes] = found.confusion
    core = np.log(apply_floor(whole, axis=2))
    table[found.workers] = core
    if found.workers.size < labels.n_workers:
        table = _m_step(prepared.e_step(log_prior, table, known.gold).counts)
        table[found.workers] = core
    return ConfusionParameters(log_prior, table)


def _make_moment_fit(
    labels: CrowdLabels,
    prepared: Prepared,
    known: PriorKnowledge,
    start: Statistics,
    found: CoreEstimate | None,
    ended: Climb[Any] | None = None,
) -> Fit:
    """The fit that belongs to an estimate, and how the search for it ended, if there was one.

    Moments are not the likelihood's maximum: intervals are always taken at rows drawn towards the crowd.
    """
    parameters = complete_parameters(labels, prepared, known, start, found)
    fit = make_confusion_fit(labels, prepared, known, parameters, few_answers=np.inf)
    return fit if ended is None else fit.attach_climb_history(ended)


def fit_core(
    labels: CrowdLabels,
    known: PriorKnowledge,
    most: int,
    estimate: Callable[[CoreAnswers], tuple[CoreEstimate | None, Climb[Any] | None]],
) -> Fit:
    """The fit of what `estimate` finds in the joint answers of a core of at most so many workers, and how it ended.

    Where there is no core, or nothing is found in it, the answer is that of one M-step from the majority vote.
    """
    prepared = prepare(labels)
    votes = starting_counts(labels, prepared, known)
    shared = gather_core_answers(labels, known, votes, most)
    found, ended = (None, None) if shared is None else estimate(shared)
    if found is not None:  # who stands first of two who answered alike may be found a little otherwise
        found = replace(found, confusion=average_twins(labels, found.workers, found.confusion))
    return _make_moment_fit(labels, prepared, known, votes, found, ended)


def starting_counts(labels: CrowdLabels, prepared: Prepared, known: PriorKnowledge) -> Statistics:
    """Counts against the share of votes, which names the classes and stands in where moments are missing."""
    return prepared.count_against_vote_shares(labels.class_shares, known.gold)


def _estimate_log_prior(labels: CrowdLabels, known: PriorKnowledge, weight: FloatArray) -> FloatArray:
    """Log of the prior (K,): what is given, or the weights of the classes that anyone or gold named."""
    if known.log_prior is not None:
        return known.log_prior
    logs = np.full(labels.n_classes, -np.inf)
    possible = (labels.class_shares > 0) | (weight > 0)
    logs[possible] = np.log(apply_floor(weight[possible] / weight.sum()))
    return logs


def _m_step(counts: FloatArray) -> FloatArray:
    """Log of the matrices that expected answers [worker, truth, label] give, with `CROWD` answers of the crowd."""
    crowd = normalise_rows(counts.sum(axis=0))
    logs: FloatArray = np.log(
        apply_floor((counts + CROWD * crowd) / (counts.sum(axis=2, keepdims=True) + CROWD), axis=2)
    )
    return logs
