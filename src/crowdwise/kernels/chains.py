"""Forward and backward along sequences of tasks, scaled so that no product under- or overflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.block_layout import split_work
from crowdwise.kernels.threads import map_lanes
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ChainStatistics", "chain_pass"]


@dataclass(frozen=True)
class ChainStatistics:
    """What one pass found."""

    log_likelihood: float  # Σ over sequences of log Σ over paths of Π start · transitions · evidence
    # (K + 1, K) [before, after]: expected transitions; the last row counts the classes that sequences begin with.
    steps: FloatArray


def chain_pass(sequences: Sequences, steps: FloatArray, evidence: FloatArray) -> ChainStatistics:
    """Posterior of every task given all evidence of its sequence, written over the evidence.

    Parameters
    ----------
    steps : (K + 1, K) [before, after]
        Weights of transitions, and in the last row of the classes that a sequence begins with. They need not sum
        to one.
    evidence : (N, K)
        Weight of each class at each task from its labels alone; rows sum to one. Becomes the posterior.

    Notes
    -----
    Where no path has weight, the log-likelihood is -inf and the chain begins anew at the task that no path reaches.
    """
    if choose_engine(*evidence.shape) == "numpy":
        return _forward_backward(sequences, steps, evidence)
    from crowdwise.kernels.compiled.chains import forward_backward

    order, ptr = sequences.order, sequences.ptr
    lanes = map_lanes(lambda first, last: forward_backward(first, last, order, ptr, steps, evidence), split_work(ptr))
    values, counts = zip(*lanes, strict=True)
    return ChainStatistics(float(np.sum(values)), np.sum(counts, axis=0))


def _forward_backward(sequences: Sequences, steps: FloatArray, evidence: FloatArray) -> ChainStatistics:
    """Sequences of one length side by side."""
    lengths = np.diff(sequences.ptr)
    counts, total = np.zeros_like(steps), 0.0
    for length in np.unique(lengths[lengths > 0]):
        places = sequences.ptr[:-1][lengths == length][:, None] + np.arange(length)
        with np.errstate(divide="ignore", invalid="ignore"):
            total += _forward_backward_of_length(sequences.order[places], steps, evidence, counts)
    return ChainStatistics(total, counts)


def _forward_backward_of_length(tasks: IntArray, steps: FloatArray, evidence: FloatArray, counts: FloatArray) -> float:
    """Forward and backward along sequences of one length, tasks (S, length); adds to the counts."""
    n_sequences, length = tasks.shape
    inner, rows = steps[:-1], evidence[tasks]
    forward, scale = np.empty_like(rows), np.empty((n_sequences, length))
    for place in range(length):
        reached = steps[-1] if place == 0 else forward[:, place - 1] @ inner
        forward[:, place] = reached * rows[:, place]
        mass = scale[:, place] = forward[:, place].sum(axis=1)
        broken = mass <= 0
        forward[:, place] /= np.where(broken, 1.0, mass)[:, None]
        forward[broken, place] = rows[broken, place]
    backward = np.ones((n_sequences, steps.shape[1]))
    for place in range(length - 1, -1, -1):
        believed = forward[:, place] * backward
        evidence[tasks[:, place]] = believed / believed.sum(axis=1, keepdims=True)
        if place == 0:
            counts[-1] += believed.sum(axis=0)
            break
        whole = scale[:, place] > 0
        ahead = np.where(whole[:, None], rows[:, place] * backward / scale[:, place, None], 0.0)
        counts[:-1] += inner * (forward[:, place - 1].T @ ahead)
        backward = np.where(whole[:, None], ahead @ inner.T, 1.0)
    return float(np.log(scale).sum())
