"""Reading: Parquet and CSV with string names into `CrowdLabels`, against pyarrow's read into dictionaries.

    python benchmarks/reading.py --rows 10000000

Each measurement is a process of its own. Time is wall time after imports and a first read of a tiny file (so
that numba's compiling is apart); memory is the peak resident size minus that before reading.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

COLUMNS = ("task", "worker", "label")
LABELS_A_TASK = 5


def make(folder: Path, rows: int, seed: int = 0) -> None:
    """Write the same labels, in random order, as Parquet and CSV."""
    rng = np.random.default_rng(seed)
    tasks, workers = rows // LABELS_A_TASK, max(rows // 500, 10)
    codes = {
        "task": rng.permutation(np.repeat(np.arange(tasks), LABELS_A_TASK)),
        "worker": rng.integers(0, workers, tasks * LABELS_A_TASK),
        "label": rng.integers(0, 10, tasks * LABELS_A_TASK),
    }
    names = {
        "task": [f"task-{place:07d}" for place in range(tasks)],
        "worker": [f"worker-{place:05d}" for place in range(workers)],
        "label": [f"class-{place}" for place in range(10)],
    }
    table = pa.table({name: pa.array(names[name]).take(pa.array(codes[name])) for name in COLUMNS})
    pq.write_table(table, folder / "labels.parquet")
    pacsv.write_csv(table, folder / "labels.csv")


def pyarrow_read(path: Path) -> Any:
    if path.suffix == ".parquet":
        return pq.read_table(path, read_dictionary=list(COLUMNS))
    text = pa.dictionary(pa.int32(), pa.string())
    options = pacsv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, text))
    return pacsv.read_csv(path, convert_options=options)


def crowdwise_read(path: Path) -> Any:
    from crowdwise.labels import read_labels

    return read_labels(path, on_duplicate="first")


READERS = {"pyarrow": pyarrow_read, "crowdwise": crowdwise_read}


def peak() -> float:
    """Peak resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(reader: str, path: Path, warm: Path) -> dict[str, float]:
    """Read once, in this process."""
    READERS[reader](warm)
    before = peak()
    start = time.perf_counter()
    READERS[reader](path)
    return {"seconds": time.perf_counter() - start, "mb": peak() - before, "before": before}


def in_fresh_processes(path: Path, warm: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Measure the readers in turn, so that other work on the machine meets them alike; medians."""
    runs: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    for _ in range(repeats):
        for reader, done in runs.items():
            command = [sys.executable, __file__, "--measure", reader, str(path), str(warm)]
            done.append(json.loads(subprocess.check_output(command)))
    return {
        reader: {key: statistics.median(run[key] for run in done) for key in done[0]} for reader, done in runs.items()
    }


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="processes for each measurement; the median counts")
    parser.add_argument("--folder", type=Path, help="where to keep the files (a temporary folder otherwise)")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.make, arguments.rows)
        return
    if arguments.measure:
        reader, path, warm = arguments.measure
        print(json.dumps(measure(reader, Path(path), Path(warm))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        small = Path(temporary) / "small"
        small.mkdir()
        folder.mkdir(exist_ok=True)
        make(small, 1000)
        if not (folder / "labels.csv").exists():
            # In a process of its own: a child's peak begins at its parent's size.
            command = [sys.executable, __file__, "--make", str(folder), "--rows", str(arguments.rows)]
            subprocess.check_call(command)
        print(f"{arguments.rows:,} rows; {os.cpu_count()} cores, {cpu()}; pyarrow {pa.__version__}")
        print(f"{'file':<10}{'reader':<12}{'seconds':>9}{'peak MB':>9}{'time ×':>9}{'memory ×':>10}")
        for suffix in ("parquet", "csv"):
            path = folder / f"labels.{suffix}"
            measured = in_fresh_processes(path, small / path.name, arguments.repeats)
            base = measured["pyarrow"]
            for reader, run in measured.items():
                print(
                    f"{suffix:<10}{reader:<12}{run['seconds']:>9.2f}{run['mb']:>9.0f}"
                    f"{run['seconds'] / base['seconds']:>9.2f}{run['mb'] / base['mb']:>10.2f}"
                )


if __name__ == "__main__":
    main()
