"""An epoch of trace regularisation: against a clock, against dense masks, and against a bare loop.

    python benchmarks/learning_speed.py                  # everything
    python benchmarks/learning_speed.py many             # one case: many, dense, labelme

many: 100,000 tasks, 10,000 workers, 10 classes, one label a task, 64 features; seconds and peak memory of an epoch.
dense: 20,000 tasks, 2,000 workers, 10 classes, five labels a task, 64 features; the same model with labels as a tensor
batch × workers × classes, zeros where there is none, as in listing 3 of Tanno et al. 2019, in plain torch. The limit is
for batches of 64. The same with batches of 256 is reported beside it: masks cost as much an epoch whatever the batch,
our steps over the workers of a batch far less. With batches of 64 the limit is near: most of a step is the network's
and the overhead of small operations, and where other programs fill the caches it was 8 times. labelme: LabelMe's 1,000
training images (512 features, 59 workers, 8 classes; CROWDWISE_DATA); a bare torch loop with the same network, loss,
optimiser and batches, over dense masks or over edges, whichever is faster.

All use a hidden layer of 128 units with dropout, fused Adam and batches of 64. Each figure is the fastest epoch of a
run in a fresh process; with `dense` and `labelme` the two sides take turns in one. Nothing is held out: only steps are
timed. OMP_NUM_THREADS says how many threads torch uses, on both sides, and is written beside the figures. Threads wait
without spinning (OMP_WAIT_POLICY=passive, unless you say otherwise): where other programs want the cores, threads that
spin keep each other from running, and an epoch of many small steps takes ten times as long.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "learning_speed.json"
BATCH, HIDDEN, STRENGTH, RATE = 64, 128, 0.01, 1e-3
CASES = ("many", "dense", "labelme")


def crowd(n_tasks: int, n_workers: int, per_task: int, n_classes: int = 10, n_features: int = 64) -> tuple[Any, Any]:
    """Features around a centre for each class, and labels of which seven in ten are right."""
    from crowdwise.labels import CrowdLabels

    rng = np.random.default_rng(0)
    truth = rng.integers(n_classes, size=n_tasks)
    X = rng.normal(size=(n_tasks, n_features)).astype(np.float32)
    X[np.arange(n_tasks), truth] += 3
    task = np.repeat(np.arange(n_tasks), per_task)
    # Consecutive workers from a random first one: nobody answers a task twice.
    worker = (rng.integers(n_workers, size=n_tasks)[:, None] + np.arange(per_task)).ravel() % n_workers
    label = np.where(rng.random(task.size) < 0.7, truth[task], rng.integers(n_classes, size=task.size))
    return X, CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)


def ours(X: Any, labels: Any, epochs: int, batch: int = BATCH) -> float:
    """Seconds of the fastest epoch."""
    import crowdwise as cw

    model = cw.TraceRegularized(
        network="mlp", epochs=epochs, batch_size=batch, held_out=0.0, learning_rate=RATE, device="cpu"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, labels)
    return float(min(model.history_["seconds"].to_pylist()))


def bare(X: Any, labels: Any, epochs: int, batch: int = BATCH, *, dense: bool) -> float:
    """The same in a plain torch loop; seconds of the fastest epoch."""
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    n_workers, n_classes = labels.n_workers, labels.n_classes
    x = torch.as_tensor((X - X.mean(axis=0)) / X.std(axis=0))
    network = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(0.5), nn.Linear(HIDDEN, n_classes))
    rho = nn.Parameter((6 * torch.eye(n_classes) - 5).repeat(n_workers, 1, 1))
    optimiser = torch.optim.Adam([*network.parameters(), rho], lr=RATE, fused=True)
    answers = torch.full((len(x), n_workers), -1)
    answers[labels.task.astype(np.int64), labels.worker.astype(np.int64)] = torch.tensor(labels.label.astype(np.int64))
    # Listing 3: a zero vector stands for a missing label. Looked up, as functional.one_hot takes twice the time.
    one_hot = torch.eye(n_classes + 1, n_classes).roll(1, dims=0)
    worker, label = (torch.tensor(column.astype(np.int64)) for column in (labels.worker, labels.label))
    ptr = torch.tensor(labels.task_ptr.astype(np.int64))

    def masked(f: Any, confusion: Any, chosen: Any) -> Any:
        targets = functional.embedding(answers[chosen] + 1, one_hot)
        said = torch.einsum("bk,mkl->bml", f, confusion).clamp(1e-10, 0.9999999)
        return -(targets * said.log()).sum() / len(chosen)

    def sparse(f: Any, confusion: Any, edges: Any, owner: Any) -> Any:
        said = (f[owner] * confusion[worker[edges], :, label[edges]]).sum(dim=1)
        return -said.clamp(min=1e-10).log().sum() / len(f)

    best = float("inf")
    for _ in range(epochs):
        started = time.perf_counter()
        order = torch.randperm(len(x))
        for first in range(0, len(x), batch):
            chosen = order[first : first + batch]
            optimiser.zero_grad()
            f = network(x[chosen]).softmax(dim=1)
            positive = functional.softplus(rho)
            confusion = positive / positive.sum(dim=-1, keepdim=True)
            if dense:
                loss = masked(f, confusion, chosen)
            else:
                counts = ptr[chosen + 1] - ptr[chosen]
                owner = torch.repeat_interleave(torch.arange(len(chosen)), counts)
                ends = counts.cumsum(0)
                edges = torch.arange(len(owner)) + torch.repeat_interleave(ptr[chosen] - (ends - counts), counts)
                loss = sparse(f, confusion, edges, owner)
            loss = loss + STRENGTH * confusion.diagonal(dim1=1, dim2=2).sum(dim=1).mean()
            loss.backward()
            optimiser.step()
        best = min(best, time.perf_counter() - started)
    return best


def many() -> dict[str, float]:
    seconds = ours(*crowd(100_000, 10_000, 1), epochs=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "limit_seconds": 30.0, "peak_mb": peak, "limit_mb": 1500.0}


def dense() -> dict[str, float]:
    X, labels = crowd(20_000, 2_000, 5)
    row: dict[str, float] = {}
    for batch, name in ((BATCH, ""), (256, "batch_256_")):
        mine, theirs = float("inf"), float("inf")
        for _ in range(2):
            mine = min(mine, ours(X, labels, 2, batch))
            theirs = min(theirs, bare(X, labels, 1, batch, dense=True))
        row |= {f"{name}seconds": mine, f"{name}dense_seconds": theirs, f"{name}times_faster": theirs / mine}
    return row | {"limit_times_faster": 10.0}


def labelme() -> dict[str, float]:
    import crowdwise as cw

    folder = Path(os.environ["CROWDWISE_DATA"]) / "labelme"
    X, labels = np.load(folder / "features.npz")["X_train"], cw.datasets.load("labelme").labels
    keys = ("ours", "masked", "edges")
    best = dict.fromkeys(keys, float("inf"))
    for _ in range(4):
        best["ours"] = min(best["ours"], ours(X, labels, epochs=15))
        best["masked"] = min(best["masked"], bare(X, labels, epochs=15, dense=True))
        best["edges"] = min(best["edges"], bare(X, labels, epochs=15, dense=False))
    fastest = min(best["masked"], best["edges"])
    return {
        "seconds": best["ours"],
        "bare_dense_seconds": best["masked"],
        "bare_edges_seconds": best["edges"],
        "ratio": best["ours"] / fastest,
        "limit_ratio": 1.3,
    }


def main() -> None:
    chosen = sys.argv[1:] or CASES
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps({"many": many, "dense": dense, "labelme": labelme}[sys.argv[2]]()))
        return
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print(f"{'case':10}{'epoch s':>10}   against")
    for case in chosen:
        if case not in CASES:
            raise SystemExit(f"There is no case {case!r}; there are {', '.join(CASES)}.")
        command = [sys.executable, __file__, "--measure", case]
        environment = {"OMP_WAIT_POLICY": "passive"} | os.environ
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        row = json.loads(done.stdout.splitlines()[-1])
        rest = ", ".join(f"{name} {value:.4g}" for name, value in row.items() if name != "seconds")
        print(f"{case:10}{row['seconds']:>10.4f}   {rest}", flush=True)
        rows[case] = row | {"threads": os.environ.get("OMP_NUM_THREADS", "all"), "python": platform.python_version()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
