"""Loops that read a worker's matrix label by label, for callers whose matrices are [worker, truth, label]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels import margin, pairs, triples

if TYPE_CHECKING:
    from crowdwise.kernels.pairs import PairCounts
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["by_label", "pair_pass", "task_sums", "triple_error", "triple_sweep"]


def by_label(table: FloatArray) -> FloatArray:
    """A table [worker, truth, label] as loops read it, the values of one label together; no copy if they lie so."""
    return np.ascontiguousarray(table.transpose(0, 2, 1))


def pair_pass(pairs_: PairCounts, prior: FloatArray, table: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """`pairs.pair_pass`: log-likelihood, class counts (K,) and counts (M, K, K) of joint answers."""
    log_likelihood, class_counts, counts = pairs.pair_pass(pairs_, prior, by_label(table))
    return log_likelihood, class_counts, counts.transpose(0, 2, 1)


def triple_error(
    triples_: IntArray, share: FloatArray, weight: FloatArray, prior: FloatArray, table: FloatArray
) -> float:
    """`triples.triple_error`: weighted squared error of the joint answers of triplets."""
    return triples.triple_error(triples_, share, weight, prior, by_label(table))


def triple_sweep(
    triples_: IntArray,
    share: FloatArray,
    weight: FloatArray,
    prior: FloatArray,
    table: FloatArray,
    *,
    n_steps: int,
    fixed: bool,
) -> tuple[FloatArray, FloatArray]:
    """`triples.triple_sweep`: a better prior (K,) and better matrices (M, K, K)."""
    prior, table = triples.triple_sweep(triples_, share, weight, prior, by_label(table), n_steps=n_steps, fixed=fixed)
    return prior, table.transpose(0, 2, 1)


def task_sums(labels: CrowdLabels, weights: FloatArray, log_table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`margin.task_sums`: weighted votes, and Σ log P(label | truth) by truth, both (N, K)."""
    return margin.task_sums(labels, weights, by_label(log_table))
