"""Passes over labels in parts: what each part adds is found by the compiled loops, and added in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from crowdwise.engines.numba_engine import BlockPasses
from crowdwise.engines.protocol import Statistics
from crowdwise.kernels.confusion_rows import NO_GOLD
from crowdwise.kernels.threads import run_lanes, use_threads

if TYPE_CHECKING:
    from crowdwise.engines.label_store import LabelStore, Part
    from crowdwise.kernels.block_layout import Blocks
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FEW_LABELS", "PartPasses", "PassJob", "add_results", "run_lanes_here", "run_part"]

FEW_LABELS = 2**24  # a pass takes some hundredths of a second, and the labels a tenth of a gigabyte


@dataclass(frozen=True)
class PassJob:
    """One pass: its name, arrays that every part gets whole, and arrays of which it gets the rows of its tasks."""

    name: str
    whole: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)


def run_part(blocks: Blocks, job: PassJob, tasks: slice, before: Statistics | None = None) -> Statistics:
    """What one part adds to a pass; `out` among the rows is filled.

    With what was found `before`, the sum of both, in the same memory.
    """
    rows = {name: np.asarray(values[tasks]) for name, values in job.rows.items()}
    adds = before is not None and job.name != "posterior_variance"
    found = getattr(BlockPasses(blocks, before.counts if adds and before else None), job.name)(**job.whole, **rows)
    if not isinstance(found, Statistics):
        found = Statistics(0.0, np.zeros(1), np.stack(found))
    if before is None:
        return found
    if not adds:
        return add_results(before, found)
    likelihood, class_counts = before.log_likelihood + found.log_likelihood, before.class_counts + found.class_counts
    return replace(found, log_likelihood=likelihood, class_counts=class_counts)


def add_results(left: Statistics, right: Statistics) -> Statistics:
    """The sum of what two parts add; the left one's table becomes the sum's."""
    likelihood, class_counts = left.log_likelihood + right.log_likelihood, left.class_counts + right.class_counts
    np.add(left.counts, right.counts, out=left.counts)
    return replace(left, log_likelihood=likelihood, class_counts=class_counts)


def run_lanes_here(store: LabelStore, job: PassJob, lanes: list[list[Part]]) -> list[Statistics]:
    """What lanes of parts add, each to one table, in the threads of this process; few labels stay in memory."""
    found: list[Any] = [None] * len(lanes)
    read = store.hold_blocks if store.n_labels <= FEW_LABELS else store.read_blocks

    def run_lane(at: int) -> None:
        with use_threads(1):
            for part in lanes[at]:
                found[at] = run_part(read(part), job, store.rows_of(part), found[at])

    run_lanes(run_lane, len(lanes))
    return found


class PassRunner(Protocol):
    """Runs a job on every part and adds the results, always in the same order."""

    def __call__(self, store: LabelStore, job: PassJob) -> Statistics: ...


class PartPasses:
    """The passes of the protocol over a store."""

    def __init__(self, store: LabelStore, run: PassRunner) -> None:
        self.store, self._run = store, run
        self.n_tasks, self.n_workers, self.n_classes = store.n_tasks, store.n_workers, store.n_classes

    def e_step(
        self, log_prior: FloatArray, log_table: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model with a confusion matrix per worker."""
        whole = {"log_prior": log_prior, "log_table": log_table}
        return self._run(self.store, PassJob("e_step", whole, _task_rows(gold, out)))

    def e_step_votes(
        self, log_prior: FloatArray, bonus: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model whose label l speaks for class l alone."""
        whole = {"log_prior": log_prior, "bonus": bonus}
        return self._run(self.store, PassJob("e_step_votes", whole, _task_rows(gold, out)))

    def accumulate(self, values: FloatArray) -> Statistics:
        """Σ of the values over each worker's tasks, by the label given."""
        return self._run(self.store, PassJob("accumulate", rows={"values": values}))

    def count_against_vote_shares(self, otherwise: FloatArray, gold: IntArray = NO_GOLD) -> Statistics:
        """The same where the posterior is the share of votes."""
        job = PassJob("count_against_vote_shares", {"otherwise": otherwise}, _task_rows(gold, None))
        return self._run(self.store, job)

    def posterior_variance(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ q(1-q), by class over all labels, and of the class named over the labels that name it."""
        every, named = self._run(self.store, PassJob("posterior_variance", rows={"posterior": posterior})).counts
        return every, named


def _task_rows(gold: IntArray, out: FloatArray | None) -> dict[str, Any]:
    """The arrays that have a row for each task, where they are given."""
    return ({"gold": gold} if gold.size else {}) | ({} if out is None else {"out": out})
