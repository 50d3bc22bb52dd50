"""Labels on a cluster: each part is a task that reads its own file, whichever worker runs it, as often as need be.

Nothing is scattered: a worker that is lost takes nothing with it that cannot be read or computed again. Parameters of
an iteration are one file, which every worker maps; what parts add is added in a tree that the number of parts alone
decides. The result has therefore the same bits for any number of workers, and after any of them was lost.
Passes over few labels, which take less time than to ask a cluster for them, run in this process, in the same tree.
The folder (`scratch`) must be seen by all workers under the same name.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import uuid
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.engines.engines_on_disk import StoringEngine
from crowdwise.engines.external_sort import same_source
from crowdwise.engines.label_store import (
    LabelStore,
    count_part_labels,
    fingerprint_files,
    finish_store,
    say_disk_errors,
)
from crowdwise.engines.names_on_disk import Anywhere, check_names, note_similar_names, order_classes
from crowdwise.engines.part_passes import FEW_LABELS, PassJob, add_results, run_lanes_here, run_part
from crowdwise.engines.partition_files import (
    find_names,
    join_names,
    join_part,
    list_pieces,
    refuse_partly_whole,
    split_piece,
)
from crowdwise.kernels.threads import use_threads
from crowdwise.labels.errors import SHOWN, InputError, listing, quote
from crowdwise.labels.several_files import expand_paths, join_sources
from crowdwise.labels.vocabulary import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crowdwise.engines.protocol import Statistics


__all__ = ["ENGINE", "Dask"]

WAY = 2  # results that are added at a time; a tree of twos keeps the rounding of sums small


class Dask(StoringEngine):
    """Passes on a Dask cluster: `DawidSkene(engine=Dask(client, scratch="/shared/x")).fit("days/*.parquet")`.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; that of the program (`distributed.default_client`) where it is left out, and this process where
        there is none.
    scratch
        Folder that all workers see, for the labels by parts, the posterior and checkpoints. It is kept, so that a fit
        that was stopped goes on; without one, a folder here that is removed in the end.
    part_labels
        Most labels of a part, about; by default as the size of the crowd suggests. Where it is given, each part is a
        task of the cluster, however few the labels.
    """

    def __init__(self, client: Any = None, scratch: str | Path | None = None, part_labels: int | None = None) -> None:
        super().__init__(scratch, part_labels)
        if client is not None and not (hasattr(client, "submit") and hasattr(client, "get")):
            raise InputError(f"client is {quote(client)}; give a distributed.Client, which takes the address.")
        self.client = client

    def __repr__(self) -> str:
        return f"Dask(scratch={None if self.scratch is None else str(self.scratch)!r})"

    # ---- reading ------------------------------------------------------------------------------------------------

    def _store(self, source: Any, folder: Path, **options: Any) -> LabelStore:
        task, worker, label = options.get("task"), options.get("worker"), options.get("label")
        classes, on_duplicate = options.get("classes"), options.get("on_duplicate", "error")
        given = source if isinstance(source, list | tuple) else [source]
        if any(isinstance(each, str) and each == "-" for each in given):
            raise InputError("Workers of a cluster do not see standard input (-). Give files that they can all read.")
        local = expand_paths([each for each in given if "://" not in str(each)])
        paths = [str(Path(each).absolute()) for each in local] + [str(each) for each in given if "://" in str(each)]
        if on_duplicate not in ("error", "all"):
            raise InputError(f"on_duplicate is {quote(on_duplicate)}; labels on the disk take 'error' or 'all'.")
        made_of = {
            "files": fingerprint_files(local),
            "addresses": paths[len(local) :],
            "columns": [task, worker, label],
            "classes": None if classes is None else [str(each) for each in classes],
            "on_duplicate": on_duplicate,
            "part_labels": self.part_labels,
        }
        if same_source(folder, made_of):
            return LabelStore(folder)
        named, declared = (task, worker, label), classes is not None
        pieces = [piece for path in paths for piece in list_pieces(path, named, scale=declared)]
        if len(local) > 1:
            join_sources(local)  # which refuses files with different columns
        met = self.map(find_names, [(piece,) for piece in pieces])
        n_labels = sum(each[2] for each in met)
        if not n_labels:
            raise InputError("There are no labels in the files. Give at least one answer of one worker to one task.")
        refuse_partly_whole(pieces, [each[3] for each in met])
        workers, known = join_names([each[0] for each in met]), join_names([each[1] for each in met])
        place = Anywhere(", ".join(Path(path).name for path in paths[:SHOWN]))
        check_names(workers, "worker", pieces[0].columns[1], place)
        met_as_text = pa.types.is_string(known.type)
        _, known = order_classes(check_names(known, "label", pieces[0].columns[2], place), classes, place)
        known = as_text(known) if met_as_text else known
        sizes = len(workers), len(known)
        n_parts = max(1, -(-n_labels // (self.part_labels or count_part_labels(n_labels, *sizes))))
        for what, names in (("workers", workers), ("classes", known)):
            with (
                say_disk_errors(folder),
                pa.OSFile(str(folder / f"{what}.names"), "wb") as file,
                pa.ipc.new_file(file, pa.schema([("name", names.type)])) as writer,
            ):
                writer.write_table(pa.table({"name": names}))
        split = self.map(split_piece, [(piece, at, str(folder), n_parts) for at, piece in enumerate(pieces)])
        groups = [{at: found[part] for at, found in enumerate(split) if part in found} for part in range(n_parts)]
        text = len({str(list_type) for list_type in self._task_types(folder, len(pieces))}) > 1
        asked = (None if classes is not None or options.get("kind") == "labels" else known, None)
        joined = self.map(
            join_part,
            [
                (part, groups[part], str(folder), sizes, on_duplicate, text, (pieces[0].columns[0], asked[part > 0]))
                for part in range(n_parts)
            ],
        )
        if fingerprint_files(local) != made_of["files"]:
            raise InputError(f"{listing(map(str, local))} changed while it was read. Run again when it is complete.")
        note_similar_names(pa.array([], pa.string()), workers, known, declared=classes is not None)
        self._finish(folder, joined, workers, known, made_of)
        for at in range(len(pieces)):
            (folder / f"piece-{at:05}.parquet").unlink(missing_ok=True)
        return LabelStore(folder)

    @staticmethod
    def _task_types(folder: Path, n_pieces: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        for at in range(n_pieces):
            yield pq.read_schema(folder / f"piece-{at:05}.parquet").field("task").type

    @staticmethod
    def _finish(folder: Path, joined: list[Any], workers: pa.Array, classes: pa.Array, made_of: dict[str, Any]) -> None:
        parts, first, answers = [], 0, np.zeros(len(workers) * len(classes), np.int64)
        for each in joined:
            if each is not None:
                parts.append(replace(each.part, first=first))
                first += each.part.n_tasks
                answers[each.cells] += each.counts
        finish_store(folder, parts, workers, classes, answers.reshape(len(workers), len(classes)), made_of)

    # ---- passes -------------------------------------------------------------------------------------------------

    def _run(self, store: LabelStore, job: PassJob) -> Statistics:
        """A job on all parts, each a task; results are added in a tree of twos."""
        few = self.part_labels is None and store.n_labels <= FEW_LABELS
        client = None if few else self._find_client()
        if client is None:
            total: Statistics = _add_in_tree(run_lanes_here(store, job, [[part] for part in store.parts]), add_results)
            return total
        # By no number of a process: one that was killed, in a container too, may have had the same.
        folder = store.folder / f"pass-{uuid.uuid4().hex[:12]}"
        with say_disk_errors(store.folder):
            folder.mkdir()
            told = _save_job(folder, job)
        try:
            with _say_cluster_errors(store.folder):
                result: Statistics = client.get(*_make_graph(store, told), sync=False).result()
                return replace(result, counts=np.array(result.counts, order="K"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def map(self, work: Callable[..., Any], given: list[tuple[Any, ...]]) -> list[Any]:
        """What the work returns for each of these, on the cluster, in order."""
        client = self._find_client()
        if client is None:
            return [work(*each) for each in given]
        with _say_cluster_errors(None):
            key = f"crowdwise-{work.__name__}-{uuid.uuid4().hex[:12]}"
            futures = [client.submit(_call, work, each, key=f"{key}-{at}") for at, each in enumerate(given)]
            found: list[Any] = client.gather(futures)
            return found

    def _find_client(self) -> Any:
        if self.client is not None:
            return self.client
        try:
            from distributed import default_client
        except ImportError as error:
            raise InputError("The engine 'dask' needs Dask. Install it: pip install 'crowdwise[cluster]'.") from error
        try:
            return default_client()  # type: ignore[no-untyped-call]
        except ValueError:
            return None


ENGINE = Dask()


@contextlib.contextmanager
def _say_cluster_errors(folder: Path | None) -> Iterator[None]:
    """Errors of the cluster as one sentence that says what is kept."""
    from concurrent.futures import CancelledError

    from distributed.scheduler import KilledWorker

    kept = (
        ""
        if folder is None
        else f" The last finished iteration is kept in {str(folder)!r}: run the same again to go on."
    )
    try:
        yield
    except KilledWorker as error:
        raise InputError(
            f"Workers were lost again and again at the same part ({error.task}), most likely out of memory. Give "
            f"workers more memory, or make parts smaller (part_labels).{kept}"
        ) from error
    except MemoryError as error:
        raise InputError(
            f"A worker ran out of memory. Give workers more, or make parts smaller (part_labels).{kept}"
        ) from error
    except Exception as error:
        lost = isinstance(error, CancelledError | TimeoutError | OSError)
        if not lost and not type(error).__module__.startswith("distributed"):
            raise  # of the work itself
        raise InputError(
            f"The Dask scheduler is lost ({type(error).__name__}). Start it again, and connect anew.{kept}"
        ) from error


def _save_job(folder: Path, job: PassJob) -> dict[str, Any]:
    """The arrays of a job as files that workers map; rows that are on the disk already stay where they are."""
    whole: dict[str, Any] = {}
    for name, values in job.whole.items():
        given = np.asarray(values)
        axes = np.argsort([-abs(each) for each in given.strides], kind="stable")
        np.save(folder / f"{name}.npy", np.ascontiguousarray(given.transpose(axes)))
        whole[name] = (str(folder / f"{name}.npy"), np.argsort(axes).tolist())
    rows: dict[str, Any] = {}
    for name, values in job.rows.items():
        mapped = values if isinstance(values, np.memmap) and values.offset == 0 else None
        if mapped is None or mapped.filename is None or mapped.shape != values.shape:
            if name == "out":
                raise InputError(
                    "The engine 'dask' fits labels on the disk, and these are in memory. Give fit their files, or what "
                    "read(labels) of the engine makes of them; or use the engine 'numba'."
                )
            np.save(folder / f"{name}.npy", values)
            rows[name] = (str(folder / f"{name}.npy"), None, None)
        else:
            mapped.flush()
            rows[name] = (str(mapped.filename), values.dtype.str, values.shape)
    return {"name": job.name, "whole": whole, "rows": rows}


@lru_cache(maxsize=2)
def _open_store(folder: str, made: int) -> LabelStore:  # noqa: ARG001 (which tells a new store from an old one)
    return LabelStore(folder)


def _run_part(folder: str, made: int, at: int, told: dict[str, Any]) -> Statistics:
    """What one part adds; runs on a worker."""
    store = _open_store(folder, made)
    part = store.parts[at]
    whole = {name: np.load(path, mmap_mode="c").transpose(axes) for name, (path, axes) in told["whole"].items()}
    rows = {
        name: np.load(path, mmap_mode="c") if dtype is None
        else np.memmap(path, dtype, "r+" if name == "out" else "c", shape=tuple(shape))
        for name, (path, dtype, shape) in told["rows"].items()
    }  # fmt: skip
    job = PassJob(told["name"], {name: np.asarray(each) for name, each in whole.items()}, rows)
    with use_threads(1):
        found: Statistics = run_part(store.read_blocks(part), job, store.rows_of(part))
    return found


def _make_graph(store: LabelStore, told: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The tasks of a pass and the name of the last one; sent in one message, as each takes its time."""
    name, steps = f"crowdwise-{uuid.uuid4().hex[:12]}", itertools.count()
    folder = str(store.folder)
    graph: dict[str, Any] = {
        f"{name}-part-{at}": (partial(_run_part, folder, store.made, at, told),) for at in range(len(store.parts))
    }

    def add(left: str, right: str) -> str:
        key = f"{name}-sum-{next(steps)}"
        graph[key] = (_add, left, right)
        return key

    return graph, _add_in_tree(list(graph), add)


def _add(left: Statistics, right: Statistics) -> Statistics:
    """The sum of two results, which stay as they are: others may read them again."""
    return left + right


def _call(work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    with use_threads(1):
        return work(*given)


def _add_in_tree(values: list[Any], add: Callable[[Any, Any], Any]) -> Any:
    """Neighbours added, then neighbours of the sums, until one is left."""
    while len(values) > 1:
        values = [
            add(*values[at : at + WAY]) if at + 1 < len(values) else values[at] for at in range(0, len(values), WAY)
        ]
    return values[0]
