"""The stream engine: labels beyond memory, with memory capped by the operating system, killed and resumed.

    python benchmarks/stream_scale.py equal   SCRATCH           # 10⁷ labels: as the in-memory engine to 1e-12
    python benchmarks/stream_scale.py growth  SCRATCH 1e6 1e7   # time per label and iteration at these sizes
    python benchmarks/stream_scale.py memory  SCRATCH 1e7       # the in-memory engine's
    python benchmarks/stream_scale.py capped  SCRATCH 3e8       # sort and fit in 2 GiB, killed after eight, resumed
    CAP_MIB=600 python benchmarks/stream_scale.py capped SCRATCH 3e7

K = 10, 5 labels a task, tasks/1000 workers; 20 iterations of dawid-skene. The cap is RLIMIT_DATA: all private writable
memory of the process (heap, anonymous maps, stacks of threads), used or only reserved. What the operating system caches
of files, and files that are mapped, are not in it; the peak of resident memory, which counts mapped files, is reported.
Sort and fit are capped, in processes of their own, and told to use three quarters of the cap.
Seconds of an iteration are taken between checkpoints, so that the sort, the start and the writing of the posterior,
which are reported by themselves, are not in them. `ratio` is to the in-memory engine's time per label and iteration at
the largest size it was measured at (`memory`), on the same machine.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from large_tables import RESULTS, make_tables, note_result

ITERATIONS, KILL_AFTER = 20, 8
CAP_MIB = int(os.environ.get("CAP_MIB", "2048"))
MEMORY = f"{CAP_MIB * 3 // 4}MiB"


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
    most = watch_data()
    began = time.perf_counter()
    labels = Stream(MEMORY, scratch).read([str(path) for path in sorted(folder.glob("*.parquet"))])
    sorted_at = time.perf_counter()
    took = scratch.with_suffix(".sort")  # kept for the run that resumes
    if not took.exists():
        took.write_text(str(sorted_at - began))
    if kill_after < 0:
        peak = {
            "sort_peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "sort_peak_data_mib": most[0],
        }
        print(json.dumps(peak), flush=True)
        return
    model = cw.DawidSkene(max_iter=ITERATIONS, tol=0, engine=Stream(MEMORY, scratch)).fit(labels)
    ended = time.perf_counter()
    truth_free = model.posterior_[: 2**16].max(axis=1).mean()
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
        "peak_data_mib": most[0],
    }
    print(json.dumps(facts), flush=True)


def watch_data() -> list[int]:
    """The largest VmData of this process so far, in MiB, looked at ten times a second; what RLIMIT_DATA limits."""
    most = [0]

    def look() -> None:
        while True:
            status = Path("/proc/self/status").read_text()
            most[0] = max(most[0], int(status.split("VmData:")[1].split()[0]) // 1024)
            time.sleep(0.1)

    threading.Thread(target=look, daemon=True).start()
    return most


def start(folder: Path, scratch: Path, *, capped: bool, kill_after: int = 0) -> subprocess.CompletedProcess[str]:
    def set_limit() -> None:
        if capped:
            resource.setrlimit(resource.RLIMIT_DATA, (CAP_MIB * 2**20, CAP_MIB * 2**20))

    words = [sys.executable, __file__, "child", str(folder), str(scratch), str(kill_after)]
    # The cap counts what is only reserved: Arrow's own allocator takes 1 GiB at once, DuckDB's keeps what it had.
    tidy = os.environ | {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "DUCKDB_JE_MALLOC_CONF": "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0",
    }
    limited = {"preexec_fn": set_limit, "env": tidy}
    return subprocess.run(words, capture_output=True, text=True, check=False, **limited)


def report(done: subprocess.CompletedProcess[str], name: str, **more: object) -> dict[str, object]:
    if done.returncode:
        sys.exit(f"{done.returncode}: {done.stderr[-6000:]}")
    facts = json.loads(done.stdout.splitlines()[-1])
    facts["ns_per_label_iteration"] = round(1e9 * facts["iteration_s"] / facts["n_labels"], 2)
    facts["sort_ns_per_label"] = round(1e9 * facts["sort_s"] / facts["n_labels"])
    known = json.loads(RESULTS.read_text()).get("numba", {})
    if known:
        largest = max(known.values(), key=lambda each: each["n_labels"])
        facts["in_memory_labels"] = largest["n_labels"]
        facts["ratio"] = round(facts["ns_per_label_iteration"] / largest["ns_per_label_iteration"], 2)
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
            report(start(folder, store, capped=False), f"{size:.0e}")
        else:
            sorting = start(folder, store, capped=True, kill_after=-1)
            if sorting.returncode:
                sys.exit(f"{sorting.returncode}: {sorting.stderr[-2000:]}")
            peak = json.loads(sorting.stdout.splitlines()[-1])
            first = start(folder, store, capped=True, kill_after=KILL_AFTER)
            if first.returncode != -signal.SIGKILL:
                sys.exit(f"{first.returncode}: {first.stderr[-6000:]}")
            done = start(folder, store, capped=True)
            report(done, f"{size:.0e}", cap_mib=CAP_MIB, killed_after=KILL_AFTER, **peak)


if __name__ == "__main__":
    main()
