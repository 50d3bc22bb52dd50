"""The passes in plain NumPy: the specification that the fast kernels must meet, kept for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, xlogy

from crowdwise.kernels.chains import ChainStatistics
from crowdwise.kernels.em_passes import Statistics
from crowdwise.kernels.messages import FLOOR

if TYPE_CHECKING:
    from crowdwise.kernels.messages import NodeSets
    from crowdwise.labels.graph import TaskGraph
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "chain_pass",
    "confusion_pass",
    "drawn_scores",
    "field_pass",
    "scatter",
    "share_pass",
    "task_messages",
    "vote_pass",
    "worker_messages",
]


def confusion_pass(
    labels: CrowdLabels, log_prior: FloatArray, log_table: FloatArray, gold: IntArray
) -> tuple[Statistics, FloatArray]:
    """Statistics and posterior of a model with a confusion matrix per worker, table [worker, label, truth]."""
    logits = np.tile(log_prior, (labels.n_tasks, 1))
    np.add.at(logits, labels.task, log_table[labels.worker, labels.label])
    log_likelihood, posterior = _soften(logits, log_prior, gold, labels.n_classes)
    return Statistics(log_likelihood, posterior.sum(axis=0), scatter(labels, posterior)), posterior


def drawn_scores(
    labels: CrowdLabels,
    truth: IntArray,
    uniform: FloatArray,
    cumulative: FloatArray,
    log_prior: FloatArray,
    log_table: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Scores of each task's best class (N,) and of its truth (N,), for labels that the numbers `uniform` draw.

    A class may have several states: its score is the highest of theirs.
    """
    label = (cumulative[labels.worker, truth[labels.task], :-1] <= uniform[:, None]).sum(axis=1)
    scores = np.tile(log_prior, (labels.n_tasks, 1))
    np.add.at(scores, labels.task, log_table[labels.worker, label])
    by_class = scores.reshape(labels.n_tasks, -1, labels.n_classes).max(axis=1)
    return by_class.max(axis=1), by_class[np.arange(labels.n_tasks), truth % labels.n_classes]


def vote_pass(
    labels: CrowdLabels, log_prior: FloatArray, bonus: FloatArray, gold: IntArray
) -> tuple[Statistics, FloatArray]:
    """Statistics and posterior of a model whose label l speaks for class l alone, bonus [worker, label]."""
    logits = np.tile(log_prior, (labels.n_tasks, 1))
    np.add.at(logits, (labels.task, labels.label), bonus[labels.worker, labels.label])
    log_likelihood, posterior = _soften(logits, log_prior, gold, labels.n_classes)
    counts = np.zeros((labels.n_workers, labels.n_classes))
    np.add.at(counts, (labels.worker, labels.label), posterior[labels.task, labels.label])
    return Statistics(log_likelihood, posterior.sum(axis=0), counts), posterior


def scatter(labels: CrowdLabels, values: FloatArray) -> FloatArray:
    """Σ of `values[t, :]` over each worker's tasks, by the label given."""
    counts = np.zeros((labels.n_workers, labels.n_classes, values.shape[1]))
    np.add.at(counts, (labels.worker, labels.label), values[labels.task])
    return counts


def share_pass(labels: CrowdLabels, gold: IntArray) -> Statistics:
    """Counts where the posterior is the share of votes; the shares of all labels for a task that has none."""
    shares = labels.vote_counts().astype(np.float64)
    shares[labels.labels_per_task == 0] = labels.class_shares
    shares /= shares.sum(axis=1, keepdims=True)
    if gold.size:
        shares[gold >= 0] = np.eye(labels.n_classes)[gold[gold >= 0]]
    return Statistics(0.0, shares.sum(axis=0), scatter(labels, shares))


def chain_pass(sequences: Sequences, steps: FloatArray, evidence: FloatArray) -> tuple[ChainStatistics, FloatArray]:
    """Expected steps and posterior along sequences, in logarithms; steps (K + 1, K), the last row for the start."""
    with np.errstate(divide="ignore"):
        log_steps, log_evidence = np.log(steps), np.log(evidence)
    n_classes = steps.shape[1]
    counts, posterior, total = np.zeros_like(steps), np.empty_like(evidence), 0.0
    for begin, end in zip(sequences.ptr[:-1], sequences.ptr[1:], strict=True):
        rows = log_evidence[sequences.order[begin:end]]
        forward, backward = np.empty_like(rows), np.zeros_like(rows)
        forward[0] = log_steps[n_classes] + rows[0]
        for place in range(1, len(rows)):
            forward[place] = logsumexp(forward[place - 1][:, None] + log_steps[:n_classes], axis=0) + rows[place]
        value = logsumexp(forward[-1])
        for place in range(len(rows) - 1, 0, -1):
            ahead = log_steps[:n_classes] + rows[place] + backward[place]
            backward[place - 1] = logsumexp(ahead, axis=1)
            counts[:n_classes] += np.exp(forward[place - 1][:, None] + ahead - value)
        along = np.exp(forward + backward - value)
        counts[n_classes] += along[0]
        posterior[sequences.order[begin:end]] = along
        total += float(value)
    return ChainStatistics(total, counts), posterior


def field_pass(
    graph: TaskGraph, order: IntArray, log_evidence: FloatArray, coupling: float, posterior: FloatArray, sweeps: int
) -> tuple[float, FloatArray]:
    """Mean field over a graph, task by task, and the bound that it raises."""
    believed = posterior.copy()
    near = [graph.neighbour[graph.ptr[task] : graph.ptr[task + 1]] for task in range(len(believed))]
    for task in np.tile(order, sweeps):
        logits = log_evidence[task] + coupling * believed[near[task]].sum(axis=0)
        believed[task] = np.exp(logits - logsumexp(logits))
    agreement = sum(float((believed[task] * believed[near[task]]).sum()) for task in range(len(believed)))
    return float((believed * log_evidence).sum() - xlogy(believed, believed).sum() + coupling * agreement / 2), believed


def _soften(logits: FloatArray, log_prior: FloatArray, gold: IntArray, n_classes: int) -> tuple[float, FloatArray]:
    """Evidence and posterior; a known truth stands, and the prior where no class allows the labels."""
    kinds = log_prior.size // n_classes
    truth = np.repeat(np.eye(n_classes)[gold[gold >= 0]], kinds, axis=1)
    if gold.size:
        logits[gold >= 0] = np.where(truth > 0, logits[gold >= 0], -np.inf)
    evidence = logsumexp(logits, axis=1)
    possible = (evidence > -np.inf)[:, None]
    posterior = np.exp(np.where(possible, logits, log_prior) - np.where(possible, evidence[:, None], 0.0))
    if gold.size and kinds == 1:
        posterior[gold >= 0] = truth
    return float(evidence.sum()), posterior


def worker_messages(
    labels: CrowdLabels, nodes: NodeSets, incoming: FloatArray
) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Messages to the tasks (S, kinds), log-mass of each worker (M,), and each worker's posterior of the nodes."""
    outgoing, log_mass, shares = np.empty_like(incoming), np.empty(labels.n_workers), []
    for worker in range(labels.n_workers):
        edges = np.flatnonzero(labels.worker == worker)
        own = slice(*nodes.ptr[[nodes.set_of[worker], nodes.set_of[worker] + 1]])
        rows = nodes.table[labels.label[edges] if not nodes.coins else np.zeros(edges.size, int)][:, :, own]
        chance = np.maximum(np.einsum("ek,eks->es", incoming[edges], rows), FLOOR)
        logs = nodes.log_weight[own] + np.log(chance).sum(axis=0)
        log_mass[worker] = logsumexp(logs)
        shares.append(np.exp(logs - log_mass[worker]))
        outgoing[edges] = np.log(np.maximum(np.einsum("s,es,eks->ek", shares[-1], 1 / chance, rows), FLOOR))
    return outgoing, log_mass, shares


def task_messages(
    labels: CrowdLabels, log_prior: FloatArray, gold: IntArray, outgoing: FloatArray, *, coins: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Messages to the workers (S, kinds), posterior (N, K) and log-mass of each task (N,); no damping."""
    speaks = outgoing
    if coins:
        speaks = np.repeat(outgoing[:, 1:], labels.n_classes, axis=1)
        speaks[np.arange(labels.n_labels), labels.label] = outgoing[:, 0]
    logs = np.broadcast_to(log_prior, (labels.n_tasks, labels.n_classes)).copy()
    np.add.at(logs, labels.task, speaks)
    if gold.size:
        logs[(gold >= 0)[:, None] & (np.arange(labels.n_classes) != gold[:, None])] = -np.inf
    log_mass = logsumexp(logs, axis=1)
    rest = logs[labels.task] - speaks
    messages = np.exp(rest - logsumexp(rest, axis=1, keepdims=True))
    if coins:
        right = messages[np.arange(labels.n_labels), labels.label]
        messages = np.stack([right, 1 - right], axis=1)
    return messages, np.exp(logs - log_mass[:, None]), log_mass
