"""`read_labels`: labels from whatever they are held in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from crowdwise.labels.arrow_columns import as_column, as_plain_column, find_column, polars_to_arrow
from crowdwise.labels.byte_source import Blob
from crowdwise.labels.column_checks import refuse_header_row
from crowdwise.labels.columns import ROLES, Columns, Named, choose_columns, refuse_names_not_text
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.encode import ColumnEncoder, labels_from_encoded
from crowdwise.labels.errors import InputError, OtherKindError, is_one_of, listing, quote
from crowdwise.labels.files import ANSWERS, file_source
from crowdwise.labels.nested import by_task, columns_of_rows
from crowdwise.labels.several_files import open_paths
from crowdwise.labels.similar_names import warn_of_twins
from crowdwise.labels.source_location import Place
from crowdwise.labels.summary_columns import drop_summaries
from crowdwise.labels.wide_tables import as_wide, labels_from_matrix, labels_from_nested, labels_from_wide

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.labels.types import Duplicates, LabelKind, Outer, TableKind

__all__ = ["Options", "labels_from_opened", "labels_from_table", "open_answers", "open_source", "read_labels"]

Opened: TypeAlias = Columns | Mapping[Any, Any] | np.ndarray[Any, Any]


@dataclass(frozen=True)
class Options:
    """How to read labels; see `read_labels`."""

    named: Named = (None, None, None)
    classes: Iterable[Any] | None = None
    on_duplicate: Duplicates = "error"
    kind: LabelKind | None = None
    outer: Outer | None = None
    format: str | None = None
    question: str | None = None
    include_predictions: bool = False

    @classmethod
    def of(
        cls, *, task: str | None = None, worker: str | None = None, label: str | None = None, **others: Any
    ) -> Options:
        """The options that `read_labels` takes."""
        return cls((task, worker, label), **others)

    def __post_init__(self) -> None:
        """Refuse names of columns that are no text, and kinds that there are not."""
        refuse_names_not_text(dict(zip(ROLES, self.named, strict=True)))
        if self.kind is not None and not is_one_of(self.kind, ("labels",)):
            raise InputError(
                f"kind is {quote(self.kind)}; the only kind of answers that is read is 'labels' (classes)."
            )


def read_labels(
    source: Any,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    classes: Iterable[Any] | None = None,
    on_duplicate: Duplicates = "error",
    kind: LabelKind | None = None,
    outer: Outer | None = None,
    format: str | None = None,  # noqa: A002 (what it is called on the command line)
    question: str | None = None,
    include_predictions: bool = False,
) -> CrowdLabels:
    """Read labels from a file or a table with a row for each answer.

    Parameters
    ----------
    source
        A path to CSV, TSV, JSON lines, Parquet or Arrow (plain or gzipped; told by content), "-" for standard
        input, an open file, a table of pandas, polars, pyarrow or anything with the Arrow stream interface, a
        dict of columns, or `CrowdLabels`, which come back as they are. Also tables with a row for each task
        and a column for each worker, if that is plain to see: no column has a name like worker or label, task
        names (the first column of a text file, a column named task, a pandas index) do not repeat, the
        columns share their values and some cells are empty (or -1, among whole numbers) or the columns are called
        as workers are (annotator_1, gpt-4o); of these columns, known answers and summaries (truth, majority, n_votes)
        are left out with a warning; 2-D arrays; and
        {task: {worker: label}} as a dict or a JSON file. A list of paths, or a pattern such as "days/*.csv", is
        read as one table: all files must have the same columns. Also the export of a labelling tool as it is
        (`crowdwise.formats.formats()` lists them), or what `read_export` gave.
    task, worker, label
        Column names. By default "task", "worker" and "label", or the one column with a usual other name
        (item, annotator, answer, …).
    classes
        All classes in their order. By default the labels that occur, sorted, or the order of an ordered
        categorical.
    on_duplicate
        What to do with a second answer of one worker to one task: "error", keep the "first" or the "last", or
        keep "all" (each counts as one answer).
    kind
        "labels" if the labels are classes even where they look like values (many different numbers, see
        `crowdwise.labels.numeric_values`), which is otherwise asked about. Declared `classes` say so too.
    outer
        What the outer names of a mapping of mappings are, "tasks" or "workers"; by default found by their names and
        numbers, and asked about where these do not tell.
    format, question, include_predictions
        Of the export of a labelling tool: see `read_export`.

    Raises
    ------
    InputError
        If anything is missing, unreadable or doubtful. Nothing is repaired silently.

    Warns
    -----
    InputWarning
        If names are probably one name written in two ways, names of several types meet in a column, or skipped
        answers are left out.

    Examples
    --------
    >>> read_labels({"item": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "no"]})
    CrowdLabels: 3 labels by 2 workers on 2 tasks, 2 classes ('no', 'yes')
    """
    if isinstance(source, CrowdLabels):
        return source
    options = Options((task, worker, label), classes, on_duplicate, kind, outer, format, question, include_predictions)
    labels = labels_from_opened(source, *open_answers(source, options, times=False))
    warn_of_twins(labels, declared=classes is not None)
    return labels


def open_answers(source: Any, options: Options, *, times: bool = True) -> tuple[Opened, Options]:
    """Open a source of answers, those that were skipped left out, with the columns that are found by its format.

    Without `times` whatever an export holds besides the answers is let go, before they are encoded.
    """
    # Found by name: the room of tools' exports lies above this one.
    formats = import_module("crowdwise.formats.open_export")
    if options.named == (None, None, None) or options.format is not None:  # who names columns is taken at their word
        given = source
        source, export = formats.find_export(
            given,
            format=options.format,
            question=options.question,
            kind=options.kind,
            include_predictions=options.include_predictions,
        )
        if export is not None:
            if export is not given:
                export.warn_of_left_out()
            columns = _columns_of_export(export, options)
            return (columns if times else _drop_times(columns)), options
    else:
        formats.refuse_export_options(None, options.question, options.include_predictions, "columns were named")
    found = open_source(source)
    if not isinstance(found, Columns):
        return found, options
    answers = formats.find_answers(found, options.named)
    if answers is None:
        _refuse_other_kinds(found, options)
    return (found, options) if answers is None else (answers[0], replace(options, named=answers[1]))


def _columns_of_export(export: Any, options: Options) -> Columns:
    """The answers of a tool's export, unless they are no classes."""
    asked = export.chosen_question()
    columns: Columns = export.to_columns()
    if asked.kind == "labels" or options.kind is not None:
        return columns
    kind: Any = import_module("crowdwise.kinds.kind_registry").find_kind_of_export(export)
    raise OtherKindError(
        f"{export.origin} holds {kind.name} ({kind.words}), and no labels: {asked}. Read it with "
        f"crowdwise.kinds.{kind.read.__name__}.",
        kind.name,
        columns,
    )


def _drop_times(columns: Columns) -> Columns:
    """The columns that are in memory, without times and durations: a third of them.

    They are encoded in turn, and let go: what that takes longer is nothing to the time that the export took.
    """
    kept = {name: columns.column(name) for name in columns.names if name not in ("time", "duration", "anchored")}
    return replace(columns, names=list(kept), column=kept.pop, in_turn=True)


def _refuse_other_kinds(found: Columns, options: Options) -> None:
    """Refuse a table whose columns tell that its answers are no classes, unless the user says otherwise."""
    if options.kind is not None or options.named != (None, None, None):
        return
    kind = import_module("crowdwise.kinds.kind_registry").find_kind(found.names)
    if kind is not None:
        raise OtherKindError(
            f"{found.place.origin} holds {kind.name} ({kind.words}), by its columns {listing(found.names)}, and no "
            f"labels. Read it with crowdwise.kinds.{kind.read.__name__}, or name the columns of labels.",
            kind.name,
            found,
        )


def labels_from_opened(source: Any, found: Opened, options: Options) -> CrowdLabels:
    """Read labels from what `open_answers` made of the source."""
    classes, as_classes = options.classes, options.kind == "labels"
    if options.outer is not None and not isinstance(found, Mapping):
        raise InputError(
            "outer (on the command line --outer) is for nested JSON, and these are no mappings. Leave it out."
        )
    if isinstance(found, np.ndarray):
        return labels_from_matrix(found, classes=classes, as_classes=as_classes)
    if isinstance(found, Mapping):
        text = not isinstance(source, Mapping)
        nested = drop_summaries(by_task(found, options.outer))
        return labels_from_nested(nested, classes=classes, text=text, as_classes=as_classes)
    wide = as_wide(found) if options.named == (None, None, None) else None
    if wide is not None:
        return labels_from_wide(wide, classes=classes, as_classes=as_classes)
    return _labels(found, choose_columns(found.names, found.place.origin, *options.named), options)


def labels_from_table(table: Mapping[str, Any], options: Options) -> CrowdLabels:
    """Read labels from three arrays called task, worker and label."""
    return _labels(_from_mapping(table, Place("the arrays", "row")), ROLES, options)


def _labels(source: Columns, names: tuple[str, ...], options: Options) -> CrowdLabels:
    encoders = [
        ColumnEncoder(role, name, source.place, text=source.text) for role, name in zip(ROLES, names, strict=True)
    ]
    # Arrow and numba let go of the interpreter's lock, so that columns are encoded side by side.
    with ThreadPoolExecutor(1 if source.in_turn else len(ROLES)) as pool:
        if source.batches is None:
            columns = list(pool.map(lambda encoder, name: encoder.take(source.column(name)), encoders, names))
        else:
            _encode_batches(source.batches(list(names)), encoders, pool)
            columns = list(pool.map(ColumnEncoder.finish, encoders))
    sizes = [column.codes.size for column in columns]
    if len(set(sizes)) > 1:
        raise InputError(f"task, worker and label must have the same length; they have {', '.join(map(str, sizes))}.")
    if sizes[0] == 0:
        raise InputError(f"{source.place.origin} has columns but no rows. Give a row for each answer.")
    if source.text:
        refuse_header_row(columns, names, source.place)
    return labels_from_encoded(
        *columns,
        classes=options.classes,
        on_duplicate=options.on_duplicate,
        as_classes=options.kind == "labels",
        kind=source.kind,
        place=source.place,
    )


def _encode_batches(batches: Iterable[list[pa.Array]], encoders: list[ColumnEncoder], pool: ThreadPoolExecutor) -> None:
    """Encode each batch while the next is read."""
    running: list[Future[None]] = []
    for batch in batches:
        for future in running:
            future.result()
        running = [pool.submit(encoder.add, array) for encoder, array in zip(encoders, batch, strict=True)]
    for future in running:
        future.result()


# ---- what the source is ---------------------------------------------------------------------------------


def open_source(source: Any, needs: str = ANSWERS) -> Opened:
    """Tell the source's kind: columns, a nested mapping, or a matrix; what a file `needs` is said if it is empty."""
    if _is_path(source) or (isinstance(source, list | tuple) and source and all(map(_is_path, source))):
        return open_paths(source, needs)
    if hasattr(source, "read") or isinstance(source, Blob):
        return file_source(source, needs)
    if hasattr(source, "to_columns"):  # the export of a tool, of a room that lies above this one
        source = source.to_columns()
    return source if isinstance(source, Columns) else _open_in_memory(source)


def _open_in_memory(source: Any) -> Opened:
    if isinstance(source, Mapping):
        nested = bool(source) and all(isinstance(answers, Mapping) for answers in source.values())
        table = columns_of_rows(source) if nested else source
        return source if table is None else _from_mapping(table, Place())
    if isinstance(source, np.ndarray):
        return _from_numpy(source)
    if isinstance(source, list | tuple):
        return _from_list(source)
    return _from_frame(source)


def _is_path(source: Any) -> bool:
    return isinstance(source, str | Path)


def _from_mapping(table: Mapping[str, Any], place: Place) -> Columns:
    if not table:
        raise InputError("The table has no columns. Labels need three: task, worker and label.")
    # Columns may be read more than once, iterators cannot.
    table = {name: list(values) if isinstance(values, Iterator) else values for name, values in table.items()}
    names = {str(name): name for name in table}
    return Columns(list(names), lambda name: as_column(table[names[name]], name, place.origin), place=place)


def _from_numpy(source: np.ndarray[Any, Any]) -> Columns | np.ndarray[Any, Any]:
    if source.dtype.names:
        return _from_mapping({name: source[name] for name in source.dtype.names}, Place())
    if source.ndim == 2:
        return source
    raise InputError(
        f"An array of shape {source.shape} is neither a table nor a matrix of tasks × workers. "
        "Use CrowdLabels.from_arrays(task, worker, label)."
    )


def _from_list(source: list[Any] | tuple[Any, ...]) -> Columns:
    if source and all(isinstance(record, Mapping) for record in source):
        names = {str(name): name for record in source for name in record}
        return Columns(list(names), lambda name: as_column([record.get(names[name]) for record in source], name))
    raise InputError(
        f"A {type(source).__name__} of {len(source)} entries is not a table. Give a list of records "
        "(dicts with task, worker and label), or use CrowdLabels.from_arrays(task, worker, label) or "
        "from_dense(matrix)."
    )


def _from_frame(source: Any) -> Columns:
    """Open pandas, polars, pyarrow, whatever streams Arrow, and whatever narwhals knows."""
    import narwhals as nw
    from narwhals import dependencies

    native = nw.to_native(source, pass_through=True)
    if dependencies.is_pandas_dataframe(native):
        return _from_pandas(native)
    kind: TableKind = "pyarrow"
    if dependencies.is_polars_lazyframe(native) or dependencies.is_polars_dataframe(native):
        kind = "polars"
        native = polars_to_arrow(native)
    try:
        if isinstance(native, pa.RecordBatchReader):
            table = native.read_all()
        elif isinstance(native, pa.Table):
            table = native
        elif hasattr(native, "__arrow_c_stream__") or hasattr(native, "__arrow_c_array__"):
            table = pa.table(native)
        else:
            frame = nw.from_native(native)
            table = (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_arrow()
    except (TypeError, ValueError, pa.ArrowException) as error:  # ValueError: what it streams is no Arrow stream
        raise InputError(
            f"{type(source).__name__} is not something labels can be read from. Give a path, a table (pandas, "
            "polars, pyarrow or another with the Arrow stream interface), or a dict of columns "
            f"({quote(str(error)[:80])})."
        ) from error
    except Exception as error:  # of what the user's own program streams
        raise InputError(
            f"The {type(source).__name__} cannot be read to its end ({type(error).__name__}: {quote(str(error)[:80])})."
        ) from error
    return Columns(list(table.column_names), lambda name: as_plain_column(find_column(table, name)), kind=kind)


def _from_pandas(frame: Any) -> Columns:
    names = [str(name) for name in frame.columns]
    index = frame.index
    default = type(index).__name__ == "RangeIndex" and index.name is None
    if index.name is not None and str(index.name) not in names:  # df.set_index("task") is a habit of many
        names = [str(index.name), *names]
        frame = frame.reset_index()
    elif index.nlevels > 1:
        try:
            frame = frame.reset_index()
        except ValueError as error:  # a level of the index has the name of a column, or of another level
            raise InputError(
                f"The index of the table cannot be read as columns: {error}. Rename its levels."
            ) from error
        names = [str(name) for name in frame.columns]
    positions = {name: place for place, name in enumerate(names)}
    return Columns(
        names,
        lambda name: as_column(frame.iloc[:, positions[name]], name),
        kind="pandas",
        index=None if default or index.nlevels > 1 else as_column(index.to_series(), "index"),
    )
