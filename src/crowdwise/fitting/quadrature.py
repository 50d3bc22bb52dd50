"""Priors of a worker as weighted sets of nodes: an integral over the prior is a sum over the set.

A prior that is a product of Betas is integrated by Gauss–Jacobi quadrature. After n answers the integrand is a
polynomial of degree n in each accuracy, so that n/2 + 1 nodes are exact. Where n is large far fewer do: nodes of order
S lie π/S apart in the angle φ, accuracy = sin²(φ/2), in which n answers tell no more than to 1/√n; with 4√n nodes what
is left out is below rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, roots_jacobi

from crowdwise.kernels import NodeSets, table_of_matrices

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MOST_DIMENSIONS", "MOST_NODES", "beta_nodes", "class_wise_nodes", "coin_nodes", "matrix_nodes"]

PER_ROOT = 4.0  # nodes for each root of an answer
MOST_NODES = 2**14  # of a grid over the accuracies of all classes
ROUNDING = 1e-9  # of a root, which is then rounded down
MOST_DIMENSIONS = 3  # classes that such a grid can have
FEW_NODES = 64  # of a line: all are looked at
GRID_STRIDE = 4  # in a plane or a space: every so manieth node is looked at first, three standard deviations apart
FEW_ALONG = 16  # of a plane or a space, along each dimension: all are looked at


def beta_nodes(right: float, wrong: float, size: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gauss–Jacobi nodes p of Beta(right, wrong) on (0, 1): log p, log(1 - p) and log-weights, (size,) each.

    Whole powers of p and 1 - p in the density are put into the weights, where they cannot underflow.
    """
    powers = np.ceil([right, wrong]) - 1
    with np.errstate(invalid="ignore"):  # of a term that is then replaced
        place, weight = roots_jacobi(size, wrong - powers[1] - 1, right - powers[0] - 1)
    log_right, log_wrong = np.log((1 + place) / 2), np.log((1 - place) / 2)
    logs = np.log(weight) + powers[0] * log_right + powers[1] * log_wrong
    return log_right, log_wrong, logs - logsumexp(logs)


def coin_nodes(right: float, wrong: float, n_classes: int, answers: IntArray) -> NodeSets:
    """Coins with a Beta(right, wrong) accuracy, errors spread evenly; nodes enough for each worker's answers (M,)."""
    sizes, set_of = _quadrature_orders(right, wrong, answers, np.inf)
    sets = [beta_nodes(right, wrong, size) for size in sizes]
    log_right, log_wrong, log_weight = (np.concatenate(parts) for parts in zip(*sets, strict=True))
    table = np.exp(np.stack([log_right, log_wrong - np.log(max(n_classes - 1, 1))]))[None]
    stride = np.where(sizes > FEW_NODES, np.ceil(np.sqrt(sizes) / 2), 0).astype(np.int64)
    return NodeSets(np.ascontiguousarray(table), log_weight, _offsets(sizes), set_of, sizes, stride)


def class_wise_nodes(right: float, wrong: float, n_classes: int, answers: IntArray, most: int = MOST_NODES) -> NodeSets:
    """A Beta(right, wrong) accuracy for each true class: a grid over the accuracies of two or three classes.

    With more answers than a grid of `most` nodes is fine enough for, the integral is an approximation.
    """
    sizes, set_of = _quadrature_orders(right, wrong, answers, most ** (1 / n_classes) + ROUNDING)
    tables, weights = [], []
    for size in sizes:
        log_right, log_wrong, log_weight = beta_nodes(right, wrong, size)
        grid = np.stack(np.meshgrid(*[np.arange(size)] * n_classes, indexing="ij")).reshape(n_classes, -1)
        errors = np.exp(log_wrong)[grid] / (n_classes - 1)
        table = np.repeat(errors[None], n_classes, axis=0)
        table[np.arange(n_classes), np.arange(n_classes)] = np.exp(log_right)[grid]
        tables.append(table)
        weights.append(log_weight[grid].sum(axis=0))
    table = np.ascontiguousarray(np.concatenate(tables, axis=2))
    stride = np.where(sizes > FEW_ALONG, GRID_STRIDE, 0)
    return NodeSets(table, np.concatenate(weights), _offsets(sizes**n_classes), set_of, sizes, stride, n_classes)


def matrix_nodes(matrices: FloatArray, log_weight: FloatArray, n_workers: int) -> NodeSets:
    """Confusion matrices (nodes, K, K) [node, truth, label], the same for all workers."""
    table = table_of_matrices(matrices)
    no_grid = np.zeros(1, np.int64)
    sizes = np.array([log_weight.size])
    return NodeSets(table, log_weight, _offsets(sizes), np.zeros(n_workers, np.int64), no_grid, no_grid)


def _quadrature_orders(right: float, wrong: float, answers: IntArray, most: float) -> tuple[IntArray, IntArray]:
    """Orders of quadrature, and which of them each worker needs (M,); rounded up, so that they are few."""
    degree = answers + np.ceil(right) + np.ceil(wrong)  # with the square that a variance needs
    needed = np.minimum(degree // 2 + 1, np.ceil(PER_ROOT * np.sqrt(degree)))
    rounded = np.ceil(2 ** (np.ceil(2 * np.log2(needed)) / 2))
    sizes, set_of = np.unique(np.minimum(rounded, np.floor(most)).astype(np.int64), return_inverse=True)
    return sizes, set_of.astype(np.int64)


def _offsets(sizes: IntArray) -> IntArray:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
