"""`Rankings`: answers that put some items in order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crowdwise.kinds.answer_table import open_table
from crowdwise.kinds.answers import Answers, as_numbers, code_column, names_or_numbers, warn_of_groups
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.source_location import format_count
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from crowdwise.kinds.answer_table import TaskOptions
    from crowdwise.labels.types import Duplicates, FloatArray, IntArray, TableKind

__all__ = ["Block", "Rankings", "read_rankings"]

NEEDS = (
    "Rankings need the columns worker, item and rank (1 for the best), with a row for each item that a worker ranked, "
    "and a column task where a worker made several rankings."
)
ONE_LIST = "all"


class Block(NamedTuple):
    """Rankings of one length: positions of rows (R, L), the best item first, and where ties begin and end (R, L)."""

    row: IntArray
    first: IntArray
    last: IntArray


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Rankings(Answers, kind="rankings", noun="ranking", said=("rank",)):
    """Orders of items by workers: one row for each item that a worker placed. Immutable.

    Make one with `read_rankings` or `Rankings.from_codes`. A ranking is what one worker said about one task, a list of
    items to be put in order; its rows stand together, the best item first.

    Attributes
    ----------
    item, task : (n_answers,)
        Positions in `items` and `tasks`.
    rank : (n_answers,)
        1 for the best; only the order within a ranking counts, and equal ranks are ties.

    Examples
    --------
    >>> read_rankings({"worker": ["ann"] * 3, "item": ["a", "b", "c"], "rank": [2, 1, 3]})
    Rankings: 1 ranking of 3 items by 1 worker
    """

    coded: ClassVar[dict[str, str]] = {"worker": "workers", "task": "tasks", "item": "items"}

    task: IntArray
    item: IntArray
    items: pa.Array
    tasks: pa.Array
    rank: FloatArray

    @classmethod
    def from_codes(
        cls,
        worker: Any,
        item: Any,
        rank: Any,
        *,
        items: Iterable[Any] | int,
        workers: Iterable[Any] | int,
        task: Any = None,
        tasks: Iterable[Any] | int | None = None,
        on_duplicate: Duplicates = "error",
        table_kind: TableKind = "pyarrow",
    ) -> Rankings:
        """Rankings from positions of workers, items and lists (a number n stands for the names 0 … n-1) and ranks."""
        codes = np.zeros(np.size(worker), np.int32) if task is None else task
        names = {
            "worker": names_or_numbers(workers, "worker"),
            "item": names_or_numbers(items, "item"),
            "task": names_or_numbers([ONE_LIST] if task is None or tasks is None else tasks, "task"),
        }
        columns = {
            role: code_column(given, names[role], role)
            for role, given in {"worker": worker, "item": item, "task": codes}.items()
        }
        ranks = as_numbers(rank, "rank")
        sizes = {name: each.size for name, each in columns.items()} | {"rank": ranks.size}
        if len(set(sizes.values())) > 1 or ranks.ndim != 1:
            shown = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
            raise InputError(f"worker, item, task and rank must have the same length; they have: {shown}.")
        if not np.isfinite(ranks).all():
            raise InputError("rank holds what is no finite number. Leave those rows out.")
        made = cls(
            **columns,
            rank=ranks,
            items=names["item"],
            workers=names["worker"],
            tasks=names["task"],
            table_kind=table_kind,
        )
        return made._sorted(on_duplicate)

    @property
    def answer_columns(self) -> tuple[str, ...]:
        """An answer is a ranking: what a worker said of a task."""
        return ("worker", "task")

    @property
    def n_items(self) -> int:
        """Number of items, ranked or not."""
        return len(self.items)

    @cached_property
    def ranking(self) -> IntArray:
        """Ranking of each row (n_answers,), numbered in the order of rows."""
        keys = self.worker.astype(np.int64) * len(self.tasks) + self.task
        _, at, inverse = np.unique(keys, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(at, kind="stable"), kind="stable")
        codes: IntArray = place[inverse]
        return codes

    @property
    def n_rankings(self) -> int:
        """Number of rankings."""
        return int(self.ranking.max(initial=-1)) + 1

    @cached_property
    def answers_per_item(self) -> IntArray:
        """Number of rankings that hold each item (N,)."""
        counts: IntArray = np.bincount(self.item, minlength=self.n_items)
        return counts

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The rankings by their lengths."""
        lengths = np.bincount(self.ranking, minlength=self.n_rankings)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        found = []
        for length in np.unique(lengths[lengths > 0]):
            row = starts[lengths == length][:, None] + np.arange(length)
            fresh = np.ones(row.shape, np.bool_)
            fresh[:, 1:] = self.rank[row][:, 1:] != self.rank[row][:, :-1]
            at = np.broadcast_to(np.arange(length), row.shape)
            first = np.maximum.accumulate(np.where(fresh, at, 0), axis=1)
            ends = np.ones(row.shape, np.bool_)
            ends[:, :-1] = fresh[:, 1:]
            last = np.minimum.accumulate(np.where(ends, at, length - 1)[:, ::-1], axis=1)[:, ::-1]
            found.append(Block(row, first, last))
        return tuple(found)

    @cached_property
    def group(self) -> IntArray:
        """Group of each item (N,): items of one group are joined by rankings; numbered by first item."""
        nodes = self.n_items + self.n_rankings
        edges = coo_array((np.ones(self.n_answers), (self.item, self.n_items + self.ranking)), shape=(nodes, nodes))
        codes = connected_components(edges, directed=False)[1][: self.n_items]
        _, at, inverse = np.unique(codes, return_index=True, return_inverse=True)
        place: IntArray = np.argsort(np.argsort(at))
        return place[inverse]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}: {format_count(self.n_rankings, self.noun)} of "
            f"{format_count(self.n_items, 'item')} by {format_count(self.n_workers, 'worker')}"
        )

    def to_table(self) -> Any:
        """Give the rankings as a table of the kind that came in, with the columns by which they are read."""
        columns = {"worker": self.workers.take(pa.array(self.worker))}
        if len(self.tasks) > 1 or self.tasks.to_pylist() != [ONE_LIST]:
            columns["task"] = self.tasks.take(pa.array(self.task))
        columns |= {"item": self.items.take(pa.array(self.item)), "rank": pa.array(self.rank)}
        return native_table(columns, self.table_kind)

    def _sorted(self, on_duplicate: Duplicates, place: Callable[[int], str] | None = None) -> Rankings:
        """The same, ranking by ranking, with items that stand twice in a ranking refused or left out."""
        if on_duplicate not in ("error", "first", "last", "all"):
            raise InputError(f"on_duplicate is {quote(on_duplicate)}; it must be 'error', 'first', 'last' or 'all'.")
        order = np.lexsort((self.item, self.ranking))
        same = (self.ranking[order][1:] == self.ranking[order][:-1]) & (self.item[order][1:] == self.item[order][:-1])
        later, earlier = np.sort(order[1:][same]), np.sort(order[:-1][same])
        if later.size and on_duplicate in ("error", "all"):
            where = place or (lambda row: f"row {row}")
            shown = "; ".join(
                f"{quote(self.items[int(self.item[row])].as_py())} by worker "
                f"{quote(self.workers[int(self.worker[row])].as_py())} ({where(int(row))})"
                for row in later[:5]
            )
            raise InputError(
                f"Some items stand twice in a ranking ({later.size:,} in all): {shown}. An item has one rank: keep the "
                "'first' or the 'last' with on_duplicate (on the command line --on-duplicate), or name the column that "
                "tells the rankings of a worker apart, task."
            )
        kept = self
        if later.size:
            rows = np.ones(self.n_answers, np.bool_)
            rows[later if on_duplicate == "first" else earlier] = False
            kept = self.keep(rows)
        return kept._take(np.lexsort((kept.rank, kept.ranking)))


@reader_of(Rankings)
def read_rankings(
    source: Any, *, item: str | None = None, rank: str | None = None, **options: Unpack[TaskOptions]
) -> Rankings:
    """Read rankings from a file or a table with a row for each item that a worker placed.

    Parameters
    ----------
    worker, item, rank
        Column names, where they are not the usual ones. Ranks are numbers, 1 for the best; equal ones are ties.
    task
        A column that tells several rankings of one worker apart, if there is one (task, list, query).
    on_duplicate
        What to do with an item that stands twice in a ranking: "error", keep the "first" or the "last".

    Warns
    -----
    InputWarning
        If the items fall into groups that no ranking joins.
    """
    given = {"worker": options.get("worker"), "item": item, "rank": rank}
    table = open_table(source, NEEDS, given, {"list": options.get("task")})
    items = table.encode("item")
    lists = {"task": np.zeros(items.codes.size, np.int32), "tasks": pa.array([ONE_LIST])}
    if "list" in table:
        tasks = table.encode("list")
        lists = {"task": tasks.codes.astype(np.int32), "tasks": tasks.names}
    ranked = {"item": items.codes.astype(np.int32), "items": items.names, "rank": table.read_numbers("rank")}
    made = Rankings(**table.encode_workers(), **lists, **ranked)
    made = made._sorted(options.get("on_duplicate", "error"), table.place)
    if made.n_items == 1:
        raise InputError(
            "There is one item alone, which nothing can be ranked against. Give rankings of several items."
        )
    warn_of_groups(
        np.bincount(made.group),
        "that no ranking joins",
        "scores and ranks of different groups cannot be compared. Ask for rankings of items of several groups.",
    )
    return made
