"""One number for every worker, read from how workers agree: what the rank-one methods share.

A worker of accuracy p among K classes has the skill s = (K p - 1)/(K - 1): 1 is always right, 0 guesses, below 0 is
worse than guessing. Code a label l for class k as +1 where l = k and -1/(K - 1) where not: ±1 for two classes, and mean
0 for who guesses. Where errors fall on the other classes alike and workers err apart, whatever the class prior,

    C[i, j] = mean over shared tasks of (1 if both say the same, -1/(K - 1) if not),    E C[i, j] = s[i] s[j]:

the matrix of agreements is rank one off its diagonal. Signs of s are known only all together within a connected part
of the crowd: most of its workers are taken to be better than chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from crowdwise.fitting.categorical_em import fit_votes, one_coin_parameters
from crowdwise.kernels import NO_GOLD, pair_agreements, vote_shares

if TYPE_CHECKING:
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "NOTHING",
    "MergedAnswers",
    "PairValues",
    "ProjectedGradientDescent",
    "connected_parts",
    "equal_starting_skills",
    "fit_given_accuracies",
    "given_or_uniform_log_prior",
    "majority_signs",
    "merge_answers",
    "normalise_within_parts",
    "pairwise_agreement",
    "regress_skills",
    "scale_skills_to_agreement",
    "skills_to_accuracies",
    "squared_loss",
]

NOTHING = 1e-12  # skills and messages below this are rounding
ROUNDING = 1e-12  # a loss is not higher if it is so by less than this share
STALL = 1e-14  # steps of a descent below this cannot lower the loss any more


# ---- pairs of workers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairValues:
    """A number for every two workers who share tasks, and how much it weighs.

    Attributes
    ----------
    first, second : (P,)
        Positions of the two workers.
    value, weight : (P,)
        What was observed, and the tasks that it was observed on.
    n_workers
        Number of workers, paired or not.
    """

    first: IntArray
    second: IntArray
    value: FloatArray
    weight: FloatArray
    n_workers: int

    @property
    def has_partner(self) -> BoolArray:
        """Whether a worker shares a task with another, (M,)."""
        found = np.zeros(self.n_workers, bool)
        found[self.first] = found[self.second] = True
        return found

    def matrix(self, entries: FloatArray) -> csr_array[Any]:
        """The symmetric sparse matrix (M, M) with these entries (P,) and an empty diagonal."""
        rows, columns = np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])
        shape = (self.n_workers, self.n_workers)
        return csr_array(coo_array((np.concatenate([entries, entries]), (rows, columns)), shape=shape))

    def parts(self) -> IntArray:
        """The connected part of the crowd that each worker belongs to, (M,)."""
        return _graph_parts(self.matrix(np.ones(self.first.size)))


def pairwise_agreement(labels: CrowdLabels) -> PairValues:
    """C of every pair of workers who share tasks, weighed by the number of shared tasks. O(co-labelling pairs)."""
    first, second, same, shared = pair_agreements(labels)
    value = (same - (shared - same) / (labels.n_classes - 1)) / shared
    return PairValues(first, second, value, shared, labels.n_workers)


def squared_loss(pairs: PairValues, vector: FloatArray) -> float:
    """½ Σ weight (value - v[i] v[j])² over the pairs."""
    rest = pairs.value - vector[pairs.first] * vector[pairs.second]
    return 0.5 * float((pairs.weight * rest * rest).sum())


class ProjectedGradientDescent:
    """Projected gradient steps on `squared_loss`, each worker's scaled by the curvature along their own axis.

    A step that would raise the loss is halved until it does not; the next one starts at twice the length. One step
    costs O(pairs).
    """

    def __init__(self, pairs: PairValues, *, low: float, high: float) -> None:
        self._pairs, self._low, self._high = pairs, low, high
        self._moment, self._weight = pairs.matrix(pairs.weight * pairs.value), pairs.matrix(pairs.weight)
        self._degree = self._weight.sum(axis=1)
        self._paired = np.flatnonzero(pairs.has_partner)
        self._length = 0.5

    def step(self, vector: FloatArray, loss: float) -> FloatArray:
        """A vector whose loss is no higher than this one's; the same where none is found."""
        curvature = self._weight @ (vector * vector)
        paired = vector[self._paired]
        flat = 1e-3 * self._degree * (float((paired * paired).mean()) if paired.size else 0.0)
        scale = np.maximum(curvature, flat)  # so that steps stay finite where the partners know nothing
        towards = np.divide(
            self._moment @ vector - vector * curvature, scale, out=np.zeros(vector.size), where=scale > 0
        )
        length = self._length
        while length > STALL:
            following: FloatArray = np.clip(vector + length * towards, self._low, self._high)
            if squared_loss(self._pairs, following) <= loss * (1 + ROUNDING):
                self._length = min(2 * length, 0.5)
                return following
            length /= 2
        return vector

    def run(self, vector: FloatArray, *, max_iter: int, tol: float) -> tuple[FloatArray, int, bool]:
        """Steps until no entry moves by more than `tol` of the largest; the vector, steps, and whether that was so."""
        for n_iter in range(1, max_iter + 1):
            following = self.step(vector, squared_loss(self._pairs, vector))
            moved = float(np.abs(following - vector).max())
            vector = following
            if moved <= tol * float(np.abs(vector).max()):
                return vector, n_iter, True
        return vector, max_iter, False


def equal_starting_skills(pairs: PairValues) -> FloatArray:
    """The same skill for everybody, (M,): what the pairs agree on average, or a half where that says nothing.

    0 for workers without a partner: a descent leaves them where they are, and they must not count in its steps.
    """
    total = float(pairs.weight.sum())
    mean = float((pairs.weight * pairs.value).sum()) / total if total else 0.0
    return np.where(pairs.has_partner, np.sqrt(mean) if mean > NOTHING else 0.5, 0.0)


# ---- answers, one for each worker and task -----------------------------------------------------------------


@dataclass(frozen=True)
class MergedAnswers:
    """Answers with those of one worker to one task put together.

    Attributes
    ----------
    task, worker : (E,)
        One entry for each task and worker who answered it.
    place : (S,)
        Where each label went.
    times : (E,)
        How often the worker answered the task.
    """

    task: IntArray
    worker: IntArray
    place: IntArray
    times: FloatArray

    def share(self, labels: CrowdLabels, kind: int) -> FloatArray:
        """Share of the answers that name class `kind`, (E,)."""
        named = np.bincount(self.place, weights=labels.label == kind, minlength=self.task.size)
        return np.asarray(named / self.times)

    def sum_coded_answers(self, labels: CrowdLabels, kind: int) -> FloatArray:
        """Sum of the answers coded for class `kind`, +1 or -1/(K - 1) each, (E,)."""
        share = self.share(labels, kind)
        return self.times * (share - (1 - share) / (labels.n_classes - 1))


def merge_answers(labels: CrowdLabels) -> MergedAnswers:
    """Put the answers of each worker to each task together. O(labels)."""
    cells, place, times = np.unique(
        labels.task.astype(np.int64) * labels.n_workers + labels.worker, return_inverse=True, return_counts=True
    )
    return MergedAnswers(cells // labels.n_workers, cells % labels.n_workers, place, times.astype(np.float64))


def connected_parts(labels: CrowdLabels) -> tuple[IntArray, IntArray]:
    """The connected part that each task (N,) and each worker (M,) belongs to. O(labels)."""
    n_nodes = labels.n_tasks + labels.n_workers
    cells = (labels.task, labels.n_tasks + labels.worker)
    parts = _graph_parts(csr_array(coo_array((np.ones(labels.n_labels, np.int8), cells), shape=(n_nodes, n_nodes))))
    return parts[: labels.n_tasks], parts[labels.n_tasks :]


def normalise_within_parts(values: FloatArray, part: IntArray) -> tuple[FloatArray, BoolArray]:
    """Values with root mean square 1 within each part, and whether they were there at all; 1 where they were not."""
    n_parts = int(part.max(initial=0)) + 1
    size = np.sqrt(np.bincount(part, values * values, n_parts) / np.maximum(np.bincount(part, minlength=n_parts), 1))
    there = (size > NOTHING)[part]
    return np.where(there, values / np.where(there, size[part], 1), 1.0), there


def majority_signs(vector: FloatArray, part: IntArray) -> FloatArray:
    """The sign of each worker's part, (M,): the one that makes most of its workers better than chance.

    Where as many are better as are worse, the one that makes the sum positive.
    """
    n_parts = int(part.max(initial=0)) + 1
    heads = np.bincount(part, np.where(np.abs(vector) > NOTHING, np.sign(vector), 0.0), n_parts)
    sums = np.bincount(part, vector, n_parts)
    turn = np.where(heads != 0, heads, sums) < 0
    return np.where(turn[part], -1.0, 1.0)


def scale_skills_to_agreement(pairs: PairValues, direction: FloatArray) -> FloatArray:
    """Skills proportional to `direction` (M,) within each part, at the scale that explains its mean agreement.

    0 for all of a part whose workers agree no more than chance.
    """
    part = pairs.parts()
    n_parts = int(part.max(initial=0)) + 1
    of_pair = part[pairs.first]
    seen = np.bincount(of_pair, pairs.weight * pairs.value, n_parts)
    explained = np.bincount(of_pair, pairs.weight * direction[pairs.first] * direction[pairs.second], n_parts)
    sound = (seen > NOTHING) & (explained > NOTHING)
    scale = np.sqrt(np.where(sound, seen, 0) / np.where(sound, explained, 1))
    return np.clip(scale[part] * direction, -1, 1)


def regress_skills(pairs: PairValues, skill: FloatArray) -> FloatArray:
    """Each worker's skill (M,) by regression of agreements on the partners' skills; kept where those are 0."""
    seen = pairs.matrix(pairs.weight * pairs.value) @ skill
    spread = pairs.matrix(pairs.weight) @ (skill * skill)
    return np.where(spread > NOTHING, seen / np.where(spread > NOTHING, spread, 1), skill)


# ---- from skills to a consensus ----------------------------------------------------------------------------


def skills_to_accuracies(labels: CrowdLabels, pairs: PairValues, skill: FloatArray) -> FloatArray:
    """Accuracies (M,) from skills.

    Workers of whom nothing is told (no pair, or a part of the crowd where every skill is 0) have the mean of the
    others, weighed by answers. If nothing is told of anybody (no two workers share a task, or they agree no more than
    chance), all have one accuracy, so that Bayes' rule is the majority vote: the mean share of votes behind a label. No
    accuracy is surer than the worker's own n answers with one more for each class: from 1/(n + K) to (n + 1)/(n + K).
    """
    n_classes = labels.n_classes
    answers = labels.labels_per_worker.astype(np.float64)
    part = pairs.parts()
    size = np.bincount(part, np.abs(skill), int(part.max(initial=0)) + 1)
    told = pairs.has_partner & (size > NOTHING)[part]
    if not told.any():
        behind = vote_shares(labels, NO_GOLD)[labels.task, labels.label].sum()
        return np.full(labels.n_workers, (float(behind) + 1) / (labels.n_labels + n_classes))
    accuracy = (1 + (n_classes - 1) * skill) / n_classes
    accuracy = np.where(told, accuracy, np.average(accuracy[told], weights=answers[told]))
    bounded: FloatArray = np.clip(accuracy, 1 / (answers + n_classes), (answers + 1) / (answers + n_classes))
    return bounded


def given_or_uniform_log_prior(labels: CrowdLabels, known: PriorKnowledge) -> FloatArray:
    """Log of the class prior (K,): the one given, or uniform."""
    return np.full(labels.n_classes, -np.log(labels.n_classes)) if known.log_prior is None else known.log_prior


def fit_given_accuracies(labels: CrowdLabels, known: PriorKnowledge, accuracy: FloatArray, *, name: str) -> Fit:
    """Bayes' rule with the accuracies given, and classes alike beforehand unless told otherwise."""
    log_prior = given_or_uniform_log_prior(labels, known)
    fit, _ = fit_votes(
        labels,
        known,
        starts=lambda: [one_coin_parameters(accuracy, log_prior)],
        m_step=lambda _, now: now,
        log_density=lambda _: 0.0,
        max_iter=1,
        tol=0.0,
        name=name,
        of_accuracies=lambda drawn, now: one_coin_parameters(drawn, now.log_prior),
    )
    return fit


def _graph_parts(graph: Any) -> IntArray:
    part: IntArray = connected_components(graph, directed=False)[1].astype(np.int64)
    return part
