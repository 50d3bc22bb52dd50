"""The passes of minimax entropy against plain loops, finite differences and a general optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from tests.conftest import tiny_labels

from crowdwise.kernels import NO_GOLD
from crowdwise.kernels.compiled.loglinear import block_log_likelihood_gradient
from crowdwise.kernels.loglinear import Side, improve_tables, table_posterior

SIZES = pytest.mark.parametrize("n_classes", [2, 3, 5])


def drawn(n_classes: int) -> tuple[Any, Any, Any, Any]:
    """Labels, tables of tasks and of workers, a posterior."""
    generator = np.random.default_rng(n_classes)
    labels = tiny_labels(n_classes, n_classes, n_tasks=9, n_workers=4, repeats=True)
    task = generator.normal(0, 1, (9, n_classes, n_classes))
    worker = generator.normal(0, 1, (4, n_classes, n_classes))
    return labels, task, worker, generator.dirichlet(np.ones(n_classes), 9)


def expected(labels: Any, posterior: Any, task: Any, worker: Any, *, of_task: int | None = None) -> float:
    """Σ q log P(label | truth), of all tasks or of one."""
    total = 0.0
    for t, w, label in zip(labels.task, labels.worker, labels.label, strict=True):
        if of_task is None or t == of_task:
            logs = log_softmax(task[t] + worker[w], axis=1)
            total += float(posterior[t] @ logs[:, label])
    return total


@SIZES
@pytest.mark.parametrize("gold", [{}, {0: 1, 3: 0}], ids=["no gold", "gold"])
def test_posterior(n_classes: int, gold: dict[int, int]) -> None:
    labels, task, worker, _ = drawn(n_classes)
    prior = np.random.default_rng(0).dirichlet(np.ones(n_classes))
    codes = np.array([gold.get(t, -1) for t in range(9)], np.int32) if gold else NO_GOLD
    value, posterior = table_posterior(labels, task, worker, np.log(prior), codes)
    logits = np.tile(np.log(prior), (9, 1))
    for t, w, label in zip(labels.task, labels.worker, labels.label, strict=True):
        logits[t] += log_softmax(task[t] + worker[w], axis=1)[:, label]
    for t, k in gold.items():
        logits[t, np.arange(n_classes) != k] = -np.inf
    assert value == pytest.approx(logsumexp(logits, axis=1).sum(), abs=1e-11)
    np.testing.assert_allclose(posterior, np.exp(logits - logsumexp(logits, axis=1)[:, None]), atol=1e-12)


@SIZES
def test_gradient_by_finite_differences(n_classes: int) -> None:
    labels, task, worker, posterior = drawn(n_classes)
    slope, mass = np.empty((n_classes, n_classes)), np.empty((n_classes, n_classes))
    side = Side(labels.task_ptr, np.arange(labels.n_labels), labels.task, labels.worker, labels.label)
    for t in range(3):
        value = block_log_likelihood_gradient(task[t], t, side, posterior, worker, slope, mass)
        assert value == pytest.approx(expected(labels, posterior, task, worker, of_task=t), abs=1e-11)
        for cell in np.ndindex(n_classes, n_classes):
            nudge = np.zeros_like(task)
            nudge[(t, *cell)] = 1e-5
            ahead = expected(labels, posterior, task + nudge, worker, of_task=t)
            behind = expected(labels, posterior, task - nudge, worker, of_task=t)
            assert slope[cell] == pytest.approx((ahead - behind) / 2e-5, abs=1e-8)


def ordinal_table(parameters: Any, n_classes: int) -> Any:
    """The table from four parameters for each threshold, in the words of the paper."""
    table = np.zeros((n_classes, n_classes))
    for s in range(1, n_classes):
        for k, label in np.ndindex(n_classes, n_classes):
            table[k, label] += parameters[s - 1, int(k >= s), int(label >= s)]
    return table


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("ordinal", [False, True], ids=["free", "ordinal"])
@pytest.mark.parametrize("of_workers", [False, True], ids=["tasks", "workers"])
def test_climbs_reach_what_a_general_optimiser_finds(n_classes: int, ordinal: bool, of_workers: bool) -> None:
    labels, task, worker, posterior = drawn(n_classes)
    others, n_own = (task, 4) if of_workers else (worker, 9)
    found = np.zeros((n_own, n_classes, n_classes))
    for _ in range(50):
        found = improve_tables(labels, posterior, found, others, 0.7, of_workers=of_workers, ordinal=ordinal)
    shape = (n_own, n_classes - 1, 2, 2) if ordinal else (n_own, n_classes, n_classes)

    def tables(flat: Any) -> Any:
        given = flat.reshape(shape)
        return np.stack([ordinal_table(each, n_classes) for each in given]) if ordinal else given

    def cost(flat: Any) -> float:
        own = tables(flat)
        pair = (task, own) if of_workers else (own, worker)
        return -expected(labels, posterior, *pair) + 0.35 * float(flat @ flat)

    best = minimize(cost, np.zeros(int(np.prod(shape))), method="L-BFGS-B", options={"maxfun": 10**6})
    np.testing.assert_allclose(found, tables(best.x), atol=0.02)
    pair = (task, found) if of_workers else (found, worker)
    rises = float((np.diff(found[:, [0, -1]], axis=2) ** 2).sum())
    squares = rises / 2 if ordinal else float((found**2).sum())
    assert -expected(labels, posterior, *pair) + 0.35 * squares == pytest.approx(best.fun, abs=1e-3)
