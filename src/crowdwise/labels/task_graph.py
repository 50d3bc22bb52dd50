"""Tasks that are joined in pairs, as two pages that link to each other are: the neighbours of every task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise.labels.arrow_columns import as_column
from crowdwise.labels.columns import Columns
from crowdwise.labels.encode import encode
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.read import open_source
from crowdwise.labels.source_location import Place
from crowdwise.labels.vocabulary import as_vocabulary, positions

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["TaskGraph", "read_graph"]

ENDS = ("task", "neighbour")


class TaskGraph(NamedTuple):
    """The neighbours of task t are `neighbour[ptr[t]:ptr[t + 1]]`; a pair stands with both of its tasks.

    Attributes
    ----------
    ptr : (N + 1,)
    neighbour : (2 × pairs,)
    """

    ptr: IntArray
    neighbour: IntArray

    @property
    def n_pairs(self) -> int:
        """Number of pairs of tasks that are joined."""
        return self.neighbour.size // 2


def read_graph(source: Any, tasks: Any) -> TaskGraph:
    """Join tasks in pairs.

    Parameters
    ----------
    source
        None for no pairs; a list or array of pairs of task names; a mapping from task to its neighbours; or a path or
        table with two columns, a pair in each row. A pair counts once, however often and whichever way it is given;
        pairs with a task that is not asked for are left aside.
    tasks
        Task names, each once.

    Examples
    --------
    >>> found = read_graph([("a", "b"), ("c", "b"), ("b", "a")], ["a", "b", "c"])
    >>> found.ptr.tolist(), found.neighbour.tolist()
    ([0, 1, 3, 4], [1, 0, 2, 1])
    """
    names = as_vocabulary(tasks, "task")
    empty = TaskGraph(np.zeros(len(names) + 1, np.int64), np.empty(0, np.int64))
    if source is None:
        return empty
    columns = _pairs(source)
    if columns is None:
        return empty
    if len(set(columns.names)) < len(columns.names):
        raise InputError(
            f"graph: both columns of {columns.place.origin} are named {listing(columns.names[:1])}. Rename one."
        )
    if columns.text and (positions(pa.array(columns.names, pa.string()), names) >= 0).all():
        raise InputError(
            f"graph: the first line of {columns.place.origin} joins two tasks ({listing(columns.names)}), and would be "
            f"taken for a header. Put a header line above it: {','.join(ENDS)}."
        )
    ends = columns.read_whole_columns(columns.names)
    first, second = (_task_positions(columns, name, ends[name], names) for name in columns.names)
    if first.size != second.size:
        raise InputError(f"graph: the two ends of the pairs have {first.size} and {second.size} rows.")
    if not first.size:
        raise InputError(f"graph: {columns.place.origin} has columns but no rows. Give a row for each pair of tasks.")
    known = (first >= 0) & (second >= 0)
    if not known.any():
        raise InputError(
            f"graph: no pair joins two of the tasks ({listing(names.slice(0, 5).to_pylist())}, …). Use the same task "
            "names as in the labels."
        )
    loops = np.flatnonzero(known & (first == second))
    if loops.size:
        raise InputError(
            f"graph: {columns.place.name_rows(loops.tolist())} joins a task to itself ({names[int(first[loops[0]])]}). "
            "Leave such pairs out."
        )
    low, high = np.minimum(first, second)[known], np.maximum(first, second)[known]
    pairs = np.unique(low.astype(np.int64) * len(names) + high)
    low, high = pairs // len(names), pairs % len(names)
    one, two = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((two, one))
    return TaskGraph(np.append(0, np.cumsum(np.bincount(one, minlength=len(names)))).astype(np.int64), two[order])


def _pairs(source: Any) -> Columns | None:
    """Two columns of task names, or None for no pairs at all."""
    if isinstance(source, Mapping) and set(source) != set(ENDS):
        bad = [task for task, others in source.items() if not isinstance(others, list | tuple | set | np.ndarray)]
        if bad:
            raise InputError(
                f"graph: a mapping must go from task to a list of neighbours; it does not for {listing(bad)}."
            )
        source = [(task, other) for task, others in source.items() for other in others]
    if isinstance(source, np.ndarray) and source.dtype.names is None:
        if source.ndim == 2 and source.shape[1] == 2 and source.size:
            return _pair_columns(source[:, 0], source[:, 1])
        source = source.tolist()
    if isinstance(source, list | tuple | set) and not any(isinstance(pair, Mapping) for pair in source):
        pairs = list(source)
        if not pairs:
            return None
        if not all(isinstance(pair, list | tuple | np.ndarray) and len(pair) == 2 for pair in pairs):
            raise InputError("graph: a list must hold pairs of task names, such as [('t1', 't2'), ('t2', 't3')].")
        return _pair_columns([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    columns = open_source(source, "A graph needs two columns, and a row for each pair of tasks that are joined.")
    if not isinstance(columns, Columns) or len(columns.names) != 2:
        shown = listing(columns.names) if isinstance(columns, Columns) else "no columns"
        raise InputError(f"graph: a table of pairs needs exactly two columns, one for each task; it has {shown}.")
    return columns


def _pair_columns(first: Any, second: Any) -> Columns:
    ends = dict(zip(ENDS, (first, second), strict=True))
    return Columns(list(ENDS), lambda name: as_column(ends[name], name), place=Place("the list", "pair"))


def _task_positions(columns: Columns, name: str, column: pa.ChunkedArray, names: pa.Array) -> IntArray:
    found = encode(column, "task", name=name, place=columns.place, text=columns.text)
    places: IntArray = positions(found.names, names)[found.codes]
    return places
