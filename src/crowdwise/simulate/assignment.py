"""Who labels what: edges between tasks and workers, never one pair twice.

Assignments are sorted by task, but for those of `join_assignments`. Only `assign_everyone` has an edge for every pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.labels.engine_choice import choose_engine
from crowdwise.labels.errors import InputError
from crowdwise.labels.sorting import earlier_edge_of_each_repeat
from crowdwise.simulate.checks import check_count

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Assignment", "assign", "assign_at_random", "assign_everyone", "assign_regular", "join_assignments"]

CHUNK = 2**20  # random numbers held at one time


class Assignment(NamedTuple):
    """Edges as positions: worker `worker[e]` labels task `task[e]`."""

    task: IntArray
    worker: IntArray


def assign(n_tasks: int, n_workers: int, labels_per_task: int | None, rng: np.random.Generator) -> Assignment:
    """Everyone labels everything if `labels_per_task` is None, else so many workers at random each task."""
    if labels_per_task is None:
        return assign_everyone(n_tasks, n_workers)
    return assign_at_random(n_tasks, n_workers, labels_per_task, rng)


def assign_everyone(n_tasks: int, n_workers: int) -> Assignment:
    """Every worker labels every task.

    >>> assign_everyone(2, 3).worker.tolist()
    [0, 1, 2, 0, 1, 2]
    """
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), n_workers)
    return Assignment(task, np.tile(np.arange(n_workers, dtype=np.int32), n_tasks))


def assign_at_random(n_tasks: int, n_workers: int, labels_per_task: int, rng: np.random.Generator) -> Assignment:
    """Each task gets `labels_per_task` different workers, every set of them equally likely.

    One label a task is the sparse case of Tanno et al. 2019 section 3.2. Floyd's sampling: one random number an edge.
    """
    per_task = check_count(labels_per_task, "labels_per_task")
    if per_task > n_workers:
        raise InputError(
            f"labels_per_task is {per_task} but there are only {n_workers} workers, and no worker labels a "
            f"task twice. Ask for at most {n_workers} labels a task, or for more workers."
        )
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), per_task)
    worker = np.empty(n_tasks * per_task, np.int32)
    taken_by = np.full(n_workers, -1, np.int64)
    block = max(CHUNK // per_task, 1)
    for first in range(0, n_tasks, block):
        last = min(first + block, n_tasks)
        uniform = rng.random((last - first, per_task))
        worker[first * per_task : last * per_task] = _choose_task_workers(uniform, first, taken_by)
    return Assignment(task, worker)


def assign_regular(n_tasks: int, n_workers: int, labels_per_task: int, rng: np.random.Generator) -> Assignment:
    """Draw an (l, r)-regular bipartite graph: l workers on every task, r tasks for every worker.

    As in Kim et al. 2022 section 4.1; r follows from the rest: `n_tasks * l / n_workers`. Stubs are matched at random
    and repeated pairs are then removed by random switches that keep all degrees, which is close to uniform over such
    graphs where they are sparse. Where more than half of all pairs are wanted the complement is drawn.
    """
    per_task = check_count(labels_per_task, "labels_per_task")
    per_worker, left_over = divmod(n_tasks * per_task, n_workers)
    if left_over or per_task > n_workers:
        raise InputError(
            f"There is no regular assignment of {n_tasks} tasks × {per_task} labels to {n_workers} workers. "
            + _suggest_regular_sizes(n_tasks, n_workers, per_task)
        )
    if 2 * per_task > n_workers:
        absent = _sparse_regular(n_tasks, n_workers, n_workers - per_task, n_tasks - per_worker, rng)
        present: BoolArray = np.ones((n_tasks, n_workers), np.bool_)
        present[absent.task, absent.worker] = False
        task, worker = np.nonzero(present)
        return Assignment(task.astype(np.int32), worker.astype(np.int32))
    return _sparse_regular(n_tasks, n_workers, per_task, per_worker, rng)


def join_assignments(*parts: Assignment) -> Assignment:
    """Several assignments as one, in the order given (they must not share a pair)."""
    return Assignment(np.concatenate([part.task for part in parts]), np.concatenate([part.worker for part in parts]))


def _sparse_regular(
    n_tasks: int, n_workers: int, per_task: int, per_worker: int, rng: np.random.Generator
) -> Assignment:
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), per_task)
    worker = rng.permutation(np.repeat(np.arange(n_workers, dtype=np.int32), per_worker))
    if per_task > 1:
        offsets = np.arange(n_tasks + 1, dtype=np.int64) * per_task
        repeats = np.flatnonzero(earlier_edge_of_each_repeat(offsets, worker, n_workers) >= 0)
        while repeats.size:  # each switch mends one repeat and makes none, and one always exists
            done = _switch_repeats(worker, per_task, repeats, rng.random(4 * repeats.size))
            repeats = repeats[done:]
    return Assignment(task, worker)


def _choose_task_workers(uniform: FloatArray, first_task: int, taken_by: IntArray) -> IntArray:
    """Workers of each task, from a random number for each label; `taken_by` is the last task of each worker."""
    n_tasks, per_task = uniform.shape
    if choose_engine(uniform.size, per_task) == "numba":  # NumPy compares each worker with all before of the task
        from crowdwise.kernels.compiled.simulated_labels import choose_workers

        worker = np.empty(uniform.size, np.int32)
        choose_workers(uniform, first_task, taken_by, worker)
        return worker
    chosen = np.empty((per_task, n_tasks), np.int32)
    for place in range(per_task):
        newest = taken_by.size - per_task + place
        who = (uniform[:, place] * (newest + 1)).astype(np.int32)
        chosen[place] = np.where((chosen[:place] == who).any(axis=0), newest, who)
    return chosen.T.ravel()


def _switch_repeats(worker: IntArray, per_task: int, repeats: IntArray, uniform: FloatArray) -> int:
    """Mend repeats in turn while the random numbers last; returns how many are done."""
    if choose_engine(worker.size, per_task) == "numba":
        from crowdwise.kernels.compiled.simulated_labels import switch_repeats

        done: int = switch_repeats(worker, per_task, repeats, uniform)
        return done
    done = 0
    by_task = worker.reshape(-1, per_task)
    for other in (uniform * worker.size).astype(np.int64).tolist():
        if done == repeats.size:
            break
        mine = int(repeats[done])
        if worker[other] not in by_task[mine // per_task] and worker[mine] not in by_task[other // per_task]:
            worker[[mine, other]] = worker[[other, mine]]
            done += 1
    return done


def _suggest_regular_sizes(n_tasks: int, n_workers: int, per_task: int) -> str:
    labels = n_tasks * per_task
    if per_task >= n_workers:  # the nearest that suffices, found without a search
        return f"{per_task} workers with {n_tasks} tasks each would do."
    workers = next(
        count
        for step in range(max(labels, n_workers))
        for count in (n_workers - step, n_workers + step)
        if count >= per_task and labels % count == 0
    )
    return f"{workers} workers with {labels // workers} tasks each would do."
