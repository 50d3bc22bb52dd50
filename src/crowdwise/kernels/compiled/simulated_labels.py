"""Draws of who labels what, and of labels; see `simulate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["choose_workers", "draw_by_inverse_cdf", "switch_repeats"]


@njit(cache=True, nogil=True)
def choose_workers(uniform: FloatArray, first_task: int, taken_by: IntArray, worker: IntArray) -> None:
    """Write different workers for each task (Floyd)."""
    n_workers = taken_by.size
    n_tasks, per_task = uniform.shape
    edge = 0
    for row in range(n_tasks):
        task = first_task + row
        for place in range(per_task):
            newest = n_workers - per_task + place
            who = int(uniform[row, place] * (newest + 1))
            if taken_by[who] == task:
                who = newest
            taken_by[who] = task
            worker[edge] = who
            edge += 1


@njit(cache=True, nogil=True)
def switch_repeats(worker: IntArray, per_task: int, repeats: IntArray, uniform: FloatArray) -> int:
    """Mend repeats in turn while the random numbers last; returns how many are done."""
    done = 0
    for draw in range(uniform.size):
        if done == repeats.size:
            break
        mine = repeats[done]
        other = int(uniform[draw] * worker.size)
        mine_from = mine - mine % per_task
        other_from = other - other % per_task
        good = True
        for place in range(per_task):
            if worker[mine_from + place] == worker[other] or worker[other_from + place] == worker[mine]:
                good = False
                break
        if good:
            worker[mine], worker[other] = worker[other], worker[mine]
            done += 1
    return done


@njit(cache=True, nogil=True)
def draw_by_inverse_cdf(
    cumulative: FloatArray, worker: IntArray, given: IntArray, uniform: FloatArray, label: IntArray
) -> None:
    """Write the class in whose part of the worker's row each number falls."""
    last = cumulative.shape[2] - 1
    for edge in range(worker.size):
        who, truth, draw = worker[edge], given[edge], uniform[edge]
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            if cumulative[who, truth, middle] <= draw:
                low = middle + 1
            else:
                high = middle
        label[edge] = low
