"""What a Dask worker loads before it takes work: `dask worker … --preload crowdwise.engines.dask_worker`.

A new worker is given parts as soon as it is known to the scheduler, and those that it has been given wait until it has
imported the package and the compiled loops, while others have nothing to do. With this it is known only when it is
ready. Nothing depends on it but time.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np

import crowdwise.engines.dask_engine  # noqa: F401 (whose functions are sent to workers by name)
from crowdwise.engines.part_passes import PartPasses, run_part
from crowdwise.engines.storing_engine import store_labels
from crowdwise.kernels.threads import use_threads
from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    from crowdwise.engines.label_store import LabelStore
    from crowdwise.engines.part_passes import PassJob
    from crowdwise.engines.protocol import Statistics

__all__ = ["dask_setup", "load_loops"]


def load_loops() -> None:
    """Run every pass of EM once, on two labels, so that its loops are compiled or loaded."""
    labels = CrowdLabels.from_codes([0, 1], [0, 0], [0, 1], tasks=2, workers=1, classes=2)
    folder = Path(mkdtemp(prefix="crowdwise-"))
    try:
        passes = PartPasses(store_labels(labels, folder, None), _run_first_part)
        even = np.full(2, 0.5)
        passes.count_against_vote_shares(even)
        for out in (None, np.empty((2, 2))):
            passes.e_step(np.log(even), np.log(np.full((1, 2, 2), 0.5)), out=out)
            passes.e_step_votes(np.log(even), np.zeros((1, 2)), out=out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def dask_setup(worker: Any) -> None:  # noqa: ARG001 (what Dask calls, and how)
    """Make a worker ready before it is known to the scheduler."""
    with use_threads(1):
        load_loops()


def _run_first_part(store: LabelStore, job: PassJob) -> Statistics:
    part = store.parts[0]
    found: Statistics = run_part(store.read_blocks(part), job, store.rows_of(part))
    return found
