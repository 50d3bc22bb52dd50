"""Tasks that follow one another, as the words of a sentence do: which sequence a task is in, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.columns import Columns
from crowdwise.labels.encode import encode
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.read import open_source
from crowdwise.labels.vocabulary import as_text, as_vocabulary, plain_arrow_names, positions

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["NAMES", "Sequences", "read_sequences", "rule_for_new_tasks"]

NAMES = "names"
NEW_NAMES = "names of new tasks"  # which need not fit
COLUMNS = ("task", "sequence", "position")
NUMBERED = r"^(?P<sequence>.+[_:/#-])(?P<position>[0-9]{1,18})$"


@dataclass(frozen=True)
class Sequences:
    """Sequence s holds the tasks `order[ptr[s]:ptr[s + 1]]`, in this order; every task is in one sequence.

    Attributes
    ----------
    order : (N,)
        Positions of the tasks, sequence after sequence.
    ptr : (S + 1,)
        Where each sequence begins and the last one ends.
    """

    order: IntArray
    ptr: IntArray

    @property
    def first(self) -> BoolArray:
        """Whether the task at each place of `order` begins a sequence (N,)."""
        begins = np.zeros(self.order.size, bool)
        begins[self.ptr[:-1]] = True
        return begins

    def before(self) -> IntArray:
        """The task before each task (N,), -1 where it begins a sequence."""
        previous = np.full(self.order.size, -1, np.int64)
        inner = np.flatnonzero(~self.first)
        previous[self.order[inner]] = self.order[inner - 1]
        return previous


def read_sequences(source: Any, tasks: Any) -> Sequences:
    """Put tasks in sequences.

    Parameters
    ----------
    source
        None: every task stands alone. "names": a task whose name ends in a separator (_ - : / #) and a number, as
        12_3 does, has that position (3) in the sequence that the rest of the name tells (12); others stand alone. It
        is an error if no name fits. Otherwise a mapping from task to (sequence, position), or a path or table with
        columns task, sequence and position, which must hold every task; tasks that are not asked for are left aside.
    tasks
        Task names, each once.

    Notes
    -----
    Positions say the order alone: a gap between two of them (a task that nobody answered) is closed.

    Examples
    --------
    >>> found = read_sequences("names", ["a_1", "b_0", "a_0", "title"])
    >>> found.order.tolist(), found.ptr.tolist()
    ([2, 0, 1, 3], [0, 2, 3, 4])
    """
    names = as_vocabulary(tasks, "task")
    alone = np.arange(len(names), dtype=np.int64)
    if source is None:
        return Sequences(alone, np.arange(len(names) + 1, dtype=np.int64))
    if _is_names(source):
        fits = pa.types.is_string(names.type) and pc.any(pc.match_substring_regex(names, NUMBERED)).as_py()
        if not fits and source == NAMES and len(names):
            raise InputError(
                f"sequences is 'names', but no task name ends in a separator (_ - : / #) and a number, as s12_3 does: "
                f"{listing(names.slice(0, 5).to_pylist())}. Give a table with the columns {', '.join(COLUMNS)}."
            )
        return _order_tasks(names, *_from_names(as_text(names)))
    return _order_tasks(names, *_from_table(source, names))


def rule_for_new_tasks(source: Any) -> str | None:
    """How tasks that the source has not seen are put in sequences: by their names if it says so, else not at all."""
    return NEW_NAMES if _is_names(source) else None


def _is_names(source: Any) -> bool:
    return isinstance(source, str) and source in (NAMES, NEW_NAMES)


def _from_names(names: pa.Array) -> tuple[IntArray, IntArray]:
    """Sequence and position of each task by its name; a task that stands alone is a sequence of its own."""
    found = pc.extract_regex(names, NUMBERED)
    alone = found.is_null().to_numpy(zero_copy_only=False)
    sequence = pc.dictionary_encode(pc.struct_field(found, "sequence")).indices.fill_null(-1).to_numpy()
    position = pc.struct_field(found, "position").cast(pa.int64()).fill_null(0).to_numpy()
    codes = sequence.astype(np.int64)
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(int(alone.sum()))
    return codes, position


def _from_table(source: Any, names: pa.Array) -> tuple[IntArray, IntArray]:
    """Sequence and position of each task from a table or a mapping."""
    if isinstance(source, Mapping) and not set(COLUMNS) <= set(source):
        source = _columns_of_pairs(source)
    columns = open_source(source, f"Sequences need the columns {', '.join(COLUMNS)}, and a row for each task.")
    if not isinstance(columns, Columns):
        raise InputError("sequences must be 'names', a mapping from task to (sequence, position), or a table.")
    lacking = [name for name in COLUMNS if name not in columns.names]
    if lacking:
        raise InputError(
            f"sequences: {columns.place.origin} has no column {listing(lacking)}; it has {listing(columns.names)}. "
            f"Give it the columns {', '.join(COLUMNS)}."
        )
    table = columns.read_whole_columns(list(COLUMNS))
    task, sequence, position = (
        encode(table[name], name, name=name, place=columns.place, text=columns.text) for name in COLUMNS
    )
    if len({task.codes.size, sequence.codes.size, position.codes.size}) > 1:
        raise InputError("sequences: task, sequence and position must have the same length.")
    if not task.codes.size:
        raise InputError(f"sequences: {columns.place.origin} has columns but no rows. Give a row for each task.")
    repeated = np.flatnonzero(np.bincount(task.codes, minlength=len(task.names)) > 1)
    if repeated.size:
        raise InputError(
            f"sequences: {columns.place.origin} holds {listing(task.names.take(pa.array(repeated)).to_pylist())} more "
            "than once. Give each task one sequence and position."
        )
    if not pa.types.is_int64(plain_arrow_names(position.names).type):
        raise InputError(
            f"sequences: positions must be whole numbers; these are {listing(position.names.to_pylist())}. Number the "
            "tasks of each sequence in their order."
        )
    row_of = np.empty(len(task.names), np.int64)
    row_of[task.codes] = np.arange(task.codes.size)
    places = positions(names, task.names)
    if (places < 0).any():
        missing = names.filter(pa.array(places < 0)).to_pylist()
        raise InputError(
            f"sequences: {columns.place.origin} lacks the tasks {listing(missing)}. Give every task a sequence and a "
            "position; a task that stands alone is a sequence of its own."
        )
    rows = row_of[places]
    numbers = plain_arrow_names(position.names).to_numpy(zero_copy_only=False)
    return sequence.codes[rows].astype(np.int64), numbers[position.codes[rows]]


def _columns_of_pairs(source: Mapping[Any, Any]) -> dict[str, list[Any]]:
    pairs = list(source.values())
    wrong = [task for task, pair in source.items() if not isinstance(pair, tuple | list) or len(pair) != 2]
    if wrong or not pairs:
        shown = listing(wrong) if wrong else "no task"
        raise InputError(
            f"sequences: a mapping must go from task to (sequence, position); it does not for {shown}. For example "
            "{'w1': ('sentence 1', 0), 'w2': ('sentence 1', 1)}."
        )
    return dict(zip(COLUMNS, (list(source), [pair[0] for pair in pairs], [pair[1] for pair in pairs]), strict=True))


def _order_tasks(names: pa.Array, sequence: IntArray, position: IntArray) -> Sequences:
    """Tasks sorted into their sequences, which come in the order of their first task; no position twice."""
    _, first, codes = np.unique(sequence, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    codes = rank[codes]
    order = np.lexsort((position, codes))
    same = np.flatnonzero((np.diff(codes[order]) == 0) & (np.diff(position[order]) == 0))
    if same.size:
        twins = names.take(pa.array(order[[same[0], same[0] + 1]])).to_pylist()
        raise InputError(
            f"sequences: the tasks {listing(twins)} have the same position in one sequence. Give each its own."
        )
    return Sequences(order, np.append(0, np.cumsum(np.bincount(codes))).astype(np.int64))
