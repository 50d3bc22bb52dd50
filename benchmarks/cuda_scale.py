"""Passes on a GPU: time of EM over many labels, the same bits twice, and the distance to the processor's result.

    python benchmarks/cuda_scale.py --labels 1e9 --out cuda.jsonl

Labels are made on the device: 5 a task, as many workers as a hundredth of the tasks. *passes* are the E-steps and
counts alone, *fit* is all from device arrays to the posterior on the device, *bare* are the same loops launched again
and again with nothing between them, at the best of several tile sizes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crowdwise.aggregate import DawidSkene, EnhancedBcc, MeanField, OneCoin
from crowdwise.aggregate.dawid_skene import m_step
from crowdwise.engines import cuda_engine, triton_passes
from crowdwise.engines.cuda_engine import CudaPasses, DeviceTable
from crowdwise.engines.device_layout import DeviceLabels, lay_out_part
from crowdwise.labels import CrowdLabels

CLASSES, PER_TASK, ITERATIONS = 10, 5, 20
NO_PSEUDO = np.zeros((1, CLASSES, CLASSES))


def make_labels(n_labels: int) -> tuple[Any, ...]:
    """Labels of workers who are right in 7 of 10 cases, on the device, by task."""
    n_tasks = n_labels // PER_TASK
    n_workers = max(n_tasks // 100, PER_TASK)
    generator = torch.Generator("cuda").manual_seed(0)
    worker = torch.randint(n_workers, (n_tasks, PER_TASK), generator=generator, device="cuda", dtype=torch.int32)
    truth = torch.randint(CLASSES, (n_tasks, 1), generator=generator, device="cuda", dtype=torch.int8)
    right = torch.rand((n_tasks, PER_TASK), generator=generator, device="cuda") < 0.7
    guess = torch.randint(CLASSES, (n_tasks, PER_TASK), generator=generator, device="cuda", dtype=torch.int8)
    label = torch.where(right, truth, guess).flatten()
    task_ptr = torch.arange(n_tasks + 1, device="cuda", dtype=torch.int64) * PER_TASK
    return task_ptr, worker.flatten(), label, n_workers, CLASSES


def seconds(work: Any) -> tuple[float, Any]:
    """Wall time of some work, all of it done."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - start, found


def fit_dawid_skene(passes: CudaPasses) -> tuple[float, Any]:
    """Twenty iterations; seconds in the passes, and the posterior where it lies."""
    spent, found = seconds(lambda: passes.count_against_vote_shares(np.full(CLASSES, 1 / CLASSES)))
    inside = 0.0
    for _ in range(ITERATIONS):
        parameters = m_step(found, NO_PSEUDO)
        spent, found = seconds(lambda now=parameters: passes.e_step(now.log_prior, now.log_table))
        inside += spent
    return inside, passes._posterior(0, cuda_engine._stride(CLASSES))


def fit_one_coin(passes: CudaPasses, answers: Any) -> tuple[float, Any]:
    """Twenty iterations of one accuracy a worker."""
    found = passes.count_against_vote_shares(np.full(CLASSES, 1 / CLASSES))
    correct = np.einsum("wkk->w", found.counts)
    inside = 0.0
    for _ in range(ITERATIONS):
        accuracy = np.clip(correct / answers, 1e-6, 1 - 1e-6)
        odds = np.log(accuracy) - np.log((1 - accuracy) / (CLASSES - 1))
        bonus = np.broadcast_to(odds[:, None], (odds.size, CLASSES))
        log_prior = np.log(found.class_counts / found.class_counts.sum())
        spent, found = seconds(lambda prior=log_prior, now=bonus: passes.e_step_votes(prior, now))
        correct, inside = found.sum_over_labels(), inside + spent
    return inside, passes._posterior(0, cuda_engine._stride(CLASSES))


def time_bare_loops(part: DeviceLabels, table: DeviceTable) -> dict[str, float]:
    """Seconds for as many launches of the two loops as a fit has iterations, by settings."""
    posterior = torch.empty((part.n_tasks, cuda_engine._stride(CLASSES)), device="cuda", dtype=torch.float64)
    prior = torch.full((CLASSES,), -float(np.log(CLASSES)), device="cuda", dtype=torch.float64)
    gold = torch.zeros(1, device="cuda", dtype=torch.int32)
    states, stride = cuda_engine._padded(CLASSES), cuda_engine._stride(CLASSES)
    n_lists = part.lists.start.numel() - 1
    out = torch.empty((n_lists, stride), device="cuda", dtype=torch.float64)
    found = {}
    for tile, at_once, warps in itertools.product((256, 512, 1024, 2048), (2, 4, 8), (2, 4, 8)):
        lists = max(tile // (states * at_once), 1)
        settings = {"STATES": states, "STRIDE": stride, "LISTS": lists, "AT_ONCE": at_once, "num_warps": warps}
        n_programs = -(-part.n_tasks // (lists * cuda_engine.ROUNDS))
        sums = [torch.empty(shape, device="cuda", dtype=torch.float64) for shape in ((n_programs, states), n_programs)]
        by_task = partial(
            triton_passes.weigh_confusions[(n_programs,)],
            *(part.task_ptr, part.cell, table.rows, prior, gold, posterior, *sums, part.n_tasks, CLASSES, 1),
            HAS_GOLD=False, ROUNDS=cuda_engine.ROUNDS, **settings,
        )  # fmt: skip
        by_cell = partial(
            triton_passes.sum_rows[(-(-n_lists // lists),)],
            *(part.lists.start, part.task_by_cell, posterior, out, n_lists),
            INDIRECT=True, **settings,
        )  # fmt: skip
        for loop, launch in (("by task", by_task), ("by cell", by_cell)):
            launch()
            spent, _ = seconds(lambda now=launch: [now() for _ in range(3)])
            found[f"{loop} tile {tile} at once {at_once} warps {warps}"] = spent / 3
    return found


def make_crowd_labels(n_labels: int) -> CrowdLabels:
    """The same labels in the memory of the processor."""
    task_ptr, worker, label, n_workers, n_classes = (
        each.cpu().numpy() if isinstance(each, torch.Tensor) else each for each in make_labels(n_labels)
    )
    task = np.repeat(np.arange(task_ptr.size - 1, dtype=np.int32), PER_TASK)
    sizes = {"tasks": task_ptr.size - 1, "workers": n_workers, "classes": n_classes}
    return CrowdLabels.from_codes(task, worker, label, **sizes, on_duplicate="all")


def compare_with_processor(n_labels: int) -> dict[str, float]:
    """Largest difference of posteriors to those of the compiled loops, twenty iterations each."""
    labels, report = make_crowd_labels(n_labels), {}
    for model in (DawidSkene(max_iter=ITERATIONS, tol=0), OneCoin(max_iter=ITERATIONS, tol=0)):
        fits = {}
        for engine in ("numba", "cuda"):
            fits[engine] = model.set_params(engine=engine).fit(labels).posterior_
        apart = np.abs(fits["numba"] - fits["cuda"])
        report[model.slug] = {"largest": float(apart.max()), "mean": float(apart.mean())}
    return report


def time_methods(n_labels: int) -> dict[str, Any]:
    """Seconds of whole fits of the variational methods, from labels in the processor's memory to results there."""
    labels, report = make_crowd_labels(n_labels), {}
    for model in (
        DawidSkene(max_iter=ITERATIONS, tol=0, engine="cuda"),
        MeanField(max_iter=ITERATIONS, tol=0, engine="cuda"),
        EnhancedBcc(n_subtypes=2, n_restarts=1, max_iter=ITERATIONS, tol=0, engine="cuda"),
    ):
        spent, _ = seconds(lambda now=model: now.fit(labels))
        report[model.slug] = spent
        print(model.slug, spent, flush=True)
    return report


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=float, default=1e9)
    parser.add_argument("--bare", action="store_true", help="also time the bare loops at many settings")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=float, help="compare with the processor on so many labels, and no more")
    parser.add_argument("--methods", type=float, help="time whole fits of so many labels, and no more")
    options = parser.parse_args()
    for size, measure in ((options.compare, compare_with_processor), (options.methods, time_methods)):
        if size:
            print(json.dumps({"labels": int(size)} | measure(int(size)), indent=1))
            return
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "labels": int(options.labels)}
    small = lay_out_part(*make_labels(100_000))  # compiles
    fit_dawid_skene(CudaPasses([small]))
    fit_one_coin(CudaPasses([small]), np.ones(small.n_workers))
    arrays = make_labels(int(options.labels))
    for name in ("dawid-skene", "one-coin"):
        digests = []
        for _ in range(2):
            laid_out, part = seconds(lambda: lay_out_part(*arrays))
            passes = CudaPasses([part])
            if name == "dawid-skene":
                total, (inside, posterior) = seconds(partial(fit_dawid_skene, passes))
            else:
                answers = torch.bincount(arrays[1], minlength=arrays[3]).cpu().numpy().clip(1)
                total, (inside, posterior) = seconds(partial(fit_one_coin, passes, answers))
            bits = posterior.view(torch.int64)[:, :CLASSES]
            digests.append(int((bits * torch.arange(1, CLASSES + 1, device="cuda")).sum()))
            report[name] = {"layout": laid_out, "passes": inside, "fit": laid_out + total}
            del posterior, bits
            if name == "dawid-skene" and options.bare and len(digests) == 2:
                table = passes.count_against_vote_shares(np.full(CLASSES, 1 / CLASSES)).log_rows(NO_PSEUDO)
                passes._posteriors.clear()
                bare = time_bare_loops(part, table)
                best = {
                    loop: min((v, k) for k, v in bare.items() if k.startswith(loop)) for loop in ("by task", "by cell")
                }
                report["bare"] = {"best": best, "seconds": ITERATIONS * sum(v for v, _ in best.values()), "all": bare}
                del table
            del passes, part
        report[name]["same_bits"] = digests[0] == digests[1]
        report[name]["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(json.dumps(report, indent=1))
    if options.out:
        with options.out.open("a") as file:
            file.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
