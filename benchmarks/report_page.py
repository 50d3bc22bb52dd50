"""The report of a large crowd: bytes, seconds to make, seconds until a browser has drawn it all.

python benchmarks/report_page.py                                 # 1 M labels by 10,000 workers
python benchmarks/report_page.py --browser /usr/bin/chromium     # and how long a browser takes
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import crowdwise as cw
from crowdwise.audit.audit import Audit
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.dependence.groups import detect_groups
from crowdwise.report.page import write_report


def crowd(n_tasks: int, n_workers: int, labels_per_task: int) -> tuple[Audit, dict[int, int]]:
    """Three in ten spam and are flagged; the truth of one task in ten is known."""
    made = cw.simulate.simulate(
        "spammers", n_tasks=n_tasks, n_workers=n_workers, n_classes=10, labels_per_task=labels_per_task
    )
    bad = [at for at, kind in enumerate(made.kinds or ()) if kind == "spammer"]
    words = ("Answers at random.", "Her labels tell nothing.", 0.001, "exact", "Leave her labels out.")
    findings = tuple(Finding("spammer", "worker", (at,), 0.9, *words) for at in bad)
    group = np.where(np.arange(n_workers) < 40, np.arange(n_workers) // 10, -1)
    model, dependence = cw.DawidSkene().fit(made.labels), detect_groups(made.labels, 0.05)
    audit = Audit(made.labels, model, (Screen("spammer", findings),), group, 0.05, dependence=dependence)
    return audit, dict(enumerate(made.truth[: n_tasks // 10].tolist()))


def drawn(path: Path, browser: str) -> float:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page()
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        seconds = time.perf_counter() - start
        opened.close()
    return seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", type=int, default=200_000)
    options.add_argument("--workers", type=int, default=10_000)
    options.add_argument("--labels-per-task", type=int, default=5)
    options.add_argument("--browser")
    chosen = options.parse_args()
    audit, truth = crowd(chosen.tasks, chosen.workers, chosen.labels_per_task)
    print(audit.labels)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        start = time.perf_counter()
        write_report(audit, path, truth=truth)
        print(f"made in {time.perf_counter() - start:.1f} s, {path.stat().st_size / 1e6:.2f} MB")
        if chosen.browser:
            print(f"drawn in {drawn(path, chosen.browser):.2f} s")


if __name__ == "__main__":
    main()
