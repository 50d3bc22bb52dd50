"""Mean field over a graph of tasks: each task in turn, given what its neighbours are believed to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.task_graph import TaskGraph
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["mean_field_pass"]


def mean_field_pass(
    graph: TaskGraph, order: IntArray, log_evidence: FloatArray, coupling: float, posterior: FloatArray, sweeps: int
) -> float:
    """Sweep over the tasks, in place, and return the bound that every update raises.

    q[t, k] ∝ exp(log_evidence[t, k] + coupling Σ_neighbours q[s, k]); the bound is
    Σ q (log_evidence - log q) + coupling Σ_pairs q[s] · q[t].

    Parameters
    ----------
    order : (N,)
        The order in which tasks are visited.
    log_evidence : (N, K)
        Of each class, the prior included.
    posterior : (N, K)
        Where the sweeps start; becomes where they end.
    """
    if choose_engine(graph.neighbour.size + posterior.shape[0], posterior.shape[1]) == "numpy":
        return _mean_field_pass(graph, order, log_evidence, coupling, posterior, sweeps)
    from crowdwise.kernels.compiled.markov_field import mean_field_sweeps

    value: float = mean_field_sweeps(graph, order, log_evidence, coupling, posterior, sweeps)
    return value


def _mean_field_pass(
    graph: TaskGraph, order: IntArray, log_evidence: FloatArray, coupling: float, posterior: FloatArray, sweeps: int
) -> float:
    ptr, neighbour = graph
    for task in np.tile(order, sweeps):
        near = posterior[neighbour[ptr[task] : ptr[task + 1]]].sum(axis=0)
        logits = log_evidence[task] + coupling * near
        row = np.exp(logits - logits.max())
        posterior[task] = row / row.sum()
    begin = np.repeat(np.arange(posterior.shape[0]), np.diff(ptr))
    agreement = float(np.einsum("ek,ek->", posterior[begin], posterior[neighbour]))
    possible = posterior > 0
    expected = float((posterior[possible] * log_evidence[possible]).sum())
    return expected - float(xlogy(posterior, posterior).sum()) + coupling * agreement / 2
