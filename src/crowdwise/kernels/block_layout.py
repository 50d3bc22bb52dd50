"""Edges in blocks of tasks, sorted by worker and label inside a block: the order the passes read.

Sorted by task alone, every edge reads a random row of the workers' table; sorted by worker alone, a random row
of the posterior. With large crowds either falls out of the cache. In a block the posterior of its tasks stays
in the cache while the workers' table streams by once in order (`benchmarks/kernels.py` measures them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.kernels.threads import map_lanes, run_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "Blocks",
    "TaskLane",
    "WorkerLane",
    "count_block_tasks",
    "lay_out_blocks",
    "map_tasks",
    "map_workers",
    "split_rows",
    "split_work",
    "transpose_truth_and_label",
]

# Posterior cells of one block: from 256 KiB, which the second-level cache holds beside a small table, to 4 MiB: rows
# are asked for ahead, so the third-level cache will do. The more rows the workers' table has, the larger the blocks,
# since it is gone through once for each.
FEWEST_CELLS, BLOCK_CELLS = 2**15, 2**19
LABELS_A_ROW = 2  # of a block for each row of the table
MOST_TASKS = 2**16  # so that a task's place in its block fits 16 unsigned bits
MOST_LANES = 16  # more threads than this find no work
FEWEST_LANES = 4  # where labels are many, however small the share of each worker
LANE_BYTES = 100  # for each label, in the tables of all lanes together
LANE_LABELS = 20_000  # below this a lane costs more to start than it saves
LANE_CELLS = 50_000  # the same for cells of a table


class Blocks(NamedTuple):
    """One edge is `row[i]` (worker × n_classes + label), `label[i]` and `slot[i]`, the task's place in its block.

    Block b holds the tasks from `b * size` and the edges `ptr[b]:ptr[b + 1]`; lane n the blocks
    `lanes[n]:lanes[n + 1]`.
    """

    row: IntArray
    label: IntArray
    slot: IntArray
    ptr: IntArray
    lanes: IntArray
    size: int
    n_tasks: int
    n_workers: int
    n_classes: int

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.ptr.size - 1

    @property
    def n_lanes(self) -> int:
        """Number of lanes, which the data alone decide."""
        return self.lanes.size - 1


def lay_out_blocks(labels: CrowdLabels, n_states: int | None = None, *, one_lane: bool = False) -> Blocks:
    """Lay the edges out for the passes.

    Parameters
    ----------
    n_states
        States of a task's truth, where there are more than classes. The lanes' tables are then large, and lanes so
        few that they take no more than `LANE_BYTES` a label.
    one_lane
        Whether all blocks are to be one lane.
    """
    n_lanes = count_lanes(labels.n_labels, labels.n_workers, labels.n_classes)
    if n_states is not None:
        table = 8 * labels.n_workers * labels.n_classes * n_states
        n_lanes = min(n_lanes, max(LANE_BYTES * labels.n_labels // table, 1))
    size = count_block_tasks(
        labels.n_labels,
        labels.n_tasks,
        labels.n_workers * labels.n_classes,
        n_states or labels.n_classes,
        1 if one_lane else n_lanes,
    )
    n_blocks = max(-(-labels.n_tasks // size), 1)
    edges = np.minimum(np.arange(n_blocks + 1) * size, labels.n_tasks)
    ptr = labels.task_ptr[edges]
    # Lanes end at the block edge nearest to an equal share of the labels.
    lanes = split_work(ptr, n_lanes)
    n_rows = labels.n_workers * labels.n_classes
    blocks = Blocks(
        row=np.empty(labels.n_labels, np.int32 if n_rows < 2**31 else np.int64),
        label=np.empty(labels.n_labels, labels.label.dtype),
        slot=np.empty(labels.n_labels, np.uint16),
        ptr=ptr,
        lanes=lanes,
        size=size,
        n_tasks=labels.n_tasks,
        n_workers=labels.n_workers,
        n_classes=labels.n_classes,
    )

    from crowdwise.kernels.compiled.block_layout import sort_blocks

    def sort_lane(lane: int) -> None:
        cursor: IntArray = np.empty(n_rows + 1, np.int32 if labels.n_labels < 2**31 else np.int64)
        sort_blocks(blocks, lane, labels.task, labels.worker, labels.label, cursor)

    run_lanes(sort_lane, n_lanes)
    return blocks._replace(lanes=np.array([0, n_blocks])) if one_lane else blocks


class TaskLane(NamedTuple):
    """The tasks from `first` to before `last`; the labels of task t are `ptr[t]:ptr[t + 1]`."""

    first: int
    last: int
    ptr: IntArray
    worker: IntArray
    label: IntArray


class WorkerLane(NamedTuple):
    """The workers from `first` to before `last`; the labels of worker w are `edge[ptr[w]:ptr[w + 1]]`."""

    first: int
    last: int
    ptr: IntArray
    edge: IntArray
    task: IntArray
    label: IntArray


def map_tasks(labels: CrowdLabels, loop: Callable[..., Any], *given: Any) -> list[Any]:
    """What `loop(lane, *given)` returns for every lane of tasks, an equal share of the labels in each."""
    edges = labels.task_ptr, labels.worker, labels.label
    return map_lanes(lambda first, last: loop(TaskLane(first, last, *edges), *given), split_work(labels.task_ptr))


def map_workers(labels: CrowdLabels, ends: IntArray, loop: Callable[..., Any], *given: Any) -> list[Any]:
    """What `loop(lane, *given)` returns for every lane of workers, of which lane n goes from `ends[n]`."""
    order = labels.by_worker
    edges = order.ptr, order.edge, labels.task, labels.label
    return map_lanes(lambda first, last: loop(WorkerLane(first, last, *edges), *given), ends)


def transpose_truth_and_label(table: FloatArray) -> FloatArray:
    """A table [worker, truth, label] as loops read it, the values of one label together; no copy if they lie so."""
    return np.ascontiguousarray(table.transpose(0, 2, 1))


def split_work(done: IntArray | FloatArray, n_lanes: int | None = None) -> IntArray:
    """Groups at which lanes begin and end: an equal share of the work in each, of which `done[n]` is before group n.

    As many lanes as the work is worth, where their number is not given.
    """
    if n_lanes is None:
        n_lanes = int(max(1, min(MOST_LANES, done[-1] // LANE_LABELS)))
    shares = np.arange(1, n_lanes) * (done[-1] / n_lanes)
    return np.concatenate(([0], np.searchsorted(done, shares), [done.size - 1])).astype(np.int64)


def split_rows(n_rows: int, n_cells: int) -> IntArray:
    """Cut rows of a table into lanes, where there is enough to share; the sizes alone decide."""
    n_lanes = max(1, min(MOST_LANES, n_rows, n_cells // LANE_CELLS))
    return np.linspace(0, n_rows, n_lanes + 1).astype(np.int64)


def count_lanes(n_labels: int, n_workers: int, n_classes: int) -> int:
    """How many lanes: enough labels in each, and clearing and adding their tables small beside the pass itself."""
    by_labels = max(n_labels // LANE_LABELS, 1)
    by_tables = max(n_labels // max(16 * n_workers * n_classes, 1), FEWEST_LANES)
    return min(MOST_LANES, by_labels, by_tables)


def count_block_tasks(n_labels: int, n_tasks: int, n_rows: int, n_states: int, n_lanes: int) -> int:
    """How many tasks in a block: at least four blocks in each lane, and else as the rows of the table suggest."""
    wanted = LABELS_A_ROW * n_rows * n_tasks // max(n_labels, 1)
    wanted = max(min(max(wanted, FEWEST_CELLS // n_states), BLOCK_CELLS // n_states), 1)
    return max(min(wanted, MOST_TASKS, -(-n_tasks // (4 * n_lanes))), 1)
