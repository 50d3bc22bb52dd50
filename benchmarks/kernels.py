"""One EM pass over the labels in three orders: why the kernels read blocks of tasks sorted by worker and label.

    python benchmarks/kernels.py [--labels 1e7]

Each pass is E-step and counts of Dawid–Skene, K = 10, 5 labels a task, tasks/100 workers, on all cores. Median of five.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from numba import njit

from crowdwise.engines import load_engine
from crowdwise.kernels.block_layout import lay_out_blocks
from crowdwise.kernels.compiled.row_softmax import softmax_block
from crowdwise.kernels.confusion_rows import NO_GOLD
from crowdwise.kernels.threads import run_lanes
from crowdwise.simulate import simulate

K = 10


@njit(nogil=True, error_model="numpy")
def by_task(first, last, task_ptr, worker, label, table, log_prior, counts, class_counts):
    """Labels in task order: every label reads and writes a row somewhere in the workers' tables."""
    counts[:] = 0.0
    work = np.empty((1, log_prior.size))
    for task in range(first, last):
        work[0] = log_prior
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            row = np.int64(worker[edge]) * log_prior.size + label[edge]
            for k in range(log_prior.size):
                work[0, k] += table[row, k]
        softmax_block(work, 0, log_prior, 1, NO_GOLD, class_counts)
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            row = np.int64(worker[edge]) * log_prior.size + label[edge]
            for k in range(log_prior.size):
                counts[row, k] += work[0, k]


def shuffled_blocks(blocks):
    """The same blocks with their labels in random order: neither sorted nor foreseen."""
    generator = np.random.default_rng(0)
    order = np.arange(blocks.row.size)
    for start, end in zip(blocks.ptr[:-1], blocks.ptr[1:], strict=True):
        generator.shuffle(order[start:end])
    return blocks._replace(row=blocks.row[order], label=blocks.label[order], slot=blocks.slot[order])


def timed(run) -> float:
    run()
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=float, default=1e7)
    n_tasks = int(parser.parse_args().labels) // 5
    labels = simulate(
        "dawid-skene", n_tasks=n_tasks, n_workers=n_tasks // 100, n_classes=K, labels_per_task=5, random_state=0
    ).labels
    rows = labels.n_workers * K
    table, log_prior = np.log(np.full((rows, K), 1 / K)), np.log(np.full(K, 1 / K))
    blocks = lay_out_blocks(labels)
    counts, class_counts = np.empty((2, rows, K)), np.zeros((2, K))
    halves = np.array([0, n_tasks // 2, n_tasks])

    def plain():
        run_lanes(
            lambda lane: by_task(
                halves[lane], halves[lane + 1], labels.task_ptr, labels.worker, labels.label,
                table, log_prior, counts[lane], class_counts[lane],
            ),
            2,
        )  # fmt: skip

    cube = table.reshape(-1, K, K).transpose(0, 2, 1)
    engine = load_engine("numba")
    mixed, sorted_ = engine.make_passes(shuffled_blocks(blocks)), engine.make_passes(blocks)
    print(f"{labels.n_labels:,} labels, blocks of {blocks.size:,} tasks, {blocks.n_lanes} lanes")
    print(f"by task                    {timed(plain):.3f} s a pass")
    print(f"blocks, in random order    {timed(lambda: mixed.e_step(log_prior, cube)):.3f} s a pass")
    print(f"blocks, by worker, label   {timed(lambda: sorted_.e_step(log_prior, cube)):.3f} s a pass")


if __name__ == "__main__":
    main()
