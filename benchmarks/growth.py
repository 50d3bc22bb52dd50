"""How the time of a label and iteration grows with the labels: numba, stream and dask on the same tables.

    python benchmarks/growth.py SCRATCH                   # 10⁶, 10⁷ and 10⁸ labels, all three engines
    python benchmarks/growth.py SCRATCH --workers 2000    # the same workers at every size
    python benchmarks/growth.py SCRATCH 1e6 3e6           # these sizes
    python benchmarks/growth.py SCRATCH 1e7 --engine stream --engine numba

K = 10, 5 labels a task, tasks/1000 workers or as many at every size; iterations of dawid-skene, the median from the end
of one to the end of the next. Each figure is from a process of its own; the best of three, or as `--runs` says, since
other programs may want the cores. Figures go to `results/scale.json`, from which `docs/scale_figure.py` draws; the last
lines say by how much the sizes of an engine differ. SCRATCH takes about 55 bytes a label and keeps tables and sorted
labels for other runs.

With tasks/1000 workers the tables of M K² numbers grow with the labels: 0.16, 1.6 and 16 MB, in the second-level cache,
the third and beyond it. With the same workers nothing but the labels grows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from large_tables import make_tables, note_result

ENGINES = ("numba", "stream", "dask")
FLAT = 1.3  # sizes of an engine that differ by no more are taken for level


def measure(engine: str, folder: Path, scratch: Path) -> dict[str, object]:
    """In this process: one fit, its figures."""
    if engine == "numba":
        from stream_scale import run_in_memory

        return run_in_memory(folder, scratch / "stream")
    if engine == "dask":
        from dask_scale import fit

        return fit(folder, scratch / "dask", 2, kill=False)
    import numpy as np

    import crowdwise as cw
    from crowdwise.engines import Stream
    from stream_scale import ITERATIONS, MEMORY, note_iterations

    stream = Stream(MEMORY, scratch / "stream")
    labels = stream.read([str(path) for path in sorted(folder.glob("*.parquet"))])
    times = note_iterations()
    cw.DawidSkene(max_iter=ITERATIONS, tol=0, engine=stream).fit(labels)
    iteration = float(np.median(np.diff(times)))
    return {
        "n_labels": labels.n_labels,
        "n_workers": labels.n_workers,
        "parts": len(labels.store.parts),
        "iteration_s": round(iteration, 4),
        "ns_per_label_iteration": round(1e9 * iteration / labels.n_labels, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("sizes", nargs="*", type=float, default=[1e6, 1e7, 1e8])
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--workers", type=int, help="at every size; tasks/1000, if left out")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure[0], Path(given.measure[1]), given.scratch)), flush=True)
        return
    found: dict[str, list[float]] = {}
    for size in (int(each) for each in given.sizes):
        crowd = "" if given.workers is None else f"-{given.workers}"
        folder, scratch = given.scratch / f"tables-{size}{crowd}", given.scratch / f"growth-{size}{crowd}"
        make_tables(folder, size, given.workers)
        for engine in given.engine or ENGINES:
            runs = [run(engine, folder, scratch) for _ in range(given.runs)]
            best = min(runs, key=lambda each: each["ns_per_label_iteration"])
            name = f"{size:.0e}" if given.workers is None else f"{size:.0e}, {given.workers} workers"
            note_result(engine, name, {**best, "runs": given.runs})
            found.setdefault(engine, []).append(best["ns_per_label_iteration"])
    for engine, figures in found.items():
        ratio = max(figures) / min(figures)
        shown = ", ".join(f"{each:.1f}" for each in figures)
        print(f"{engine}: {shown} ns; the largest is {ratio:.2f} times the least{'' if ratio <= FLAT else ' (!)'}")


def run(engine: str, folder: Path, scratch: Path) -> dict[str, object]:
    words = [sys.executable, __file__, str(scratch), "--measure", engine, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.returncode}: {done.stderr[-6000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
