"""Files of labels, read with DuckDB and sorted by task, once, into the parts of a store; memory stays in its bounds.

Text is written as Parquet first, by the reader that the package has for it: DuckDB takes quotes and headers otherwise.

Names of workers and classes become codes in alphabetical (or numerical) order. Tasks are numbered in the order of their
names; where labels are many, those come first whose hash falls in the first bucket, and so on (`task_runs`). DuckDB
reads and does not sort, since its sort takes more memory than it is told. A store of the same files is used again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.engines.label_store import (
    LabelStore,
    count_lane_part_labels,
    fingerprint_files,
    finish_store,
    write_part,
)
from crowdwise.engines.names_on_disk import (
    TEXT_ROWS,
    Anywhere,
    check_names,
    name_tasks,
    note_similar_names,
    order_classes,
    order_names,
    refuse_scale,
    write_rows,
)
from crowdwise.engines.task_runs import count_buckets, cut_run, labels_of_run, sort_buckets, write_buckets
from crowdwise.kernels.threads import n_threads
from crowdwise.labels.column_checks import refuse_nested
from crowdwise.labels.columns import ROLES, Columns, choose_columns
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.files import file_source
from crowdwise.labels.integer_codes import smallest_int
from crowdwise.labels.numeric_values import refuse_numeric_values
from crowdwise.labels.several_files import expand_paths, join_sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crowdwise.engines.label_store import Part
    from crowdwise.engines.task_runs import Run
    from crowdwise.labels.source_location import Place
    from crowdwise.labels.types import IntArray

__all__ = ["import_duckdb", "open_database", "query", "same_source", "sort_files"]

MEMORY_OF_THREAD = 2**28  # that reading needs
SHARE_OF_READER = 0.3  # of the memory, for DuckDB, which takes some more than it is told
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt", ".parquet", ".pq")
AS_THEY_ARE = ("TIMESTAMP", "DATE", "TIME", "BLOB", "BOOLEAN")  # types that Arrow names as it does in memory


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
    kind: str | None = None,
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
    columns = _open_columns(paths)
    named = dict(zip(ROLES, choose_columns(columns.names, columns.place.origin, task, worker, label), strict=True))
    place = Anywhere(columns.place.origin)
    if not columns.text:
        _refuse_twins(columns.names, named.values(), place)
    try:
        files = [write_rows(columns, list(named.values()), folder)] if columns.text else paths
        held = dict(zip(ROLES, ROLES, strict=True)) if columns.text else named
        types = {role: _find_type(files, name, named[role], place) for role, name in held.items()}
        refuse_scale(types["label"] if classes is None else pa.null(), named["label"], paths[0])
        with open_database(duckdb, folder, memory) as database:
            table = _define_source(database, files)
            described = database.sql(f"DESCRIBE {table}").fetchall()
            n_labels = _refuse_missing(database, table, held, described, named)
            written = {role: _write_expression(database, table, held[role], role, columns.text) for role in ROLES}
            values, found = {}, {}
            for role in ("worker", "label"):
                values[role] = _distinct(database, table, written[role])
                given = _as_held(values[role], types[role])
                found[role] = check_names(given, role, named[role], place, text=columns.text)
            coded = {"worker": order_names(found["worker"]), "label": order_classes(found["label"], classes, place)}
            workers, known = coded["worker"][1], coded["label"][1]
            names = ", ".join(f"{written[role]} AS {role}" for role in ("worker", "label"))
            sizes = len(workers), len(known)
            most = part_labels or count_lane_part_labels(n_labels, *sizes)
            n_buckets = count_buckets(n_labels, most)
            bucket = f"CAST(hash({written['task']}) % {n_buckets} AS INTEGER) AS bucket"
            rows = query(database, f"SELECT {written['task']} AS task, {names}, {bucket} FROM {table} s")
            codes = {role: mapping for role, (mapping, _) in coded.items()}
            buckets = write_buckets(_encode_names(rows, values, codes, len(known)), folder, n_buckets)
        # The database is closed by now: what it took is free for the sort.
        runs = (piece for run in sort_buckets(buckets, sizes) for piece in cut_run(run, most))
        runs = (
            run._replace(tasks=name_tasks(_as_held(run.tasks, types["task"]), named["task"], place, text=columns.text))
            for run in runs
        )
        _write_parts(folder, runs, workers, known, on_duplicate, made_of, (classes is not None, kind == "labels"))
    except MemoryError as error:
        raise InputError("Memory is out while labels are sorted. Nothing was lost: make more room for it.") from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise InputError(_explain(error, paths, folder)) from error
    finally:
        (folder / TEXT_ROWS).unlink(missing_ok=True)
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


def _write_parts(
    folder: Path,
    runs: Iterator[Run],
    workers: pa.Array,
    classes: pa.Array,
    on_duplicate: str,
    made_of: dict[str, Any],
    meant: tuple[bool, bool],
) -> None:
    """Parts and what stands beside them; `meant` says whether classes are declared, and whether numbers are classes."""
    parts: list[Part] = []
    first = 0
    answers = np.zeros(len(workers) * len(classes), np.int64)
    for run in runs:
        labels = labels_of_run(run, workers, classes, on_duplicate)
        if not parts:
            note_similar_names(run.tasks, workers, classes, declared=meant[0])
            if not any(meant):
                refuse_numeric_values(labels)
        parts.append(write_part(folder, len(parts), labels, first))
        answers += np.bincount(run.worker.astype(np.int64) * len(classes) + run.label, minlength=answers.size)
        first += len(run.tasks)
    if not parts:
        raise InputError("There are no labels in the files. Give at least one answer of one worker to one task.")
    shape = len(workers), len(classes)
    finish_store(folder, parts, workers, classes, answers.reshape(shape), made_of)


# ---- in the database --------------------------------------------------------------------------------------------


def _open_columns(paths: Sequence[Any]) -> Columns:
    """The table of some files of CSV or Parquet, opened and checked as it is where labels are read into memory."""
    if not all(str(path).lower().endswith(SUFFIXES) for path in paths):
        raise InputError(f"{listing(map(str, paths))}: labels beyond memory are read from Parquet or CSV.")
    columns = join_sources(paths) if len(paths) > 1 else file_source(paths[0])
    if isinstance(columns, Columns) and (columns.batches is not None if columns.text else all(map(_is_parquet, paths))):
        return columns
    raise InputError(
        f"{listing(map(str, paths))}: labels beyond memory are read from Parquet or CSV, all files of one kind."
    )


def _is_parquet(path: Any) -> bool:
    with Path(path).open("rb") as file:
        return file.read(4) == b"PAR1"


def _define_source(database: Any, paths: Sequence[Any]) -> str:
    listed = "[" + ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths) + "]"
    by_name = ", union_by_name = true" if len(paths) > 1 else ""
    database.execute(f"CREATE VIEW source AS SELECT * FROM read_parquet({listed}{by_name})")
    return "source"


def _refuse_twins(names: Sequence[str], used: Iterable[str], place: Place) -> None:
    """Refuse a column whose name differs from another's in case alone, which are one to DuckDB."""
    for name in used:
        twins = [each for each in names if each.casefold() == name.casefold()]
        if len(twins) > 1:
            raise InputError(
                f"{place.origin} has the columns {listing(twins)}, which are one to DuckDB, by which labels on the "
                "disk are read. Give one another name, or leave it out."
            )


def _find_type(paths: Sequence[Any], name: str, called: str, place: Place) -> pa.DataType:
    """The type of a column, of all files in turn; lists, records and what DuckDB reads otherwise are refused."""
    types = {path: pq.read_schema(path).field(name).type for path in paths}
    first = types[paths[0]]
    for path, kind in types.items():
        refuse_nested(kind, f"column {quote(called)}", place)
        if pa.types.is_duration(kind) or pa.types.is_decimal256(kind):
            raise InputError(f"Column {quote(called)} of {quote(str(path))} holds {kind}. Write it as text or numbers.")
        if kind != first and _are_mixed(kind, first):
            raise InputError(
                f"Column {quote(called)} holds {first} in {quote(str(paths[0]))} and {kind} in {quote(str(path))}. "
                "Write the files with one type."
            )
    return first


def _are_mixed(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether DuckDB makes one type of these two in which values have other names: 1 of true, times of another unit."""
    text = any(pa.types.is_string(each) or pa.types.is_large_string(each) for each in (one, other))
    boolean = any(pa.types.is_boolean(each) for each in (one, other))
    return any(pa.types.is_temporal(each) for each in (one, other)) or (boolean and not text)


def _as_held(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times in the unit of the file, by which they are named."""
    return values.cast(kind) if pa.types.is_temporal(kind) and pa.types.is_temporal(values.type) else values


def _refuse_missing(
    database: Any, table: str, held: dict[str, str], described: list[Any], named: dict[str, str]
) -> int:
    """The number of rows, if all have a task, a worker and a label."""
    kinds = {str(row[0]): str(row[1]) for row in described}
    counts = []
    for role in ROLES:
        column = _quote(held[role])
        blank = f"count(*) FILTER (trim({column}) = '') + " if kinds[held[role]] == "VARCHAR" else ""
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


def _distinct(database: Any, table: str, expression: str) -> pa.Array:
    found = query(database, f"SELECT DISTINCT {expression} AS name FROM {table} s").read_all()["name"]
    names = found.combine_chunks()
    names = names.chunk(0) if isinstance(names, pa.ChunkedArray) and names.num_chunks else names
    if len(names) == 0:
        raise InputError("There are no labels in the files. Give at least one answer of one worker to one task.")
    return names.take(pc.sort_indices(names))


def _encode_names(
    batches: Iterable[pa.RecordBatch], values: dict[str, pa.Array], codes: dict[str, IntArray], n_classes: int
) -> Iterator[pa.RecordBatch]:
    """Rows with the codes of workers and classes in place of what the files hold."""
    kinds = {"worker": pa.int32(), "label": pa.from_numpy_dtype(smallest_int(n_classes))}
    given = {role: pa.array(mapping).cast(kinds[role]) for role, mapping in codes.items()}
    for batch in batches:
        worker, label = (
            given[role].take(pc.index_in(batch.column(at), value_set=values[role]))
            for at, role in ((1, "worker"), (2, "label"))
        )
        yield pa.RecordBatch.from_arrays([batch.column(0), worker, label, batch.column(3)], names=[*ROLES, "bucket"])


def _write_expression(database: Any, table: str, column: str, role: str, from_text: bool) -> str:
    """A column for the database: tasks as numbers where all are whole, other values as they are or as text."""
    found = database.sql(f"SELECT typeof({_quote(column)}) FROM {table} LIMIT 1").fetchall()
    kind = found[0][0] if found else "VARCHAR"
    column = f"s.{_quote(column)}"
    whole = ""
    if kind == "VARCHAR":
        whole = f"regexp_full_match({column}, '(0|-?[1-9][0-9]{{0,17}})')" if from_text and role == "task" else ""
    elif kind in ("UBIGINT", "HUGEINT", "UHUGEINT"):
        whole = f"{column} BETWEEN -9223372036854775808 AND 9223372036854775807"
        column = f"CAST({column} AS VARCHAR)"
    elif "INT" in kind:
        return f"CAST({column} AS BIGINT)"
    elif kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL"):
        whole = f"{column} = trunc({column}) AND abs({column}) < 9e18"
        if not kind.startswith("DECIMAL"):
            whole = f"isfinite({column}) AND {whole}"
            column = f"({column} + CAST(0 AS {kind}))"  # -0.0 is 0.0
    elif not kind.startswith(AS_THEY_ARE):
        return f"CAST({column} AS VARCHAR)"
    if whole and database.sql(f"SELECT bool_and({whole}) FROM {table} s").fetchall()[0][0]:
        return f"CAST({column} AS BIGINT)"
    return column


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
