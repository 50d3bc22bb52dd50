"""The consensus of labels on the disk as Parquet, part by part: written as it comes, put in place when all is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.engines.label_store import LabelStore
from crowdwise.fitting.crowd_model import CrowdModel, ModelNames, choose_classes, make_consensus_columns
from crowdwise.labels.atomic_output import replace_file, replace_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["write_consensus"]

ROWS = 2**18  # tasks of a row group
PART, PARTS = "part-{:05}.parquet", "part-*.parquet"


def write_consensus(model: CrowdModel, target: Path, map_work: Any = None) -> None:
    """Write the table `consensus()` with the posterior of all classes as a last column, whole or not at all.

    Parameters
    ----------
    target
        A Parquet file; where workers write, a folder with a file for each part of the labels.
    map_work
        Runs a function on workers for each of some arguments (`engines.Dask.map`); written here where None.
    """
    posterior = model.posterior_
    plain = type(model)._decide is CrowdModel._decide and not model.task_columns_
    if map_work is None or not plain or not isinstance(posterior, np.memmap):
        with replace_file(target) as draft:
            _write_tables(_iterate_tables(model), draft)
        return
    posterior.flush()
    store, shares = Path(str(posterior.filename)).parent, np.asarray(model.label_shares_)
    with replace_folder(target) as draft:
        facts = (str(store), str(posterior.filename), posterior.shape, shares, str(draft))
        map_work(_write_part, [(at, *facts) for at in range(len(LabelStore(store).parts))])
        # Parts of an earlier, larger consensus: emptied in the same step, so that no reader meets two, then removed.
        schema = pq.read_schema(draft / PART.format(0))
        earlier = [path.name for path in target.glob(PARTS) if not (draft / path.name).exists()]
        for name in earlier:
            pq.write_table(schema.empty_table(), draft / name)
    for name in earlier:
        (target / name).unlink(missing_ok=True)


def _iterate_tables(model: CrowdModel) -> Iterator[pa.Table]:
    n_tasks = model.posterior_.shape[0]
    for first in range(0, n_tasks, ROWS):
        tasks = slice(first, min(first + ROWS, n_tasks))
        yield _make_table(model.consensus_columns(tasks), model.posterior_[tasks])


def _make_table(columns: dict[str, Any], posterior: Any) -> pa.Table:
    shares = pa.array(np.ascontiguousarray(posterior).ravel())
    named = {name: pa.array(values) for name, values in columns.items()}
    return pa.table({**named, "posterior": pa.FixedSizeListArray.from_arrays(shares, posterior.shape[1])})


def _write_part(at: int, folder: str, posterior: str, shape: tuple[int, int], shares: Any, target: str) -> None:
    """The consensus of the tasks of one part; runs on a worker."""
    store = LabelStore(folder)
    part = store.parts[at]
    rows = np.memmap(posterior, np.float64, "r", shape=shape)

    def iterate_tables() -> Iterator[pa.Table]:
        last = part.first + part.n_tasks
        for first in range(part.first, last, ROWS):
            tasks = slice(first, min(first + ROWS, last))
            own = np.asarray(rows[tasks])
            names = ModelNames(store.tasks[tasks.start : tasks.stop], store.workers, store.classes)
            columns = make_consensus_columns(own, choose_classes(own, shares), names, store.labels_per_task[tasks])
            yield _make_table(columns, own)

    with replace_file(Path(target) / PART.format(at)) as draft:
        _write_tables(iterate_tables(), draft)


def _write_tables(tables: Iterator[pa.Table], path: Path) -> None:
    writer: pq.ParquetWriter | None = None
    try:
        for table in tables:
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd", compression_level=1)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
