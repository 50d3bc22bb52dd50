"""Labels in other shapes: tasks × workers, as a matrix or a table, and {task: {worker: label}}."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.arrow_columns import as_column, polars_to_arrow
from crowdwise.labels.columns import candidates
from crowdwise.labels.encode import Encoded, encode, labels_from_encoded
from crowdwise.labels.errors import InputError, InputWarning, listing, quote
from crowdwise.labels.nested import infer_level_role
from crowdwise.labels.source_location import Place
from crowdwise.labels.summary_columns import find_summaries, warn_of_summaries
from crowdwise.labels.vocabulary import as_vocabulary, parse_integers, plain_arrow_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crowdwise.labels.columns import Columns
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import IntArray, TableKind

__all__ = ["as_wide", "labels_from_matrix", "labels_from_nested", "labels_from_wide"]

NO_ANSWER = -1  # the marker of a matrix of integers, as snorkel has it; floats if there is a NaN among them
MOST_SHARED = 0.5  # of the values of columns named after workers: of classes most are used by several of them

WHOLE, WHOLE_NO_ANSWER = r"^-?[0-9]+(\.0*)?$", rf"^{NO_ANSWER}(\.0*)?$"  # as pandas writes integers beside NaN


def labels_from_matrix(
    matrix: Any,
    *,
    missing: Any = None,
    tasks: Iterable[Any] | None = None,
    workers: Iterable[Any] | None = None,
    classes: Iterable[Any] | None = None,
    as_classes: bool = False,
) -> CrowdLabels:
    """Read a matrix with a row for each task and a column for each worker; see `CrowdLabels.from_dense`."""
    kind: TableKind = "pyarrow"
    if hasattr(matrix, "columns") and hasattr(matrix, "index"):  # pandas: its names are the names
        kind = "pandas"
        tasks = matrix.index.tolist() if tasks is None else tasks
        workers = matrix.columns.tolist() if workers is None else workers
        matrix = matrix.to_numpy()
    elif type(matrix).__module__.split(".")[0] == "polars":
        kind = "polars"
        matrix = polars_to_arrow(matrix)
    if isinstance(matrix, pa.Table):
        workers = matrix.column_names if workers is None else workers
        columns = matrix.columns
        if {pa.string(), pa.large_string()} & {column.type for column in columns}:  # NumPy writes 1 beside None as 1.0
            columns = [column.cast(pa.string()) for column in columns]
        matrix = np.column_stack([column.to_numpy() for column in columns]) if columns else np.empty((0, 0))
    matrix = _as_matrix(matrix)
    if isinstance(missing, list | tuple | dict | set) or getattr(missing, "ndim", 0) > 0:
        raise InputError(f"missing is {quote(missing)}; it must be one value, the marker of no answer.")
    answered = _mark_answers(matrix, missing)
    _warn_of_marker_of_another_type(matrix, answered, missing)
    task, worker = np.nonzero(answered)
    matrix = np.asarray(matrix)
    return _labels(
        task, worker, as_column(matrix[task, worker], "label", "the matrix"),
        _names(tasks, matrix.shape[0], "task"), _names(workers, matrix.shape[1], "worker"),
        classes, kind, "the matrix", as_classes=as_classes,
    )  # fmt: skip


def labels_from_nested(
    nested: Mapping[Any, Mapping[Any, Any]],
    *,
    classes: Iterable[Any] | None = None,
    text: bool = False,
    as_classes: bool = False,
) -> CrowdLabels:
    """Read {task: {worker: label}}; a task with an empty entry is kept, without labels.

    Parameters
    ----------
    text
        The keys come from JSON, which knows only text: plain integers are meant as integers.
    """
    task = np.repeat(np.arange(len(nested)), [len(answers) for answers in nested.values()])
    who = [worker for answers in nested.values() for worker in answers]
    said = [label for answers in nested.values() for label in answers.values()]
    workers = encode(as_column(who, "worker", "the mapping"), "worker", place=Place("the mapping", "answer"))
    tasks = as_vocabulary(nested.keys(), "task")
    return _labels(
        task, workers.codes, as_column(said, "label", "the mapping"),
        parse_integers(tasks) if text else tasks, parse_integers(workers.names) if text else workers.names,
        classes, "pyarrow", "the mapping", as_classes=as_classes,
    )  # fmt: skip


@dataclass(frozen=True)
class Wide:
    """A table of tasks × workers: names of the tasks, if they are given, and a column for each worker."""

    source: Columns
    task: str | None
    columns: dict[str, pa.ChunkedArray]

    @property
    def worker_columns(self) -> list[str]:
        """The columns that are workers."""
        return [name for name in self.columns if name != self.task]


def as_wide(source: Columns) -> Wide | None:
    """Read a table as one of tasks × workers, if it plainly is one.

    Doubt means no: a table read in the wrong shape would give wrong answers without an error.
    """
    names = source.names
    if candidates("worker", names) or candidates("label", names) or len(set(names)) < len(names):
        return None
    task = _task_column(source)
    summaries = find_summaries(name for name in names if name != task)
    columns = [name for name in names if name not in summaries]
    if len(columns) - (task is not None) < 2:
        return None
    read = source.read_whole_columns(columns)
    wide = Wide(source, task, read)
    if _is_plausible(wide):
        _refuse_repeated_tasks(wide)
        warn_of_summaries(summaries, source.place.origin)
        return wide
    speaking = [name for name in columns if name != task and infer_level_role([name]) == "worker"]
    if task is None or len(speaking) < 2:
        return None
    wide = Wide(source, task, {name: read[name] for name in (task, *speaking)})
    if not _is_plausible(wide, named_after_workers=True):
        return None
    _refuse_repeated_tasks(wide)
    warn_of_summaries(summaries, source.place.origin)
    others = [name for name in columns if name not in wide.columns]
    if others:
        warnings.warn(
            f"{source.place.origin}: the columns {listing(speaking)} taken for workers, {listing(others)} left out.",
            InputWarning,
            stacklevel=2,
        )
    return wide


def _refuse_repeated_tasks(wide: Wide) -> None:
    """Refuse two rows of one task: of two answers in a column, nobody knows which counts."""
    if wide.task is None:
        return
    tasks = wide.columns[wide.task]
    counts = pc.value_counts(tasks.drop_null())
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        rows = np.flatnonzero(pc.is_in(tasks, value_set=repeated).to_numpy())
        raise InputError(
            f"{wide.source.place.origin} has a column for each worker ({listing(wide.worker_columns)}) and more than "
            f"one row for a task: {wide.source.place.name_rows(rows.tolist())}. Give each task one row."
        )


def _is_plausible(wide: Wide, *, named_after_workers: bool = False) -> bool:
    """Whether columns share values as those of workers do (annotator_1 and annotator_2 need to less)."""
    columns = [wide.columns[name] for name in wide.worker_columns]
    if any(pa.types.is_nested(column.type) for column in wide.columns.values()):
        return False
    if len({_type_family(column.type) for column in columns if not pa.types.is_null(column.type)}) != 1:
        return False
    present = [column.filter(mask) for column, mask in zip(columns, _mark_present_cells(columns), strict=True)]
    values = [pc.unique(some).cast(pa.string()) for some in present]
    everywhere = pc.value_counts(pa.concat_arrays(values))
    shared = everywhere.field("values").filter(pc.greater(everywhere.field("counts"), 1))
    if all(len(some) == len(column) for some, column in zip(present, columns, strict=True)):
        # Complete: it may as well be a long table with unusual names, unless all else speaks against it.
        if named_after_workers:
            return len(shared) >= MOST_SHARED * len(everywhere)
        named = wide.task == "" or wide.task in candidates("task", wide.source.names)
        return named and len(columns) > 2 and len(shared) == len(everywhere)
    return all(len(some) == 0 or pc.any(pc.is_in(some, value_set=shared)).as_py() for some in values)


def labels_from_wide(wide: Wide, *, classes: Iterable[Any] | None = None, as_classes: bool = False) -> CrowdLabels:
    """Read labels from a table of tasks × workers."""
    source, answers = wide.source, wide.worker_columns
    columns = [wide.columns[name] for name in answers]
    if wide.task is not None:
        column = wide.columns[wide.task]
        tasks = encode(column, "task", name=wide.task, place=source.place, text=source.text).names
    elif source.index is not None:
        tasks = as_vocabulary(source.index.combine_chunks(), "task")
    else:
        tasks = pa.array(np.arange(len(columns[0])))
    masks = [mask.to_numpy() for mask in _mark_present_cells(columns)]
    parts = [
        plain_arrow_names(column.filter(pa.array(mask)).combine_chunks())
        for column, mask in zip(columns, masks, strict=True)
    ]
    if len({part.type for part in parts if len(part)}) > 1:
        parts = [part.cast(pa.string()) for part in parts]
    said = pa.chunked_array([part for part in parts if len(part)], parts[0].type if not any(map(len, parts)) else None)
    worker = np.repeat(np.arange(len(answers)), [len(part) for part in parts])
    workers = as_vocabulary(answers, "worker")
    return _labels(
        np.concatenate([np.flatnonzero(mask) for mask in masks]), worker, said,
        tasks, parse_integers(workers) if source.text else workers,
        classes, source.kind, source.place.origin, text=source.text, as_classes=as_classes,
    )  # fmt: skip


def _labels(
    task: IntArray,
    worker: IntArray,
    said: pa.ChunkedArray,
    tasks: pa.Array,
    workers: pa.Array,
    classes: Iterable[Any] | None,
    kind: TableKind,
    origin: str,
    *,
    text: bool = False,
    as_classes: bool = False,
) -> CrowdLabels:
    """Put positions and answers together; an error names the task and the worker instead of a row."""
    if len(said) == 0:
        raise InputError(f"{origin} holds no answers. Give at least one label.")
    place = _CellPlace(origin, task, worker, tasks, workers)
    label = encode(said, "label", place=place, text=text)
    return labels_from_encoded(
        Encoded(task, tasks), Encoded(worker, workers), label,
        classes=classes, as_classes=as_classes, kind=kind, place=place,
    )  # fmt: skip


class _CellPlace(Place):
    def __init__(self, origin: str, task: IntArray, worker: IntArray, tasks: pa.Array, workers: pa.Array) -> None:
        super().__init__(origin, "answer")
        object.__setattr__(self, "cells", (task, worker, tasks, workers))

    def __call__(self, row: int) -> str:
        task, worker, tasks, workers = self.cells  # type: ignore[attr-defined]
        names = quote(tasks[int(task[row])].as_py()), quote(workers[int(worker[row])].as_py())
        return f"{self.origin}, task {names[0]}, worker {names[1]}"

    def name_rows(self, rows: Iterable[int]) -> str:
        every = list(rows)
        more = f" and {len(every) - 5:,} more" if len(every) > 5 else ""
        return "; ".join(self(row) for row in every[:5]) + more


def _as_matrix(matrix: Any) -> np.ndarray[Any, Any]:
    try:
        if isinstance(matrix, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in matrix):
            matrix = np.ma.stack(matrix)
        if type(matrix).__module__.split(".")[0] == "torch":  # where NumPy warns of how torch answers it
            matrix = matrix.detach().cpu().numpy()
        dtype = _dtype(matrix) if isinstance(matrix, list | tuple) else None
        array = np.asanyarray(matrix) if isinstance(matrix, np.ndarray) else np.array(matrix, dtype=dtype)
        if isinstance(array, np.matrix):
            array = np.asarray(array)  # which would stay two-dimensional where one is asked for
    except ValueError as error:
        raise InputError("The rows of the matrix differ in length. Give every task the same columns.") from error
    except (TypeError, RuntimeError) as error:  # a tensor that NumPy does not take
        raise InputError(
            f"{type(matrix).__name__} cannot be read as a matrix ({quote(str(error))}). Give a NumPy array."
        ) from error
    if array.ndim == 0 and hasattr(matrix, "tocoo"):
        raise InputError(
            "A sparse matrix does not say whether its zeros are answers. Use CrowdLabels.from_codes with the rows, "
            "columns and values of those that are."
        )
    if array.ndim != 2:
        raise InputError(
            f"A matrix of labels has two dimensions, tasks × workers; this has shape {array.shape}. "
            "For three arrays use CrowdLabels.from_arrays."
        )
    if array.dtype.kind == "c":
        raise InputError("The matrix holds complex numbers. Give text or real numbers.")
    if array.size == 0:
        raise InputError(f"The matrix is empty: its shape is {array.shape}. Give at least one label.")
    return array


def _dtype(matrix: Any) -> Any:
    """Keep lists with None or text as objects: NumPy would write None as 'None'."""
    cells = [cell for row in matrix if isinstance(row, list | tuple) for cell in row]
    return object if any(cell is None or cell is np.ma.masked or isinstance(cell, str) for cell in cells) else None


def _no_cell(cell: Any) -> bool:
    return cell is None or cell is np.ma.masked or (str(cell) in ("nan", "NaT", "<NA>") and not isinstance(cell, str))


def _mark_answers(matrix: np.ndarray[Any, Any], missing: Any) -> np.ndarray[Any, Any]:
    if np.iterable(missing) and not isinstance(missing, str | bytes):
        raise InputError(f"missing is {quote(missing)}; give the one value that stands for no answer.")
    if isinstance(matrix, np.ma.MaskedArray):
        unmasked: np.ndarray[Any, Any] = _mark_answers(matrix.data, missing) & ~np.ma.getmaskarray(matrix)
        return unmasked
    if matrix.dtype.kind == "f":
        answered = ~np.isnan(matrix)
    elif matrix.dtype.kind in "mM":
        answered = ~np.isnat(matrix)
    elif matrix.dtype.kind == "O":
        answered = np.array([[not _no_cell(cell) for cell in row] for row in matrix])
    else:
        answered = np.ones(matrix.shape, np.bool_)
    if missing is not None and not _no_cell(missing):
        answered[answered] = matrix[answered] != missing  # of the others, pandas' NA cannot be compared
    elif missing is None and _is_whole(matrix, answered):
        answered[answered] = matrix[answered] != NO_ANSWER
    result: np.ndarray[Any, Any] = answered
    return result


def _warn_of_marker_of_another_type(matrix: np.ndarray[Any, Any], answered: np.ndarray[Any, Any], missing: Any) -> None:
    """Say so where cells that read as the marker of no answer are of another type, and count as answers therefore."""
    if missing is None or _no_cell(missing):
        return
    text = missing.decode(errors="replace") if isinstance(missing, bytes) else str(missing)
    alike = [cell for cell in np.unique(np.asarray(matrix)[answered].astype(str)).tolist() if cell == text]
    if alike:
        warnings.warn(
            f"missing is {quote(missing)}, and the matrix holds {quote(text)} of another type, which counts as an "
            "answer. Give the marker as it stands in the matrix.",
            InputWarning,
            stacklevel=4,
        )


def _is_whole(matrix: np.ndarray[Any, Any], answered: np.ndarray[Any, Any]) -> bool:
    """Whether a matrix holds whole numbers alone, as integers, floats or objects."""
    if matrix.dtype.kind == "O":
        numbers = (int, float, np.integer, np.floating)
        return all(
            isinstance(cell, numbers) and not isinstance(cell, bool) and float(cell).is_integer()
            for cell in matrix[answered]
        )
    if matrix.dtype.kind == "f":
        return bool(np.all(np.trunc(matrix[answered]) == matrix[answered]))
    return bool(matrix.dtype.kind == "i")


def _names(names: Iterable[Any] | None, size: int, what: str) -> pa.Array:
    if names is None:
        return pa.array(np.arange(size))
    if isinstance(names, str | set | frozenset):
        raise InputError(f"The {what} names are {quote(names)}, which stand in no order. Give a list of names.")
    vocabulary = as_vocabulary(names, what)
    if len(vocabulary) != size:
        raise InputError(f"The matrix has {size} {what}s, but {len(vocabulary)} names were given for them.")
    return vocabulary


def _task_column(source: Columns) -> str | None:
    """Find the column of task names: the first of a text file, or the one with a usual name."""
    if source.text:
        return source.names[0]
    tasks = candidates("task", source.names)
    return tasks[0] if len(tasks) == 1 else None


def _mark_present_cells(columns: list[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Mark the cells that hold an answer: neither null nor blank, nor -1 among whole numbers."""
    present = [_mark_filled_cells(column) for column in columns]
    floats = [column.filter(mask) for column, mask in zip(columns, present, strict=True) if _is_floating(column)]
    whole = all(pc.all(pc.equal(pc.trunc(column), column), min_count=0).as_py() for column in floats)
    return [
        pc.and_(mask, pc.fill_null(pc.invert(_find_no_answer(column, mask, whole=whole)), False))
        for column, mask in zip(columns, present, strict=True)
    ]


def _mark_filled_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    present = column.is_valid()
    if _type_family(column.type) == "text":
        present = pc.and_(present, pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(column), ""), False))
    elif _is_floating(column):
        present = pc.and_(present, pc.fill_null(pc.invert(pc.is_nan(column)), False))
    return present


def _find_no_answer(column: pa.ChunkedArray, present: pa.ChunkedArray, *, whole: bool) -> Any:
    """Find the marker of no answer in one column; `whole` says whether all floats of the table are whole numbers."""
    if _type_family(column.type) == "text":
        trimmed = pc.utf8_trim_whitespace(column)
        if pc.all(pc.match_substring_regex(trimmed.filter(present), WHOLE)).as_py():
            return pc.match_substring_regex(trimmed, WHOLE_NO_ANSWER)
    elif pa.types.is_signed_integer(column.type) or (_is_floating(column) and whole):
        return pc.equal(column, NO_ANSWER)
    return pa.chunked_array([pa.repeat(False, len(column))])


def _is_floating(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_floating(column.type))


def _type_family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)
