"""What engines share that keep labels on the disk: a scratch folder, labels of memory stored in it, passes by parts."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines.label_store import (
    LabelStore,
    count_part_labels,
    finish_store,
    say_disk_errors,
    write_part,
)
from crowdwise.engines.part_passes import PartPasses
from crowdwise.engines.stored_labels import StoredLabels
from crowdwise.labels.errors import InputError, quote

try:
    import fcntl
except ImportError:  # on Windows, where folders cannot be locked
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from crowdwise.engines.label_store import Part
    from crowdwise.engines.part_passes import PassJob
    from crowdwise.engines.protocol import Statistics
    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["StoringEngine", "claim_scratch", "remove_scratch", "store_labels"]

LOCK = ".sorting"
MARK = ".crowdwise-scratch"  # in folders that are ours to remove


class StoringEngine:
    """Base of `Stream` and `Dask`, which say how files become a store and where the parts of a pass run."""

    def __init__(self, scratch: str | Path | None, part_labels: int | None) -> None:
        whole = part_labels is None or (isinstance(part_labels, Integral) and not isinstance(part_labels, bool))
        if not whole or (part_labels is not None and part_labels < 1):
            raise InputError(f"part_labels is {quote(part_labels)}; it must be a whole number, 1 or more, or None.")
        self.scratch, self.part_labels = scratch, part_labels

    def __deepcopy__(self, _: Any) -> Self:
        return self  # nothing of it changes, and a client is one

    def read(self, source: Any, **options: Any) -> StoredLabels:
        """Store files of labels, or labels in memory, by task; see `read_labels` for the options."""
        from crowdwise.labels.crowd_labels import CrowdLabels

        if isinstance(source, StoredLabels):
            return source
        folder = make_scratch(self.scratch).absolute()
        with _lock(folder):
            if isinstance(source, CrowdLabels):
                store = store_labels(source, folder, self.part_labels)
            else:
                store = self._store(source, folder, **options)
        labels = StoredLabels(store, self.make_passes)
        if self.scratch is None:
            weakref.finalize(labels, shutil.rmtree, folder, ignore_errors=True)
        return labels

    def lay_out(self, labels: CrowdLabels, n_states: int | None) -> LabelStore:  # noqa: ARG002
        """The labels in the parts of a store."""
        folder = make_scratch(None)
        store = store_labels(labels, folder, self.part_labels)
        weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
        return store

    def make_passes(self, layout: LabelStore) -> PartPasses:
        """Passes over the parts."""
        return PartPasses(layout, self._run)

    def _store(self, source: Any, folder: Path, **options: Any) -> LabelStore:
        raise NotImplementedError

    def _run(self, store: LabelStore, job: PassJob) -> Statistics:
        raise NotImplementedError


def make_scratch(folder: str | Path | None) -> Path:
    """The folder named, made where it is not there; or a new one that is the caller's to remove."""
    if folder is not None and (not isinstance(folder, str | os.PathLike) or not str(folder)):
        raise InputError(f"The scratch folder is {quote(folder)}; give its path, as text.")
    try:
        if folder is None:
            return Path(tempfile.mkdtemp(prefix="crowdwise-"))
        Path(folder).mkdir(parents=True, exist_ok=True)
        return Path(folder)
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"Cannot make the scratch folder {quote(str(folder))}: {reason}.") from error


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other processes waiting that would sort in the same folder; they find the labels sorted then."""
    if fcntl is None:
        yield
        return
    with say_disk_errors(folder):
        # A pipe of this name would be waited for.
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666)
    with os.fdopen(file, "w"):
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def claim_scratch(folder: str | Path) -> Path:
    """A folder that nobody named and that will be removed: new, empty, or of an earlier run of ours."""
    place = make_scratch(folder)
    try:
        if any(place.iterdir()) and not (place / MARK).is_file():
            raise InputError(
                f"{quote(str(place))}, where labels would be sorted, holds other files. Move it away, or name another "
                "folder (--scratch)."
            )
        (place / MARK).touch()
    except OSError as error:
        raise InputError(f"Cannot use the scratch folder {quote(str(place))}: {error.strerror}.") from error
    return place


def remove_scratch(folder: str | Path) -> None:
    """Remove a folder that was claimed, and no other."""
    if (Path(folder) / MARK).is_file():
        shutil.rmtree(folder, ignore_errors=True)


def store_labels(labels: CrowdLabels, folder: Path, part_labels: int | None) -> LabelStore:
    """Labels that are in memory, as a store."""
    most = part_labels or count_part_labels(labels.n_labels, labels.n_workers, labels.n_classes)
    parts: list[Part] = []
    first = 0
    while first < labels.n_tasks:
        last = int(np.searchsorted(labels.task_ptr, labels.task_ptr[first] + most, "right")) - 1
        last = min(max(last, first + 1), labels.n_tasks)
        parts.append(write_part(folder, len(parts), cut_tasks(labels, first, last), first))
        first = last
    finish_store(folder, parts, labels.workers, labels.classes, labels.count_answers().astype(np.int64), {})
    return LabelStore(folder)


def cut_tasks(labels: CrowdLabels, first: int, last: int) -> CrowdLabels:
    """The labels of the tasks from first to before last, with all workers and classes."""
    start, end = labels.task_ptr[first], labels.task_ptr[last]
    return type(labels)(
        labels.task[start:end] - np.int32(first),
        labels.worker[start:end],
        labels.label[start:end],
        labels.task_ptr[first : last + 1] - start,
        labels.tasks[first:last],
        labels.workers,
        labels.classes,
    )
