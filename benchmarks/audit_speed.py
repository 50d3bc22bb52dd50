"""How long an audit of a large crowd takes, in seconds of the processor, all threads together; compiling not counted.

python benchmarks/audit_speed.py                                  # 1 M labels by 10,000 workers, 3 in 10 spam
python benchmarks/audit_speed.py --tasks 20000 --workers 1000     # a tenth of it
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import crowdwise as cw
from crowdwise.audit.spammers import find_spammers

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels


def crowd(n_tasks: int, n_workers: int) -> CrowdLabels:
    return cw.simulate.simulate(
        "spammers", n_tasks=n_tasks, n_workers=n_workers, n_classes=10, labels_per_task=5
    ).labels


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", type=int, default=200_000)
    options.add_argument("--workers", type=int, default=10_000)
    chosen = options.parse_args()
    labels = crowd(chosen.tasks, chosen.workers)
    print(labels)
    cw.audit_crowd(crowd(500, 30))  # compiles
    for name, audit in (("the whole audit", cw.audit_crowd), ("find_spammers", find_spammers)):
        began = time.process_time()
        found = audit(labels).findings
        print(f"{name}: {time.process_time() - began:.1f} s, {len(found):,} findings", flush=True)


if __name__ == "__main__":
    main()
