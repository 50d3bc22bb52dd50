"""EM one label at a time: the task's posterior, then the counts of the workers whom it concerns.

A new label l of worker w on task t adds log A[w, k, l] to the score of class k; q[t] is the softmax of score + prior.

| mode | counts[w, k, l] |
|---|---|
| decay (Cappé & Moulines 2009) | n[w] S[w], S ← (1 - f) S + f q[t, k] [l], f = λ / W, W ← (1 - λ) W + λ, λ = n^-0.6 |
| exact (Neal & Hinton 1998) | Σ q[t, k] over the labels; a new one takes q[t] anew from the tables of now, and what |
|  | it has changed by is added to the counts of all who labelled t |

n in λ is the number of labels of the whole stream, so that λ is the tutorial's (Ibrahim et al. 2025); W, the weight so
far of one worker, makes S a mean from the first label on. A decayed label costs O(K) for the task and O(K²) for the
worker; an exact one as much for each of the last `window` labels of the task.

| family | log A[w, k, l] from counts c + pseudo-counts |
|---|---|
| dawid-skene | log of the row's shares |
| one-coin | log of the share right, and of the rest spread over K - 1 |
| confusion-vector | the same for each true class |
| mean-field | digamma(c) - digamma(row sum): expected logarithms |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import digamma

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "FAMILIES",
    "OnlineArrays",
    "OnlineRule",
    "add_labels",
    "chain_labels",
    "log_tables",
    "recount",
    "rescore",
    "revisit_task",
    "revisit_tasks",
    "set_tables",
    "softmax",
    "start_from_votes",
    "swap_truth_and_label",
]

FAMILIES = ("dawid-skene", "one-coin", "confusion-vector", "mean-field")
SHARE_OF_FIT = 256  # a label one by one costs NumPy as much as so many in a pass: compiled loops pay the sooner
LEAST = 1e-300
EXPONENT = -0.6
SPREAD = 2654435761  # Knuth's multiplier: multiples of it, modulo any number, are spread evenly


def swap_truth_and_label(table: FloatArray) -> FloatArray:
    """A table of the state, […, label, truth], as the rest of the package has it, […, truth, label]; and back."""
    return np.swapaxes(table, -1, -2)


class OnlineArrays(NamedTuple):
    """The state, with room to grow; tables are [worker, label, truth].

    Attributes
    ----------
    score, posterior : (tasks, K)
    gold, last_edge, n_labels : (tasks,)
        Known class or -1; newest label or -1; number of labels.
    counts, log_table : (workers, K, K)
    weight, n_answers : (workers,)
        W of the decay; number of labels.
    edge_task, edge_worker, edge_label, edge_before : (labels,)
        The labels as they came, and the label before of the same task or -1.
    class_counts, log_prior : (K,)
        Σ of q over tasks with labels or gold, pseudo-counts not among them.
    """

    score: FloatArray
    posterior: FloatArray
    gold: IntArray
    last_edge: IntArray
    n_labels: IntArray
    counts: FloatArray
    log_table: FloatArray
    weight: FloatArray
    n_answers: IntArray
    edge_task: IntArray
    edge_worker: IntArray
    edge_label: IntArray
    edge_before: IntArray
    class_counts: FloatArray
    log_prior: FloatArray


class OnlineRule(NamedTuple):
    """How labels count: family (a position in `FAMILIES`), exact or decayed, window (0: none), and pseudo-counts.

    Attributes
    ----------
    pseudo : (K, K) [label, truth]
    share_pseudo
        Of each class.
    revisits
        Tasks to go over again after each label, in exact mode.
    """

    family: int
    exact: bool
    window: int
    pseudo: FloatArray
    share_pseudo: float
    revisits: int


def add_labels(state: OnlineArrays, rule: OnlineRule, first: int, last: int) -> None:
    """Take in the labels `first` to `last` of `edge_task`, `edge_worker`, `edge_label`, in their order.

    After each, in exact mode, the tasks of `revisits` of the labels so far, spread evenly, are gone over again.
    """
    if choose_engine(SHARE_OF_FIT * last, state.log_prior.size) == "numpy":
        _add_labels(state, rule, first, last)
        return
    from crowdwise.kernels.compiled import online_em

    online_em.add_labels(state, rule, first, last)


def revisit_tasks(state: OnlineArrays, rule: OnlineRule, n_tasks: int) -> float:
    """One pass over tasks in exact mode, without their windows: the greatest change of a posterior."""
    if choose_engine(SHARE_OF_FIT * int(state.n_labels[:n_tasks].sum()), state.log_prior.size) == "numpy":
        return _revisit_tasks(state, rule, n_tasks)
    from crowdwise.kernels.compiled import online_em

    moved: float = online_em.revisit_tasks(state, rule, n_tasks)
    return moved


def revisit_task(state: OnlineArrays, rule: OnlineRule, task: int, newly: bool) -> None:
    """E-step of one task whose gold has become known; without exact counts its workers' counts stay.

    `newly` says that nothing was known of the task before.
    """
    if rule.exact:
        _revisit_task(state, rule, task, rule.window, newly, -1)
    else:
        _update_posterior(state, rule, task, newly)


def set_tables(state: OnlineArrays, rule: OnlineRule, first: int = 0) -> None:
    """Tables of the workers from `first` on, and the class shares, from the counts."""
    state.log_table[first:] = log_tables(state.counts[first:], rule)
    _set_log_prior(state, rule)


def rescore(state: OnlineArrays, n_labels: int, n_tasks: int) -> float:
    """Scores and posteriors of all tasks from the tables of now; the greatest change of a posterior."""
    task = state.edge_task[:n_labels]
    said = state.log_table[state.edge_worker[:n_labels], state.edge_label[:n_labels]]
    for k in range(state.log_prior.size):
        state.score[:n_tasks, k] = np.bincount(task, said[:, k], n_tasks)
    fresh = softmax(state.score[:n_tasks] + state.log_prior)
    known = np.flatnonzero(state.gold[:n_tasks] >= 0)
    fresh[known] = np.eye(state.log_prior.size)[state.gold[known]]
    moved = float(np.abs(fresh - state.posterior[:n_tasks]).max(initial=0.0))
    state.posterior[:n_tasks] = fresh
    return moved


def recount(state: OnlineArrays, rule: OnlineRule, n_labels: int, n_tasks: int, n_workers: int) -> None:
    """Counts of all labels from the posteriors of now, which rounding and windows have left behind; then the tables."""
    told = (state.n_labels[:n_tasks] > 0) | (state.gold[:n_tasks] >= 0)
    state.class_counts[:] = state.posterior[:n_tasks][told].sum(axis=0)
    n_classes = state.log_prior.size
    cell = state.edge_worker[:n_labels] * n_classes + state.edge_label[:n_labels]
    for k in range(n_classes):
        sums = np.bincount(cell, state.posterior[state.edge_task[:n_labels], k], n_workers * n_classes)
        state.counts[:n_workers, :, k] = sums.reshape(n_workers, n_classes)
    set_tables(state, rule)


def chain_labels(edge_task: IntArray, n_tasks: int) -> tuple[IntArray, IntArray]:
    """Newest label of each task, and the label before each of the same task; -1 for none."""
    order = np.argsort(edge_task, kind="stable")
    before = np.full(edge_task.size, -1, np.int64)
    same = edge_task[order[1:]] == edge_task[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    last = np.full(n_tasks, -1, np.int64)
    last[edge_task] = np.arange(edge_task.size)  # where a task is named again, the last assignment stays
    return last, before


def start_from_votes(state: OnlineArrays, n_labels: int, n_tasks: int) -> None:
    """Posteriors that are the shares of votes, where a batch fit starts."""
    votes = np.zeros((n_tasks, state.log_prior.size))
    np.add.at(votes, (state.edge_task[:n_labels], state.edge_label[:n_labels]), 1.0)
    state.posterior[:n_tasks] = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    known = np.flatnonzero(state.gold[:n_tasks] >= 0)
    state.posterior[known] = np.eye(state.log_prior.size)[state.gold[known]]


def log_tables(counts: FloatArray, rule: OnlineRule) -> FloatArray:
    """Tables (…, K, K) [label, truth] of workers from their counts; a row of nothing is uniform."""
    n_classes = counts.shape[-1]
    mass = counts + rule.pseudo
    name = FAMILIES[rule.family]
    total = mass.sum(axis=-2, keepdims=True)
    if name == "mean-field":
        table: FloatArray = digamma(mass) - digamma(total)
        return table
    guess = 1 / max(n_classes, 1)
    if name == "dawid-skene":
        shares = np.where(total > 0, mass / np.where(total > 0, total, 1), guess)
    else:
        right = np.diagonal(mass, axis1=-2, axis2=-1)[..., None, :]
        if name == "one-coin":
            right, total = right.sum(axis=-1, keepdims=True), total.sum(axis=-1, keepdims=True)
        accuracy = np.where(total > 0, right / np.where(total > 0, total, 1), guess)
        shares = np.where(np.eye(n_classes, dtype=np.bool_), accuracy, (1 - accuracy) / max(n_classes - 1, 1))
    logs: FloatArray = np.log(np.maximum(shares, LEAST))
    return logs


def _set_log_prior(state: OnlineArrays, rule: OnlineRule) -> None:
    mass = state.class_counts + rule.share_pseudo
    if FAMILIES[rule.family] == "mean-field":
        state.log_prior[:] = digamma(mass) - digamma(mass.sum())
    else:
        total = mass.sum()
        state.log_prior[:] = np.log(np.maximum(mass / total, LEAST)) if total > 0 else -np.log(max(mass.size, 1))


def softmax(score: FloatArray) -> FloatArray:
    """Shares along the last axis."""
    powers = np.exp(score - score.max(axis=-1, keepdims=True, initial=-np.inf))
    shares: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def _update_posterior(state: OnlineArrays, rule: OnlineRule, task: int, newly: bool) -> FloatArray:
    """Set q of a task from its score; what it has changed by, also added to the class counts."""
    before = np.zeros_like(state.log_prior) if newly else state.posterior[task].copy()
    if state.gold[task] >= 0:
        state.posterior[task] = 0.0
        state.posterior[task, state.gold[task]] = 1.0
    else:
        state.posterior[task] = softmax(state.score[task] + state.log_prior)
    change: FloatArray = state.posterior[task] - before
    state.class_counts[:] += change
    _set_log_prior(state, rule)
    return change


def count_label(state: OnlineArrays, edge: int) -> bool:
    """Count a label with its task and worker; whether nothing was known of the task before. Compiled as it is."""
    task = state.edge_task[edge]
    newly = state.n_labels[task] == 0 and state.gold[task] < 0
    state.edge_before[edge] = state.last_edge[task]
    state.last_edge[task] = edge
    state.n_labels[task] += 1
    state.n_answers[state.edge_worker[edge]] += 1
    return bool(newly)


def _add_labels(state: OnlineArrays, rule: OnlineRule, first: int, last: int) -> None:
    for edge in range(first, last):
        task, worker, label = state.edge_task[edge], state.edge_worker[edge], state.edge_label[edge]
        newly = count_label(state, edge)
        if rule.exact:
            _revisit_task(state, rule, task, rule.window, newly, edge)
            for again in range(edge * rule.revisits, (edge + 1) * rule.revisits):
                _revisit_task(state, rule, state.edge_task[again * SPREAD % (edge + 1)], rule.window, False, -1)
            continue
        state.score[task] += state.log_table[worker, label]
        _update_posterior(state, rule, task, newly)
        number = state.n_answers[worker]
        step = (edge + 1.0) ** EXPONENT
        state.weight[worker] = (1 - step) * state.weight[worker] + step
        share = step / state.weight[worker]
        state.counts[worker] *= (1 - share) * number / max(number - 1, 1)
        state.counts[worker, label] += share * number * state.posterior[task]
        state.log_table[worker] = log_tables(state.counts[worker], rule)


def _revisit_task(state: OnlineArrays, rule: OnlineRule, task: int, window: int, newly: bool, fresh: int) -> float:
    """E-step of one task with the tables of now, then the counts of those who labelled it; label `fresh` is new."""
    state.score[task] = 0.0
    edge = state.last_edge[task]
    while edge >= 0:
        state.score[task] += state.log_table[state.edge_worker[edge], state.edge_label[edge]]
        edge = state.edge_before[edge]
    change = _update_posterior(state, rule, task, newly)
    edge, visited = state.last_edge[task], 0
    while edge >= 0 and (window == 0 or visited < window):
        worker, label = state.edge_worker[edge], state.edge_label[edge]
        state.counts[worker, label] += state.posterior[task] if edge == fresh else change
        np.maximum(state.counts[worker, label], 0.0, out=state.counts[worker, label])
        state.log_table[worker] = log_tables(state.counts[worker], rule)
        edge, visited = state.edge_before[edge], visited + 1
    return float(np.abs(change).max())


def _revisit_tasks(state: OnlineArrays, rule: OnlineRule, n_tasks: int) -> float:
    moved = 0.0
    for task in range(n_tasks):
        if state.n_labels[task]:
            moved = max(moved, _revisit_task(state, rule, task, 0, False, -1))
    return moved
