"""Answers that are no classes: who said what, row by row. Each kind adds what an answer is.

Most kinds are answers to tasks (`TaskAnswers`): a number, a set of boxes, a text. Others are answers about two items
(`PairAnswers`): which is better, whether they are the same.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from crowdwise.kinds.pair_graph import PairGraph, find_repeated
from crowdwise.labels.errors import InputError, InputWarning, listing, quote
from crowdwise.labels.held_out_split import HeldOutSplit
from crowdwise.labels.integer_codes import as_mask, check_codes, duplicate_message
from crowdwise.labels.sorting import find_repeated_edges, group_by, group_offsets
from crowdwise.labels.source_location import format_count
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, Duplicates, FloatArray, IntArray, TableKind

__all__ = [
    "LARGEST_VALUE",
    "Answers",
    "PairAnswers",
    "TaskAnswers",
    "as_numbers",
    "check_answers",
    "code_column",
    "names_or_numbers",
    "warn_of_groups",
]


MOST_NAMES = 2**31  # positions are int32
LARGEST_VALUE = 1e40  # squares of values, and powers of these, are reckoned with and saved


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Answers(HeldOutSplit):
    """Base of the answers of every kind: one row for each answer. Immutable.

    A kind names the columns that hold positions of names, and those that hold what was said. Its class
    statement has its class attributes: `class Grades(TaskAnswers, kind="ordinal", noun="grade", said=("grade",))`.

    Attributes
    ----------
    workers : pyarrow array
        Names of the workers; one without answers may exist.
    table_kind
        The kind of table that the answers came in, and so the kind that results go out in.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "answer"
    coded: ClassVar[dict[str, str]]  # column of positions -> its vocabulary
    said: ClassVar[tuple[str, ...]]  # columns of what was said, with a row for each answer

    worker: IntArray
    workers: pa.Array
    table_kind: TableKind

    def __init_subclass__(cls, **facts: Any) -> None:
        super().__init_subclass__()
        for name, fact in facts.items():
            setattr(cls, name, fact)

    @property
    def answer_columns(self) -> tuple[str, ...]:
        """Columns of positions that rows of one answer have in common: all of them where an answer is one row."""
        return tuple(self.coded)

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return int(self.worker.size)

    @property
    def n_workers(self) -> int:
        """Number of workers, with answers or without."""
        return len(self.workers)

    @cached_property
    def answers_per_worker(self) -> IntArray:
        """Number of answers of each worker (M,)."""
        counts: IntArray = np.bincount(self.worker, minlength=self.n_workers)
        return counts

    def __len__(self) -> int:
        return self.n_answers

    def keep(self, rows: BoolArray) -> Self:
        """Keep the answers where `rows` is true, with all names kept."""
        return self._take(np.flatnonzero(as_mask(rows, self.n_answers, "answers")))

    def keep_active_workers(self) -> Self:
        """The same answers, with the names of those workers alone who gave some."""
        active = self.answers_per_worker > 0
        if active.all():
            return self
        code = (np.cumsum(active) - 1).astype(self.worker.dtype)
        return replace(self, worker=_lock(code[self.worker]), workers=self.workers.filter(pa.array(active)))

    def to_table(self) -> Any:
        """Give the answers as a table of the kind that came in, with the columns by which they are read."""
        names = {
            column: getattr(self, names).take(pa.array(getattr(self, column))) for column, names in self.coded.items()
        }
        return native_table(names | self._said_columns(), self.table_kind)

    def to_labels(self) -> CrowdLabels | None:
        """The same as labels where there are few different answers, to test who copies; None where there are many."""
        return None

    def equality_columns(self) -> tuple[IntArray, IntArray] | None:
        """What was asked and a number for each different answer (n,), where equal answers betray copies; else None."""
        return None

    def _said_columns(self) -> dict[str, Any]:
        """Columns of what was said, as tables have them."""
        return {name: getattr(self, name) for name in self.said}

    def _take(self, rows: IntArray) -> Self:
        """The answers of these rows, in this order; all names stay."""
        taken: dict[str, Any] = {name: _lock(getattr(self, name)[rows]) for name in self.coded}
        for name in self.said:
            values = getattr(self, name)
            taken[name] = values.take(pa.array(rows)) if isinstance(values, pa.Array) else _lock(values[rows])
        return replace(self, **taken)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TaskAnswers(Answers):
    """Base of kinds that are answers to tasks, sorted by task.

    Attributes
    ----------
    task, worker : integer arrays (n_answers,)
        Positions in `tasks` and `workers`, sorted by task.
    tasks : pyarrow array
        Names of the tasks; one without answers may exist.
    """

    coded: ClassVar[dict[str, str]] = {"task": "tasks", "worker": "workers"}

    task: IntArray
    tasks: pa.Array

    @property
    def n_tasks(self) -> int:
        """Number of tasks, answered or not."""
        return len(self.tasks)

    @cached_property
    def task_ptr(self) -> IntArray:
        """Task t's answers are the rows `task_ptr[t]:task_ptr[t + 1]`."""
        return group_offsets(self.task, self.n_tasks)

    @cached_property
    def answers_per_task(self) -> IntArray:
        """Number of answers of each task (N,)."""
        return np.diff(self.task_ptr)

    @classmethod
    def from_codes(
        cls,
        task: Any,
        worker: Any,
        said: Any,
        *,
        tasks: Iterable[Any] | int,
        workers: Iterable[Any] | int,
        on_duplicate: Duplicates = "error",
        table_kind: TableKind = "pyarrow",
        **about: Any,
    ) -> Self:
        """Answers from positions of tasks and workers (a number n stands for the names 0 … n-1) and what was said.

        Parameters
        ----------
        said
            What was said in each answer, and in `about` what else the kind needs to know of it: see its class.
        """
        names = names_or_numbers(tasks, "task"), names_or_numbers(workers, "worker")
        columns = cls._code_said(said, **about)
        codes = code_column(task, names[0], "task"), code_column(worker, names[1], "worker")
        n_said = len(next(iter(columns.values())))
        if not codes[0].size == codes[1].size == n_said:
            sizes = f"{codes[0].size}, {codes[1].size} and {n_said}"
            raise InputError(f"task, worker and {cls.noun} must have the same length; they have {sizes}.")
        columns |= {"task": codes[0], "worker": codes[1], "tasks": names[0], "workers": names[1]}
        return cls._from_columns(columns | {"table_kind": table_kind}, on_duplicate)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}: {format_count(self.n_answers, self.noun)} by "
            f"{format_count(self.n_workers, 'worker')} on {format_count(self.n_tasks, 'task')}"
        )

    @classmethod
    def _code_said(cls, *said: Any, **about: Any) -> dict[str, Any]:
        """Columns of what was said, checked, the first of them with a row for each answer."""
        raise NotImplementedError

    @classmethod
    def _from_columns(
        cls, columns: dict[str, Any], on_duplicate: Duplicates, place: Callable[[int], str] | None = None
    ) -> Self:
        """Answers from checked columns in any order, with repeated answers refused or left out; `place` names rows."""
        return cls(**columns)._sorted(on_duplicate, place)

    def _sorted(self, on_duplicate: Duplicates, place: Callable[[int], str] | None = None) -> Self:
        """The same, sorted by task, with repeated answers of a worker to a task refused or left out."""
        if on_duplicate not in ("error", "first", "last", "all"):
            raise InputError(f"on_duplicate is {quote(on_duplicate)}; it must be 'error', 'first', 'last' or 'all'.")
        order = group_by(self.task, self.task_ptr)
        found = self._take(order)
        if on_duplicate == "all":
            return found
        later, earlier = find_repeated_edges(found.task_ptr, found.worker, self.n_workers)
        if not later.size:
            return found
        if on_duplicate == "error":
            tasks = self.tasks.take(pa.array(found.task[later[:5]])).to_pylist()
            workers = self.workers.take(pa.array(found.worker[later[:5]])).to_pylist()
            raise InputError(duplicate_message(tasks, workers, order[later], place))
        kept = np.ones(found.n_answers, np.bool_)
        kept[later if on_duplicate == "first" else earlier] = False
        return found.keep(kept)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PairAnswers(Answers):
    """Base of kinds that are answers about two items.

    Attributes
    ----------
    left, right : integer arrays (n_answers,)
        Positions in `items` of the two items that the worker was shown.
    items : pyarrow array
        Names of the items; one that was never shown may exist.
    """

    coded: ClassVar[dict[str, str]] = {"worker": "workers", "left": "items", "right": "items"}
    verb: ClassVar[str] = "compared"

    left: IntArray
    right: IntArray
    items: pa.Array

    @property
    def n_items(self) -> int:
        """Number of items, shown or not."""
        return len(self.items)

    @cached_property
    def answers_per_item(self) -> IntArray:
        """Number of answers about each item (N,)."""
        counts: IntArray = np.bincount(self.left, minlength=self.n_items) + np.bincount(
            self.right, minlength=self.n_items
        )
        return counts

    @property
    def pair_keys(self) -> IntArray:
        """A number for the pair of each answer (n,), the same for all answers about the same items."""
        low, high = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        keys: IntArray = low.astype(np.int64) * self.n_items + high
        return keys

    @cached_property
    def graph(self) -> PairGraph:
        """The pairs of items that were asked about, and the groups of items that they join."""
        return PairGraph.of(self.left, self.right, self.n_items)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}: {format_count(self.n_answers, self.noun)} of "
            f"{format_count(self.n_items, 'item')} by {format_count(self.n_workers, 'worker')}"
        )

    @property
    def sides_matter(self) -> bool:
        """Whether an answer about the same two items on exchanged sides is another one."""
        return False

    @classmethod
    def from_codes(
        cls,
        worker: Any,
        left: Any,
        right: Any,
        said: Any,
        *,
        items: Iterable[Any] | int,
        workers: Iterable[Any] | int,
        on_duplicate: Duplicates = "error",
        table_kind: TableKind = "pyarrow",
        **about: Any,
    ) -> Self:
        """Answers from positions of workers and items (a number n stands for the names 0 … n-1) and what was said.

        Parameters
        ----------
        said
            What was said in each answer, and in `about` what else the kind needs to know of it: see its class.
        """
        names = names_or_numbers(items, "item"), names_or_numbers(workers, "worker")
        columns: dict[str, Any] = {
            "worker": code_column(worker, names[1], "worker"),
            "left": code_column(left, names[0], "item"),
            "right": code_column(right, names[0], "item"),
            cls.said[0]: np.asarray(said),
        }
        sizes = {name: each.size for name, each in columns.items()}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
            expected = ", ".join(list(sizes)[:-1]) + f" and {list(sizes)[-1]}"
            raise InputError(f"{expected} must have the same length; they have: {shown}.")
        columns |= cls._code_said(columns[cls.said[0]], **about)
        return cls(**columns, items=names[0], workers=names[1], table_kind=table_kind)._checked(on_duplicate)

    @classmethod
    def _code_said(cls, *said: Any, **about: Any) -> dict[str, Any]:
        """What was said in each answer, checked, by the names of the columns."""
        raise NotImplementedError

    def _checked(
        self, on_duplicate: Duplicates, place: Callable[[int], str] | None = None, *, task: IntArray | None = None
    ) -> Self:
        """The same, if no item is paired with itself, with repeated answers refused or left out.

        Parameters
        ----------
        task
            Positions (n,) of what the items were compared about, where answers about another are no repeats.
        """
        if on_duplicate not in ("error", "first", "last", "all"):
            raise InputError(f"on_duplicate is {quote(on_duplicate)}; it must be 'error', 'first', 'last' or 'all'.")
        where = place or (lambda row: f"row {row}")
        itself = np.flatnonzero(self.left == self.right)
        if itself.size:
            names = self.items.take(pa.array(self.left[itself[:5]])).to_pylist()
            shown = "; ".join(f"{quote(name)} ({where(int(row))})" for name, row in zip(names, itself, strict=False))
            raise InputError(
                f"Left and right are the same item in {format_count(itself.size, 'answer')}: {shown}. "
                f"Remove those rows: an item cannot be {self.verb} with itself."
            )
        if on_duplicate == "all":
            return self
        who = self.worker if task is None else self.worker.astype(np.int64) * (int(task.max(initial=0)) + 1) + task
        later, earlier = find_repeated(who, self.left, self.right, ordered=self.sides_matter)
        if not later.size:
            return self
        if on_duplicate == "error":
            shown = "; ".join(
                f"worker {quote(self.workers[int(self.worker[row])].as_py())} on "
                f"{listing(self.items.take(pa.array([self.left[row], self.right[row]])).to_pylist())} "
                f"({where(int(row))})"
                for row in later[:5]
            )
            raise InputError(
                f"Some answers repeat an earlier one of the same worker about the same pair ({later.size:,} in all): "
                f"{shown}. Choose what to keep with on_duplicate: 'first', 'last', or 'all' to count each answer (on "
                "the command line --on-duplicate)."
            )
        kept = np.ones(self.n_answers, np.bool_)
        kept[later if on_duplicate == "first" else earlier] = False
        return self.keep(kept)


def warn_of_groups(sizes: IntArray, apart: str, remedy: str) -> None:
    """Warn where items fall into several groups of these sizes, saying what keeps them apart and what to do."""
    if sizes.size > 1:
        warnings.warn(
            f"The items fall into {sizes.size:,} groups {apart} (the largest has {int(sizes.max()):,} of "
            f"{int(sizes.sum()):,} items): {remedy}",
            InputWarning,
            stacklevel=4,
        )


def check_answers(answers: Any) -> None:
    """Refuse what a reader of a kind has not read."""
    if not isinstance(answers, Answers):
        raise InputError(
            f"answers is {quote(answers)}, which is no answers of a kind. Read them first, with read_values, "
            "read_comparisons or another reader of crowdwise.kinds."
        )


def as_numbers(values: Any, name: str) -> FloatArray:
    """Numbers as an array, NaN among them; words, and what is too large to be squared, are refused."""
    try:
        given = np.asarray(values)
        numbers = given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} holds what is no number. Give numbers.") from error
    if given.dtype.kind == "c":
        raise InputError(f"{name} holds complex numbers. Give real ones.")
    if (np.abs(numbers[np.isfinite(numbers)]) > LARGEST_VALUE).any():
        raise InputError(f"{name} holds numbers beyond {LARGEST_VALUE:g}. Change the unit, or leave those answers out.")
    return numbers


def names_or_numbers(names: Iterable[Any] | int, what: str) -> pa.Array:
    """A vocabulary from names, or from a number of them: 0 … n-1."""
    if not isinstance(names, int | np.integer):
        return as_vocabulary(names, what)
    if not 0 <= names < MOST_NAMES:
        raise InputError(f"There are to be {names:,} {what} names; there can be 0 to {MOST_NAMES - 1:,}.")
    return pa.array(np.arange(names))


def code_column(codes: Any, names: pa.Array, what: str) -> IntArray:
    """Positions among names, checked, as int32."""
    checked: IntArray = _lock(check_codes(codes, len(names), what).astype(np.int32))
    return checked


def _lock(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        array = array.view()  # so that an array of the caller's stays as it was
        array.flags.writeable = False
    return array
