"""How far workers err together, as far as labels can tell, and what that does to the skill they seem to have.

Most models take workers' errors as independent given the truth. Where tasks differ in difficulty, or mislead many
workers at once, the consensus is wrong where many agree, it agrees with those workers, and everyone's skill comes out
too high. The labels tell in part. If tasks differ in difficulty, some are split and some unanimous more often than
independent errors allow; `task_effect_evidence` is the log Bayes factor for that: a difficulty d ~ N(0, σ²) of each
task, taken off the log-odds of a right answer, against none. The labels do not tell on which tasks a majority is
misled. Where the evidence points to task effects, or there are too few labels a task to tell, the truth is
therefore graded by a linear opinion pool of the posterior and of what each label says alone, and the skill's variance
allows for the pool's own error (`ALLOWANCE`, `DOUBT`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from crowdwise.engines import prepare
from crowdwise.fitting.skill_intervals import shrink_rows
from crowdwise.kernels import mean_opinions, worker_sums
from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "SharedErrorLoss",
    "estimate_shared_error_loss",
    "has_enough_labels_per_task",
    "pool_opinions",
    "task_effect_evidence",
]

ALLOWANCE = 0.3  # share of the opinion pool in the truth that skill is graded by, where workers err together
DOUBT = 1.0  # standard deviation of what they share, as a multiple of what the pool takes off
FEWEST_LABELS = 3.0  # a task, on average, below which the labels cannot tell whether workers err together
DIFFICULTIES = (0.5, 0.8, 1.2)  # standard deviations of task difficulty, in log-odds
NODES = np.sqrt(3.0) * np.array([-1.0, 0.0, 1.0])  # Gauss-Hermite rule with three nodes
NODE_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6
STEPS, NEWTON_STEPS = 6, 5
MOST_LABELS, MOST_CELLS = 100_000, 3_000_000  # that the evidence is taken from
OWN_DRAW, CLASS_DRAW, ERROR_DRAW = 8.0, 3.0, 5.0  # answers by which a worker's rows are drawn towards the crowd
SMALLEST = 1e-9


@dataclass(frozen=True)
class SharedErrorLoss:
    """What workers' common errors may take off their skill.

    Attributes
    ----------
    probability
        That workers err together, given the labels; 1, to be on the safe side, where the labels cannot tell.
    shift : (M,)
        How much lower each worker's skill is if they do.
    """

    probability: float
    shift: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Expected loss of skill (M,)."""
        return self.probability * self.shift

    @property
    def variance(self) -> FloatArray:
        """Variance (M,) of the loss: whether there is one, and how large it is."""
        chance = self.probability
        found: FloatArray = (chance * (1 - chance) + chance * DOUBT**2) * self.shift**2
        return found


def estimate_shared_error_loss(labels: CrowdLabels, posterior: FloatArray, gold: IntArray) -> SharedErrorLoss:
    """What common errors may take off each worker's skill, where truths have this posterior (N, K)."""
    told = labels.labels_per_task > 0
    if not told.all():
        labels, posterior, gold = labels.keep_tasks(told), posterior[told], gold[told] if gold.size else gold
    opinions, prior = collect_opinions(labels, posterior)
    lost = np.zeros(labels.n_workers)
    for tasks, part in labels.iterate_parts():
        pooled = pool_opinions(part, posterior[tasks], gold[tasks], opinions, prior)
        lost += worker_sums(part, (posterior[tasks] - pooled)[part.task, part.label])
    shift = np.maximum(lost / np.maximum(labels.labels_per_worker, 1), 0)
    if not has_enough_labels_per_task(labels.labels_per_task):
        return SharedErrorLoss(1.0, shift)
    log_odds = 0.0  # before the labels are seen, either is as likely
    if labels.n_workers * labels.n_classes**2 * NODES.size <= MOST_CELLS:
        log_odds += task_effect_evidence(*_subsample_tasks(labels, posterior, gold))
    return SharedErrorLoss(float(expit(log_odds)), shift)


def has_enough_labels_per_task(labels_per_task: IntArray) -> bool:
    """Whether tasks have enough labels, on average, to tell whether workers err together."""
    labelled = labels_per_task[labels_per_task > 0]
    return bool(labelled.size) and float(labelled.mean()) >= FEWEST_LABELS


def _subsample_tasks(
    labels: CrowdLabels, posterior: FloatArray, gold: IntArray
) -> tuple[CrowdLabels, FloatArray, IntArray]:
    """The same, of every n-th task where there are more labels than the evidence needs."""
    step = -(-labels.n_labels // MOST_LABELS)
    if step <= 1:
        return labels, posterior, gold
    codes: list[list[IntArray]] = [[], [], []]
    for tasks, part in labels.iterate_parts():
        task = part.task + tasks.start
        kept = task % step == 0
        for column, values in zip(codes, (task[kept] // step, part.worker[kept], part.label[kept]), strict=True):
            column.append(values)
    few = CrowdLabels.from_codes(
        *map(np.concatenate, codes),
        tasks=posterior[::step].shape[0],
        workers=labels.n_workers,
        classes=labels.n_classes,
        on_duplicate="all",
    )
    return few, np.ascontiguousarray(posterior[::step]), gold[::step]


def collect_opinions(labels: CrowdLabels, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a label of each worker says of the truth by itself (M, K, K) [worker, truth, label], and the prior (K,)."""
    prior = np.maximum(np.asarray(posterior.mean(axis=0)), SMALLEST)
    opinions = np.exp(shrink_rows(prepare(labels).accumulate(posterior).counts)) * prior[:, None]
    opinions /= np.maximum(opinions.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return opinions, prior


def pool_opinions(
    labels: CrowdLabels, posterior: FloatArray, gold: IntArray, opinions: FloatArray, prior: FloatArray
) -> FloatArray:
    """The posterior (N, K) mixed with the mean of what each label of a task says alone; known truths stay."""
    pooled: FloatArray = (1 - ALLOWANCE) * posterior + ALLOWANCE * mean_opinions(labels, opinions, prior)
    if gold.size:
        pooled[gold >= 0] = posterior[gold >= 0]
    return pooled


def task_effect_evidence(labels: CrowdLabels, posterior: FloatArray, gold: IntArray) -> float:
    """Log Bayes factor of task difficulties that differ against tasks that are all alike, given the labels.

    The likelihoods are at parameters fitted under each σ by a few steps of EM from the same posterior (N, K), with
    workers' rows drawn towards the crowd; σ has equal weight on each value of `DIFFICULTIES`.
    """
    alike, *unlike = (
        _log_likelihood_given_difficulty(labels, posterior, gold, spread) for spread in (0.0, *DIFFICULTIES)
    )
    gains = np.array(unlike) - alike
    return float(gains.max() + np.log(np.mean(np.exp(gains - gains.max()))))


def _log_likelihood_given_difficulty(
    labels: CrowdLabels, posterior: FloatArray, gold: IntArray, spread: float
) -> float:
    """Log-likelihood after a few steps of EM where task difficulty has this standard deviation."""
    nodes, weights = (NODES * spread, NODE_WEIGHTS) if spread else (np.zeros(1), np.ones(1))
    n_classes, n_nodes = labels.n_classes, nodes.size
    prepared = prepare(labels, n_classes * n_nodes)
    states = np.ascontiguousarray((posterior[:, :, None] * weights).reshape(labels.n_tasks, -1))
    value, place = 0.0, None
    for _ in range(STEPS):
        counts = prepared.accumulate(states).counts.reshape(labels.n_workers, n_classes, n_nodes, n_classes)
        place = _fit_log_odds(counts, nodes, weights, place)
        shares = states.reshape(-1, n_classes, n_nodes).sum(axis=(0, 2)) + 1
        log_prior = (np.log(shares / shares.sum())[:, None] + np.log(weights)).ravel()
        value = prepared.e_step(log_prior, _log_table(counts, place, nodes), gold, states).log_likelihood
    return value


def _fit_log_odds(counts: FloatArray, nodes: FloatArray, weights: FloatArray, start: FloatArray | None) -> FloatArray:
    """Log-odds (M, K) of a right answer to a task of middling difficulty, by Newton's method.

    `counts` are [worker, truth, node, label]. `CLASS_DRAW` answers at the worker's own accuracy count for each class,
    and `OWN_DRAW` at the crowd's for the worker.
    """
    answers, right = counts.sum(axis=3), np.einsum("wknk->wkn", counts)
    crowd = (right.sum() + 0.5) / (answers.sum() + 1)
    own = (right.sum(axis=(1, 2)) + OWN_DRAW * crowd) / (answers.sum(axis=(1, 2)) + OWN_DRAW)
    place = start
    if place is None:
        rate = (right.sum(axis=2) + CLASS_DRAW * own[:, None]) / (answers.sum(axis=2) + CLASS_DRAW)
        place = logit(np.clip(rate, SMALLEST, 1 - SMALLEST))
    for _ in range(NEWTON_STEPS):
        chance = expit(place[:, :, None] - nodes)
        steep = chance * (1 - chance)
        slope = (right - answers * chance).sum(axis=2) + CLASS_DRAW * (own[:, None] - chance @ weights)
        bend = (answers * steep).sum(axis=2) + CLASS_DRAW * (steep @ weights) + SMALLEST
        place = np.clip(place + np.clip(slope / bend, -1, 1), -12, 12)
    return place


def _log_table(counts: FloatArray, place: FloatArray, nodes: FloatArray) -> FloatArray:
    """Logarithm of P(label | truth, node) [worker, truth × node, label], errors drawn towards the crowd's."""
    diagonal = np.arange(counts.shape[1])
    wrong = counts.sum(axis=2)
    wrong[:, diagonal, diagonal] = 0
    crowd = wrong.sum(axis=0) + 0.5
    crowd[diagonal, diagonal] = 0
    crowd /= np.maximum(crowd.sum(axis=1, keepdims=True), SMALLEST)
    errors = (wrong + ERROR_DRAW * crowd) / (wrong.sum(axis=2) + ERROR_DRAW)[:, :, None]
    odds = place[:, :, None] - nodes
    table: FloatArray = np.log(np.maximum(errors, 1e-300))[:, :, None, :] - np.logaddexp(0, odds)[:, :, :, None]
    for k in diagonal:
        table[:, k, :, k] = -np.logaddexp(0, -odds[:, k])
    return table.reshape(counts.shape[0], -1, counts.shape[3])
