"""Agreement of pairs of workers; see `metrics.agreement`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["fill_pairwise_kappas", "pair_offsets"]

# The worker-major order (edge, ptr), then the edges by task (task, task_ptr, worker, label).
Edges: TypeAlias = "tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]"


@njit(cache=True, nogil=True)
def pair_offsets(edges: Edges) -> IntArray:
    """Where each worker's pairs with later workers begin."""
    edge, ptr, task, task_ptr, worker, _ = edges
    n_workers = ptr.size - 1
    offsets = np.zeros(n_workers + 1, np.int64)
    seen_by = np.full(n_workers, -1, np.int64)
    for one in range(n_workers):
        found = 0
        for at in range(ptr[one], ptr[one + 1]):
            what = task[edge[at]]
            for other in range(task_ptr[what], task_ptr[what + 1]):
                two = worker[other]
                if two > one and seen_by[two] != one:
                    seen_by[two] = one
                    found += 1
        offsets[one + 1] = offsets[one] + found
    return offsets


@njit(cache=True, nogil=True)
def fill_pairwise_kappas(
    edges: Edges, offsets: IntArray, grave: FloatArray, nominal: bool, out: tuple[IntArray, IntArray, FloatArray]
) -> None:
    """For each worker: margins against each later co-worker, then kappa, then the margins wiped."""
    edge, ptr, task, task_ptr, worker, label = edges
    second, n_common, kappa = out
    n_workers, n_classes = ptr.size - 1, grave.shape[0]
    common = np.zeros(n_workers, np.int64)
    observed = np.zeros(n_workers, np.float64)
    said_one = np.zeros((n_workers, n_classes), np.int32)
    said_two = np.zeros((n_workers, n_classes), np.int32)
    for one in range(n_workers):
        cursor = offsets[one]
        for at in range(ptr[one], ptr[one + 1]):
            what, k = task[edge[at]], label[edge[at]]
            for other in range(task_ptr[what], task_ptr[what + 1]):
                two = worker[other]
                if two > one:
                    if common[two] == 0:
                        second[cursor] = two
                        cursor += 1
                    common[two] += 1
                    observed[two] += grave[k, label[other]]
                    said_one[two, k] += 1
                    said_two[two, label[other]] += 1
        second[offsets[one] : cursor].sort()
        for pair in range(offsets[one], cursor):
            two = second[pair]
            n = common[two]
            expected = float(n) * n if nominal else 0.0
            for k in range(n_classes):
                if said_one[two, k] == 0:
                    continue
                if nominal:
                    expected -= float(said_one[two, k]) * said_two[two, k]
                else:
                    for m in range(n_classes):
                        expected += float(said_one[two, k]) * said_two[two, m] * grave[k, m]
            n_common[pair] = n
            kappa[pair] = 1 - observed[two] * n / expected if expected > 0 else np.nan
            common[two] = 0
            observed[two] = 0
            said_one[two] = 0
            said_two[two] = 0
