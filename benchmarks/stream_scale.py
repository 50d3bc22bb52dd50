"""The stream engine: labels beyond memory, with memory capped by the operating system, killed and resumed.

    python benchmarks/stream_scale.py equal   SCRATCH           # 10⁷ labels: as the in-memory engine to 1e-12
    python benchmarks/stream_scale.py memory  SCRATCH 1e7       # the in-memory engine's time per label and iteration
    python benchmarks/stream_scale.py ratio   SCRATCH 3e8       # both engines on the same labels, stream in 2 GiB
    python benchmarks/stream_scale.py capped  SCRATCH 3e8       # sort and fit in 2 GiB, killed after eight, resumed
    CAP_MIB=600 python benchmarks/stream_scale.py capped SCRATCH 3e7

K = 10, 5 labels a task, tasks/1000 workers; 20 iterations of dawid-skene. The cap is RLIMIT_DATA: all private writable
memory of the process (heap, anonymous maps, stacks of threads), used or only reserved. What the operating system caches
of files, and files that are mapped, are not in it; the peak of resident memory, which counts mapped files, is reported.
Sort and fit are capped, in processes of their own, and told to use three quarters of the cap.
Seconds of an iteration are the median from one to the next, so that the sort, the start and the writing of the
posterior, which are reported by themselves, are not in them. `ratio` is to the in-memory engine's time per label and
iteration at the same size, or at the largest it was measured at (`in_memory_labels` says which), on the same machine.
The in-memory engine takes the labels from the sorted store, about 35 bytes a label in all with the posterior.
`growth.py` has all engines at several sizes.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from large_tables import RESULTS, make_tables, note_result

if TYPE_CHECKING:
    from collections.abc import Iterator

ITERATIONS, KILL_AFTER, IN_MEMORY_ITERATIONS = 20, 8, 12
CAP_MIB = int(os.environ.get("CAP_MIB", "2048"))
MEMORY = f"{CAP_MIB * 3 // 4}MiB"


def run_stream(folder: Path, scratch: Path, kill_after: int) -> None:
    """Sort and fit in this process; its figures go to standard output, one JSON object."""
    import crowdwise as cw
    from crowdwise.engines import Stream
    from crowdwise.fitting.checkpoints import Checkpoint

    times, save = note_iterations(), Checkpoint.save

    def save_and_kill(self, *given) -> None:
        save(self, *given)
        if len(times) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    Checkpoint.save = save_and_kill
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
        "iterations_here": len(times),
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
        largest = known.get(name) or max(known.values(), key=lambda each: each["n_labels"])
        facts["in_memory_labels"] = largest["n_labels"]
        facts["ratio"] = round(facts["ns_per_label_iteration"] / largest["ns_per_label_iteration"], 2)
    note_result("stream", name, {**{key: round(value, 3) if isinstance(value, float) else value
                                    for key, value in facts.items()}, **more})  # fmt: skip
    return facts


def note_iterations() -> list[float]:
    """When each iteration of a fit ended."""
    from crowdwise.fitting import em

    times: list[float] = []

    @contextlib.contextmanager
    def note(*_: object) -> Iterator[object]:
        yield lambda _value: times.append(time.perf_counter())

    em.show_progress = note
    return times


def run_in_memory(folder: Path, scratch: Path) -> dict[str, object]:
    """The in-memory engine's time of an iteration, on the labels of a store."""
    import crowdwise as cw
    from crowdwise.engines import Stream
    from crowdwise.labels import CrowdLabels

    stored = Stream(MEMORY, scratch).read([str(path) for path in sorted(folder.glob("*.parquet"))])
    labels = CrowdLabels(
        stored.task, stored.worker, stored.label, stored.task_ptr, stored.tasks, stored.workers, stored.classes
    )
    del stored
    times = note_iterations()
    began = time.perf_counter()
    model = cw.DawidSkene(max_iter=IN_MEMORY_ITERATIONS, tol=0, engine="numba").fit(labels)
    facts = {
        "n_labels": labels.n_labels,
        "n_workers": labels.n_workers,
        "fit_s": time.perf_counter() - began,
        "n_iter": model.n_iter_,
        "iteration_s": float(np.median(np.diff(times))),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    facts["ns_per_label_iteration"] = 1e9 * facts["iteration_s"] / facts["n_labels"]
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in facts.items()}


def start_in_memory(folder: Path, scratch: Path) -> dict[str, object]:
    """The same in a process of its own, kept."""
    words = [sys.executable, __file__, "memory-child", str(folder), str(scratch)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.returncode}: {done.stderr[-6000:]}")
    facts = json.loads(done.stdout.splitlines()[-1])
    note_result("numba", f"{facts['n_labels']:.0e}", facts)
    return facts


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
    if sys.argv[1] == "memory-child":
        print(json.dumps(run_in_memory(Path(sys.argv[2]), Path(sys.argv[3]))), flush=True)
        return
    what, scratch = sys.argv[1], Path(sys.argv[2])
    for size in [int(float(each)) for each in sys.argv[3:]] or [10**7]:
        folder, store = scratch / f"tables-{size}", scratch / f"store-{size}"
        make_tables(folder, size)
        if what == "equal":
            compare(folder, store)
        elif what == "memory":
            start_in_memory(folder, store)
        elif what == "ratio":
            start(folder, store, capped=True, kill_after=-1)  # the sort, in a process of its own
            start_in_memory(folder, store)
            done = start(folder, store, capped=True)
            facts = report(done, f"{size:.0e}", cap_mib=CAP_MIB)
            print(f"{size:.0e}: stream takes {facts['ratio']} times the time of numba on the same labels")
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
