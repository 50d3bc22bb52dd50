"""The passes of belief propagation against their NumPy specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdwise.engines import use_engine
from crowdwise.fitting.quadrature import class_wise_nodes, coin_nodes, matrix_nodes
from crowdwise.kernels import NO_GOLD, Messages, NodeSets, TruthPrior, task_messages, use_threads, worker_messages
from crowdwise.labels import CrowdLabels

KINDS = pytest.mark.parametrize("kind", ["coins", "class-wise", "matrices", "matrices with zeros"])


def crowd_of(
    n_classes: int, n_labels: int = 600, n_workers: int = 9, n_tasks: int = 80, power: float = 2
) -> CrowdLabels:
    """Workers of very different numbers of labels; the last task and the last worker have none."""
    generator = np.random.default_rng(n_classes)
    share = 1 / np.arange(1.0, n_workers) ** power
    return CrowdLabels.from_codes(
        generator.integers(0, n_tasks - 1, n_labels),
        generator.choice(n_workers - 1, n_labels, p=share / share.sum()),
        generator.integers(0, n_classes, n_labels),
        tasks=n_tasks,
        workers=n_workers,
        classes=n_classes,
        on_duplicate="all",
    )


def nodes_of(kind: str, labels: CrowdLabels) -> NodeSets:
    if kind == "coins":
        return coin_nodes(2.0, 0.7, labels.n_classes, labels.labels_per_worker)
    if kind == "class-wise":
        most = 600 if labels.n_classes == 2 else 40  # a large plane, of which only a part is looked at; a small space
        return class_wise_nodes(2.0, 0.7, labels.n_classes, np.minimum(labels.labels_per_worker, most))
    generator = np.random.default_rng(0)
    matrices = generator.dirichlet(np.ones(labels.n_classes), (37, labels.n_classes))
    if kind == "matrices with zeros":
        matrices[:3] = np.eye(labels.n_classes)
    return matrix_nodes(matrices, np.log(generator.dirichlet(np.ones(37))), labels.n_workers)


def messages_of(labels: CrowdLabels, nodes: NodeSets) -> Any:
    n_kinds = nodes.table.shape[1]
    incoming = np.random.default_rng(1).dirichlet(np.full(n_kinds, 0.5), labels.n_labels)
    incoming[:5] = np.eye(n_kinds)[0]
    return incoming


@KINDS
@pytest.mark.parametrize("n_classes", [2, 3])
def test_workers(n_classes: int, kind: str) -> None:
    labels = crowd_of(n_classes)
    nodes = nodes_of(kind, labels)
    incoming = messages_of(labels, nodes)
    features = np.random.default_rng(2).random((nodes.log_weight.size, 3))
    outgoing, plain = np.empty_like(incoming), np.empty_like(incoming)
    with use_engine("numba"):
        log_mass, means = worker_messages(labels, nodes, Messages(incoming, outgoing, nodes.are_coins), features)
    with use_engine("numpy"):
        plain_mass, plain_means = worker_messages(labels, nodes, Messages(incoming, plain, nodes.are_coins), features)
    np.testing.assert_allclose(outgoing, plain, atol=1e-9)
    np.testing.assert_allclose(log_mass, plain_mass, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(means, plain_means, atol=1e-10)


@KINDS
@pytest.mark.parametrize("with_gold", [False, True], ids=["no gold", "gold"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_tasks(n_classes: int, with_gold: bool, kind: str) -> None:
    labels = crowd_of(n_classes)
    nodes = nodes_of(kind, labels)
    generator = np.random.default_rng(3)
    before = messages_of(labels, nodes)
    outgoing = generator.normal(0, 3, before.shape)
    log_prior = np.log(generator.dirichlet(np.ones(n_classes), labels.n_tasks))
    gold = np.where(generator.random(labels.n_tasks) < 0.3, generator.integers(0, n_classes, labels.n_tasks), -1)
    gold = gold.astype(np.int32) if with_gold else NO_GOLD
    found = []
    for engine, damping in (("numba", 0.25), ("numpy", 0.25), ("numpy", 0.0)):
        incoming, posterior = before.copy(), np.empty((labels.n_tasks, n_classes))
        with use_engine(engine):
            messages = Messages(incoming, outgoing, nodes.are_coins)
            moved, log_mass = task_messages(labels, TruthPrior(log_prior, gold), messages, posterior, damping)
        found.append((incoming, posterior, log_mass, np.array(moved)))
    for fast, plain in zip(*found[:2], strict=True):
        np.testing.assert_allclose(fast, plain, rtol=1e-11, atol=1e-11)
    undamped = found[2][0]
    np.testing.assert_allclose(found[0][0], 0.75 * undamped + 0.25 * before, atol=1e-12)
    assert found[0][3] == pytest.approx(0.5 * np.abs(undamped - before).sum(), rel=1e-11)


def test_large_grids_are_looked_at_in_part() -> None:
    labels = crowd_of(2)
    for kind in ("coins", "class-wise"):
        nodes = nodes_of(kind, labels)
        assert nodes.stride.max() > 0
        assert nodes.stride.min() == 0


def test_the_two_messages_of_an_edge_multiply_to_one() -> None:
    """Which makes the sum of both passes' logarithms the Bethe log-partition."""
    for kind in ("coins", "matrices"):
        labels = crowd_of(3)
        nodes = nodes_of(kind, labels)
        incoming = messages_of(labels, nodes)
        outgoing = np.empty_like(incoming)
        worker_messages(labels, nodes, Messages(incoming, outgoing, nodes.are_coins))
        np.testing.assert_allclose((incoming * np.exp(outgoing)).sum(axis=1), 1, atol=1e-10)


@pytest.mark.parametrize("kind", ["coins", "matrices"])
def test_lanes_and_threads(kind: str) -> None:
    labels = crowd_of(3, n_labels=90_000, n_workers=2_000, n_tasks=9_000, power=0)
    nodes = nodes_of(kind, labels)
    log_prior = np.log(np.full((1, 3), 1 / 3))
    found = []
    for threads in (1, 2, 5):
        with use_threads(threads):
            incoming, posterior = messages_of(labels, nodes), np.empty((9_000, 3))
            outgoing = np.empty_like(incoming)
            messages = Messages(incoming, outgoing, nodes.are_coins)
            log_mass, _ = worker_messages(labels, nodes, messages)
            moved, of_tasks = task_messages(labels, TruthPrior(log_prior, NO_GOLD), messages, posterior, 0.0)
            found.append((log_mass, outgoing, np.array(moved), of_tasks, incoming, posterior))
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(first, second)
