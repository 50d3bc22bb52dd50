"""Tables of labels too large to make in memory: Parquet files of 10⁷ labels, the labels of a task spread over them."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

K, LABELS_PER_TASK, TASKS_PER_WORKER = 10, 5, 1000
ROWS = 10_000_000
MIX = 2654435761  # odd, so that task × MIX mod 2⁴⁰ names every task once, in no order
RESULTS = Path(__file__).parent / "results" / "scale.json"


def make_tables(folder: Path, n_labels: int, n_workers: int | None = None) -> list[Path]:
    """Labels of workers, tasks/1000 by default, whose accuracies lie between 0.4 and 0.9; others guessed evenly."""
    folder.mkdir(parents=True, exist_ok=True)
    n_tasks = n_labels // LABELS_PER_TASK
    n_workers = n_workers or max(n_tasks // TASKS_PER_WORKER, 20)
    accuracy = np.random.default_rng(1).uniform(0.4, 0.9, n_workers)
    paths, number = [], 0
    for turn in range(LABELS_PER_TASK):  # the first label of every task, then the second …
        for first in range(0, n_tasks, ROWS):
            path = folder / f"labels-{number:04}.parquet"
            number += 1
            paths.append(path)
            if path.exists():
                continue
            task = np.arange(first, min(first + ROWS, n_tasks))
            generator = np.random.default_rng([7, number])
            base, step = _mix(task, 1) % n_workers, 1 + _mix(task, 2) % (n_workers // LABELS_PER_TASK)
            worker = (base + turn * step) % n_workers
            truth = _mix(task, 3) % K
            wrong = (truth + generator.integers(1, K, task.size)) % K
            label = np.where(generator.random(task.size) < accuracy[worker], truth, wrong)
            order = generator.permutation(task.size)
            columns = {
                "task": task[order] * MIX % 2**40,
                "worker": worker[order].astype(np.int32),
                "label": label[order].astype(np.int8),
            }
            pq.write_table(pa.table(columns), path, row_group_size=1_000_000)
    return paths


def _mix(task: np.ndarray, salt: int) -> np.ndarray:
    """Numbers that a task alone decides, as if drawn."""
    mixed = task.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt * 0x632BE59BD9B4E019 % 2**64)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(1)).astype(np.int64)


def note_result(engine: str, name: str, facts: dict[str, object]) -> None:
    """Keep figures of an engine; those of others, and other figures, stay."""
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    held.setdefault(engine, {})[name] = {"machine": f"{platform.machine()}, 2 threads", **facts}
    RESULTS.write_text(json.dumps(held, indent=2) + "\n")
    print(engine, name, json.dumps(facts), flush=True)
