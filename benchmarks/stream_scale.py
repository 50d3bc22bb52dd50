"""The stream engine: labels beyond memory, with memory capped by the operating system, killed and resumed.

    python benchmarks/stream_scale.py equal   SCRATCH           # 10⁷ labels: as the in-memory engine to 1e-12
    python benchmarks/stream_scale.py growth  SCRATCH 1e6 1e7   # time per label and iteration at these sizes
    python benchmarks/stream_scale.py capped  SCRATCH 3e8       # passes in 2 GiB, killed after eight, resumed

K = 10, 5 labels a task, tasks/1000 workers; 20 iterations of dawid-skene. The cap is RLIMIT_DATA: all private writable
memory of the process (heap, anonymous maps, stacks of threads). What the operating system caches of files is not in it.
The fit alone is capped, in processes of its own. The sort is not: the cap counts address space that DuckDB reserves and
does not use, and 3 × 10⁸ labels were not sorted within it; the sort's peak of resident memory is reported instead.
Seconds of an iteration are taken between checkpoints, so that the sort, the start and the writing of the posterior,
which are reported by themselves, are not in them.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from large_tables import make_tables, note_result

ITERATIONS, CAP, MEMORY, KILL_AFTER = 20, 2 * 2**30, "1500MiB", 8


def run_stream(folder: Path, scratch: Path, kill_after: int) -> None:
    """Sort and fit in this process; its figures go to standard output, one JSON object."""
    import crowdwise as cw
    from crowdwise.engines import Stream
    from crowdwise.fitting.checkpoints import Checkpoint

    times: list[float] = []
    save = Checkpoint.save

    def save_and_note(self, *given) -> None:
        save(self, *given)
        times.append(time.perf_counter())
        if len(times) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    Checkpoint.save = save_and_note
    began = time.perf_counter()
    labels = Stream(MEMORY, scratch).read([str(path) for path in sorted(folder.glob("*.parquet"))])
    sorted_at = time.perf_counter()
    took = scratch.with_suffix(".sort")  # kept for the run that resumes
    if not took.exists():
        took.write_text(str(sorted_at - began))
    if kill_after < 0:
        print(json.dumps({"sort_peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}), flush=True)
        return
    model = cw.DawidSkene(max_iter=ITERATIONS, tol=0, engine=Stream(MEMORY, scratch)).fit(labels)
    ended = time.perf_counter()
    truth_free = model.posterior_[: 2**16].max(axis=1).mean()
    status = Path("/proc/self/status").read_text()
    facts = {
        "n_labels": labels.n_labels,
        "n_workers": labels.n_workers,
        "parts": len(labels.store.parts),
        "sort_s": float(took.read_text()),
        "fit_s": ended - sorted_at,
        "iteration_s": float(np.median(np.diff(times))),
        "iterations_here": len(times) + 1,
        "n_iter": model.n_iter_,
        "log_likelihood": model.log_likelihood_[-1],
        "confidence": float(truth_free),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "data_mib_at_end": int(status.split("VmData:")[1].split()[0]) // 1024,
    }
    print(json.dumps(facts), flush=True)


def start(folder: Path, scratch: Path, cap: int | None, kill_after: int = 0) -> subprocess.CompletedProcess[str]:
    def set_limit() -> None:
        if cap is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (cap, cap))

    words = [sys.executable, __file__, "child", str(folder), str(scratch), str(kill_after)]
    # The cap counts address space that an allocator keeps after use: DuckDB's is told to give it back.
    tidy = os.environ | {"DUCKDB_JE_MALLOC_CONF": "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0"}
    limited = {"preexec_fn": set_limit, "env": tidy}
    return subprocess.run(words, capture_output=True, text=True, check=False, **limited)


def report(done: subprocess.CompletedProcess[str], name: str, **more: object) -> dict[str, object]:
    if done.returncode:
        sys.exit(f"{done.returncode}: {done.stderr[-6000:]}")
    facts = json.loads(done.stdout.splitlines()[-1])
    facts["ns_per_label_iteration"] = round(1e9 * facts["iteration_s"] / facts["n_labels"], 2)
    note_result("stream", name, {**{key: round(value, 3) if isinstance(value, float) else value
                                    for key, value in facts.items()}, **more})  # fmt: skip
    return facts


def run_in_memory(n_labels: int, folder: Path) -> None:
    """The in-memory engine's time of an iteration, from fits of few and of many; and its posterior's distance."""
    import crowdwise as cw

    labels = cw.read_labels([str(path) for path in sorted(folder.glob("*.parquet"))])
    seconds = {}
    for iterations in (2, 2, 12):
        began = time.perf_counter()
        cw.DawidSkene(max_iter=iterations, tol=0, engine="numba").fit(labels)
        seconds[iterations] = time.perf_counter() - began
    each = (seconds[12] - seconds[2]) / 10
    note_result(
        "numba",
        f"{n_labels:.0e}",
        {
            "n_labels": labels.n_labels,
            "n_workers": labels.n_workers,
            "iteration_s": round(each, 4),
            "ns_per_label_iteration": round(1e9 * each / labels.n_labels, 2),
        },
    )


def compare(folder: Path, scratch: Path) -> None:
    import crowdwise as cw
    from crowdwise.engines import Stream
    from crowdwise.labels.vocabulary import positions

    paths = [str(path) for path in sorted(folder.glob("*.parquet"))]
    memory = cw.read_labels(paths)
    stored = Stream(MEMORY, scratch).read(paths)
    for method in (cw.DawidSkene, cw.OneCoin):
        fitted = [method(max_iter=ITERATIONS, tol=0, engine=engine).fit(labels)
                  for engine, labels in (("numba", memory), (Stream(MEMORY, scratch), stored))]  # fmt: skip
        place = positions(stored.tasks, memory.tasks)
        apart = float(np.abs(fitted[0].posterior_[place] - fitted[1].posterior_).max())
        note_result("stream", f"equal {method.slug}", {"n_labels": memory.n_labels, "largest_difference": apart})


def main() -> None:
    if sys.argv[1] == "child":
        run_stream(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        return
    what, scratch = sys.argv[1], Path(sys.argv[2])
    for size in [int(float(each)) for each in sys.argv[3:]] or [10**7]:
        folder, store = scratch / f"tables-{size}", scratch / f"store-{size}"
        make_tables(folder, size)
        if what == "equal":
            compare(folder, store)
        elif what == "memory":
            run_in_memory(size, folder)
        elif what == "growth":
            report(start(folder, store, None), f"{size:.0e}")
        else:
            sorting = start(folder, store, None, -1)
            if sorting.returncode:
                sys.exit(f"{sorting.returncode}: {sorting.stderr[-2000:]}")
            peak = json.loads(sorting.stdout.splitlines()[-1])
            first = start(folder, store, CAP, KILL_AFTER)
            if first.returncode != -signal.SIGKILL:
                sys.exit(f"{first.returncode}: {first.stderr[-6000:]}")
            report(start(folder, store, CAP), f"{size:.0e}", cap_mib=CAP // 2**20, killed_after=KILL_AFTER, **peak)


if __name__ == "__main__":
    main()
