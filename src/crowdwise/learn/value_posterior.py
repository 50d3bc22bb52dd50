"""Gaussian EM with a given mean: values of tasks about what a network says, and workers on lines.

    t[n] ~ N(f[n], τ²),    y[n, w] ~ N(a[w] t[n] + b[w], σ[w]²)

| equation | here |
|---|---|
| posterior of t[n]: precision 1/τ² + Σ a²/σ², mean (f/τ² + Σ a (y - b)/σ²) / precision | `find_posterior` |
| a, b: regression of the answers on t, E[t²] included, with a ~ N(1, ¼) and b ~ N(0, ¼) | `update_lines` |
| the answers alone: m[n] = Σ a (y - b)/σ² / Σ a²/σ², which is N(t[n], 1/Σ a²/σ²) | `find_evidence` |
| σ², τ²: expected squares, with an inverse χ² prior that counts as two answers | `update_variances` |
| log p(y) + log-density of the priors | `objective` |

Coordinates of a value have lines of their own and share σ. Answers are in units of their standard deviation. Each
update raises the objective, or leaves it. The prior of σ and τ keeps a worker of few answers, or a network that fits
all of them, from variances of 0; that of the lines shrinks workers of few answers to the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kinds.values.model import sum_rows

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "Lines",
    "Posterior",
    "ValueRows",
    "find_evidence",
    "find_posterior",
    "improve",
    "objective",
    "settle",
    "start_lines",
]

SCALE_SPREAD = BIAS_SPREAD = 0.5
FEW = 2.0  # answers that the priors of the variances count for
USUAL = 0.5  # share of the variance of the answers that is a worker's own, beforehand; the rest is the tasks'
LEAST = 1e-9  # precision below which answers say nothing: those of workers with a scale of 0
MOST_STEPS, ENOUGH = 200, 1e-7  # of `settle`, and the gain per answer at which it ends


@dataclass(frozen=True)
class ValueRows:
    """Answers as arrays: task and worker (n,), value (n, D); how many tasks and workers there are."""

    task: IntArray
    worker: IntArray
    value: FloatArray
    n_tasks: int
    n_workers: int
    unseen: BoolArray | None = None  # tasks (N,) that the network has not learnt from, by which τ² is estimated


@dataclass(frozen=True)
class Lines:
    """Scale a and bias b (M, D) and variance σ² (M,) of the workers, and τ² (D,)."""

    scale: FloatArray
    bias: FloatArray
    variance: FloatArray
    residual: FloatArray


@dataclass(frozen=True)
class Posterior:
    """Mean and variance (N, D) of the values of tasks."""

    mean: FloatArray
    variance: FloatArray


def start_lines(rows: ValueRows) -> Lines:
    """Workers who say the value itself, with the usual variances."""
    shape = (rows.n_workers, rows.value.shape[1])
    return Lines(np.ones(shape), np.zeros(shape), np.full(shape[0], USUAL), np.full(shape[1], 1 - USUAL))


def find_posterior(rows: ValueRows, f: FloatArray, lines: Lines) -> Posterior:
    """Posterior of the values, given what the network says (N, D)."""
    weight = lines.scale[rows.worker] / lines.variance[rows.worker][:, None]
    precision = 1 / lines.residual + sum_rows(rows.task, weight * lines.scale[rows.worker], rows.n_tasks)
    apart = rows.value - lines.bias[rows.worker]
    mean = (f / lines.residual + sum_rows(rows.task, weight * apart, rows.n_tasks)) / precision
    return Posterior(mean, 1 / precision)


def find_evidence(rows: ValueRows, lines: Lines) -> Posterior:
    """What the answers alone say of the values: m[n] and its variance; infinite where there is no answer."""
    weight = lines.scale[rows.worker] / lines.variance[rows.worker][:, None]
    precision = sum_rows(rows.task, weight * lines.scale[rows.worker], rows.n_tasks)
    pulled = sum_rows(rows.task, weight * (rows.value - lines.bias[rows.worker]), rows.n_tasks)
    told = precision > LEAST
    variance = np.where(told, 1 / np.maximum(precision, LEAST), np.inf)
    return Posterior(np.where(told, pulled / np.maximum(precision, LEAST), 0.0), variance)


def update_lines(rows: ValueRows, found: Posterior, lines: Lines, *, scales: bool, biases: bool) -> Lines:
    """The most probable scales and biases, given the posterior of the values and the variances."""
    t, square = found.mean[rows.task], found.mean[rows.task] ** 2 + found.variance[rows.task]

    def total(each: FloatArray) -> FloatArray:
        return sum_rows(rows.worker, each, rows.n_workers) / lines.variance[:, None]

    y = rows.value
    n, st, stt, sy, sty = (total(each) for each in (np.ones_like(y), t, square, y, t * y))
    aa, bb, ab = stt + SCALE_SPREAD**-2, n + BIAS_SPREAD**-2, st
    ra, rb = sty + SCALE_SPREAD**-2, sy
    if scales and biases:
        size = aa * bb - ab**2
        return replace(lines, scale=(bb * ra - ab * rb) / size, bias=(aa * rb - ab * ra) / size)
    if scales:
        return replace(lines, scale=(ra - ab * lines.bias) / aa)
    return replace(lines, bias=(rb - ab * lines.scale) / bb) if biases else lines


def update_variances(rows: ValueRows, f: FloatArray, found: Posterior, lines: Lines) -> Lines:
    """The most probable variances of workers, and of the values about what the network says."""
    scale = lines.scale[rows.worker]
    apart = rows.value - scale * found.mean[rows.task] - lines.bias[rows.worker]
    squares = (apart**2 + scale**2 * found.variance[rows.task]).sum(axis=1)
    count = np.bincount(rows.worker, minlength=rows.n_workers) * rows.value.shape[1]
    own = (np.bincount(rows.worker, squares, rows.n_workers) + FEW * USUAL) / (count + FEW + 2)
    # A network is nearer to the answers that it has learnt from than to others.
    there = np.bincount(rows.task, minlength=rows.n_tasks) > 0 if rows.unseen is None else rows.unseen
    off = ((found.mean - f)[there] ** 2 + found.variance[there]).sum(axis=0)
    residual = (off + FEW * (1 - USUAL)) / (there.sum() + FEW + 2)
    return replace(lines, variance=own, residual=residual)


def objective(rows: ValueRows, f: FloatArray, lines: Lines) -> float:
    """Log-density of the answers, the values integrated out, and of the priors, but for constants."""
    variance = lines.variance[rows.worker][:, None]
    weight = lines.scale[rows.worker] / variance
    apart = rows.value - lines.scale[rows.worker] * f[rows.task] - lines.bias[rows.worker]
    precision = 1 / lines.residual + sum_rows(rows.task, weight * lines.scale[rows.worker], rows.n_tasks)
    pulled = sum_rows(rows.task, weight * apart, rows.n_tasks)
    likelihood = -0.5 * (np.log(2 * np.pi * variance) + apart**2 / variance).sum()
    likelihood += 0.5 * (pulled**2 / precision - np.log(lines.residual * precision)).sum()
    prior = -0.5 * (((lines.scale - 1) / SCALE_SPREAD) ** 2).sum() - 0.5 * ((lines.bias / BIAS_SPREAD) ** 2).sum()
    prior -= (0.5 * FEW + 1) * np.log(lines.variance).sum() + 0.5 * FEW * USUAL * (1 / lines.variance).sum()
    prior -= (0.5 * FEW + 1) * np.log(lines.residual).sum() + 0.5 * FEW * (1 - USUAL) * (1 / lines.residual).sum()
    return float(likelihood + prior)


def improve(rows: ValueRows, f: FloatArray, lines: Lines, *, scales: bool, biases: bool) -> Lines:
    """One step of EM, the network left as it is."""
    lines = update_lines(rows, find_posterior(rows, f, lines), lines, scales=scales, biases=biases)
    return update_variances(rows, f, find_posterior(rows, f, lines), lines)


def settle(rows: ValueRows, f: FloatArray, lines: Lines, *, scales: bool, biases: bool) -> Lines:
    """Steps of EM until they gain next to nothing."""
    before = objective(rows, f, lines)
    for _ in range(MOST_STEPS):
        lines = improve(rows, f, lines, scales=scales, biases=biases)
        now = objective(rows, f, lines)
        if now - before < ENOUGH * len(rows.task):
            break
        before = now
    return lines
