"""Files of labels, read with DuckDB and sorted by task, once, into the parts of a store; memory stays in its bounds.

Names of workers and classes become codes in alphabetical (or numerical) order. Tasks are numbered in the order of their
names; where labels are many, those come first whose hash falls in the first bucket, and so on (`task_runs`). DuckDB
reads and does not sort, since its sort takes more memory than it is told. A store of the same files is used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.engines.label_store import LabelStore, count_part_labels, fingerprint_files, finish_store, write_part
from crowdwise.engines.task_runs import count_buckets, cut_run, labels_of_run, sort_buckets, write_buckets
from crowdwise.kernels.threads import n_threads
from crowdwise.labels.columns import candidates
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.integer_codes import smallest_int
from crowdwise.labels.several_files import expand_paths
from crowdwise.labels.vocabulary import parse_integers, plain_arrow_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from crowdwise.engines.label_store import Part
    from crowdwise.engines.task_runs import Run

__all__ = [
    "ROLES",
    "find_columns",
    "import_duckdb",
    "open_database",
    "query",
    "same_source",
    "sort_files",
]

ROLES = ("task", "worker", "label")
MEMORY_OF_THREAD = 2**28  # that reading needs
SHARE_OF_READER = 0.3  # of the memory, for DuckDB, which takes some more than it is told
TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt")


def sort_files(
    source: Any,
    folder: Path,
    memory: int,
    part_labels: int | None = None,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    on_duplicate: str = "error",
    **_: Any,
) -> LabelStore:
    """A store of the labels of Parquet or CSV files; the one in the folder if it was made of the same files."""
    paths = expand_paths([source] if isinstance(source, str) or not isinstance(source, list | tuple) else source)
    if on_duplicate not in ("error", "all"):
        raise InputError(f"on_duplicate is {quote(on_duplicate)}; labels on the disk take 'error' or 'all'.")
    made_of = {
        "files": fingerprint_files(paths),
        "columns": [task, worker, label],
        "classes": None if classes is None else [str(each) for each in classes],
        "on_duplicate": on_duplicate,
        "part_labels": part_labels,
    }
    if same_source(folder, made_of):
        return LabelStore(folder)
    duckdb = import_duckdb()
    try:
        with open_database(duckdb, folder, memory) as database:
            table = _define_source(database, paths)
            described = database.sql(f"DESCRIBE {table}").fetchall()
            named = find_columns(described, (task, worker, label), paths)
            n_labels = _refuse_missing(database, table, named, described)
            workers, given = (_distinct(database, table, named[role], role) for role in ("worker", "label"))
            known = given if classes is None else _declared(classes, given)
            task_name = _task_expression(database, table, named["task"], from_text=_is_text(paths[0]))
            names = ", ".join(f"s.{_quote(named[role])} AS {role}" for role in ("worker", "label"))
            sizes = len(workers), len(known)
            most = part_labels or count_part_labels(*sizes)
            n_buckets = count_buckets(n_labels, most)
            bucket = f"CAST(hash({task_name}) % {n_buckets} AS INTEGER) AS bucket"
            rows = query(database, f"SELECT {task_name} AS task, {names}, {bucket} FROM {table} s")
            files = write_buckets(_encode_names(rows, workers, known), folder, n_buckets)
        # The database is closed by now: what it took is free for the sort.
        runs = (piece for run in sort_buckets(files, sizes) for piece in cut_run(run, most))
        _write_parts(folder, runs, workers, known, on_duplicate, made_of)
    except MemoryError as error:
        raise InputError("Memory is out while labels are sorted. Nothing was lost: make more room for it.") from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise InputError(_explain(error, paths, folder)) from error
    if fingerprint_files(paths) != made_of["files"]:
        (folder / "store.json").unlink(missing_ok=True)
        raise InputError(f"{listing(map(str, paths))} changed while it was sorted. Run again when it is complete.")
    return LabelStore(folder)


def same_source(folder: Path, made_of: dict[str, Any]) -> bool:
    """Whether a folder holds a store of this source; one of another is refused."""
    if not (folder / "store.json").exists():
        return False
    if LabelStore(folder).source == made_of:
        return True
    raise InputError(
        f"The scratch folder {str(folder)!r} holds labels of other files, of files that have changed since they were "
        "sorted, or of other options. Delete it to sort anew, or name another one (--scratch)."
    )


def import_duckdb() -> Any:
    """DuckDB, or how to install it."""
    try:
        import duckdb
    except ImportError as error:
        raise InputError("Labels beyond memory need DuckDB. Install it: pip install 'crowdwise[stream]'.") from error
    return duckdb


def open_database(duckdb: Any, folder: Path, memory: int) -> Any:
    """A database in memory that writes what does not fit to the folder."""
    limit = int(SHARE_OF_READER * memory)
    threads = max(1, min(n_threads(), limit // MEMORY_OF_THREAD))
    limits = {"memory_limit": f"{limit}B", "temp_directory": str(folder / "sort"), "threads": str(threads)}
    database = duckdb.connect(":memory:", config=limits)
    database.execute("SET enable_progress_bar = false")
    database.execute("SET preserve_insertion_order = false")  # which would hold rows back; they are sorted anyway
    return database


def query(database: Any, words: str) -> pa.RecordBatchReader:
    """The rows of a query, in batches as they come."""
    return pa.RecordBatchReader.from_stream(database.sql(words))


def find_columns(described: list[Any], named: Sequence[str | None], paths: Sequence[Any]) -> dict[str, str]:
    """The columns that hold task, worker and label."""
    names = [str(row[0]) for row in described]
    found: dict[str, str] = {}
    for role, name in zip(ROLES, named, strict=True):
        hits = [name] if name in names else [] if name else candidates(role, names, set(found.values()))
        if len(hits) != 1:
            raise InputError(
                f"{listing(map(str, paths))} has {'no' if not hits else 'several'} columns for the {role}: it has "
                f"{listing(names)}. Name it with --{role}-column."
            )
        found[role] = str(hits[0])
    return found


def _write_parts(
    folder: Path, runs: Iterator[Run], workers: pa.Array, classes: pa.Array, on_duplicate: str, made_of: dict[str, Any]
) -> None:
    plain_workers, plain_classes = plain_arrow_names(workers), plain_arrow_names(classes)
    parts: list[Part] = []
    first = 0
    answers = np.zeros(len(workers) * len(classes), np.int64)
    for run in runs:
        labels = labels_of_run(run, plain_workers, plain_classes, on_duplicate)
        parts.append(write_part(folder, len(parts), labels, first))
        answers += np.bincount(run.worker.astype(np.int64) * len(classes) + run.label, minlength=answers.size)
        first += len(run.tasks)
    if not parts:
        raise InputError("There are no labels in the files. Give at least one answer of one worker to one task.")
    shape = len(workers), len(classes)
    finish_store(folder, parts, plain_workers, plain_classes, answers.reshape(shape), made_of)


# ---- in the database --------------------------------------------------------------------------------------------


def _define_source(database: Any, paths: Sequence[Any]) -> str:
    listed = "[" + ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths) + "]"
    texts = [_is_text(path) for path in paths]
    if any(texts) and not all(texts):
        raise InputError("Parquet and CSV cannot be read as one. Give files of one kind.")
    if not texts[0] and not all(str(path).lower().endswith((".parquet", ".pq")) for path in paths):
        raise InputError(f"{listing(map(str, paths))}: labels beyond memory are read from Parquet or CSV.")
    reader = f"read_csv({listed}, all_varchar = true)" if texts[0] else f"read_parquet({listed})"
    database.execute(f"CREATE VIEW source AS SELECT * FROM {reader}")
    return "source"


def _is_text(path: Any) -> bool:
    return str(path).lower().endswith(TEXT)


def _refuse_missing(database: Any, table: str, named: dict[str, str], described: list[Any]) -> int:
    """The number of rows, if all have a task, a worker and a label."""
    kinds = {str(row[0]): str(row[1]) for row in described}
    counts = []
    for role in ROLES:
        column = _quote(named[role])
        blank = f"count(*) FILTER (trim({column}) = '') + " if kinds[named[role]] == "VARCHAR" else ""
        counts.append(f"{blank}count(*) - count({column})")
    total, *missing = database.sql(f"SELECT count(*), {', '.join(counts)} FROM {table}").fetchall()[0]
    for role, lost in zip(ROLES, missing, strict=True):
        if lost:
            raise InputError(
                f"Column {quote(named[role])} has no {role} in {lost:,} of {total:,} rows. Fill them in, or leave the "
                "rows out."
            )
    return int(total)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _distinct(database: Any, table: str, column: str, role: str) -> pa.Array:
    found = query(database, f"SELECT DISTINCT {_quote(column)} AS name FROM {table}").read_all()["name"]
    names = found.combine_chunks()
    names = names.chunk(0) if isinstance(names, pa.ChunkedArray) and names.num_chunks else names
    if len(names) == 0:
        raise InputError(f"There are no labels in the files: no {role} in column {quote(column)}.")
    # Numbers written as text are ordered as numbers, as they are everywhere else.
    return names.take(pc.sort_indices(parse_integers(plain_arrow_names(names))))


def _declared(classes: Sequence[Any], given: pa.Array) -> pa.Array:
    known = (
        pa.array([str(each) for each in classes])
        if pa.types.is_string(given.type)
        else pa.array(list(map(int, classes)))
    )
    strangers = given.filter(pc.invert(pc.is_in(given, value_set=known.cast(given.type))))
    if len(strangers):
        raise InputError(f"The labels hold {listing(strangers.to_pylist())}, which --classes does not name.")
    return known.cast(given.type)


def _encode_names(batches: Iterable[pa.RecordBatch], workers: pa.Array, classes: pa.Array) -> Iterator[pa.RecordBatch]:
    """Rows with the codes of workers and classes in place of their names."""
    small = pa.from_numpy_dtype(smallest_int(len(classes)))
    for batch in batches:
        worker, label = (pc.index_in(batch.column(at), value_set=known) for at, known in ((1, workers), (2, classes)))
        columns = [batch.column(0), worker, label.cast(small), batch.column(3)]
        yield pa.RecordBatch.from_arrays(columns, names=[*ROLES, "bucket"])


def _task_expression(database: Any, table: str, column: str, *, from_text: bool) -> str:
    """The task as a number where all are whole numbers, as text otherwise."""
    kind = database.sql(f"SELECT typeof({_quote(column)}) FROM {table} LIMIT 1").fetchall()[0][0]
    column = f"s.{_quote(column)}"
    if "INT" in kind:
        return f"CAST({column} AS BIGINT)"
    plain = f"regexp_full_match(CAST({column} AS VARCHAR), '(0|-?[1-9][0-9]{{0,17}})')"
    if from_text and database.sql(f"SELECT bool_and({plain}) FROM {table} s").fetchall()[0][0]:
        return f"CAST({column} AS BIGINT)"
    return f"CAST({column} AS VARCHAR)"


def _explain(error: Exception, paths: Sequence[Any], folder: Path) -> str:
    """What went wrong in the database, as one sentence."""
    text = " ".join(str(error).split())
    if "No space left" in text or "File too large" in text or "temp_directory" in text or "Could not write" in text:
        return (
            f"The scratch folder {str(folder)!r} is full: {text}. Nothing was lost; free some space, or name another "
            "folder (--scratch)."
        )
    if "Out of Memory" in text or "OutOfMemory" in text or "std::bad_alloc" in text:
        return f"Sorting needs more memory than it was given: {text}. Raise --memory."
    return f"Cannot read {listing(map(str, paths))}: {text}. Write the file anew, or leave it out."
