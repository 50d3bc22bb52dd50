"""The dask engine on a cluster of processes here: the same bits with 1, 2 and 4 workers, and when workers are killed.

    python benchmarks/dask_scale.py bits   SCRATCH 3e7    # 1, 2 and 4 workers
    python benchmarks/dask_scale.py killed SCRATCH 1e8    # 2 workers; one SIGKILLed every five iterations

K = 10, 5 labels a task, tasks/1000 workers; 20 iterations of dawid-skene. The peak memory of a worker is the largest
that /proc says of any worker process, sampled each half second, beside the limit that the cluster was given.
Workers are ready before they take work (`--preload crowdwise.engines.dask_worker`) and are forked from a process that
has imported the package, so that a new one soon stands in for a lost one; `PLAIN=1` leaves both out. Workers are killed
0.3 s after the checkpoints of iterations 5, 10 and 15; `ratio` is to the time of the same fit undisturbed, just before.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from large_tables import make_tables, note_result

ITERATIONS, EVERY, LIMIT = 20, 5, "3GiB"
PLAIN = "PLAIN" in os.environ


def watch(cluster, peak: list[int], over: threading.Event) -> None:
    """Note the largest resident memory (without mapped files) of any worker."""
    while not over.wait(0.5):
        for worker in list(cluster.workers.values()):
            try:
                status = Path(f"/proc/{worker.pid}/status").read_text()
                peak[0] = max(peak[0], int(status.split("RssAnon:")[1].split()[0]) // 1024)
            except (OSError, IndexError, AttributeError):
                continue


def fit(folder: Path, store: Path, n_workers: int, kill: bool) -> dict[str, object]:
    import dask
    from distributed import Client, LocalCluster
    from distributed.utils import get_mp_context

    import crowdwise as cw
    from crowdwise.engines import Dask
    from crowdwise.fitting.checkpoints import Checkpoint

    options: dict[str, object] = {"threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": None}
    if not PLAIN:
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
        get_mp_context().set_forkserver_preload(["distributed", "crowdwise.engines.dask_worker"])
        options["preload"] = ["crowdwise.engines.dask_worker"]
    cluster = LocalCluster(n_workers=n_workers, processes=True, **options)
    client = Client(cluster)
    peak, over = [0], threading.Event()
    threading.Thread(target=watch, args=(cluster, peak, over), daemon=True).start()
    save, times, killed = Checkpoint.save, [], []

    def save_and_kill(self, parameters, values, likelihoods) -> None:
        save(self, parameters, values, likelihoods)
        times.append(time.perf_counter())
        if kill and len(values) % EVERY == 0:
            worker = list(cluster.workers.values())[len(killed) % n_workers]
            threading.Timer(0.3, os.kill, (worker.pid, signal.SIGKILL)).start()  # in the middle of a pass
            killed.append(worker.pid)

    Checkpoint.save = save_and_kill
    engine = Dask(client, scratch=store)
    began = time.perf_counter()
    labels = engine.read([str(path) for path in sorted(folder.glob("*.parquet"))])
    read_at = time.perf_counter()
    model = cw.DawidSkene(max_iter=ITERATIONS, tol=0, engine=engine).fit(labels)
    ended = time.perf_counter()
    Checkpoint.save = save
    over.set()
    digest = hashlib.sha256()
    for at in range(0, labels.n_tasks, 2**20):
        digest.update(np.ascontiguousarray(model.posterior_[at : at + 2**20]))
    facts = {
        "n_labels": labels.n_labels,
        "n_workers": labels.n_workers,
        "parts": len(labels.store.parts),
        "cluster_workers": n_workers,
        "killed": len(killed),
        "read_s": round(read_at - began, 2),
        "fit_s": round(ended - read_at, 2),
        "iteration_s": round(float(np.median(np.diff(times))), 3),
        "iterations_s": np.round(np.diff(times), 2).tolist(),
        "ns_per_label_iteration": round(1e9 * float(np.median(np.diff(times))) / labels.n_labels, 2),
        "digest": digest.hexdigest()[:16],
        "peak_worker_mib": peak[0],
        "limit": LIMIT,
    }
    client.close()
    cluster.close()
    return facts


def main() -> None:
    what, scratch, size = sys.argv[1], Path(sys.argv[2]), int(float(sys.argv[3]))
    folder, store = scratch / f"tables-{size}", scratch / f"dask-{size}"
    make_tables(folder, size)
    if what == "bits":
        for n_workers in (1, 2, 4):
            shutil.rmtree(store, ignore_errors=True)  # read anew: the parts as well must not depend on workers
            note_result("dask", f"{size:.0e}, {n_workers} workers", fit(folder, store, n_workers, kill=False))
        return
    undisturbed = fit(folder, store, 2, kill=False)
    note_result("dask", f"{size:.0e}", undisturbed)
    killed = fit(folder, store, 2, kill=True)
    killed["ratio"] = round(killed["fit_s"] / undisturbed["fit_s"], 2)
    killed["same_bits"] = killed["digest"] == undisturbed["digest"]
    note_result("dask", f"{size:.0e}, workers killed", killed)


if __name__ == "__main__":
    main()
