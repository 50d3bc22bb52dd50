"""Effective size against the value that the true error correlations give, on simulated panels of judges in families.

    python benchmarks/effective_size.py                        # 60 panels, labels alone and with 100 true answers
    python benchmarks/effective_size.py --processes 16 --panels 240 --seed 1000
    python benchmarks/effective_size.py --quick                # 12 panels

Panels of 3 to 30 workers (accuracies from .55 to .9), 2 to 5 classes, 200 to 2,000 tasks that everyone answers, and 1
to 5 families with error correlations of .1 to .6 inside; up to half of the workers are in none. In half of the panels
the members of a family give the same wrong answers, in the others they err on the same tasks in their own ways
(`crowdwise.simulate.judge_families`). The true value is n / (1 + (n - 1) r̄) with r̄ from the simulator's parameters.
Three rows: as above; with errors that all share (correlation .05 across families) as well; and everyone in one family.
For each, with labels alone and with 100 true answers: the share of panels within 15 % of the true value, the median
relative error, and the share whose 90 % interval holds it; the same for panels where `certain` is said.

Constants of `dependence/effective_size.py` were set on panels of seeds 0 to 59 of an earlier generator of the same
kind; the default seeds here are others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

from crowdwise.dependence.effective_size import estimate_size, kish_effective_size  # noqa: E402
from crowdwise.simulate import Simulation, simulate  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "effective_size.json"
ROWS = ("families", "families and shared difficulty", "one family of all")
GOLD = 100


def simulate_panel(row: str, seed: int) -> Simulation:
    """A panel of a kind, drawn at random."""
    rng = np.random.default_rng([seed, ROWS.index(row)])
    n_workers = int(rng.integers(3, 31))
    n_tasks = int(np.exp(rng.uniform(np.log(200), np.log(2000))))
    in_families = n_workers - int(rng.integers(0, n_workers // 2 + 1))
    n_families = int(rng.integers(1, 6))
    sizes = rng.multinomial(in_families, rng.dirichlet(np.full(n_families, 3.0)))
    sizes = [n_workers] if row == ROWS[2] else [int(size) for size in sizes if size > 1]
    low = rng.uniform(0.55, 0.7)
    return simulate(
        "families",
        n_tasks=n_tasks,
        n_workers=n_workers,
        n_classes=int(rng.integers(2, 6)),
        sizes=sizes,
        correlation=rng.uniform(0.1, 0.5 if row == ROWS[1] else 0.6, len(sizes)).tolist(),
        common=0.05 if row == ROWS[1] else 0.0,
        accuracy=(low, rng.uniform(low + 0.05, 0.9)),
        sharing=str(rng.choice(["draw", "factor"])),
        random_state=seed,
    )


def measure(job: tuple[str, int]) -> dict[str, Any]:
    """True and estimated size of one panel."""
    row, seed = job
    crowd = simulate_panel(row, seed)
    n_workers = crowd.labels.n_workers
    matrix = crowd.extras["error_correlation"]
    true = kish_effective_size(n_workers, (matrix.sum() - n_workers) / (n_workers * (n_workers - 1)))
    chosen = np.random.default_rng(seed).choice(crowd.truth.size, GOLD, replace=False)
    gold = {int(task): int(crowd.truth[task]) for task in chosen}
    found: dict[str, Any] = {"row": row, "seed": seed, "n_workers": n_workers, "true": true}
    for name, truth in (("labels", None), ("gold", gold)):
        size = estimate_size(crowd.labels, None, 0, truth=truth)
        found[name] = {"size": size.size, "low": size.low, "high": size.high, "certain": size.certain}
    return found


def summarise(panels: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Shares of panels that are near the true value, and whose interval holds it."""
    true = np.array([panel["true"] for panel in panels])
    size, low, high = (np.array([panel[name][key] for panel in panels]) for key in ("size", "low", "high"))
    certain = np.array([panel[name]["certain"] for panel in panels])
    off = np.abs(size / true - 1)
    near, covered = off <= 0.15, (low <= true) & (true <= high)
    found = {"panels": len(panels), "within_15_percent": near.mean(), "median_error": np.median(off)}
    found |= {"mean_error": off.mean(), "covered": covered.mean(), "certain": certain.mean()}
    if certain.any():
        found |= {
            "within_15_percent_where_certain": near[certain].mean(),
            "covered_where_certain": covered[certain].mean(),
        }
    return {key: round(float(value), 3) for key, value in found.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--panels", type=int, default=60)
    options.add_argument("--seed", type=int, default=1000)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--quick", action="store_true", help="12 panels of each row; nothing is written")
    chosen = options.parse_args()
    n_panels = 12 if chosen.quick else chosen.panels
    jobs = [(row, chosen.seed + number) for row in ROWS for number in range(n_panels)]
    with get_context("spawn").Pool(chosen.processes) as pool:
        panels = list(pool.imap_unordered(measure, jobs))
    panels.sort(key=lambda panel: (ROWS.index(panel["row"]), panel["seed"]))
    rows = []
    for row in ROWS:
        for name in ("labels", "gold"):
            rows.append({"row": row, "known": name} | summarise([each for each in panels if each["row"] == row], name))
            print(json.dumps(rows[-1]), flush=True)
    if not chosen.quick:
        RESULTS.write_text(
            json.dumps(
                {"python": platform.python_version(), "seed": chosen.seed, "rows": rows, "panels": panels}, indent=1
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
